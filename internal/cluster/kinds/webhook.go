package kinds

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
