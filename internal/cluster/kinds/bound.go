package kinds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// controllerAccount is the ServiceAccount of the controller, in whatever namespace Lull is installed.
const controllerAccount = "lull-controller"

// bound is the admission policy that refuses what the controller never changes in objects of the kind, whoever has its token. RBAC
// cannot say that: a right to patch is a right to patch every field.
//
// The watchdog's account is not bound. It releases what is held when the controller cannot, as where a webhook of others changes
// more of an object in the controller's request.
func (k *Kind) bound() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The controller's account may change of kind %[1]s only what holds, releases and scales an
# object, and the annotations of Lull: %[2]s.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: bound-%[3]s.lull.dev
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [%[4]q]
      apiVersions: ["*"]
      operations: ["UPDATE"]
      resources: [%[5]q, "%[5]s/status"]
  failurePolicy: Fail
  matchConditions:
  - name: by-the-controller
    expression: "request.userInfo.username.startsWith('system:serviceaccount:') && request.userInfo.username.endsWith(':%[6]s')"
  validations:
`, k.Spec.Kind, strings.Join(k.changeable(), ", "), k.objectName(), k.Spec.Group, k.Spec.Resource, controllerAccount)
	for _, v := range k.unchanged() {
		fmt.Fprintf(&b, "  - expression: >-\n      %s\n    message: %q\n    reason: Forbidden\n", v, fmt.Sprintf("Lull's controller may change only %s of a %s", strings.Join(k.changeable(), ", "), k.Spec.Kind))
	}
	fmt.Fprintf(&b, `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: bound-%[1]s.lull.dev
spec:
  policyName: bound-%[1]s.lull.dev
  validationActions: [Deny]
`, k.objectName())
	return b.String()
}

// probed reports whether the controller creates objects of the kind as a dry run, to see whether they come back held.
func (k *Kind) probed() bool {
	switch k.Spec.Group + "/" + k.Spec.Resource {
	case "batch/jobs", "apps/deployments", "/pods":
		return true
	}
	return false
}

// dryRun is the right to create objects of the kind as a dry run, and the admission policy that makes it no more than that: RBAC cannot say
// it. It is empty for kinds that nobody tries.
func (k *Kind) dryRun() string {
	if !k.probed() {
		return ""
	}
	return fmt.Sprintf(`---
# The controller creates objects of kind %[1]s as a dry run, to see whether they come back held.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: lull-probe-%[2]s
  labels:
    lull.dev/aggregate: "probe"
rules:
- apiGroups: [%[3]q]
  resources: [%[4]q]
  verbs: ["create"]
---
# The controller's account may create a %[1]s as a dry run only.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: dry-run-%[2]s.lull.dev
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: [%[3]q]
      apiVersions: ["*"]
      operations: ["CREATE"]
      resources: [%[4]q]
  failurePolicy: Fail
  matchConditions:
  - name: by-the-controller
    expression: "request.userInfo.username.startsWith('system:serviceaccount:') && request.userInfo.username.endsWith(':%[5]s')"
  validations:
  - expression: "has(request.dryRun) && request.dryRun"
    message: "Lull's controller may create a %[1]s as a dry run only"
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: dry-run-%[2]s.lull.dev
spec:
  policyName: dry-run-%[2]s.lull.dev
  validationActions: [Deny]
