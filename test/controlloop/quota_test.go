package controlloop

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/simkube"
)

// quota bounds the CPUs of the bed's namespace.
func (b *bed) quota(cpus string) {
	b.Create(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota", Namespace: b.ns},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(cpus)}},
	})
}

// TestQuotaBoundsPlans: the nodes have room for all Jobs in the one clean hour, the ResourceQuota of their namespace for two. The
// others run in other hours, and all are done in time. At most one is released while two others run: when one of these is about to end.
func TestQuotaBoundsPlans(t *testing.T) {
	hourly := []float64{500, 450, 400, 350, 50, 400, 450, 500}
	onBed(t, hourly, wideMargin, func(b *bed) {
		b.quota("2")
		b.Controller()
		deadline := at(8)
		var names []string
		for i := range 8 {
			names = append(names, fmt.Sprintf("job-%d", i))
			b.submit(names[i], map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)})
		}
		b.Always(time.Second, func() error {
			released := 0
			for _, name := range names {
				var job batchv1.Job
				typed(b.Store.Get(b.Store.Resource("Job"), types.NamespacedName{Namespace: b.ns, Name: name}), &job)
				if _, done := simkube.Finished(&job); !done && !*job.Spec.Suspend {
					released++
				}
			}
			if released > 3 { // two, and one that is about to end
				return fmt.Errorf("%d Jobs are released, the quota has room for 2", released)
			}
			return nil
		})
		b.Until("all to finish", func() bool { return b.finished(names...) })
		for _, name := range names {
			if end := b.gridTime(b.get(name).Status.CompletionTime.Time); end.After(deadline) {
				t.Errorf("%s was done at %s of the series, its deadline is %s", name, end.Format(time.TimeOnly), deadline.Format(time.TimeOnly))
			}
		}
	})
}

// TestQuotaFalls: all Jobs are planned for the one clean hour when their quota is lowered. They run one after the other, in time.
func TestQuotaFalls(t *testing.T) {
	onBed(t, []float64{500, 500, 500, 500, 50, 500, 500, 500, 500, 500, 500, 500}, wideMargin, func(b *bed) {
		b.quota("6")
		b.Controller()
		deadline := at(10)
		var names []string
		for i := range 6 {
			names = append(names, fmt.Sprintf("job-%d", i))
			b.submit(names[i], map[string]string{v1alpha1.AnnotationDeadline: deadline.Format(time.RFC3339)})
		}
		b.Until("plans", func() bool { return b.plan("job-"+names[5]).Status.State != "" })
		b.Run(at(1).Sub(b.gridTime(time.Now())) / factor)
		for _, name := range names {
			if !b.suspended(name) {
				t.Fatalf("%s does not wait for the clean hour", name)
			}
		}
		b.Patch(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota", Namespace: b.ns}}, `{"spec":{"hard":{"requests.cpu":"1"}}}`)
		b.Until("all to finish", func() bool { return b.finished(names...) })
		for _, name := range names {
			if end := b.gridTime(b.get(name).Status.CompletionTime.Time); end.After(deadline) {
				t.Errorf("%s was done at %s of the series, its deadline is %s", name, end.Format(time.TimeOnly), deadline.Format(time.TimeOnly))
			}
		}
	})
}
