package kinds

import (
	"fmt"
	"strings"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

// Manifests are the access rule and the admission policies that a kind needs, as YAML
// documents. The admission policies are about objects of the given namespaces; none for all.
func (k *Kind) Manifests(namespaces ...string) string {
	return within(k.access()+"---\n"+k.admission(DefaultNamespace)+"---\n"+k.bound()+k.dryRun(), namespaces)
}

// Rights are Manifests without the policy that holds objects of the kind at creation, for clusters where "lull admission" does so.
func (k *Kind) Rights(namespaces ...string) string {
	return within(k.access()+"---\n"+k.bound()+k.dryRun(), namespaces)
}

// within bounds the admission policies among manifests to namespaces; none for all.
func within(manifests string, namespaces []string) string {
	if len(namespaces) == 0 {
		return manifests
	}
	const constraints = "\n  matchConstraints:\n"
	return strings.ReplaceAll(manifests, constraints, constraints+`    namespaceSelector:
      matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: ["`+strings.Join(namespaces, `","`)+`"]
`)
}

// objectName is that of the kind's cluster-wide objects.
func (k *Kind) objectName() string {
	if k.Spec.Group == "" || !strings.Contains(k.Spec.Group, ".") {
		return k.Spec.Resource
	}
	return k.Spec.Resource + "." + k.Spec.Group
}

// AdmissionName is that of the admission policy that holds objects of the kind at creation.
func (k *Kind) AdmissionName() string { return "hold-" + k.objectName() + ".lull.dev" }

// access grants what reading, holding and scaling objects of the kind takes; the roles of
// controller and failsafe aggregate it.
func (k *Kind) access() string {
	status := ""
	if k.KeepsStart() {
		status = fmt.Sprintf(`- apiGroups: [%q]
  resources: [%q]
  verbs: ["patch"]
`, k.Spec.Group, k.Spec.Resource+"/status")
	}
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: lull-kind-%s
  labels:
    lull.dev/aggregate: "kinds"
rules:
- apiGroups: [%q]
  resources: [%q]
  verbs: ["get", "list", "watch", "patch"]
`, k.objectName(), k.Spec.Group, k.Spec.Resource) + status
}

// notOwned is true where no other controller owns the object.
func (k *Kind) notOwned() string {
	var allowed []string
	for _, o := range k.Spec.Owners {
		allowed = append(allowed, "'"+o+"'")
	}
	return fmt.Sprintf("!object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && !(o.kind in [%s]))", strings.Join(allowed, ", "))
}

// annotationsOf are the annotations of an object in CEL.
const annotationsOf = "object.metadata.?annotations.orValue({})"

// marked is true where an object has annotations that only the controller writes: a copy of one that Lull has decided about.
const marked = "['" + v1alpha1.AnnotationDecision + "', '" + v1alpha1.AnnotationRan + "', '" + v1alpha1.AnnotationChanged + "'].exists(a, a in " + annotationsOf + ")"

// governed is true where another CarbonPolicy has been evaluated before, in the same request, and governs the object. A copy of
// an object that Lull has decided about is not taken for one.
const governed = "(object.metadata.?annotations[?'" + v1alpha1.AnnotationPolicy + "'].orValue('') != '' && !" + marked + ")"

// held is true where that policy holds the object.
func (k *Kind) held() string {
	isHeld := "!(" + k.runs() + ")"
	if k.Queues() {
		isHeld = "(" + inQueue + " || " + isHeld + ")"
	}
	return "(" + governed + " && object.metadata.?annotations[?'" + v1alpha1.AnnotationHold + "'].orValue('') == '" + v1alpha1.HoldAdmission + "' && " + isHeld + ")"
}

// holds is true where the policy holds the objects that it governs: it is enforced, not paused, not being
// deleted, and the object is not of one of its critical priority classes.
func (k *Kind) holds() string {
	critical := ""
	if len(k.priorityClass) > 0 {
		critical = " && !(" + k.priorityClass.cel() + ".orValue('') in params.spec.?criticalPriorityClasses.orValue([]))"
	}
	return "(params.spec.?mode.orValue('Enforce') == 'Enforce' && !params.spec.?paused.orValue(false) && !params.metadata.?deletionTimestamp.hasValue()" + critical + ")"
}

// wins is true where no other policy governs the object, or the policy has precedence over the one that does: one that
// holds has precedence over one that does not, then the name decides. The API server evaluates policies in any order.
// An object that comes with an empty name, or with marks of the controller, is governed by none: of several policies it could not be told
// later whether one of them has governed it in the same request.
func (k *Kind) wins() string {
	first := "params.metadata.name < object.metadata.annotations['" + v1alpha1.AnnotationPolicy + "']"
	return "!('" + v1alpha1.AnnotationPolicy + "' in " + annotationsOf + ") && !" + marked + " || " +
		governed + " && (" + k.held() + " ? " + k.holds() + " && " + first + " : " + k.holds() + " || " + first + ")"
}

// notHeldByUser is true where the user lets the object run.
func (k *Kind) notHeldByUser() string { return k.held() + " || " + k.runs() }

// runs is true where nobody holds the object.
func (k *Kind) runs() string {
	switch {
	case k.Spec.Hold.Gate:
		return "object.spec.?schedulingGates.orValue([]).size() == 0"
	case k.Spec.Hold.Zero:
		return k.replicas.cel() + ".orValue(1) > 0"
	}
	// In a queue it is Kueue that suspends; users are told to write it themselves.
	return inQueue + " || !" + k.suspend.cel() + ".orValue(false)"
}

// inQueue is true where the object waits in a queue of Kueue.
const inQueue = "('" + kueue.LabelQueue + "' in object.metadata.?labels.orValue({}))"

// ofPolicy is true where the object is in a queue that the policy names, or in none and the
// policy names none.
func (k *Kind) ofPolicy() string {
	none := "params.spec.?queues.orValue([]).size() == 0"
	if !k.Queues() {
		return "!" + inQueue + " && " + none
	}
	return fmt.Sprintf("%s ? object.metadata.labels['%s'] in params.spec.?queues.orValue([]) : %s", inQueue, kueue.LabelQueue, none)
}

// admission is the policy that holds objects of the kind at creation. The API server
// itself evaluates it: there is no webhook to be down, and should the evaluation fail, the
// object is created as the user wrote it.
func (k *Kind) admission(own string) string {
	group := k.Spec.Group
	var b strings.Builder
	fmt.Fprintf(&b, `# Objects of kind %s that a CarbonPolicy governs are created held, with the name of the
# policy in an annotation; the controller releases them. The API server itself evaluates
# this: there is no webhook to be down. Should the evaluation fail, the object is created
# as the user wrote it (failurePolicy Ignore).
#
# Left alone are objects that their users hold themselves, that another controller owns or
# manages, that wait in a queue of Kueue which the policy does not name, or that MultiKueue
# has sent here. So are hooks of Helm and Argo CD, and all in kube-system and in Lull's own
# namespace, unless they name the policy in lull.dev/govern-by. Those of a critical priority
# class and those of a policy in Shadow mode or paused are marked but not held.
#
# If several policies of a namespace match an object, one that holds it governs it rather than one
# that does not, and among equals the first by name.
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata:
  name: hold-%[2]s.lull.dev
spec:
  paramKind:
    apiVersion: lull.dev/v1alpha1
    kind: CarbonPolicy
  matchConstraints:
    resourceRules:
    - apiGroups: [%[3]q]
      apiVersions: [%[4]q]
      operations: ["CREATE"]
      resources: [%[5]q]
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConditions:
  - name: by-holding
    expression: "params.spec.?via.orValue('Hold') == 'Hold'"
  - name: kind-is-governed
    expression: "'%[6]s' in params.spec.?kinds.orValue(['%[9]s'])"
  - name: not-held-by-user
    expression: "%[7]s"
  - name: not-part-of-a-workload
    expression: "%[8]s"
  - name: of-the-policy
    expression: "%[10]s"
  - name: not-sent-by-a-hub
    expression: "!('%[11]s' in object.metadata.?labels.orValue({}))"
  - name: not-excluded
    expression: "%[12]s"
`, k.Spec.Kind, k.objectName(), group, k.Spec.Version, k.Spec.Resource, k.Name, k.notHeldByUser(), k.notOwned(), strings.Join(DefaultNames, "', '"), k.ofPolicy(), kueue.LabelOrigin, notExcluded(own))
	if len(k.who) > 0 {
		own := []string{"''", "'" + kueue.ManagedByMultiKueue + "'"}
		for _, o := range k.Spec.ManagedBy.Own {
			own = append(own, "'"+o+"'")
		}
		fmt.Fprintf(&b, "  - name: not-managed-by-others\n    expression: \"%s.orValue('') in [%s]\"\n", k.who.cel(), strings.Join(own, ", "))
	}
	b.WriteString(matchSelector)
	fmt.Fprintf(&b, `  - name: wins
    expression: "%[8]s"
  variables:
  - name: hold
    expression: "%[1]s && !%[9]s"
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        (has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}])
        + [JSONPatch{op: "add", path: "/metadata/annotations/%[2]s", value: string(params.metadata.name)}]
