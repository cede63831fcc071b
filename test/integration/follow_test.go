//go:build integration && fleet

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

// secretCluster makes a ComputeCluster that is reached by a Secret, with a zone of its own.
func (b bed) secretCluster(dir, name string, hourly []float64, change func(*v1alpha1.ComputeCluster)) {
	b.t.Helper()
	ctx := context.Background()
	b.zoneBeside(b.ns+"-"+name, hourly)
	cc := &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-" + name}, Spec: v1alpha1.ComputeClusterSpec{
		Zone: b.ns + "-" + name, Access: v1alpha1.ClusterAccess{Secret: &v1alpha1.SecretKey{Name: b.ns + "-" + name, Key: "kubeconfig"}},
		Refresh: &metav1.Duration{Duration: time.Second}, StaleAfter: &metav1.Duration{Duration: patience}, // none is lost here, nor is on a slow machine
		Follow: &v1alpha1.FollowAccess{Namespaces: []string{b.ns}},
	}}
	if change == nil {
		b.accessSecret(dir, name)
	} else {
		change(cc)
	}
	must(b.t, env.client.Create(ctx, cc))
	b.t.Cleanup(func() { _ = env.client.Delete(ctx, cc) })
}

// followAccounts makes the bed's namespace on each spoke, and there the account as which services are placed.
func (b bed) followAccounts(at map[string]client.Client) {
	b.t.Helper()
	account := metav1.ObjectMeta{Namespace: b.ns, Name: v1alpha1.DefaultFollowAccount}
	for _, c := range at {
		for _, obj := range []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.ns}},
			&corev1.ServiceAccount{ObjectMeta: account},
			&rbacv1.RoleBinding{
				ObjectMeta: account, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.ns, Name: account.Name}},
			},
		} {
			must(b.t, c.Create(context.Background(), obj))
		}
	}
}

// turn makes one cluster clean and then the others dirty, so that a service has a reason to follow. Intensities that change with
// the clock would give it a few seconds for that.
func (b bed) turn(clean string, dirty ...string) {
	b.t.Helper()
	zone := func(cluster, zone string) {
		cc := &v1alpha1.ComputeCluster{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-" + cluster}}
		patch := fmt.Sprintf(`{"spec":{"zone":"%s-%s"}}`, b.ns, zone)
		must(b.t, env.client.Patch(context.Background(), cc, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	zone(clean, "clean")
	for _, name := range dirty {
		zone(name, "dirty")
	}
}

// cordon sets whether the nodes of a cluster take no new pods.
func cordon(t *testing.T, c client.Client, is bool) {
	t.Helper()
	var nodes corev1.NodeList
	must(t, c.List(context.Background(), &nodes))
	for i := range nodes.Items {
		must(t, c.Patch(context.Background(), &nodes.Items[i], client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, is))))
	}
}

// accessSecret holds the kubeconfig of a spoke for a ComputeCluster.
func (b bed) accessSecret(dir, spoke string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "spokes", spoke, "kubeconfig"))
	must(b.t, err)
	must(b.t, env.client.Create(context.Background(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lull-system", Name: b.ns + "-" + spoke}, Data: map[string][]byte{"kubeconfig": text},
	}))
}

// service is a Follow of a Deployment with its configuration and its Service.
func (b bed) service(clusters ...string) *v1alpha1.Follow {
	b.t.Helper()
	for i := range clusters {
		clusters[i] = b.ns + "-" + clusters[i]
	}
	two := int32(2)
	labels := map[string]string{"app": "api"}
	raw := func(obj client.Object) runtime.RawExtension { return runtime.RawExtension{Object: obj} }
	return &v1alpha1.Follow{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "api"},
		Spec: v1alpha1.FollowSpec{
			Clusters: clusters,
			Manifests: []runtime.RawExtension{
				raw(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a": "1"}}),
				raw(&appsv1.Deployment{
					TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: "api"},
					Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{
							Name: "api", Image: "example.invalid/api", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
						}}},
					}},
				}),
				raw(&corev1.Service{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "api"},
					Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
				}),
			},
			Threshold: 0.05, Patience: &metav1.Duration{Duration: patience},
		},
	}
}

func (b bed) follow() *v1alpha1.Follow {
	b.t.Helper()
	var f v1alpha1.Follow
	must(b.t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "api"}, &f))
	return &f
}

// change changes the service.
func (b bed) change(change func(*v1alpha1.Follow)) {
	b.t.Helper()
	f := b.follow()
	before := f.DeepCopy()
	change(f)
	must(b.t, env.client.Patch(context.Background(), f, client.MergeFrom(before)))
}

