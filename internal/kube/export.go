package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kinds"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// kueueWorkload is the part of a Kueue Workload (v1beta1, v1beta2) that tells how it ran.
type kueueWorkload struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PriorityClassName string `json:"priorityClassName"`
		QueueName         string `json:"queueName"`
		PodSets           []struct {
			Count    int32                  `json:"count"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"podSets"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// ReadExport reads what "kubectl get jobs -o json" or "kubectl get
// workloads.kueue.x-k8s.io -o json" writes, as a trace: the creation of each object, its
// run time and what its pods request. Those that failed, have not finished or took no
// time are counted in Trace.Skipped.
// Annotations of Lull (run time, deadline, delay, interruptible) are taken as stated.
//
// Errors wrap trace.ErrTrace and name the item, the field and its value.
func ReadExport(r io.Reader) (*trace.Trace, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxExport)).Decode(&list); err != nil {
		return nil, fmt.Errorf("%w: %w; accepted: a list, as of kubectl get jobs -o json", trace.ErrTrace, units.ReadError(err))
	}
	var ran []run
	t := &trace.Trace{}
	for i, item := range list.Items {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(item, &kind); err != nil {
			return nil, fmt.Errorf("%w: items[%d]: %w", trace.ErrTrace, i, units.ReadError(err))
		}
		var x run
		var ok bool
		var err error
		switch kind.Kind {
		case "Job":
			x, ok, err = readJob(item)
		case "Workload":
			x, ok, err = readWorkload(item)
		default:
			err = fmt.Errorf("kind: %q; accepted: Job or Workload", kind.Kind)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: items[%d]: %w", trace.ErrTrace, i, err)
		}
		switch {
		case !ok:
			t.Skip(trace.NotFinished)
			continue
		case x.job.Length <= 0:
			t.Skip(trace.NoRunTime)
			continue
		}
		ran = append(ran, x)
	}
	sort.SliceStable(ran, func(a, b int) bool { return ran[a].created.Before(ran[b].created) })
	for _, x := range ran {
		if t.Start.IsZero() {
			t.Start = x.created.UTC()
		}
		x.job.Arrival = x.created.Sub(t.Start)
		if !x.deadline.IsZero() && x.deadline.After(x.created) {
			x.job.Deadline = x.deadline.Sub(t.Start)
		}
		t.Jobs = append(t.Jobs, x.job)
	}
	return t, nil
}

// maxExport bounds an export.
const maxExport = 1 << 30

// run is an object that has run.
type run struct {
	created, deadline time.Time
	job               trace.Job
}

func readJob(item []byte) (run, bool, error) {
	var j batchv1.Job
	if err := json.Unmarshal(item, &j); err != nil {
		return run{}, false, units.ReadError(err)
	}
	if j.Status.StartTime == nil || j.Status.CompletionTime == nil {
		return run{}, false, nil
	}
	pods := int64(1)
	if j.Spec.Parallelism != nil && *j.Spec.Parallelism > 1 {
		pods = int64(*j.Spec.Parallelism)
	}
	x := run{created: j.CreationTimestamp.Time, job: trace.Job{
		ID: j.Namespace + "/" + j.Name, Length: j.Status.CompletionTime.Sub(j.Status.StartTime.Time),
		Request: map[string]float64{}, PriorityClass: j.Spec.Template.Spec.PriorityClassName, Class: j.Namespace,
	}}
	addRequests(x.job.Request, &j.Spec.Template.Spec, pods)
	return x.stated(&j)
}

func readWorkload(item []byte) (run, bool, error) {
	var w kueueWorkload
	if err := json.Unmarshal(item, &w); err != nil {
		return run{}, false, units.ReadError(err)
	}
	var admitted, finished time.Time
	for _, c := range w.Status.Conditions {
		switch {
		case c.Type == "Admitted" && c.Status == metav1.ConditionTrue:
			admitted = c.LastTransitionTime.Time
		case c.Type == "Finished" && c.Status == metav1.ConditionTrue:
			finished = c.LastTransitionTime.Time
		}
	}
	if admitted.IsZero() || finished.IsZero() {
		return run{}, false, nil
	}
	x := run{created: w.CreationTimestamp.Time, job: trace.Job{
		ID: w.Namespace + "/" + w.Name, Length: finished.Sub(admitted), Request: map[string]float64{},
		PriorityClass: w.Spec.PriorityClassName, Class: w.Spec.QueueName,
	}}
	for i := range w.Spec.PodSets {
		addRequests(x.job.Request, &w.Spec.PodSets[i].Template.Spec, int64(w.Spec.PodSets[i].Count))
	}
	return x.stated(&batchv1.Job{ObjectMeta: w.ObjectMeta})
}

// stated adds what annotations of Lull say.
func (x run) stated(j *batchv1.Job) (run, bool, error) {
	o, err := ReadOptions(j.Annotations, &v1alpha1.CarbonPolicySpec{}, nil)
	if err != nil {
		return x, false, err
	}
	if o.RuntimeStated {
		x.job.Estimate = o.Runtime
	}
	if o.maxDelayStated {
		x.job.MaxDelay = o.MaxDelay
	}
	x.deadline = o.Deadline
	if o.Interruptible {
		x.job.Kind = "interruptible"
	}
	return x, true, nil
}

// addRequests adds what pods request, under the names that traces use.
func addRequests(to map[string]float64, spec *corev1.PodSpec, pods int64) {
	requests := resourcehelper.PodRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
	for name, quantity := range requests {
		v := quantity.AsApproximateFloat64() * float64(pods)
		switch name {
		case corev1.ResourceCPU:
			to[trace.CPU] += v
		case corev1.ResourceMemory:
			to[trace.Memory] += v / (1 << 30)
		case "nvidia.com/gpu", "amd.com/gpu":
			to[trace.GPU] += v
		}
	}
	if to[trace.CPU] == 0 {
		to[trace.CPU] = kinds.AssumedCPU * float64(pods)
	}
}