%[7]s        + (!variables.hold ? [] :
        [JSONPatch{op: "add", path: "/metadata/annotations/%[3]s", value: "%[4]s"}]
%[6]s)
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata:
  name: hold-%[5]s.lull.dev
spec:
  policyName: hold-%[5]s.lull.dev
  # Without a namespace, the policies of the object's own namespace are used, each
  # in its turn.
  paramRef:
    selector: {}
    parameterNotFoundAction: Allow
`, k.holds(), escape(v1alpha1.AnnotationPolicy), escape(v1alpha1.AnnotationHold), v1alpha1.HoldAdmission, k.objectName(), k.holdPatch(), k.elasticPatch(), k.wins(), k.held())
	return b.String()
}

// elasticPatch is the CEL that lets Kueue resize an elastic object in a queue.
func (k *Kind) elasticPatch() string {
	if !k.Queues() || !k.Elastic() {
		return ""
	}
	return fmt.Sprintf("        + (%s && '%s' in object.metadata.?annotations.orValue({}) ? [JSONPatch{op: \"add\", path: \"/metadata/annotations/%s\", value: \"true\"}] : [])\n",
		inQueue, v1alpha1.AnnotationMaxWorkers, escape(kueue.AnnotationElastic))
}

// holdPatch is the CEL that holds an object at creation.
func (k *Kind) holdPatch() string {
	if !k.Queues() {
		return k.holdDirectly()
	}
	gates := fmt.Sprintf("object.metadata.?annotations[?'%s']", kueue.AnnotationGates)
	return fmt.Sprintf(`        + (%s ?
        [JSONPatch{op: "add", path: "/metadata/annotations/%s", value: %s.hasValue() ? %s.value() + ",%s" : "%s"}] : []
%s)`, inQueue, escape(kueue.AnnotationGates), gates, gates, v1alpha1.Gate, v1alpha1.Gate, k.holdDirectly())
}

// holdDirectly is the CEL that holds an object which nobody queues.
func (k *Kind) holdDirectly() string {
	const indent = "        "
	switch {
	case k.Spec.Hold.Gate:
		return indent + fmt.Sprintf(`+ [JSONPatch{op: "add", path: "/spec/schedulingGates", value: [{"name": "%s"}]}]`, v1alpha1.Gate)
	case k.Spec.Hold.Zero:
		return indent + fmt.Sprintf(`+ [JSONPatch{op: "add", path: "/metadata/annotations/%s", value: string(%s.orValue(1))}]`, escape(v1alpha1.AnnotationWorkers), k.replicas.cel()) +
			"\n" + indent + fmt.Sprintf(`+ [JSONPatch{op: "add", path: "%s", value: 0}]`, k.replicas.pointer(len(k.replicas)))
	}
	var b strings.Builder
	for n := 2; n < len(k.suspend); n++ { // spec itself is always there
		fmt.Fprintf(&b, "%s+ (%s.hasValue() ? [] : [JSONPatch{op: \"add\", path: \"%s\", value: {}}])\n", indent, k.suspend[:n].cel(), k.suspend.pointer(n))
	}
	fmt.Fprintf(&b, `%s+ [JSONPatch{op: "add", path: "%s", value: true}]`, indent, k.suspend.pointer(len(k.suspend)))
	return b.String()
}

// matchSelector evaluates the label selector of the policy.
const matchSelector = `  - name: match-labels
    expression: >-
      params.spec.?selector.matchLabels.orValue({}).all(k,
      k in object.metadata.?labels.orValue({}) && object.metadata.labels[k] == params.spec.selector.matchLabels[k])
  - name: match-expressions
    expression: >-
      params.spec.?selector.matchExpressions.orValue([]).all(e,
      e.operator == 'Exists' ? e.key in object.metadata.?labels.orValue({}) :
      e.operator == 'DoesNotExist' ? !(e.key in object.metadata.?labels.orValue({})) :
      e.operator == 'In' ? e.key in object.metadata.?labels.orValue({}) && object.metadata.labels[e.key] in e.?values.orValue([]) :
      e.operator == 'NotIn' ? !(e.key in object.metadata.?labels.orValue({}) && object.metadata.labels[e.key] in e.?values.orValue([])) :
      false)
`
