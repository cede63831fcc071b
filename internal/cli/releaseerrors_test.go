package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"lull.dev/lull/api/v1alpha1"
)

// refusing is an API server with Jobs, RayJobs, Deployments and Kueue that refuses lists of the given kinds, writes of the objects of the
// given names, and knows the admission policies of the given names.
func refusing(t *testing.T, lists map[string]error, writes map[string]bool, held map[string]bool, objects ...client.Object) client.Client {
	t.Helper()
	refused := func(obj client.Object) error {
		if !writes[obj.GetName()] {
			return nil
		}
		return apierrors.NewForbidden(kschema.GroupResource{Resource: "objects"}, obj.GetName(), errors.New("a webhook refuses it"))
	}
	return builderOf(t, objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			kind := strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
			if _, is := list.(*v1alpha1.WorkloadKindList); is {
				kind = "WorkloadKind"
			}
			if err := lists[kind]; err != nil {
				return err
			}
			if _, metadata := list.(*metav1.PartialObjectMetadataList); metadata {
				if kind == "Job" {
					return nil
				}
				return &meta.NoKindMatchError{}
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if obj.GetObjectKind().GroupVersionKind().Kind == "MutatingAdmissionPolicy" {
				if held[key.Name] {
					return nil
				}
				return apierrors.NewNotFound(kschema.GroupResource{Resource: "mutatingadmissionpolicies"}, key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := refused(obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := refused(obj); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
}

func heldJob(name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n", Annotations: map[string]string{v1alpha1.AnnotationPolicy: "p", v1alpha1.AnnotationHold: v1alpha1.HoldAdmission}},
		Spec:       batchv1.JobSpec{Suspend: new(true)},
	}
}

func runs(t *testing.T, c client.Client, name string) bool {
	t.Helper()
	var j batchv1.Job
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, &j); err != nil {
		t.Fatal(err)
	}
	return !*j.Spec.Suspend
}

// says checks that an error, or what was printed, has all the parts wanted.
func says(t *testing.T, err error, out string, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error\n%s", out)
		return
	}
	for _, part := range want {
		if !strings.Contains(err.Error()+"\n"+out, part) {
			t.Errorf("neither the error nor what is printed has %q:\n%v\n%s", part, err, out)
		}
	}
}

// TestReleaseAllGoesOn: what cannot be listed is named, and keeps no other from its release.
func TestReleaseAllGoesOn(t *testing.T) {
	forbidden := apierrors.NewForbidden(kschema.GroupResource{Resource: "objects"}, "", errors.New("not granted"))
	away := errors.New("the API server does not answer")
	for name, tc := range map[string]struct {
		lists map[string]error
		held  string
		all   bool // in all namespaces
		fails bool
		want  []string
	}{
		"Kueue is away":          {lists: map[string]error{"Workload": away}, fails: true, want: []string{"look for Kueue: the API server does not answer"}},
		"Kueue is forbidden":     {lists: map[string]error{"Workload": forbidden}, want: []string{"Workloads of Kueue may not be listed"}},
		"a kind is away":         {lists: map[string]error{"JobSet": away}, fails: true, want: []string{"look for kind JobSet: the API server does not answer"}},
		"a held kind, forbidden": {lists: map[string]error{"RayJob": forbidden}, held: "hold-rayjobs.ray.io.lull.dev", all: true, fails: true, want: []string{"RayJob may not be listed"}},
		"the same, a namespace":  {lists: map[string]error{"RayJob": forbidden}, held: "hold-rayjobs.ray.io.lull.dev", want: []string{"Not listed, because it is forbidden; Lull's holds of these kinds are not released: RayJob"}},
		"nothing holds the kind": {lists: map[string]error{"Deployment": forbidden}, want: []string{"nothing holds these kinds at admission: Deployment\n"}},
		"no WorkloadKinds":       {lists: map[string]error{"WorkloadKind": forbidden}, fails: true, want: []string{"only the built-in kinds are known"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := refusing(t, tc.lists, nil, map[string]bool{tc.held: true}, heldJob("a"))
			var out bytes.Buffer
			namespace := "n"
			if tc.all {
				namespace = ""
			}
			err := releaseAll(t.Context(), &out, c, namespace)
			if !tc.fails && err != nil {
				t.Error(err)
			}
			says(t, errors.Join(err, errors.New("(none)")), out.String(), append(tc.want, "1 workloads released")...)
			if tc.fails && err == nil {
				t.Error("no error")
			}
			if !runs(t, c, "a") {
				t.Errorf("the Job is still held: %v\n%s", err, out.String())
			}
			var events eventsv1.EventList
			if err := c.List(t.Context(), &events, client.InNamespace("n")); err != nil || len(events.Items) != 1 || events.Items[0].Regarding.Name != "a" || events.Items[0].Reason != "Release" {
				t.Errorf("Events: %+v, %v", events.Items, err)
			}
		})
	}
}

// TestPauseGoesOn: a policy that refuses to be paused does not keep the others from it.
func TestPauseGoesOn(t *testing.T) {
	policy := func(name string) *v1alpha1.CarbonPolicy {
		return &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}}
	}
	c := refusing(t, nil, map[string]bool{"a": true, "c": true}, nil, policy("a"), policy("b"), policy("c"))
	var out bytes.Buffer
	says(t, pausePolicies(t.Context(), &out, c, "", true), out.String(), "CarbonPolicy n/a:", "CarbonPolicy n/c:", "1 of 3 policies paused")
}

// TestRetireGoesOn: with a policy, a Job, a Follow and a curve that refuse, everything else is released and deleted. The rights of the
// watchdog stay, as it goes on to release.
func TestRetireGoesOn(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "n"} }
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: kindsRole}}
	objects := []client.Object{
		heldJob("no"), heldJob("yes"), role, &v1alpha1.CarbonPolicy{ObjectMeta: meta("no")}, &v1alpha1.CarbonPolicy{ObjectMeta: meta("yes")},
		&v1alpha1.Follow{ObjectMeta: meta("no")}, &v1alpha1.Follow{ObjectMeta: meta("yes")},
		&v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "no"}}, &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "yes"}},
	}
	c := refusing(t, nil, map[string]bool{"no": true}, nil, objects...)
	var out bytes.Buffer
	says(t, retire(t.Context(), &out, c, func() bool { return true }), out.String(), "CarbonPolicy n/no:", "mark Follow n/no:", "delete CapacityCurve no:", "Job n/no:", "1 workloads could not be released")
	if !runs(t, c, "yes") {
		t.Error("a Job is still held")
	}
	for _, gone := range []client.Object{&v1alpha1.Follow{ObjectMeta: meta("yes")}, &v1alpha1.CapacityCurve{ObjectMeta: metav1.ObjectMeta{Name: "yes"}}} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
			t.Errorf("%T is still there: %v", gone, err)
		}
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Errorf("the rights to workloads: %v", err)
	}
}

// TestRetireKeepsRightsInOtherNamespaces: where a namespace could not be listed, something may still be held, and the watchdog keeps its rights.
func TestRetireKeepsRightsInOtherNamespaces(t *testing.T) {
	for _, sawAll := range []bool{true, false} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: kindsRole}}
		c := refusing(t, nil, nil, nil, role)
		var out bytes.Buffer
		if err := retire(t.Context(), &out, c, func() bool { return sawAll }); err != nil {
			t.Fatal(err)
		}
		err := c.Get(t.Context(), client.ObjectKeyFromObject(role), role)
		if kept := err == nil; kept == sawAll {
			t.Errorf("saw all %v, and the role was kept: %v; %s", sawAll, kept, out.String())
		}
	}
}
