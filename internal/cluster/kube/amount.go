package kube

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"

	"lull.dev/lull/api/v1alpha1"
)

// quantity is what ReadAmount accepts. ParseQuantity accepts 1e-2000000000, too, and takes forever to read it.
var quantity = regexp.MustCompile(`^([0-9]{1,19}(\.[0-9]{0,18})?|\.[0-9]{1,18})([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$`)

// mostAmount bounds an amount of a resource.
const mostAmount = 1e18

// ReadAmount reads an amount of a resource, in base units: 0 to 1E.
func ReadAmount(text string) (float64, error) {
	if quantity.MatchString(text) {
		if q, err := resource.ParseQuantity(text); err == nil && q.AsApproximateFloat64() <= mostAmount {
			return q.AsApproximateFloat64(), nil
		}
	}
	const most = 40
	return 0, fmt.Errorf("%s; accepted: a quantity of 0 to 1E", text[:min(len(text), most)])
}

// AmountOf is an amount that has been checked; 0 if it cannot be read.
func AmountOf(a v1alpha1.Amount) float64 {
	v, err := ReadAmount(string(a))
	if err != nil {
		return 0
	}
	return v
}
