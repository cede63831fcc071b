package kube

import (
	"time"

	"lull.dev/lull/api/v1alpha1"
)

// defaultMargin and defaultProvisioning are StartMargin and ProvisioningDelay of a policy that was created without the API server's
// defaults.
const (
	defaultMargin       = 5 * time.Minute
	defaultProvisioning = 5 * time.Minute
)

// margin is kept between the planned end of a workload and its deadline: what the policy states, and the time that new nodes take.
func margin(spec *v1alpha1.CarbonPolicySpec) time.Duration {
	out := defaultMargin
	if spec.StartMargin != nil {
		out = spec.StartMargin.Duration
	}
	return out + provisioningDelay(spec)
}

// provisioningDelay is how long a pod waits for a new node; 0 without autoscaling.
func provisioningDelay(spec *v1alpha1.CarbonPolicySpec) time.Duration {
	switch a := spec.Autoscaling; {
	case a == nil:
		return 0
	case a.ProvisioningDelay == nil:
		return defaultProvisioning
	default:
		return a.ProvisioningDelay.Duration
	}
}
