package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// bootTimeout bounds the time from nothing to ready nodes.
const bootTimeout = 3 * time.Minute

// Supervise starts the lab, calls ready once its nodes are, and keeps it until
// ctx ends or a component does. It returns nil when ctx ended it, else an error
// that names the component and shows the end of its log. When it returns, no
// process of the lab is left.
func Supervise(ctx context.Context, o Options, ready func(State)) (err error) {
	// Children are killed by the kernel when the thread that started them ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	owner, err := lock(o.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	defer owner.Close()

	s := &supervisor{Options: o}
	s.state = State{Phase: Starting, PID: os.Getpid(), Started: time.Now().UTC(), Components: map[string]int{}, Options: o, Kubeconfig: Kubeconfig(o.Dir)}
	defer func() {
		s.stopAll()
		s.state.Phase, s.state.Components = Down, map[string]int{}
		if err != nil {
			s.state.Phase, s.state.Error = Failed, err.Error()
		}
		if writeErr := s.state.write(); err == nil {
			err = writeErr
		}
	}()
	boot, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := s.boot(boot); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s.state.Phase, s.state.BootTime = Ready, time.Since(s.state.Started).Round(100*time.Millisecond).String()
	if err := s.state.write(); err != nil {
		return err
	}
	ready(s.state)
	return s.watch(ctx)
}

type supervisor struct {
	Options
	state     State
	processes []*process // in the order of start
	fleet     fleet
}

func (s *supervisor) boot(ctx context.Context) error {
	if err := s.prepareDir(); err != nil {
		return err
	}
	s.startSpokes()
	certificates, err := s.certificates()
	if err != nil {
		return err
	}
	p, err := s.ports()
	if err != nil {
		return err
	}
	s.state.Server = fmt.Sprintf("https://127.0.0.1:%d", p.apiserver)
	if err := s.writeKubeconfig(certificates, s.state.Server); err != nil {
		return err
	}
	etcd, err := s.etcd(p)
	if err != nil {
		return err
	}
	apiserver, err := s.apiserver(p)
	if err != nil {
		return err
	}
	if err := s.start(etcd, apiserver); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", Kubeconfig(s.Dir))
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := s.until(ctx, "the API server to be ready", func() bool {
		body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).DoRaw(ctx)
		return err == nil && strings.TrimSpace(string(body)) == "ok"
	}); err != nil {
		return err
	}
	rest, err := s.rest()
	if err != nil {
		return err
	}
	if err := s.start(rest...); err != nil {
		return err
	}
	if s.Spokes == 0 {
		if err := s.createNodes(ctx, client); err != nil {
			return err
		}
	}
	if s.RealNode {
		if err := s.startNode(p); err != nil {
			return err
		}
	}
	if s.Kueue {
		if err := s.startKueue(ctx, config, client, certificates.caPEM, p); err != nil {
			return err
		}
	}
	if err := s.until(ctx, "the nodes and the default service account to be ready", func() bool { return s.usable(ctx, client) }); err != nil {
		return err
	}
	if err := s.awaitSpokes(ctx); err != nil || !s.Kueue {
		return err
	}
	return s.queues(ctx, config)
}

func (s *supervisor) start(components ...component) error {
	for _, c := range components {
		c, err := s.older(c)
		if err != nil {
			return err
		}
		p, err := start(s.Dir, c)
		if err != nil {
			return err
		}
		s.processes = append(s.processes, p)
		s.state.Components[c.name] = p.cmd.Process.Pid
	}
	return s.state.write()
}

// until polls, and gives up at once when a component ends.
func (s *supervisor) until(ctx context.Context, what string, done func() bool) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if done() {
			return nil
		}
		if err := s.crashed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}

// crashed reports every component that has ended.
func (s *supervisor) crashed() error {
	var errs []error
	for _, p := range s.processes {
		select {
		case <-p.done:
			errs = append(errs, p.crash(s.Dir))
		default:
		}
	}
	for _, run := range s.fleet.spokes {
		select {
		case <-run.done:
			errs = append(errs, fmt.Errorf("%s: %w", run.name, run.err))
		default:
		}
	}
	return errors.Join(errs...)
}

// watch waits for the end of ctx, or of any component that is not to be started again.
func (s *supervisor) watch(ctx context.Context) error {
	ended := make(chan int, len(s.processes))
	lost := make(chan struct{}, len(s.fleet.spokes))
	for _, run := range s.fleet.spokes {
		go func() {
			<-run.done
			lost <- struct{}{}
		}()
	}
	await := func(i int) {
		p := s.processes[i]
		go func() {
			<-p.done
			ended <- i
		}()
	}
	for i := range s.processes {
		await(i)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			return s.crashed()
		case i := <-ended:
			if !s.Restart {
				return s.crashed()
			}
			select { // not in a rush
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
			p, err := start(s.Dir, s.processes[i].component)
			if err != nil {
				return err
			}
			s.processes[i] = p
			s.state.Components[p.name] = p.cmd.Process.Pid
			if err := s.state.write(); err != nil {
				return err
			}
			await(i)
		}
	}
}

// stopAll ends the components in the reverse order of their start: an API
// server without its etcd would hold its port for long.
func (s *supervisor) stopAll() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
	s.fleet.stop()
	if s.RealNode {
		s.removeCgroups()
	}
}

func (s *supervisor) createNodes(ctx context.Context, client kubernetes.Interface) error {
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(s.CPU), corev1.ResourceMemory: resource.MustParse(s.Memory),
		corev1.ResourcePods: resource.MustParse("500"),
	}
	if s.GPUs > 0 {
		resources["nvidia.com/gpu"] = *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)
	}
	for i := range s.Nodes {
		name := fmt.Sprintf("node-%d", i)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{nodeAnnotation: "fake"},
				Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "type": "kwok"},
			},
			Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources},
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}
	return nil
}

// usable reports whether pods can be created and scheduled.
func (s *supervisor) usable(ctx context.Context, client kubernetes.Interface) bool {
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return false
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	want := s.Nodes
	if s.Spokes > 0 {
		want = 0
	}
	if s.RealNode {
		want++
	}
	if err != nil || len(nodes.Items) < want {
		return false
	}
	for _, n := range nodes.Items {
		if !nodeReady(n) {
			return false
		}
	}
	return true
}

func nodeReady(n corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
