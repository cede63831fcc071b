package kinds

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// AdmissionPolicy is the policy that holds objects of the kind at creation, as Manifests prints it, for who evaluates it outside of
// the API server. own is the namespace of Lull.
func (k *Kind) AdmissionPolicy(own string) (*admissionv1.MutatingAdmissionPolicy, error) {
	text, _, _ := strings.Cut(k.admission(own), "\n---\n")
	var out admissionv1.MutatingAdmissionPolicy
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("%w %q: its admission policy: %w", ErrKind, k.Name, err)
	}
	return &out, nil
}

// ofParams is true for an expression that reads the CarbonPolicy. A webhook has no parameters.
var ofParams = regexp.MustCompile(`\bparams\b`)

// Webhook is the webhook that has what objects of the kind are to be held at creation decided by "lull admission", where the API
// server has no admission policies. client says where that is. namespaces are those with a CarbonPolicy, sorted, never
// empty: for others the API server asks nobody, nor for objects that no CarbonPolicy could govern.
//
// The webhook never refuses an object: if it does not answer within two seconds, the object is created as its user wrote it.
func (k *Kind) Webhook(own string, client admissionv1.WebhookClientConfig, namespaces []string) (*admissionv1.MutatingWebhook, error) {
	policy, err := k.AdmissionPolicy(own)
	if err != nil {
		return nil, err
	}
	var conditions []admissionv1.MatchCondition
	for _, c := range policy.Spec.MatchConditions {
		if !ofParams.MatchString(c.Expression) {
			conditions = append(conditions, c)
		}
	}
	ignore, never, equivalent, none := admissionv1.Ignore, admissionv1.NeverReinvocationPolicy, admissionv1.Equivalent, admissionv1.SideEffectClassNone
	timeout := int32(webhookTimeout)
	return &admissionv1.MutatingWebhook{
		Name: policy.Name, ClientConfig: client, Rules: rulesOf(policy), MatchConditions: conditions,
		FailurePolicy: &ignore, MatchPolicy: &equivalent, SideEffects: &none, ReinvocationPolicy: &never, TimeoutSeconds: &timeout,
		AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
		}},
		ObjectSelector: &metav1.LabelSelector{},
	}, nil
}

// webhookTimeout is for how many seconds the API server waits for a webhook at most: by so much a dead one delays a creation.
const webhookTimeout = 2

// Asked reports whether the API server may ask about objects of a namespace at all: never about those of Kubernetes' own components
// and of Lull. A policy evaluated by the API server governs an object there that names it in lull.dev/govern-by; a webhook
// does not, as the pods that answer it must start without it.
func Asked(own, namespace string) bool {
	return !slices.Contains(excludedNamespaces(own), namespace)
}

// WebhookConfiguration is the name of the MutatingWebhookConfiguration with the webhooks of all kinds. It sorts before those of Kueue and
// JobSet, so that the API server asks Lull before them, as it evaluates policies before it asks any webhook.
const WebhookConfiguration = "hold.lull.dev"

// AnnotationRemovedKinds is an annotation of that configuration. It names kinds, separated by commas, whose objects are not held any more, as
// Lull is about to lose its rights to them.
const AnnotationRemovedKinds = "lull.dev/removed-kinds"

// rulesOf returns the rules of a policy for a webhook: those objects, in namespaces only.
func rulesOf(policy *admissionv1.MutatingAdmissionPolicy) (rules []admissionv1.RuleWithOperations) {
	scope := admissionv1.NamespacedScope
	for _, r := range policy.Spec.MatchConstraints.ResourceRules {
		r.Scope = &scope
		rules = append(rules, r.RuleWithOperations)
	}
	return rules
}
