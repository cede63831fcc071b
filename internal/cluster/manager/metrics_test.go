package manager

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviewer is an API server that knows the token "prometheus", whose user may get /metrics, and "tenant", whose user may not.
type reviewer struct {
	mu    sync.Mutex
	down  bool
	asked []authorizationv1.NonResourceAttributes
}

func (s *reviewer) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case s.down:
		http.Error(w, "away", http.StatusInternalServerError)
	case r.URL.Path == "/apis/authentication.k8s.io/v1":
		answer(metav1.APIResourceList{GroupVersion: "authentication.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "tokenreviews", Kind: "TokenReview"}}})
	case r.URL.Path == "/apis/authorization.k8s.io/v1":
		answer(metav1.APIResourceList{GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "subjectaccessreviews", Kind: "SubjectAccessReview"}}})
	case r.URL.Path == "/apis":
		var all metav1.APIGroupList
		for _, name := range []string{"authentication.k8s.io", "authorization.k8s.io"} {
			v1 := metav1.GroupVersionForDiscovery{GroupVersion: name + "/v1", Version: "v1"}
			all.Groups = append(all.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v1}, PreferredVersion: v1})
		}
		answer(all)
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		known := review.Spec.Token == "prometheus" || review.Spec.Token == "tenant"
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: known, User: authenticationv1.UserInfo{Username: review.Spec.Token}}
		answer(review)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		s.asked = append(s.asked, *review.Spec.NonResourceAttributes)
		review.Status.Allowed = review.Spec.User == "prometheus"
		answer(review)
	default:
		http.NotFound(w, r)
	}
}

// TestSecureMetricsAskTheAPIServer: only whoever the API server lets get /metrics reads them, and by HTTPS only.
func TestSecureMetricsAskTheAPIServer(t *testing.T) {
	reviews := &reviewer{}
	api := httptest.NewServer(reviews)
	defer api.Close()
	o := Metrics{Address: "127.0.0.1:0", Secure: true}.Options()
	server, err := metricsserver.NewServer(o, &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, api.Client())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- server.Start(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	bound := server.(interface{ GetBindAddr() string })
	for bound.GetBindAddr() == "" {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is made at the start
	get := func(scheme, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+bound.GetBindAddr()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for _, tc := range []struct {
		scheme, token string
		down          bool
		want          int
		text          string
	}{
		{"https", "", false, http.StatusUnauthorized, "a bearer token is needed"},
		{"https", "stranger", false, http.StatusUnauthorized, "does not know this token"},
		{"https", "tenant", false, http.StatusForbidden, "tenant may not get /metrics"},
		{"https", "prometheus", true, http.StatusServiceUnavailable, "could not be checked with the API server"},
		{"https", "prometheus", false, http.StatusOK, "go_goroutines"},
		{"http", "prometheus", false, http.StatusBadRequest, "HTTPS"},
	} {
		reviews.set(tc.down)
		if status, text := get(tc.scheme, tc.token); status != tc.want || !strings.Contains(text, tc.text) {
			t.Errorf("%s, token %q, API server down: %v: %d %.200s; want %d with %q", tc.scheme, tc.token, tc.down, status, text, tc.want, tc.text)
		}
	}
	if len(reviews.asked) == 0 || reviews.asked[0] != (authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}) {
		t.Errorf("the API server was asked whether users may %+v", reviews.asked)
	}
}

// TestOpenMetricsAskNobody: without Secure everybody reads them, and nobody is asked.
func TestOpenMetricsAskNobody(t *testing.T) {
	if o := (Metrics{Address: ":8080"}).Options(); o.SecureServing || o.FilterProvider != nil || o.BindAddress != ":8080" {
		t.Errorf("%+v", o)
	}
}
