package controlloop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/test/simkube"
	"lull.dev/lull/test/size"
)

// absurd are values of annotations that a tenant may write.
var absurd = []string{
	"", "0", "-1", "NaN", "+Inf", "-Inf", "1e400", "-0.0", "1h", "-5m", "8760h", "2562047h47m16.854775807s", "9223372036854775808", "0x1p-1074", "true", "maybe",
	"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "\u202e1h\u0000", "１h", "\xff\xfe", "🦥", "../../etc/passwd", "other/clean", "lull-system/keys", `{"a":{"a":{"a":[[[[[[1]]]]]]}}}`,
	strings.Repeat("[", 10_000), strings.Repeat("9", 5000) + "h", strings.Repeat("a,", 3000), "1,1,1,1", "1:1,2:0,3:-1", "up{} or vector(1e308)", "\n\nx: y", "a\tb",
}

// annotations are all that Lull reads of a workload.
var annotations = []string{
	v1alpha1.AnnotationCapacity, v1alpha1.AnnotationMaxDelay, v1alpha1.AnnotationDeadline, v1alpha1.AnnotationRuntime, v1alpha1.AnnotationInterruptible, v1alpha1.AnnotationMinWorkers, v1alpha1.AnnotationMaxWorkers,
	v1alpha1.AnnotationProfile, v1alpha1.AnnotationProgress, v1alpha1.AnnotationProgressQuery, v1alpha1.AnnotationTandem, v1alpha1.AnnotationFamily, v1alpha1.AnnotationClusters, v1alpha1.AnnotationZones, v1alpha1.AnnotationMigratable,
	v1alpha1.AnnotationTransferKWh, v1alpha1.AnnotationGovernBy, v1alpha1.AnnotationProbe, v1alpha1.AnnotationGroupSize, v1alpha1.AnnotationPolicy, v1alpha1.AnnotationHold, v1alpha1.AnnotationPausedByRelease, v1alpha1.AnnotationDecision,
	v1alpha1.AnnotationLatestStart, v1alpha1.AnnotationStatedStart, v1alpha1.AnnotationRan, v1alpha1.AnnotationChanged, v1alpha1.AnnotationCluster, v1alpha1.AnnotationWorkers, v1alpha1.AnnotationKeep,
}

// TestTenantCannotHarmOthers: a tenant who may create Jobs, Pods, CarbonPolicies and ScalingProfiles in a namespace of its own writes what is absurd into each of
// them, with names as long as they may be, and makes and deletes policies all the time. The Jobs of another namespace, which share the capacity of the cluster with it, start in
// the clean hours, neither program ends, the ledger settles them and its chain holds. No metric keeps a name of the tenant's policies once they are gone.
//
// The tenant delays the others within the clean hours, as it may: Jobs of 17 CPUs have room in plans, which know the sum of the nodes, and on no node. Without the
// tenant, the others start in the first clean hour.
func TestTenantCannotHarmOthers(t *testing.T) {
	for _, attacks := range []bool{false, true} {
		t.Run(fmt.Sprint("attacks=", attacks), func(t *testing.T) { besideTenant(t, attacks) })
	}
}

func besideTenant(t *testing.T, attacks bool) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	inWorld(t, func(w *simkube.World) {
		other := newBed(w, "team", dirtyThenClean(), nil)
		w.Controller(func(o *controller.Options) { o.Ledger = database })
		w.Watchdog()
		other.submit("first", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		x := &attack{World: w, rng: rand.New(rand.NewPCG(1, 5)), zone: other.zone}
		if attacks {
			x.begin(size.Of(40, 2000))
		}
		other.submit("second", map[string]string{v1alpha1.AnnotationMaxDelay: "24h"})
		if attacks {
			x.churn(size.Of(40, 1000))
		}
		w.Until("those of the other to end", func() bool { return other.finished("first", "second") })
		for _, name := range []string{"first", "second"} {
			if !attacks {
				other.starts(name, 8)
				continue
			}
			start := other.get(name).Status.StartTime
			if start == nil || other.gridTime(start.Time).Before(at(8)) || other.gridTime(start.Time).After(at(23)) {
				t.Errorf("%s started at %v, want in the clean hours", name, start)
				continue
			}
			t.Logf("%s started %v after the first clean hour began", name, other.gridTime(start.Time).Sub(at(8)))
		}
		x.end()
		w.Run(2 * time.Minute)
		for _, s := range series(t) {
			if strings.Contains(s["series"], fmt.Sprintf("%q", attacker)) {
				t.Errorf("metrics keep %s", s["series"])
			}
		}
	})
	settledOf(t, database, "team", 2)
}

