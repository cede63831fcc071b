package controlloop

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/test/simkube"
)

// TestRunTimesSurviveTheController: six Jobs of a family ran for three hours each, and were deleted when they had ended. A controller that starts
// then knows that from the ledger: it leaves three hours for the next Job of the family, where without a ledger it leaves the hour of the
// policy's default.
func TestRunTimesSurviveTheController(t *testing.T) {
	for name, x := range map[string]struct {
		ledger bool
		want   time.Duration
	}{"with a ledger": {true, 3 * time.Hour}, "without": {false, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			database := ""
			if x.ledger {
				database = filepath.Join(t.TempDir(), "ledger.db")
			}
			onBed(t, dirtyThenClean(), nil, func(b *bed) {
				with := func(o *controller.Options) { o.Ledger = database }
				job := func(name string, annotations map[string]string) *batchv1.Job {
					annotations[v1alpha1.AnnotationFamily] = "threes"
					j := b.job(name, annotations)
					delete(j.Annotations, v1alpha1.AnnotationRuntime)
					j.Spec.Template.Annotations[simkube.RunTime] = "3h"
					b.Create(j)
					return j
				}
				first := b.Controller(with)
				var names []string
				for i := range 6 {
					names = append(names, job(fmt.Sprintf("early-%d", i), map[string]string{v1alpha1.AnnotationMaxDelay: "0s"}).Name)
				}
				b.Until("they to be done", func() bool { return b.finished(names...) })
				b.Run(2 * time.Second) // the controller sees and records it
				for _, name := range names {
					b.must(b.Client.Delete(b.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: name}}, client.PropagationPolicy(metav1.DeletePropagationBackground)))
				}
				first.Kill()
				b.Controller(with)
				job("next", map[string]string{v1alpha1.AnnotationDeadline: at(20).Format(time.RFC3339)})
				b.Until("it to be decided", func() bool {
					return b.get("next").Annotations[v1alpha1.AnnotationLatestStart] != "" && b.decision("next") != ""
				})
				latest, err := time.Parse(time.RFC3339, b.get("next").Annotations[v1alpha1.AnnotationLatestStart])
				b.must(err)
				left := at(20).Sub(b.gridTime(latest)) - b.policy().Spec.StartMargin.Duration
				if left < x.want || left > x.want+10*factor*time.Second { // Kubernetes states ends in whole seconds
					t.Errorf("the latest start leaves %v, want %v or seconds of the wall clock more", left, x.want)
				}
			})
		})
	}
}
