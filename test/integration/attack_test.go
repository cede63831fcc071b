//go:build integration

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
)

// The attacks were written from the documentation alone. Each asserts what docs/security.md promises.

// siege is an installed Lull with a victim, whose work must not suffer, and an attacker who may edit another namespace.
type siege struct {
	t          *testing.T
	controller *exec.Cmd
	watchdog   *exec.Cmd
	database   string
	victim     bed
	tenant     bed
	mallory    client.Client
	waiting    []string // Jobs of the victim
	submitted  int      // how many Jobs the victim has submitted
	contested  bool     // the attacker's work competes for the room of the victim's, as it may
}

// Memory that the chart gives to each program.
const controllerMemory, watchdogMemory = 512 << 20, 256 << 20

func newSiege(t *testing.T) *siege {
	s := &siege{t: t, database: filepath.Join(t.TempDir(), "ledger.db")}
	s.startPrograms()
	s.victim = newStandingBed(t, dirtyThenClean(), nil)
	s.tenant = newStandingBed(t, dirtyThenClean(), nil)
	ctx := context.Background()
	must(t, env.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mallory", Namespace: s.tenant.ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}},
	}))
	config := rest.CopyConfig(env.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "mallory"}
	var err error
	s.mallory, err = client.New(config, client.Options{Scheme: env.client.Scheme()})
	must(t, err)
	s.tenant.eventually("the attacker to have the rights of an editor", func() bool {
		return s.mallory.List(ctx, &v1alpha1.CarbonPolicyList{}, client.InNamespace(s.tenant.ns)) == nil
	})
	// What a flood of Pods does to the cluster is not Lull's: an administrator bounds it.
	must(t, env.client.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods", Namespace: s.tenant.ns}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("200")}},
	}))
	return s
}

func (s *siege) startController(flags ...string) {
	s.controller = startController(s.t, append([]string{"--ledger", s.database}, flags...)...)
}

func (s *siege) startPrograms() {
	s.startController()
	s.startWatchdog()
}

func (s *siege) startWatchdog() {
	s.watchdog = start(s.t, []string{"failsafe", "--kubeconfig", env.failsafe, "--grace", "5s", "--interval", "1s"})
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// attack runs one attack. Meanwhile and afterwards the victim's work is decided as without it, and no program ends.
func (s *siege) attack(name string, do func(t *testing.T)) {
	s.t.Run(name, func(t *testing.T) {
		s.alive(t)
		defer s.retreat(t)
		do(t)
		s.unharmed(t)
	})
	s.contested = false
}

func (s *siege) alive(t *testing.T) {
	t.Helper()
	for _, cmd := range []*exec.Cmd{s.controller, s.watchdog} {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)); err != nil || strings.Contains(string(state), ") Z ") {
			t.Fatalf("%v has ended", cmd.Args[1])
		}
	}
}

// unharmed submits a Job of the victim, which is decided, and waits for the clean hours, as do those before it.
func (s *siege) unharmed(t *testing.T) {
	t.Helper()
	s.submitted++
	name := fmt.Sprintf("victim-%d", s.submitted)
	b := s.victim
	b.t = t
	begun := time.Now()
	b.submit(b.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: "20h"}))
	s.waiting = append(s.waiting, name)
	b.eventually("a decision on a Job of the victim", func() bool { return b.decision(name) != "" })
	s.waiting = slices.DeleteFunc(s.waiting, func(name string) bool { // one that was harmed says nothing of later attacks
		harmed := b.decision(name) != "CleanerLater" || !b.suspended(name)
		if harmed && (!s.contested || b.decision(name) == "PlannerFailed") {
			t.Errorf("%s of the victim: %s, suspended: %v", name, b.get(name).Annotations[v1alpha1.AnnotationDecision], b.suspended(name))
		}
		return harmed
	})
	s.alive(t)
	t.Logf("decided after %v; the controller had %d MiB at most, the watchdog %d MiB", time.Since(begun).Round(10*time.Millisecond), peak(s.controller)>>20, peak(s.watchdog)>>20)
	if m := peak(s.controller); m > controllerMemory {
		t.Errorf("the controller had %d MiB, which the chart does not give it", m>>20)
	}
	if m := peak(s.watchdog); m > watchdogMemory {
		t.Errorf("the watchdog had %d MiB, which the chart does not give it", m>>20)
	}
}

