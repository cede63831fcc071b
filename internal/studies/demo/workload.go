package demo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

// spec is one Job of the demo, in grid time from the start of the replay.
type spec struct {
	name     string
	arrival  time.Duration
	length   time.Duration // real run time, all chunks
	estimate time.Duration // what the Job states
	slack    time.Duration // 0 for a critical Job
	cpus     int64
	critical bool
	chunks   int32 // above 1: an interruptible Indexed Job
	elastic  *scaling
}

// The demo's workload: Poisson arrivals over arrivalSpan, run times of 45 min to
// 5 h, 30 % critical, the rest with 6 to 24 h of slack, a quarter of those
// interruptible.
const (
	span          = 48 * time.Hour
	arrivalSpan   = 20 * time.Hour
	shortestRun   = 45 * time.Minute
	longestRun    = 5 * time.Hour
	criticalShare = 0.3
	leastSlack    = 6 * time.Hour
	mostSlack     = 24 * time.Hour
	chunkLength   = 90 * time.Minute
	// chunkOverhead is what a further completion of an Indexed Job costs in a lab
	// at the demo's time factor: the Job controller starts the next pod about a
	// second after one has ended. It is part of the run time the Job states.
	chunkOverhead = 30 * time.Minute
	// latestEnd keeps the last deadline inside the replay.
	latestEnd = span - 30*time.Minute
)

// generate draws n jobs; equal seeds give equal jobs.
func generate(n int, seed uint64) []spec {
	rng := rand.New(rand.NewPCG(seed, 0xde10))
	arrivals := make([]float64, n)
	sum := 0.0
	for i := range arrivals {
		sum += rng.ExpFloat64()
		arrivals[i] = sum
	}
	// Given the number of jobs, a Poisson process is its gaps scaled to the span.
	unit := float64(arrivalSpan) / (sum + rng.ExpFloat64())
	specs := make([]spec, n)
	for i := range specs {
		s := spec{
			name: fmt.Sprintf("job-%03d", i+1), arrival: time.Duration(arrivals[i] * unit),
			length: shortestRun + time.Duration(rng.Int64N(int64(longestRun-shortestRun))), cpus: 1 + rng.Int64N(6), chunks: 1,
		}
		s.length = s.length.Round(5 * time.Minute)
		s.estimate = s.length
		slack := leastSlack + time.Duration(rng.Int64N(int64(mostSlack-leastSlack)))
		kind := rng.Float64()
		if s.critical = kind < criticalShare; !s.critical {
			if kind > 1-(1-criticalShare)/4 {
				s.chunks = int32(math.Max(2, math.Round(float64(s.length)/float64(chunkLength))))
				s.length = time.Duration(s.chunks) * chunkLength
				s.estimate = s.length + time.Duration(s.chunks)*chunkOverhead
			}
			s.slack = min(slack, latestEnd-s.arrival-s.estimate).Truncate(time.Minute)
		}
		specs[i] = s
	}
	return specs
}

const (
	namespace     = "demo"
	criticalClass = "demo-critical"
	jobLabel      = "lull.dev/demo"
	// runtimeAnnotation tells the lab's KWOK how long a pod runs.
	runtimeAnnotation = "lab.lull.dev/runtime"
)

// job is the Job as a user would write it.
func (s spec) job() *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.name, Namespace: namespace, Labels: map[string]string{jobLabel: "true"},
			Annotations: map[string]string{v1alpha1.AnnotationRuntime: s.estimate.String()},
		},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{runtimeAnnotation: (s.length / time.Duration(max(1, s.chunks))).String()}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "work", Image: "example.invalid/work",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewQuantity(s.cpus, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("512Mi"),
				}},
			}}},
		}},
	}
	if s.critical {
		j.Spec.Template.Spec.PriorityClassName = criticalClass
		return j
	}
	j.Annotations[v1alpha1.AnnotationMaxDelay] = s.slack.String()
	if s.elastic != nil {
		s.makeElastic(j)
		return j
	}
	if s.chunks > 1 {
		indexed, one := batchv1.IndexedCompletion, int32(1)
		j.Annotations[v1alpha1.AnnotationInterruptible] = "true"
		j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = &indexed, &s.chunks, &one
	}
	return j
}