`, k.Spec.Kind, k.objectName(), k.Spec.Group, k.Spec.Resource, controllerAccount)
}

// changeable names what the controller changes, for people.
func (k *Kind) changeable() []string {
	out := []string{"annotations of " + v1alpha1.GroupVersion.Group}
	if k.Queues() {
		out = append(out, "the annotation "+kueue.AnnotationGates)
	}
	if k.Spec.Hold.Gate {
		out = append(out, "its own scheduling gate")
	}
	for _, p := range k.changed() {
		out = append(out, p.String())
	}
	return out
}

// changed are the fields that hold and scale an object.
func (k *Kind) changed() []path {
	var out []path
	for _, p := range append([]path{k.suspend, k.replicas}, k.tandem...) {
		if len(p) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// unchanged returns CEL expressions. All of them are true if nothing else of an object has changed.
func (k *Kind) unchanged() []string {
	const annotations, old = "object.metadata.?annotations.orValue({})", "oldObject.metadata.?annotations.orValue({})"
	mine := fmt.Sprintf("a.startsWith('%s/')", v1alpha1.GroupVersion.Group)
	if k.Queues() {
		mine += fmt.Sprintf(" || a == '%s'", kueue.AnnotationGates)
	}
	out := []string{
		fmt.Sprintf("%[1]s.all(a, %[3]s || %[2]s[?a] == %[1]s[?a]) && %[2]s.all(a, %[3]s || a in %[1]s)", annotations, old, mine),
	}
	out = append(out, k.unchangedStatus()...)
	ignored := append(k.changed(), path{{key: "status", index: -1}})
	for _, field := range []string{"annotations", "managedFields", "generation", "resourceVersion"} {
		ignored = append(ignored, path{{key: "metadata", index: -1}, {key: field, index: -1}})
	}
	if k.Spec.Hold.Gate {
		gates := path{{key: "spec", index: -1}, {key: "schedulingGates", index: -1}}
		ignored = append(ignored, gates)
		out = append(out, fmt.Sprintf("object.spec.?schedulingGates.orValue([]).filter(g, g.name != '%[1]s') == oldObject.spec.?schedulingGates.orValue([]).filter(g, g.name != '%[1]s')", v1alpha1.Gate))
	}
	return append(out, sameBut(nil, ignored)...)
}

// unchangedStatus returns CEL expressions. All of them are true if the status stays the same. A request for the status may also write the idle status of the
// kind, as the controller does with Kueue after a pause, and may remove the start of a Job. An account that may write more of a status could end work that
// runs, by a condition that it has failed or is complete.
func (k *Kind) unchangedStatus() []string {
	want := map[string]any{}
	maps.Copy(want, k.idle)
	if k.KeepsStart() {
		want["startTime"] = nil
	}
	if len(want) == 0 {
		return []string{"object.?status == oldObject.?status"}
	}
	status := path{{key: "status", index: -1}}
	fields := valuesOf(nil, want)
	var out []string
	for _, f := range fields {
		is := append(slices.Clone(status), f.at...).cel()
		out = append(out, fmt.Sprintf("%[1]s == %[2]s || request.?subResource.orValue('') == 'status' && %[3]s", is, strings.Replace(is, "object", "oldObject", 1), isValue(is, f.value)))
	}
	var at []path
	for _, f := range fields {
		at = append(at, f.at)
	}
	return append(out, sameBut(status, at)...)
}

// field is a value and where it is.
type field struct {
	at    path
	value any
}

// valuesOf returns the fields of a JSON merge patch, sorted.
func valuesOf(at path, patch map[string]any) (out []field) {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		here := append(slices.Clone(at), step{key: name, index: -1})
		if inner, _ := patch[name].(map[string]any); len(inner) > 0 {
			out = append(out, valuesOf(here, inner)...)
			continue
		}
		out = append(out, field{here, patch[name]})
	}
	return out
}

// isValue is a CEL expression that is true if an optional value is the given one. A zero may be absent.
func isValue(optional string, want any) string {
	switch want := want.(type) {
	case nil:
		return "!" + optional + ".hasValue()"
	case string:
		return fmt.Sprintf("%s.orValue('') == %q", optional, want)
	case bool:
		return fmt.Sprintf("%s.orValue(false) == %v", optional, want)
	case float64:
		return fmt.Sprintf("%s.orValue(0) == %v", optional, want)
	}
	literal, err := json.Marshal(want)
	if err != nil {
		return "false"
	}
	return fmt.Sprintf("dyn(%s.orValue(null)) == %s", optional, literal)
}

// digits count the items of a list in CEL, by tens and ones. What the controller changes of an item of a longer list than maxItems is refused.
const (
	digits   = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	maxItems = 100
)

// sameBut returns CEL expressions. All of them are true if object and oldObject differ at a path in the given fields only.
func sameBut(at path, fields []path) []string {
	var next []step
	below := map[step][]path{}
	for _, f := range fields {
		s := f[0]
		if !slices.Contains(next, s) {
			next = append(next, s)
		}
		if len(f) > 1 {
			below[s] = append(below[s], f[1:])
		}
	}
	var names []string
	for _, s := range next {
		if s.index >= 0 {
			names = append(names, fmt.Sprint(s.index))
		} else {
			names = append(names, "'"+s.key+"'")
		}
	}
	list, empty := strings.Join(names, ", "), "{}"
	isList := next[0].index >= 0
	if isList {
		empty = "[]"
	}
	// dyn: a field of an object of a known type cannot be named by a variable.
	of := func(root string) string {
		if len(at) == 0 {
			return "dyn(" + root + ")"
		}
		return "dyn(" + strings.Replace(at.cel(), "object", root, 1) + ".orValue(" + empty + "))"
	}
	now, old := of("object"), of("oldObject")
	// Kubernetes 1.32 has no comprehension with two variables.
	same := fmt.Sprintf("%[1]s.all(f, f in [%[3]s] || %[2]s[?f] == %[1]s[?f]) && %[2]s.all(f, f in [%[3]s] || f in %[1]s)", now, old, list)
	if isList {
		same = fmt.Sprintf("%[1]s == %[2]s || %[1]s.size() == %[2]s.size() && %[1]s.size() <= %[5]d && %[4]s.all(t, %[4]s.all(u, 10 * t + u in [%[3]s] || %[2]s[?10 * t + u] == %[1]s[?10 * t + u]))", now, old, list, digits, maxItems)
	}
	out := []string{same}
	for _, s := range next {
		if len(below[s]) > 0 {
			out = append(out, sameBut(append(slices.Clone(at), s), below[s])...)
		}
	}
	return out
}