// retreat removes what the attacker made.
func (s *siege) retreat(t *testing.T) {
	ctx := context.Background()
	for _, obj := range []client.Object{&batchv1.CronJob{}, &batchv1.Job{}, &corev1.Pod{}, &v1alpha1.ScalingProfile{}} {
		_ = env.client.DeleteAllOf(ctx, obj, client.InNamespace(s.tenant.ns), client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0))
	}
	b := s.tenant
	b.t = t
	b.eventually("the attacker's work to be gone", func() bool {
		var jobs batchv1.JobList
		var pods corev1.PodList
		must(t, env.client.List(ctx, &jobs, client.InNamespace(s.tenant.ns), client.Limit(50)))
		must(t, env.client.List(ctx, &pods, client.InNamespace(s.tenant.ns), client.Limit(50)))
		for i := range pods.Items { // what is bound to a node that is not there never ends by itself
			_ = env.client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
		}
		return len(jobs.Items)+len(pods.Items) == 0
	})
}

// create makes an object as the attacker, who may do so.
func (s *siege) create(t *testing.T, obj client.Object) {
	t.Helper()
	must(t, s.mallory.Create(context.Background(), obj))
}

// patch merges into an object as the attacker.
func (s *siege) patch(t *testing.T, obj client.Object, patch string) {
	t.Helper()
	must(t, s.mallory.Patch(context.Background(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// peak is the most memory that a process had in use.
func peak(cmd *exec.Cmd) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "VmHWM:"); is {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// ledgerEntry is an entry of the raw export.
type ledgerEntry struct {
	Kind     string          `json:"kind"`
	Key      string          `json:"key"`
	Workload string          `json:"workload"`
	Body     json.RawMessage `json:"body"`
}

// entries exports the ledger, which checks its chain.
func entries(t *testing.T, database string) (file string, out []ledgerEntry) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ledger.jsonl")
	command(t, "ledger", "export", "--database", database, "--entries", "-o", file)
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e ledgerEntry
		must(t, json.Unmarshal(lines.Bytes(), &e))
		out = append(out, e)
	}
	must(t, lines.Err())
	return file, out
}

// count counts entries of a kind of a workload.
func count(all []ledgerEntry, kind string, workload types.UID) (n int) {
	for _, e := range all {
		if e.Kind == kind && e.Workload == string(workload) {
			n++
		}
	}
	return n
}

// audited checks the ledger as an auditor does.
func audited(t *testing.T, database string) []ledgerEntry {
	t.Helper()
	t.Log(command(t, "ledger", "verify", "--database", database))
	file, all := entries(t, database)
	out, err := exec.Command("python3", "../../examples/audit/audit.py", file).CombinedOutput()
	if err != nil {
		t.Errorf("the auditor's program: %v\n%s", err, out)
	}
	return all
}

// annotated is a Job of the attacker.
func (s *siege) annotated(name string, annotations map[string]string) *batchv1.Job {
	j := s.tenant.job(name, map[string]string{v1alpha1.AnnotationMaxDelay: "20h"})
	maps.Copy(j.Annotations, annotations)
	return j
}

// TestAttack: what a tenant, an author of zones, a thief of tokens and kill -9 do to an installed Lull.
func TestAttack(t *testing.T) {
	s := newSiege(t)
	s.unharmed(t)
	s.byTokens()
	s.byNumbers()
	s.byForgery()
	s.byObjects()
	s.byMemory()
	s.byZones()
	// In the clean hours all that the victim submitted runs.
	s.victim.jump(8)
	for _, name := range s.waiting {
		s.victim.eventually(name+" of the victim to be released in the clean hours", func() bool { return !s.victim.suspended(name) })
		if reason := s.victim.decision(name); reason != "CleanNow" && reason != "SavingTooSmall" { // than that of hours that are as clean
			t.Errorf("%s of the victim was released for %s", name, reason)
		}
	}
	s.byKilling()
	audited(t, s.database)
}
