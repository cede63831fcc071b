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
	return stated(spec.StartMargin, defaultMargin, maxGuard) + provisioningDelay(spec)
}

// provisioningDelay is how long a pod waits for a new node; 0 without autoscaling.
func provisioningDelay(spec *v1alpha1.CarbonPolicySpec) time.Duration {
	if spec.Autoscaling == nil {
		return 0
	}
	return stated(spec.Autoscaling.ProvisioningDelay, defaultProvisioning, maxDelays)
}
