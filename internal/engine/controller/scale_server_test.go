package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// scaleServer is an API server that lists what the constants say. It sends changes of pods and nodes.
type scaleServer struct {
	ctx         context.Context //nolint:containedctx // that of the benchmark
	pods, nodes chan any
	changes     int
}

// churn ends a pod and makes another one, and has a node come or leave.
func (s *scaleServer) churn() {
	event := func(kind string, obj client.Object) any {
		s.changes++
		obj.SetResourceVersion(fmt.Sprint(10 + s.changes))
		return map[string]any{"type": kind, "object": obj}
	}
	n := s.changes
	s.pods <- event("DELETED", scalePod(scalePods-1-n))
	s.pods <- event("ADDED", scalePod(scalePods+n))
	s.nodes <- event([]string{"ADDED", "DELETED"}[n/3%2], scaleNode(scaleNodes+n/6))
}

// RoundTrip implements http.RoundTripper.
func (s *scaleServer) RoundTrip(req *http.Request) (*http.Response, error) {
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody, Request: req}
	resource := path.Base(req.URL.Path)
	switch q := req.URL.Query(); {
	case q.Has("sendInitialEvents"):
		res.StatusCode = http.StatusUnprocessableEntity
	case q.Has("watch"):
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
		changes := map[string]chan any{"pods": s.pods, "nodes": s.nodes}[resource]
		go func() {
			for {
				select {
				case event := <-changes:
					if json.NewEncoder(w).Encode(event) != nil {
						return
					}
				case <-req.Context().Done():
					return
				}
			}
		}()
		res.Body = r
	default:
		res.Body = io.NopCloser(bytes.NewReader(scaleList(resource)))
	}
	return res, nil
}

// scaleList is the list of a resource.
func scaleList(resource string) []byte {
	lists := map[string]struct {
		api, kind string
		n         int
		item      func(i int) client.Object
	}{
		"pods":            {"v1", "Pod", scalePods, scalePod},
		"nodes":           {"v1", "Node", scaleNodes, scaleNode},
		"jobs":            {"batch/v1", "Job", scaleRunning + scaleHeld, scaleJob},
		"cronjobs":        {"batch/v1", "CronJob", 0, nil},
		"carbonplans":     {"lull.dev/v1alpha1", "CarbonPlan", scaleRunning + scaleHeld, scalePlan},
		"scalingprofiles": {"lull.dev/v1alpha1", "ScalingProfile", 0, nil},
		"carbonpolicies": {"lull.dev/v1alpha1", "CarbonPolicy", scalePolicies, func(i int) client.Object {
			return &v1alpha1.CarbonPolicy{ObjectMeta: scaleMeta("clean", scaleSpace(i), "policy", i), Spec: v1alpha1.CarbonPolicySpec{Zone: "bench"}}
		}},
	}
	list := lists[resource]
	items := make([]client.Object, list.n)
	for i := range items {
		items[i] = list.item(i)
	}
	out, err := json.Marshal(map[string]any{"apiVersion": list.api, "kind": list.kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	if err != nil {
		panic(err)
	}
	return out
}

func scaleMeta(name, namespace, kind string, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: types.UID(fmt.Sprintf("00000000-%s-%08d", kind, i)), ResourceVersion: "1",
		CreationTimestamp: metav1.NewTime(scaleNow.Add(-time.Duration(i%60) * time.Minute)),
	}
}

func scaleContainer(i int) []corev1.Container {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 500+500*(i%3))), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return []corev1.Container{{Name: "work", Image: "registry.invalid/team/work:1", Args: []string{"--input", "bucket"}, Resources: corev1.ResourceRequirements{Requests: requests}}}
}

// scalePod is the pod of a Job that runs, or of nobody.
func scalePod(i int) client.Object {
	started := metav1.NewTime(scaleNow.Add(-30 * time.Minute))
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: scaleMeta(fmt.Sprintf("pod-%05d", i), fmt.Sprintf("app-%02d", i%scaleOtherSpaces), "pod", i)}
	p.Labels = map[string]string{"app": "web", "pod-template-hash": "6d4cf56db6"}
	if i < scaleRunning {
		job := scaleJob(i)
		p.Namespace, p.Labels = job.GetNamespace(), map[string]string{"batch.kubernetes.io/controller-uid": string(job.GetUID())}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.GetName(), UID: job.GetUID(), Controller: new(true)}}
	}
	p.Spec = corev1.PodSpec{NodeName: fmt.Sprintf("node-%05d", i%scaleNodes), Containers: scaleContainer(i)}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "work", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
	}}}
	return p
}

func scaleNode(i int) client.Object {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: scaleMeta(fmt.Sprintf("node-%05d", i), "", "node", i), Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("128Gi"), corev1.ResourcePods: resource.MustParse("110")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// scaleJob runs if its number is small, else it is held.
func scaleJob(i int) client.Object {
	j := &batchv1.Job{ObjectMeta: scaleMeta(fmt.Sprintf("job-%05d", i), scaleSpace(i), "job", i)}
	j.Annotations = map[string]string{v1alpha1.AnnotationPolicy: "clean", v1alpha1.AnnotationRuntime: fmt.Sprintf("%dh", 1+i%5), v1alpha1.AnnotationMaxDelay: "20h"}
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: scaleContainer(i)}
	j.Spec.Suspend = new(i >= scaleRunning)
	if i < scaleRunning {
		j.Annotations[v1alpha1.AnnotationMaxDelay] = "0s"
		j.Status = batchv1.JobStatus{Active: 1, StartTime: &metav1.Time{Time: scaleNow.Add(-30 * time.Minute)}}
	} else {
		j.Annotations[v1alpha1.AnnotationHold] = v1alpha1.HoldAdmission
		j.Annotations[v1alpha1.AnnotationDecision] = `{"verb":"Wait","reason":"CleanerLater","message":"starts 2026-03-03T00:00:00Z, about 42 % less CO2","expectedSaving":0.42}`
		j.Annotations[v1alpha1.AnnotationLatestStart] = scaleNow.Add(20 * time.Hour).Format(time.RFC3339)
	}
	return j
}

func scalePlan(i int) client.Object {
	job, at := scaleJob(i), metav1.NewTime(scaleNow.Add(12*time.Hour))
	p := &v1alpha1.CarbonPlan{ObjectMeta: scaleMeta("job-"+job.GetName(), job.GetNamespace(), "plan", i)}
	p.Spec = v1alpha1.CarbonPlanSpec{Policy: "clean", Workload: v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: job.GetName(), UID: job.GetUID()}}
	p.Status = v1alpha1.CarbonPlanStatus{
		State: v1alpha1.PlanWaiting, Reason: "CleanerLater", Message: "starts 2026-03-03T00:00:00Z, about 42 % less CO2", Cluster: "local", Workers: 1,
		Phases:   []v1alpha1.PlanPhase{{From: at, To: metav1.NewTime(at.Add(time.Hour)), Cluster: "local", Workers: 1}},
		Deadline: &at, LatestStart: &at, ExpectedG: new(123.4), BaselineG: 234.5, Plans: 1, ProgressSource: "model",
		Trigger: &v1alpha1.PlanTrigger{Reason: "Submitted", At: at},
	}
	if i < scaleRunning {
		p.Status.State = v1alpha1.PlanRunning
	}
	return p
}
