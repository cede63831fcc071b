package kinds

import (
	_ "embed"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/cluster/kueue"
)

// Nominations is the admission policy that clears the nominations of Workloads of Kueue, with its binding, as YAML documents.
//
//go:embed nominations.yaml
var Nominations string

// NominationsName is that of the policy, and of the webhook that does the same.
const NominationsName = "clear-nominations.lull.dev"

// NominatedResource is what the policy is about: its status only.
var NominatedResource = schema.GroupResource{Group: kueue.GroupVersion.Group, Resource: "workloads"}

// NominationsPolicy is that policy, for who evaluates it outside of the API server.
func NominationsPolicy() (*admissionv1.MutatingAdmissionPolicy, error) {
	text, _, _ := strings.Cut(Nominations, "\n---\n")
	var out admissionv1.MutatingAdmissionPolicy
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("%s: %w", NominationsName, err)
	}
	return &out, nil
}

// NominationsWebhook is the webhook that has "lull admission" clear nominations, where the API server has no admission policies. client says where that is.
// namespaces are those that Lull governs, none for all but those of Kubernetes and of Lull, own.
//
// Like the policy it fails closed: if it does not answer, Kueue's update is refused, and Kueue tries again. API servers ask about such
// updates only as clear nominations.
func NominationsWebhook(own string, client admissionv1.WebhookClientConfig, namespaces []string) (*admissionv1.MutatingWebhook, error) {
	policy, err := NominationsPolicy()
	if err != nil {
		return nil, err
	}
	fail, never, equivalent, none := admissionv1.Fail, admissionv1.NeverReinvocationPolicy, admissionv1.Equivalent, admissionv1.SideEffectClassNone
	timeout := int32(webhookTimeout)
	in := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: excludedNamespaces(own)}
	if len(namespaces) > 0 {
		in.Operator, in.Values = metav1.LabelSelectorOpIn, namespaces
	}
	return &admissionv1.MutatingWebhook{
		Name: policy.Name, ClientConfig: client, Rules: rulesOf(policy), MatchConditions: policy.Spec.MatchConditions,
		FailurePolicy: &fail, MatchPolicy: &equivalent, SideEffects: &none, ReinvocationPolicy: &never, TimeoutSeconds: &timeout,
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector:       &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{in}},
		ObjectSelector:          &metav1.LabelSelector{},
	}, nil
}
