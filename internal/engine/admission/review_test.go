package admission

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/mutate"
	"lull.dev/lull/test/creations"
	"lull.dev/lull/test/size"
)

// typed is what read returns, by the types of k8s.io/api/admission/v1.
func typed(t *testing.T, body []byte) request {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		t.Fatal(err)
	}
	r := review.Request
	return request{
		uid: string(r.UID), namespace: r.Namespace, operation: string(r.Operation), subResource: r.SubResource, dryRun: r.DryRun != nil && *r.DryRun,
		resource: schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}, object: r.Object.Raw, oldObject: r.OldObject.Raw,
	}
}

// TestReviewsAreReadAsTheirTypesSay: of what an API server asks, and of random requests, read returns what decoding by the types of Kubernetes returns; indented JSON as well.
func TestReviewsAreReadAsTheirTypesSay(t *testing.T) {
	r := rand.New(rand.NewPCG(57, 1))
	bodies := [][]byte{
		[]byte(jobReview), review(nil),
		[]byte(` { "apiVersion":"admission.k8s.io\u002fv1","kind":"AdmissionReview","request":{"uid":"a\u00e4\"\\","dryRun":null,"oldObject":null,"object": {"a":[{"b":"}]\\\""},1.5e3,true,null]} ,"namespace":null,"uid":"second"}}` + "\n"),
	}
	for range size.Of(300, 30_000) {
		all := kinds.Builtin()
		k := all[r.IntN(len(all))]
		obj := creations.Object(r, k, "team", "x", true)
		body := review(func(a *admissionv1.AdmissionRequest) {
			a.Object.Raw, _ = json.Marshal(obj.Object)
			a.Resource = metav1.GroupVersionResource{Group: k.Spec.Group, Version: k.Spec.Version, Resource: k.Spec.Resource}
			dry := r.IntN(2) == 0
			a.DryRun, a.Name, a.SubResource = &dry, obj.GetName(), []string{"", "status"}[r.IntN(2)]
		})
		if r.IntN(2) == 0 {
			var indented bytes.Buffer
			if err := json.Indent(&indented, body, "", "\t"); err != nil {
				t.Fatal(err)
			}
			body = indented.Bytes()
		}
		bodies = append(bodies, body)
	}
	for _, body := range bodies {
		got, _, err := read(bytes.NewReader(body), new(bytes.Buffer))
		if err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		want := typed(t, body)
		for _, raw := range [][2][]byte{{got.object, want.object}, {got.oldObject, want.oldObject}} {
			if !bytes.Equal(raw[0], raw[1]) {
				t.Errorf("%s, want %s", raw[0], raw[1])
			}
		}
		if got.object, got.oldObject, want.object, want.oldObject = nil, nil, nil, nil; got.uid != want.uid || got.namespace != want.namespace || got.operation != want.operation ||
			got.subResource != want.subResource || got.dryRun != want.dryRun || got.resource != want.resource {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// TestReviewsAreWrittenAsTheirTypesSay: an answer is, byte for byte, what encoding/json makes of the types of Kubernetes.
func TestReviewsAreWrittenAsTheirTypesSay(t *testing.T) {
	patchType := admissionv1.PatchTypeJSONPatch
	for _, uid := range []string{"5f2f4c7e-6d61-4c3b-9f0a-5d0c1a6b7e21", "", `a"\<&>` + "\u2028\x01ä"} {
		for _, patch := range [][]mutate.Operation{nil, {{Op: "add", Path: "/spec/suspend", Value: true}}, {{Op: "add", Path: "/metadata/annotations", Value: map[string]any{"a": `<"ä">`}}, {Op: "remove", Path: "/x"}}} {
			response := &admissionv1.AdmissionResponse{Allowed: true}
			if response.UID = "u"; len(patch) > 0 {
				response.Patch, _ = json.Marshal(patch)
				response.PatchType = &patchType
			}
			var want, got bytes.Buffer
			answer := admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}, Response: response}
			quoted, _ := json.Marshal(uid)
			if err := json.NewEncoder(&want).Encode(answer); err != nil {
				t.Fatal(err)
			}
			if err := writeReview(&got, uid, patch); err != nil || got.String() != strings.Replace(want.String(), `"uid":"u"`, `"uid":`+string(quoted), 1) {
				t.Errorf("%s, %v; want %s with the uid %s", got.String(), err, want.String(), quoted)
			}
		}
	}
}
