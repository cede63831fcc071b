package controlplane

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A hub with spokes is a lab whose spokes are labs of their own, each in a folder below the
// hub's, all in one supervisor. Workloads are queued on the hub and sent to the spokes by
// MultiKueue.

// Spoke is a cluster of a hub.
type Spoke struct {
	Name       string `json:"name"`
	Dir        string `json:"dir"`
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
}

// LabQueue is the name of the ClusterQueue of each cluster, and of the LocalQueue in its
// namespace default.
const LabQueue = "lab"

// maxSpokes bounds a fleet: what two cores boot in time.
const maxSpokes = 8

// fleet is the spokes under way.
type fleet struct {
	cancel context.CancelFunc
	spokes []*spokeRun
}

type spokeRun struct {
	name  string
	ready chan State    // receives once it is
	done  chan struct{} // closed when it has ended
	err   error         // how; valid once done is closed
}

// startSpokes starts the spokes side by side.
func (s *supervisor) startSpokes() {
	// They outlive the time that booting may take.
	ctx, cancel := context.WithCancel(context.Background())
	s.fleet.cancel = cancel
	for i := range s.Spokes {
		o := s.Options
		o.Spokes = 0
		run := &spokeRun{name: fmt.Sprintf("spoke-%d", i+1), ready: make(chan State, 1), done: make(chan struct{})}
		o.Dir = s.path("spokes", run.name)
		s.fleet.spokes = append(s.fleet.spokes, run)
		go func() {
			defer close(run.done)
			run.err = Supervise(ctx, o, func(state State) { run.ready <- state })
		}()
	}
}

// awaitSpokes waits until all are ready.
func (s *supervisor) awaitSpokes(ctx context.Context) error {
	for _, run := range s.fleet.spokes {
		select {
		case state := <-run.ready:
			s.state.Spokes = append(s.state.Spokes, Spoke{Name: run.name, Dir: state.Options.Dir, Server: state.Server, Kubeconfig: state.Kubeconfig})
		case <-run.done:
			return fmt.Errorf("%s: %w", run.name, run.err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", run.name, ctx.Err())
		}
	}
	return nil
}

// stop ends the spokes and waits until nothing of them is left.
func (f *fleet) stop() {
	if f.cancel == nil {
		return
	}
	f.cancel()
	for _, run := range f.spokes {
		<-run.done
	}
}

// queues makes what is needed to submit: a ClusterQueue of all that the nodes offer, which on
// a hub goes through MultiKueue to the spokes, and a LocalQueue.
func (s *supervisor) queues(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	clusters := 1
	queue := map[string]any{"namespaceSelector": map[string]any{}}
	var objects []*unstructured.Unstructured
	if s.Spokes > 0 {
		clusters = s.Spokes
		var names []any
		for _, spoke := range s.state.Spokes {
			text, err := os.ReadFile(spoke.Kubeconfig)
			if err != nil {
				return err
			}
			secret := object("Secret", kueueNamespace, spoke.Name, nil)
			secret.Object["apiVersion"] = "v1"
			delete(secret.Object, "spec")
			secret.Object["data"] = map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(text)}
			objects = append(objects, secret, object("MultiKueueCluster", "", spoke.Name, map[string]any{
				"clusterSource": map[string]any{"kubeConfig": map[string]any{"locationType": "Secret", "location": spoke.Name}},
			}))
			names = append(names, spoke.Name)
		}
		objects = append(objects, object("MultiKueueConfig", "", LabQueue, map[string]any{"clusters": names}),
			object("AdmissionCheck", "", "multikueue", map[string]any{
				"controllerName": "kueue.x-k8s.io/multikueue",
				"parameters":     map[string]any{"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": LabQueue},
			}))
		queue["admissionChecksStrategy"] = map[string]any{"admissionChecks": []any{map[string]any{"name": "multikueue"}}}
	}
	var real corev1.ResourceList // what the real node offers beside the others
	if s.RealNode {
		typed, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		node, err := typed.CoreV1().Nodes().Get(ctx, realNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		real = node.Status.Allocatable
	}
	total := func(name corev1.ResourceName, each string) string {
		q := resource.MustParse(each)
		q.Mul(int64(clusters * s.Options.Nodes))
		q.Add(real[name])
		return q.String()
	}
	quotas := []any{
		map[string]any{"name": "cpu", "nominalQuota": total(corev1.ResourceCPU, s.CPU)}, map[string]any{"name": "memory", "nominalQuota": total(corev1.ResourceMemory, s.Memory)},
	}
	covered := []any{"cpu", "memory"}
	if s.GPUs > 0 {
		quotas = append(quotas, map[string]any{"name": "nvidia.com/gpu", "nominalQuota": fmt.Sprint(clusters * s.Options.Nodes * s.GPUs)})
		covered = append(covered, "nvidia.com/gpu")
	}
	queue["resourceGroups"] = []any{map[string]any{
		"coveredResources": covered, "flavors": []any{map[string]any{"name": flavor().GetName(), "resources": quotas}},
	}}
	objects = append(objects, object("ClusterQueue", "", LabQueue, queue), object("LocalQueue", "default", LabQueue, map[string]any{"clusterQueue": LabQueue}))
	for _, obj := range objects {
		if err := create(ctx, client, obj); err != nil {
			return err
		}
	}
	return s.until(ctx, "the queue to be active", func() bool {
		q, err := client.Resource(kueueResource("clusterqueues")).Get(ctx, LabQueue, getOptions)
		if err != nil {
			return false
		}
		conditions, _, _ := unstructured.NestedSlice(q.Object, "status", "conditions")
		for _, c := range conditions {
			if m, ok := c.(map[string]any); ok && m["type"] == "Active" {
				return m["status"] == "True"
			}
		}
		return false
	})
}
