package controlloop

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/test/simkube"
)

// quota bounds the CPUs of the bed's namespace.
func (b *bed) quota(cpus string) { b.Create(quotaOf(b.ns, cpus)) }

func quotaOf(namespace, cpus string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota", Namespace: namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(cpus)}},
	}
}

// TestQuotaBoundsPlans: the nodes have room for all Jobs in the one clean hour, the ResourceQuota of their namespace for two. The
// others run in other hours, and all are done in time. At most one is released while two others run: when one of these is about to end.
func TestQuotaBoundsPlans(t *testing.T) {
	hourly := []float64{500, 450, 400, 350, 50, 400, 450, 500}
	onBed(t, hourly, wideMargin, func(b *bed) {
		b.quota("2")
		b.Controller()
		x := submitAlike(b, 8, at(8))
		b.Always(time.Second, func() error {
			released := 0
			for _, submitted := range x.jobs {
				var job batchv1.Job
				typed(b.Store.Get(b.Store.Resource("Job"), nameOf(submitted)), &job)
				if _, done := simkube.Finished(&job); !done && !*job.Spec.Suspend {
					released++
				}
			}
			if released > 3 { // two, and one that is about to end
				return fmt.Errorf("%d Jobs are released, the quota has room for 2", released)
			}
			return nil
		})
		x.audit()
	})
}

// TestFallingQuotaRunsJobsOneByOne: all Jobs are planned for the one clean hour when their quota is lowered. They run one after the other, in time.
func TestFallingQuotaRunsJobsOneByOne(t *testing.T) {
	onBed(t, []float64{500, 500, 500, 500, 50, 500, 500, 500, 500, 500, 500, 500}, wideMargin, func(b *bed) {
		b.quota("6")
		b.Controller()
		x := submitAlike(b, 6, at(10))
		b.Until("plans", func() bool { return b.plan("job-job-5").Status.State != "" })
		b.Run(at(1).Sub(b.gridTime(time.Now())) / factor)
		for _, job := range x.jobs {
			if !b.suspended(job.Name) {
				t.Fatalf("%s does not wait for the clean hour", job.Name)
			}
		}
		b.Patch(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota", Namespace: b.ns}}, `{"spec":{"hard":{"requests.cpu":"1"}}}`)
		x.audit()
	})
}
