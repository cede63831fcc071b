package services

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/fleet/hub"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: api, uid: stays-behind}
spec:
  replicas: 3
  template:
    spec:
      containers: [{name: api, resources: {requests: {cpu: 500m}}}]
`

// follow has one manifest, and a ConfigMap of others where text is given.
func followOf(manifest, text string) (*v1alpha1.Follow, *corev1.ConfigMap) {
	f := &v1alpha1.Follow{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "api"}}
	if manifest != "" {
		f.Spec.Manifests = []runtime.RawExtension{{Raw: []byte(manifest)}}
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "more"}, Data: map[string]string{"b.yaml": text, "a.yaml": "# nothing\n"}}
	if text != "" {
		f.Spec.ManifestsFrom = []v1alpha1.ManifestsReference{{ConfigMap: "more"}}
	}
	return f, cm
}

func TestManifests(t *testing.T) {
	f, cm := followOf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}`, deployment+"---\n---\n"+strings.ReplaceAll(deployment, "name: api,", "name: second,"))
	got, err := manifests(t.Context(), fake.NewClientBuilder().WithObjects(cm).Build(), f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, obj := range got {
		names = append(names, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
		if obj.GetUID() != "" {
			t.Errorf("%s keeps a UID of elsewhere", obj.GetName())
		}
	}
	if want := "ConfigMap web/settings, Deployment web/api, Deployment web/second"; strings.Join(names, ", ") != want {
		t.Errorf("got %v, want %s", names, want)
	}
	if use := requests(got); use["cpu"] != 3 {
		t.Errorf("they ask for %v; want 3 CPUs", use)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	for want, in := range map[string][2]string{
		`spec.manifests[0]: metadata.namespace: "kube-system"; accepted: "web"`:  {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"kube-system"}}`, ""},
		"spec.manifests[0]: an object without apiVersion, kind or metadata.name": {`{"apiVersion":"v1","kind":"ConfigMap"}`, ""},
		"spec.manifests[0]: a List":                                    {`{"apiVersion":"v1","kind":"List","metadata":{"name":"a"},"items":[]}`, ""},
		"key b.yaml: Deployment api: named twice":                      {"", deployment + "---\n" + deployment},
		"key b.yaml: ":                                                 {"", "a: [\n"},
		"spec.manifests, spec.manifestsFrom: no object":                {"", "# nothing\n"},
		`spec.manifestsFrom[0].configMap: configmaps "more" not found`: {"", "missing"},
		"spec.manifests[0]: Object 'Kind' is missing":                  {`{"metadata":{"name":"a"}}`, ""},
	} {
		f, cm := followOf(in[0], in[1])
		b := fake.NewClientBuilder()
		if in[1] != "missing" {
			b = b.WithObjects(cm)
		}
		if got, err := manifests(t.Context(), b.Build(), f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %d objects and %v, want an error with %q", in, len(got), err, want)
		}
	}
}

// FuzzDocuments: whatever a ConfigMap holds, reading it ends without a panic, and what is
// accepted is of the namespace.
func FuzzDocuments(f *testing.F) {
	f.Add(deployment)
	f.Add("---\n---\na: 1\n")
	f.Add(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"resources":{"requests":{"cpu":"x"}}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		follow, cm := followOf("", "x")
		cm.Data = map[string]string{"a": text}
		got, err := manifests(t.Context(), fake.NewClientBuilder().WithObjects(cm).Build(), follow)
		if err != nil {
			return
		}
		for _, obj := range got {
			if obj.GetNamespace() != "web" || obj.GetName() == "" {
				t.Errorf("accepted %v", obj.Object)
			}
		}
		requests(got)
	})
}

// TestDeletedFollowSaysWhatKeepsIt: a Follow that is deleted and cannot be removed from a cluster says why.
func TestDeletedFollowSaysWhatKeepsIt(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f, _ := followOf("", "")
	f.Status.Placements = []v1alpha1.FollowPlacement{{Cluster: "toronto"}, {Cluster: "gone"}}
	there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: "toronto"}}).Build()
	s := &service{Reconciler: &Reconciler{Reader: there, Clusters: hub.NewClusters()}, f: f}
	s.leave(t.Context())
	c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	if len(f.Status.Placements) != 1 || c == nil || c.Reason != "NotRemoved" || c.Message != "toronto: Lull has not read its state yet" {
		t.Errorf("%+v, %+v", f.Status.Placements, c)
	}
}

// TestMovedServiceSaysWhatIsLeft: a service that has moved, and of which something is left where it was, says what and why until it is gone.
func TestMovedServiceSaysWhatIsLeft(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f, _ := followOf("", "")
	f.Status.Placements, f.Status.State = []v1alpha1.FollowPlacement{{Cluster: "toronto"}}, v1alpha1.FollowSettled
	toronto := &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: "toronto"}}
	there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(toronto).Build()
	step := func() (*metav1.Condition, time.Duration, []event) {
		s := &service{Reconciler: &Reconciler{Reader: there, Clusters: hub.NewClusters()}, f: f}
		wait := s.advance(t.Context(), &choice{due: time.Hour})
		return meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionNotRemoved), wait, s.events
	}
	for _, events := range []int{1, 0} {
		c, wait, told := step()
		if c == nil || c.Status != metav1.ConditionTrue || c.Message != "toronto: Lull has not read its state yet" || len(told) != events {
			t.Errorf("%+v, events %v", c, told)
		}
		if wait > removingAgain {
			t.Errorf("tried again after %v", wait)
		}
	}
	if err := there.Delete(t.Context(), toronto); err != nil {
		t.Fatal(err)
	}
	if c, _, _ := step(); c != nil || len(f.Status.Placements) != 0 {
		t.Errorf("nothing is left, and it says %+v", c)
	}
}

// TestQuantityThatTakesForever: a manifest with a quantity like 1e-2000000000 does not stop Lull.
func TestQuantityThatTakesForever(t *testing.T) {
	f, cm := followOf("", strings.ReplaceAll(deployment, "500m", `"1e-2000000000"`))
	got, err := manifests(t.Context(), fake.NewClientBuilder().WithObjects(cm).Build(), f)
	if err != nil || len(requests(got)) > 0 {
		t.Errorf("%v, %v", requests(got), err)
	}
}
