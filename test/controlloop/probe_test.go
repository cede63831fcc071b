package controlloop

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
)

// heldAtCreation is what the policy of a bed says of itself; nil if it says nothing yet.
func (b *bed) heldAtCreation() *metav1.Condition {
	b.t.Helper()
	var policy v1alpha1.CarbonPolicy
	if err := b.Client.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: "clean"}, &policy); err != nil {
		b.t.Fatal(err)
	}
	return meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionHeldAtCreation)
}

// untilHeldAtCreation waits until the condition has a reason, and returns it.
func (b *bed) untilHeldAtCreation(reason string) *metav1.Condition {
	b.t.Helper()
	b.Until("the policy to say "+reason, func() bool {
		c := b.heldAtCreation()
		return c != nil && c.Reason == reason
	})
	return b.heldAtCreation()
}

// unbind deletes the bindings of all policies that hold, as somebody may by mistake. The function makes them again.
func (b *bed) unbind() (restore func()) {
	b.t.Helper()
	var bindings admissionregistrationv1.MutatingAdmissionPolicyBindingList
	if err := b.Client.List(b.Context(), &bindings); err != nil || len(bindings.Items) == 0 {
		b.t.Fatalf("%d bindings, %v", len(bindings.Items), err)
	}
	for i := range bindings.Items {
		if err := b.Client.Delete(b.Context(), bindings.Items[i].DeepCopy()); err != nil {
			b.t.Fatal(err)
		}
	}
	return func() {
		for i := range bindings.Items {
			o := &bindings.Items[i]
			o.ResourceVersion, o.UID = "", ""
			b.Create(o)
		}
	}
}

// refusing is a policy of somebody else that refuses all Jobs.
const refusing = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: refuse.example.com}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConditions:
  - {name: fails, expression: "int(object.metadata.namespace) == 1"}
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: "[]"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: refuse.example.com}
spec: {policyName: refuse.example.com}
`

// TestHeldAtCreation: a policy says that what it governs is held at creation. If the API server stops to evaluate Lull's admission policies, the condition becomes
// False within the hour; when it evaluates them again, True within minutes. Nothing is ever created.
func TestHeldAtCreation(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "Pod", "Deployment"} }, func(b *bed) {
		b.Controller()
		first := b.untilHeldAtCreation(v1alpha1.ReasonAdmissionPolicy)
		if first.Status != metav1.ConditionTrue || !strings.Contains(first.Message, "Deployment, Job, Pod") {
			t.Errorf("%+v", first)
		}
		b.Run(3 * time.Hour)
		if again := b.heldAtCreation(); !again.LastTransitionTime.Equal(&first.LastTransitionTime) {
			t.Errorf("true since %v, then since %v", first.LastTransitionTime, again.LastTransitionTime)
		}
		restore := b.unbind()
		began := time.Now()
		lost := b.untilHeldAtCreation(v1alpha1.ReasonNotHeld)
		if took := lost.LastTransitionTime.Sub(began); lost.Status != metav1.ConditionFalse || took > time.Hour+2*time.Minute {
			t.Errorf("after %v: %+v", took, lost)
		}
		restore()
		began = time.Now()
		back := b.untilHeldAtCreation(v1alpha1.ReasonAdmissionPolicy)
		if took := back.LastTransitionTime.Sub(began); back.Status != metav1.ConditionTrue || took > 3*time.Minute {
			t.Errorf("after %v: %+v", took, back)
		}
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &appsv1.DeploymentList{}} {
			if err := b.Client.List(b.Context(), list); err != nil || meta.LenList(list) > 0 {
				t.Errorf("%v; there are %d of %T, want none", err, meta.LenList(list), list)
			}
		}
	})
}

// TestHeldAtCreationIsSaidInTime: a policy says so within half a minute after the controller has started and after each change, also where nothing else happens.
func TestHeldAtCreationIsSaidInTime(t *testing.T) {
	onBed(t, dirtyThenClean(), nil, func(b *bed) {
		b.Controller()
		began := time.Now()
		b.untilHeldAtCreation(v1alpha1.ReasonAdmissionPolicy)
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("after a start it takes %v", took)
		}
		for _, kinds := range []string{`["Pod"]`, `["Job","Deployment"]`} {
			b.Run(17 * time.Minute)
			b.Patch(&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "clean"}}, `{"spec":{"kinds":`+kinds+`}}`)
			began, generation := time.Now(), int64(0)
			b.Until("the condition to be about the change", func() bool {
				c := b.heldAtCreation()
				generation = c.ObservedGeneration
				return strings.Count(c.Message, ",") == strings.Count(kinds, ",") && strings.Contains(c.Message, strings.Trim(strings.Split(kinds, ",")[0], `["]`))
			})
			if took := time.Since(began); took > 31*time.Second {
				t.Errorf("after the change to %s, generation %d, it takes %v", kinds, generation, took)
			}
		}
	})
}

// TestHeldAtCreationNotKnown: if the API server refuses the dry run, or no kind of the policy can be tried, it is not known whether work is held at creation: that is
// not the same as that it is not held.
func TestHeldAtCreationNotKnown(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"JobSet"} }, func(b *bed) {
		b.Controller()
		if c := b.untilHeldAtCreation(v1alpha1.ReasonCannotTry); c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, "accepted: a policy with one of the kinds") {
			t.Errorf("%+v", c)
		}
		b.Install(refusing)
		b.Patch(&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "clean"}}, `{"spec":{"kinds":["Job"]}}`)
		b.Until("the refusal", func() bool {
			c := b.heldAtCreation()
			return c.Status == metav1.ConditionUnknown && c.Reason == v1alpha1.ReasonNotTried && strings.Contains(c.Message, "not known for Job, because the API server refuses a dry run: ") && strings.Contains(c.Message, "refuse.example.com")
		})
	})
}

// TestHeldAtCreationOfOthers: a policy in Shadow mode marks what it governs, which counts; one of the extender, and one in Lull's own namespace, hold nothing at
// creation and say nothing of it.
func TestHeldAtCreationOfOthers(t *testing.T) {
	onBed(t, dirtyThenClean(), func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Mode = v1alpha1.ModeShadow
		p.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}, {Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}},
			{Key: "any", Operator: metav1.LabelSelectorOpExists}, {Key: "none", Operator: metav1.LabelSelectorOpDoesNotExist},
		}
	}, func(b *bed) {
		b.Create(
			&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "extended"}, Spec: v1alpha1.CarbonPolicySpec{Via: v1alpha1.ViaExtender, Zone: b.zone, Planner: v1alpha1.PlannerSpec{Name: "window"}}},
			&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: kinds.DefaultNamespace, Name: "own"}, Spec: v1alpha1.CarbonPolicySpec{Zone: b.zone}},
		)
		b.Controller()
		b.untilHeldAtCreation(v1alpha1.ReasonAdmissionPolicy)
		b.Run(5 * time.Minute)
		for _, key := range []client.ObjectKey{{Namespace: b.ns, Name: "extended"}, {Namespace: kinds.DefaultNamespace, Name: "own"}} {
			var policy v1alpha1.CarbonPolicy
			if err := b.Client.Get(b.Context(), key, &policy); err != nil {
				t.Fatal(err)
			}
			if len(policy.Status.Conditions) == 0 || meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionHeldAtCreation) != nil {
				t.Errorf("%v: %+v", key, policy.Status.Conditions)
			}
		}
	})
}
