package kinds

import (
	"errors"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	resourcehelper "k8s.io/component-helpers/resource"
)

// requestOfWorker is what one worker asks for.
func (k *Kind) requestOfWorker(obj map[string]any) map[string]float64 {
	if len(k.worker) > 0 {
		t, _ := k.worker.get(obj)
		template, _ := t.(map[string]any)
		return requests(template)
	}
	v, _ := k.resources.get(obj)
	resources, _ := v.(map[string]any)
	return requests(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "worker", "resources": resources}}}})
}

// add adds what the pods ask for, and returns how many there are.
func (g *podsOf) add(sum map[string]float64, obj map[string]any) (pods int) {
	items := []any{obj}
	if len(g.each) > 0 {
		items = g.each.each(obj)
	}
	for _, item := range items {
		count := 1
		for i, c := range g.counts {
			n := c.number(item, 1)
			if i == 0 {
				n = min(n, max(1, g.completions.number(item, n)))
			}
			count *= n
		}
		t, ok := g.template.get(item)
		template, isMap := t.(map[string]any)
		if !ok || !isMap {
			continue
		}
		for r, q := range requests(template) {
			sum[r] += q * float64(count)
		}
		pods += count
	}
	return pods
}

// AssumedCPU is what a pod without a CPU request counts as: planning needs some size, and
// nothing is known of it.
const AssumedCPU = 1.0

// requests sums what a pod of the template asks for, as the scheduler counts it.
func requests(template map[string]any) map[string]float64 {
	var pod corev1.PodSpec
	if spec, ok := template["spec"].(map[string]any); ok {
		spec = pruned(spec)
		if Readable(spec) != nil {
			return RequestsOf(&pod)
		}
		// What does not fit the type counts as nothing, as above.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod)
	}
	return RequestsOf(&pod)
}

// RequestsOf is what a pod counts as asking for, in base units: cores, bytes, pieces. One without a CPU request counts
// as AssumedCPU, in plans and once it runs.
func RequestsOf(spec *corev1.PodSpec) map[string]float64 {
	out := map[string]float64{}
	for r, q := range resourcehelper.PodRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{}) {
		out[string(r)] = q.AsApproximateFloat64()
	}
	if out[string(corev1.ResourceCPU)] == 0 {
		out[string(corev1.ResourceCPU)] = AssumedCPU
	}
	return out
}

// ErrUnreadable says that an object has a quantity with an exponent that takes forever to read, like 1e-2000000000. The API server
// takes it in the pod templates of custom resources.
var ErrUnreadable = errors.New("a quantity with an exponent of more than two digits")

var unreadable = regexp.MustCompile(`^[-+]?[0-9.]+[eE][-+]?[0-9.]{3,}$`)

// Readable returns ErrUnreadable if a quantity anywhere in a value takes forever to read.
func Readable(value any) error {
	switch v := value.(type) {
	case map[string]any:
		for _, x := range v {
			if err := Readable(x); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := Readable(x); err != nil {
				return err
			}
		}
	case string:
		if unreadable.MatchString(v) {
			return ErrUnreadable
		}
	}
	return nil
}
