package spoke

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestObjectsAreThoseOfAServiceAccount: whatever is read, placed and removed on a cluster, is as the service account of the
// namespace; nothing is done as the account of the kubeconfig, and no namespace is made.
func TestObjectsAreThoseOfAServiceAccount(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		switch r.URL.Path {
		case "/api":
			answer(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
			return
		case "/apis":
			answer(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
			return
		case "/api/v1":
			answer(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: []string{"get", "patch"}}}})
			return
		}
		mu.Lock()
		calls = append(calls, r.Method+" "+r.URL.Path+" as "+r.Header.Get("Impersonate-User"))
		mu.Unlock()
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			answer(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
			return
		}
		answer(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "web", "uid": "u"}})
	}))
	defer server.Close()
	config, err := Config([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	config.Host, config.CAData, config.Insecure = server.URL, nil, true
	config.ServerName = ""
	cluster, err := connect(config)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace("web")
	obj.SetName("a")
	for _, account := range []string{"lull-follow", "other", "lull-follow"} {
		on, err := cluster.Objects(types.NamespacedName{Namespace: "web", Name: account}, "lull.dev/follow", "owner")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := on.Apply(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		if _, err := on.Remove(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	if len(calls) != 9 || slices.ContainsFunc(calls, func(c string) bool {
		return !strings.Contains(c, "/namespaces/web/configmaps/a as system:serviceaccount:web:")
	}) {
		t.Errorf("calls:\n%s", strings.Join(calls, "\n"))
	}
	if n := strings.Count(fmt.Sprint(calls), "as system:serviceaccount:web:other"); n != 3 || len(cluster.accounts) != 2 {
		t.Errorf("%d calls as the other account, %d clients", n, len(cluster.accounts))
	}
}