// onCluster says whether the service is settled on a cluster and nothing of it is elsewhere.
func (b bed) onCluster(name string) bool {
	s := b.follow().Status
	return s.Cluster == b.ns+"-"+name && s.State == v1alpha1.FollowSettled && len(s.Placements) == 1 && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady)
}

// watchReplicas counts, until the end of the test, the moments at which no replica was ready anywhere.
func (b bed) watchReplicas(at map[string]client.Client) (without func() int) {
	nowhere := func() bool {
		ready := int32(0)
		for _, c := range at {
			var d appsv1.Deployment
			switch err := c.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "api"}, &d); {
			case err == nil:
				ready += d.Status.AvailableReplicas
			case !apierrors.IsNotFound(err):
				return false // not known
			}
		}
		return ready == 0
	}
	done, none := make(chan struct{}), make(chan int, 1)
	go func() {
		count := 0
		for {
			select {
			case <-done:
				none <- count
				return
			case <-time.After(30 * time.Millisecond):
			}
			// The first reading may begin before the new place is ready and end after the old one is gone; the second begins then.
			if nowhere() {
				if nowhere() {
					count++
				}
			}
		}
	}()
	return func() int { close(done); return <-none }
}

// servicesFollow: services on a hub with three spokes.
func servicesFollow(t *testing.T, dir string, at map[string]client.Client) {
	hooks := t.TempDir()
	log := filepath.Join(hooks, "log")
	must(t, os.WriteFile(filepath.Join(hooks, "make-cluster"), []byte("#!/bin/sh\necho \"$1 $2 $LULL_CLUSTER\" >>"+log+"\n"), 0o700))
	must(t, os.WriteFile(filepath.Join(hooks, "fails"), []byte("#!/bin/sh\necho no room >&2\nexit 3\n"), 0o700))
	ctx := context.Background()
	controller := startController(t, "--provision-hooks", hooks)
	restart := func() {
		must(t, controller.Process.Kill())
		controller = startController(t, "--provision-hooks", hooks)
	}
	steady := func(v float64) []float64 { return slices.Repeat([]float64{v}, 96) }
	// turning is a bed with zones for turn.
	turning := func(t *testing.T) bed {
		b := newBed(t, steady(500), nil)
		b.followAccounts(at)
		b.zoneBeside(b.ns+"-clean", steady(100))
		b.zoneBeside(b.ns+"-dirty", steady(400))
		return b
	}

	t.Run("make before break", func(t *testing.T) {
		b := turning(t)
		b.secretCluster(dir, "spoke-1", steady(100), nil)
		b.secretCluster(dir, "spoke-2", steady(400), nil)
		b.secretCluster(dir, "spoke-3", steady(400), nil)
		f := b.service("spoke-1", "spoke-2", "spoke-3")
		must(t, env.client.Create(ctx, f))
		b.eventually("it to be on the first", func() bool { return b.onCluster("spoke-1") })
		without := b.watchReplicas(at)
		b.turn("spoke-2", "spoke-1")
		b.eventually("it to follow to the second", func() bool { return b.onCluster("spoke-2") })
		// A controller that is killed in the midst of a move is followed by one that ends it. The move waits for a node.
		cordon(t, at["spoke-3"], true)
		t.Cleanup(func() { cordon(t, at["spoke-3"], false) })
		b.turn("spoke-3", "spoke-2")
		b.eventually("the next move", func() bool {
			s := b.follow().Status
			return s.Next == b.ns+"-spoke-3" && s.State == v1alpha1.FollowWaiting
		})
		restart()
		cordon(t, at["spoke-3"], false)
		b.eventually("it to follow to the third", func() bool { return b.onCluster("spoke-3") })
		b.turn("spoke-1", "spoke-3")
		b.eventually("it to come back to the first", func() bool { return b.onCluster("spoke-1") })
		// What is specified anew is applied where it is; what is left out goes.
		b.change(func(f *v1alpha1.Follow) { f.Spec.Manifests = f.Spec.Manifests[1:] })
		b.eventually("the configuration to go", func() bool {
			return client.IgnoreNotFound(at["spoke-1"].Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "settings"}, &corev1.ConfigMap{})) == nil &&
				at["spoke-1"].Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "settings"}, &corev1.ConfigMap{}) != nil
		})
		if n := without(); n > 0 {
			t.Errorf("no replica was ready at %d moments", n)
		}
		if moves := b.follow().Status.Moves; moves != 3 {
			t.Errorf("%d moves, want 3", moves)
		}
		must(t, env.client.Delete(ctx, f))
		b.eventually("it to leave no object behind", func() bool {
			left := 0
			for _, c := range at {
				var ds appsv1.DeploymentList
				must(t, c.List(ctx, &ds, client.InNamespace(b.ns)))
				var services corev1.ServiceList
				must(t, c.List(ctx, &services, client.InNamespace(b.ns)))
				left += len(ds.Items) + len(services.Items)
			}
			return left == 0 && client.IgnoreNotFound(env.client.Get(ctx, client.ObjectKeyFromObject(f), f)) == nil && env.client.Get(ctx, client.ObjectKeyFromObject(f), f) != nil
		})
	})

	t.Run("stays where it can be", func(t *testing.T) {
		b := newBed(t, steady(500), nil)
		b.secretCluster(dir, "spoke-1", steady(300), nil)
		b.secretCluster(dir, "spoke-2", steady(100), nil)
		b.secretCluster(dir, "spoke-3", steady(200), nil)
		// The second takes no pods of its size; on the third somebody else has a Service of its name.
		small := resource.MustParse("100m")
		b.followAccounts(at)
		must(t, at["spoke-2"].Create(ctx, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "small"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: small}},
		}}}))
		others := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "api"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 81}}}}
		must(t, at["spoke-3"].Create(ctx, others))
		// At first only those two, which it need not be patient with; then the one that takes it.
		f := b.service("spoke-1", "spoke-2", "spoke-3")
		all := f.Spec.Clusters
		f.Spec.Clusters, f.Spec.Patience, f.Spec.Dwell = all[1:], &metav1.Duration{Duration: 3 * time.Second}, &metav1.Duration{Duration: 1000 * time.Hour}
		must(t, env.client.Create(ctx, f))
		b.eventually("both to be refused", func() bool { return len(b.follow().Status.Refused) == 2 })
		b.change(func(f *v1alpha1.Follow) { f.Spec.Clusters, f.Spec.Patience = all, &metav1.Duration{Duration: patience} })
		b.eventually("it to be on the first", func() bool { return b.onCluster("spoke-1") })
		s := b.follow().Status
		if len(s.Refused) != 2 || !strings.Contains(s.Refused[0].Message, "not ready in time") || !strings.Contains(s.Refused[1].Message, "Service api: it exists already, and Lull did not create it") {
			t.Errorf("refused: %+v", s.Refused)
		}
		must(t, at["spoke-3"].Get(ctx, client.ObjectKeyFromObject(others), others))
		if others.Spec.Ports[0].Port != 81 || len(others.Annotations) != 0 {
			t.Errorf("the Service of somebody else is now %+v", others)
		}
		for _, name := range []string{"spoke-2", "spoke-3"} {
			var d appsv1.DeploymentList
			must(t, at[name].List(ctx, &d, client.InNamespace(b.ns)))
			if len(d.Items) > 0 {
				t.Errorf("%s still has the Deployment", name)
			}
		}
	})

	t.Run("provisioned by a hook", func(t *testing.T) {
		b := turning(t)
		b.secretCluster(dir, "spoke-1", steady(100), nil)
		b.secretCluster(dir, "spoke-2", steady(400), func(cc *v1alpha1.ComputeCluster) {
			cc.Spec.Provision = &v1alpha1.ProvisionSpec{Hook: "make-cluster", Keep: &metav1.Duration{Duration: 2 * time.Second}}
		})
		b.secretCluster(dir, "spoke-3", steady(50), func(cc *v1alpha1.ComputeCluster) {
			cc.Spec.Provision = &v1alpha1.ProvisionSpec{Hook: "fails"}
		})
		// It waits for the third until the provisioning has failed, and then has no more patience with it.
		f := b.service("spoke-1", "spoke-2", "spoke-3")
		f.Spec.Dwell = &metav1.Duration{Duration: 1000 * time.Hour}
		must(t, env.client.Create(ctx, f))
		b.eventually("the provisioning that fails to say why", func() bool { // as long as it is wanted
			var failed v1alpha1.ComputeCluster
			must(t, env.client.Get(ctx, client.ObjectKey{Name: b.ns + "-spoke-3"}, &failed))
			return failed.Status.Provision != nil && strings.Contains(failed.Status.Provision.Message, "no room")
		})
		b.change(func(f *v1alpha1.Follow) {
			f.Spec.Clusters, f.Spec.Patience = f.Spec.Clusters[2:], &metav1.Duration{Duration: time.Second}
		})
		b.eventually("the third to be left", func() bool {
			r := b.follow().Status.Refused
			return len(r) == 1 && r[0].Cluster == b.ns+"-spoke-3"
		})
		b.change(func(g *v1alpha1.Follow) {
			g.Spec.Clusters, g.Spec.Patience, g.Spec.Dwell = f.Spec.Clusters, &metav1.Duration{Duration: patience}, &metav1.Duration{Duration: 2 * time.Hour}
		})
		b.eventually("it to be on the first", func() bool { return b.onCluster("spoke-1") })
		b.change(func(f *v1alpha1.Follow) { f.Spec.Clusters = f.Spec.Clusters[:2] })
		b.turn("spoke-2", "spoke-1")
		called := func(verb string) bool {
			text, _ := os.ReadFile(log)
			return strings.Contains(string(text), verb+" "+b.ns+"-spoke-2 "+b.ns+"-spoke-2\n")
		}
		b.eventually("the second to be made", func() bool { return called("create") })
		b.accessSecret(dir, "spoke-2") // as the program would
		b.eventually("it to be on the second", func() bool { return b.onCluster("spoke-2") })
		if called("delete") {
			t.Error("it is removed while the service is there")
		}
		b.turn("spoke-1", "spoke-2")
		b.eventually("it to be on the first again", func() bool { return b.onCluster("spoke-1") })
		b.eventually("the second to be removed", func() bool { return called("delete") })
	})

	t.Run("provisioned by Cluster API", func(t *testing.T) {
		// Its real custom resource; what its controllers and a provider of infrastructure do is done here.
		clusterAPI(t)
		b := turning(t)
		raw := fmt.Sprintf(`{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "%s"}, "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}}}}`, b.ns)
		b.secretCluster(dir, "spoke-1", steady(100), nil)
		b.secretCluster(dir, "spoke-2", steady(400), func(cc *v1alpha1.ComputeCluster) {
			cc.Spec.Provision = &v1alpha1.ProvisionSpec{
				ClusterAPI: &v1alpha1.ClusterAPISpec{Manifests: []runtime.RawExtension{{Raw: []byte(raw)}}}, Keep: &metav1.Duration{},
			}
		})
		f := b.service("spoke-1", "spoke-2")
		must(t, env.client.Create(ctx, f))
		b.eventually("it to be on the first", func() bool { return b.onCluster("spoke-1") })
		made := &unstructured.Unstructured{}
		made.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		made.SetKind("Cluster")
		there := func() bool {
			return env.client.Get(ctx, client.ObjectKey{Namespace: "lull-system", Name: b.ns}, made) == nil && made.GetDeletionTimestamp() == nil
		}
		b.turn("spoke-2", "spoke-1")
		b.eventually("the Cluster to be made", there)
		b.accessSecret(dir, "spoke-2")
		must(t, unstructured.SetNestedSlice(made.Object, []any{map[string]any{
			"type": "Available", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}, "status", "conditions"))
		must(t, env.client.Status().Update(ctx, made))
		b.eventually("it to be on the second", func() bool { return b.onCluster("spoke-2") })
		if !there() {
			t.Error("the Cluster is removed while the service is there")
		}
		b.turn("spoke-1", "spoke-2")
		b.eventually("it to be on the first again", func() bool { return b.onCluster("spoke-1") })
		b.eventually("the Cluster to be deleted", func() bool { return !there() })
	})
}

// clusterAPI installs the custom resource of Cluster API's Clusters, and gives Lull's controller the right to them.
func clusterAPI(t *testing.T) {
	t.Helper()
	fetch := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/cluster-api") // nothing is built of it
	fetch.Dir = filepath.Join("..", "..", "lab", "operators", "cluster-api")
	out, err := fetch.Output()
	must(t, err)
	var module struct{ Dir string }
	must(t, json.Unmarshal(out, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "config", "crd", "bases", "cluster.x-k8s.io_clusters.yaml"))
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal(text, &crd.Object))
	ctx := context.Background()
	must(t, env.client.Create(ctx, crd))
	meta := metav1.ObjectMeta{Namespace: "lull-system", Name: "lull-cluster-api"}
	must(t, env.client.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"get", "create", "patch", "delete"},
	}}}))
	must(t, env.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "lull-system", Name: "lull-controller"}},
	}))
	bed{t: t}.eventually("Clusters to be served", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("cluster.x-k8s.io/v1beta2")
		list.SetKind("ClusterList")
		return env.client.List(ctx, list) == nil
	})
}