// settledOf checks the ledger, and that so many Jobs of a namespace are settled.
func settledOf(t *testing.T, database, namespace string, want int) {
	t.Helper()
	if said := lull(t, "ledger", "verify", "--database", database); !strings.Contains(said, "entries") {
		t.Error(said)
	}
	settled := 0
	for line := range strings.Lines(lull(t, "ledger", "export", "--database", database, "--format", "json")) {
		var b struct {
			Namespace string
			GCO2eq    float64
			Withheld  string
		}
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatal(err)
		}
		if b.Namespace == namespace {
			if settled++; b.GCO2eq <= 0 || b.Withheld != "" {
				t.Errorf("settled as %s", line)
			}
		}
	}
	if settled != want {
		t.Errorf("%d Jobs of %s are settled, want %d", settled, namespace, want)
	}
}

const attacker = "attacker"

// attack is a tenant who means harm.
type attack struct {
	*simkube.World
	rng  *rand.Rand
	zone string
	// policies that are there.
	policies []string
	accepted int
}

func (x *attack) one(of ...string) string { return of[x.rng.IntN(len(of))] }

// try creates an object; the API server may refuse it.
func (x *attack) try(o client.Object) {
	o.SetNamespace(attacker)
	if x.Client.Create(x.Context(), o) == nil {
		x.accepted++
	}
}

func (x *attack) policy(name string) {
	if len(x.policies) < 60 {
		x.policies = append(x.policies, name)
	}
	x.try(&v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CarbonPolicySpec{
		Selector: metav1.LabelSelector{}, Zone: x.one(x.zone, x.zone, "nowhere", strings.Repeat("z", 253)), Planner: v1alpha1.PlannerSpec{Name: x.one("", "cheapest", "asap", "carbonscaler")},
		HoldExisting: v1alpha1.HoldExisting(x.one("", "Unstarted")),
	}})
}

// begin writes policies, profiles, Jobs and Pods.
func (x *attack) begin(n int) {
	x.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: attacker}})
	x.policy("clean")
	x.policy(strings.Repeat("p", 253))
	for i := range 20 {
		points := make([]v1alpha1.ScalingPoint, 1+x.rng.IntN(256))
		for k := range points {
			points[k] = v1alpha1.ScalingPoint{Workers: int32(1 + k*x.rng.IntN(400)), Throughput: []float64{1e-300, 1, 1e15, 5e-324}[x.rng.IntN(4)]}
		}
		x.try(&v1alpha1.ScalingProfile{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("profile-", i)}, Spec: v1alpha1.ScalingProfileSpec{Points: points}})
	}
	for i := range n {
		name := fmt.Sprint("job-", i)
		if i%10 == 0 {
			name = strings.Repeat("j", 60) + fmt.Sprintf("%03d", i%1000)
		}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simkube.RunTime: "1h"}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "work", Image: "example.invalid/work",
				// No node has room for it, so as submitted it takes nothing of the other's.
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(x.one("17", "1000", "1e15"))}},
			}}},
		}
		meta := metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}
		for range 1 + x.rng.IntN(6) {
			meta.Annotations[x.one(annotations...)] = x.one(absurd...)
		}
		if i%8 == 7 {
			x.try(&corev1.Pod{ObjectMeta: meta, Spec: template.Spec})
			continue
		}
		parallel := []int32{0, 1, 3, 2147483647}[x.rng.IntN(4)]
		job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}
		if parallel < 10 { // the simulated cluster makes each pod
			job.Spec.Parallelism, job.Spec.Completions = &parallel, &parallel
		}
		x.try(job)
	}
	if x.accepted < n/4 {
		x.Violate("the API server took only %d objects of the tenant", x.accepted)
	}
}

// churn makes and deletes policies, some seconds apart.
func (x *attack) churn(n int) {
	x.Go(func() {
		for i := 0; i < n && x.Sleep(3*time.Second); i++ {
			x.policy(fmt.Sprint("churn-", i))
			if i >= 5 {
				_ = x.Client.Delete(x.Context(), &v1alpha1.CarbonPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: fmt.Sprint("churn-", i-5)}})
			}
		}
	})
}

// end deletes what the tenant has.
func (x *attack) end() {
	var list v1alpha1.CarbonPolicyList
	_ = x.Client.List(x.Context(), &list, client.InNamespace(attacker))
	for i := range list.Items {
		_ = x.Client.Delete(x.Context(), &list.Items[i])
	}
}
