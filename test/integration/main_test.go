//go:build integration

// Package integration tests Lull against a real API server, scheduler and Job
// controller: those of the lab. make test builds what it needs and sets LULL_LAB
// and LULL_BIN.
package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/charts"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
	"lull.dev/lull/internal/studies/demo"
	"lull.dev/lull/test/child"
)

// factor is how fast the tests' zones replay: an hour in four seconds.
const factor = 900

// patience bounds each wait for a state: generous, for slow machines. Only a test that fails waits that long.
const patience = 4 * time.Minute

// nodes of the lab, of 16 CPUs each.
var nodes = "2"

// env is the one lab that the tests share; each test has its own namespace and
// zone.
var env struct {
	dir        string
	kubeconfig string // the administrator's
	restricted string // the controller's own service account's
	failsafe   string // the watchdog's
	extender   string
	web        string
	admission  string
	client     client.Client
	config     *rest.Config
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	for _, name := range []string{"LULL_LAB", "LULL_BIN"} {
		if _, err := os.Stat(os.Getenv(name)); err != nil {
			return 1, fmt.Errorf("%s: %w (run the tests with: make test)", name, err)
		}
	}
	dir, err := os.MkdirTemp("", "lull-test-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	env.dir = dir
	down, err := bootLab(filepath.Join(dir, "lab"))
	if err != nil {
		return 1, err
	}
	defer down()
	end, err := connect(false)
	if err != nil {
		return 1, err
	}
	defer end()
	return m.Run(), nil
}

// bootLab starts a lab of this process and returns what ends it.
func bootLab(labDir string, flags ...string) (down func(), err error) {
	var log bytes.Buffer
	up := exec.Command(os.Getenv("LULL_LAB"), append([]string{"up", "--foreground", "--dir", labDir, "--nodes", nodes, "--cpu", "16", "--time-factor", fmt.Sprint(factor)}, append(olderFlags(), flags...)...)...)
	up.Stdout, up.Stderr = &log, &log
	up.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := child.Start(up); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	end := func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = up.Process.Kill()
			<-ended
			fmt.Fprintf(os.Stderr, "integration: the lab did not end within %v of SIGTERM, and was killed; it wrote:\n%s\n", patience, log.String())
		}
	}
	late := time.After(2 * patience)
	for {
		status, err := exec.Command(os.Getenv("LULL_LAB"), "status", "--dir", labDir).CombinedOutput()
		if err == nil {
			break
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("lab up: %w\n%s", err, log.String())
		case <-late:
			end()
			return nil, fmt.Errorf("lab up: the control plane was not ready after %v: lab status says: %w: %s\nlab up wrote:\n%s", 2*patience, err, status, log.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	env.kubeconfig = filepath.Join(labDir, "kubeconfig")
	return end, nil
}

// dial makes the client of the lab.
func dial() error {
	config, err := clientcmd.BuildConfigFromFlags("", env.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	env.config = config
	scheme, err := controller.NewScheme()
	if err != nil {
		return err
	}
	env.client, err = client.New(config, client.Options{Scheme: scheme})
	return err
}

// connect installs Lull and makes a kubeconfig with the rights of the
// controller's service account and no others. Where the API server has no admission policies, lull admission runs until end is called.
func connect(withKueue bool) (end func(), err error) {
	if err := dial(); err != nil {
		return nil, err
	}
	ctx, config := context.Background(), env.config
	if err := demo.Install(ctx, env.client, kinds.Builtin(), charts.Options{Kueue: withKueue, Extender: true, Capacity: true, Web: true, Webhook: older() != ""}); err != nil {
		return nil, err
	}
	if err := env.client.Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}); err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	env.restricted = filepath.Join(env.dir, "controller-kubeconfig")
	if err := restrict(ctx, config, clientset, "lull-controller", env.restricted); err != nil {
		return nil, err
	}
	env.failsafe = filepath.Join(env.dir, "failsafe-kubeconfig")
	if err := restrict(ctx, config, clientset, "lull-failsafe", env.failsafe); err != nil {
		return nil, err
	}
	// "lull serve" by itself has the rights that the controller has for it, and no others.
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "lull-web", Namespace: charts.Namespace}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "lull-web-test"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "lull-web"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "lull-web", Namespace: charts.Namespace}},
		},
	} {
		if err := env.client.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	env.web = filepath.Join(env.dir, "web-kubeconfig")
	if err := restrict(ctx, config, clientset, "lull-web", env.web); err != nil {
		return nil, err
	}
	env.extender = filepath.Join(env.dir, "extender-kubeconfig")
	if err := restrict(ctx, config, clientset, "lull-extender", env.extender); err != nil || older() == "" {
		return func() {}, err
	}
	env.admission = filepath.Join(env.dir, "admission-kubeconfig")
	if err := restrict(ctx, config, clientset, "lull-admission", env.admission); err != nil {
		return nil, err
	}
	// Crunch is the kind of TestAnyOtherKind; until it is taught, nobody knows it.
	return runAdmission("--kinds", "Crunch", "--nominations="+strconv.FormatBool(withKueue))
}

// restrict writes a kubeconfig with the rights of a service account.
func restrict(ctx context.Context, config *rest.Config, clientset kubernetes.Interface, account, file string) error {
	token, err := clientset.CoreV1().ServiceAccounts("lull-system").CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	restricted := clientcmdapi.NewConfig()
	restricted.Clusters["lab"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	restricted.AuthInfos["lull"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	restricted.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lull"}
	restricted.CurrentContext = "lab"
	return clientcmd.WriteToFile(*restricted, file)
}

// startController runs the real binary with the rights of its service account.
func startController(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	return start(t, append([]string{"controller", "--kubeconfig", env.restricted}, flags...))
}

// start runs a process of Lull until the end of the test, without a lease of its own unless
// the flags say otherwise.
func start(t *testing.T, args []string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), args[0]+".log"))
	if err != nil {
		t.Fatal(err)
	}
	common := []string{args[0], "--metrics-bind-address", "0", "--health-probe-bind-address", "0"}
	if args[0] != "extender" && args[0] != "admission" { // which have no leader
		common = append(common, "--leader-elect=false")
	}
	args = append(common, args[1:]...)
	cmd := exec.Command(os.Getenv("LULL_BIN"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			if len(text) > 6000 {
				text = text[len(text)-6000:]
			}
			t.Logf("end of the log of %s:\n%s", args[0], text)
		}
		_ = log.Close()
	})
	return cmd
}

// bed is a namespace with a zone and a policy of its own.
type bed struct {
	t    *testing.T
	ns   string
	zone string
}

// noReserve completes a policy of tests that fill their cluster: its planner keeps no reserve, which a default
// policy learns and begins with half of the cluster.
func noReserve(change func(*v1alpha1.CarbonPolicy)) func(*v1alpha1.CarbonPolicy) {
	return func(p *v1alpha1.CarbonPolicy) {
		if change != nil {
			change(p)
		}
		switch p.Spec.Planner.Name {
		case "":
			p.Spec.Planner = v1alpha1.PlannerSpec{Name: "cheapest"}
		case "joint":
			p.Spec.Planner.Parameters = map[string]string{"reserve": "0"}
		}
	}
}

// newBed makes a zone that starts now at hour 0 of a series of the given hourly
// intensities (repeated for four days), and a policy for Jobs labelled
// team=batch.
func newBed(t *testing.T, hourly []float64, change func(*v1alpha1.CarbonPolicy)) bed {
	t.Helper()
	return newBedAt(t, factor, hourly, change)
}

// newStandingBed makes a bed whose series stands at hour 0: an hour of it takes an hour, and no test takes as long. The
// series moves by jump only, so that a slow machine has the time it needs before each state.
func newStandingBed(t *testing.T, hourly []float64, change func(*v1alpha1.CarbonPolicy)) bed {
	t.Helper()
	return newBedAt(t, 1, hourly, change)
}

// newBedAt makes a bed whose series passes so many times as fast as the wall clock.
func newBedAt(t *testing.T, factor int64, hourly []float64, change func(*v1alpha1.CarbonPolicy)) bed {
	t.Helper()
	b := newPolicyBed(t, hourly, change)
	b.governed()
	b.startZone(factor)
	return b
}

// newPolicyBed makes a bed with a policy, whose zone is not there yet.
func newPolicyBed(t *testing.T, hourly []float64, change func(*v1alpha1.CarbonPolicy)) bed {
	t.Helper()
	ctx := context.Background()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	must(t, env.client.Create(ctx, ns))
	b := bed{t: t, ns: ns.Name, zone: ns.Name}
	csv := "time,intensity_gco2eq_per_kwh\n"
	for h := range 96 {
		csv += fmt.Sprintf("%s,%g\n", gridStart.Add(time.Duration(h)*time.Hour).Format(time.RFC3339), hourly[h%len(hourly)])
	}
	must(t, env.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "series", Namespace: b.ns}, Data: map[string]string{"s.csv": csv}}))
	policy := &v1alpha1.CarbonPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "clean", Namespace: b.ns},
		Spec: v1alpha1.CarbonPolicySpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "batch"}}, Zone: b.zone,
			CriticalPriorityClasses: []string{"urgent"},
			// Two hours of the series are eight seconds: room for a slow machine.
			StartMargin: &metav1.Duration{Duration: 2 * time.Hour},
		},
	}
	if change != nil {
		change(policy)
	}
	must(t, env.client.Create(ctx, policy))
	t.Cleanup(func() {
		_ = env.client.Delete(ctx, ns)
		_ = env.client.Delete(ctx, &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}})
	})
	return b
}

// governed waits until Lull holds what is created.
func (b bed) governed() {
	b.t.Helper()
	ctx := context.Background()
	b.eventually("the namespace to accept pods and the policy to be known to admission", func() bool {
		if env.client.Get(ctx, client.ObjectKey{Namespace: b.ns, Name: "default"}, &corev1.ServiceAccount{}) != nil {
			return false
		}
		probe := b.job("probe", nil)
		return env.client.Create(ctx, probe, client.DryRunAll) == nil && probe.Annotations[v1alpha1.AnnotationPolicy] != ""
	})
}

// startZone makes the zone of a bed. Its series begins now, and passes so many times as fast as the wall clock.
func (b bed) startZone(factor int64) {
	b.t.Helper()
	must(b.t, env.client.Create(context.Background(), &v1alpha1.GridZone{
		ObjectMeta: metav1.ObjectMeta{Name: b.zone},
		Spec: v1alpha1.GridZoneSpec{
			Zone:   "TEST",
			Source: v1alpha1.GridZoneSource{ConfigMap: &v1alpha1.ConfigMapKey{Namespace: b.ns, Name: "series", Key: "s.csv"}},
			Replay: &v1alpha1.Replay{Start: metav1.NewTime(gridStart), Factor: factor},
		},
	}))
}

// gridStart is hour 0 of every test's series.
var gridStart = time.Date(2023, 5, 10, 0, 0, 0, 0, time.UTC)

// job is a Job of one hour (four seconds) that the policy governs.
func (b bed) job(name string, annotations map[string]string) *batchv1.Job {
	no := int32(0)
	a := map[string]string{v1alpha1.AnnotationRuntime: "1h"}
	for k, v := range annotations {
		a[k] = v
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.ns, Labels: map[string]string{"team": "batch"}, Annotations: a},
		Spec: batchv1.JobSpec{BackoffLimit: &no, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"lab.lull.dev/runtime": "1h"}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "work", Image: "example.invalid/work",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}}},
		}},
	}
}

func (b bed) submit(job *batchv1.Job) {
	b.t.Helper()
	must(b.t, env.client.Create(context.Background(), job))
}

func (b bed) get(name string) *batchv1.Job {
	b.t.Helper()
	var j batchv1.Job
	must(b.t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: name}, &j))
	return &j
}

func (b bed) suspended(name string) bool {
	s := b.get(name).Spec.Suspend
	return s != nil && *s
}

func (b bed) finished(name string) bool {
	for _, c := range b.get(name).Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// decision is the reason code of the last decision on a Job, "" when none.
func (b bed) decision(name string) string {
	var r struct {
		Reason string `json:"reason"`
	}
	text, ok := b.get(name).Annotations[v1alpha1.AnnotationDecision]
	if ok {
		must(b.t, json.Unmarshal([]byte(text), &r))
	}
	return r.Reason
}

// gridTime converts a wall time to the time of the bed's series.
func (b bed) gridTime(wall time.Time) time.Time {
	var zone v1alpha1.GridZone
	must(b.t, env.client.Get(context.Background(), client.ObjectKey{Name: b.zone}, &zone))
	begins := zone.CreationTimestamp
	if zone.Spec.Replay.Epoch != nil {
		begins = *zone.Spec.Replay.Epoch
	}
	return zone.Spec.Replay.Start.Add(wall.Sub(begins.Time) * time.Duration(zone.Spec.Replay.Factor))
}

// jump sets the series of a standing bed to an hour.
func (b bed) jump(hour int) {
	b.t.Helper()
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}}
	patch := fmt.Sprintf(`{"spec":{"replay":{"start":%q,"epoch":%q}}}`, gridStart.Add(time.Duration(hour)*time.Hour).Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	must(b.t, env.client.Patch(context.Background(), zone, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// beginAgain lets the bed's series begin now, where what came before took a while.
func (b bed) beginAgain() {
	b.t.Helper()
	zone := &v1alpha1.GridZone{ObjectMeta: metav1.ObjectMeta{Name: b.zone}}
	patch := fmt.Sprintf(`{"spec":{"replay":{"epoch":%q}}}`, time.Now().UTC().Format(time.RFC3339))
	must(b.t, env.client.Patch(context.Background(), zone, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// dirtyLong is dirty for eighty hours, more than five minutes: longer than any wait of these tests. What may be delayed for longer waits for the clean hours.
func dirtyLong() []float64 {
	out := slices.Repeat([]float64{500}, 96)
	for h := range out[80:] {
		out[80+h] = 100
	}
	return out
}

// eventually polls until done, for as long as patience.
func (b bed) eventually(what string, done func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	var told eventsv1.EventList
	_ = env.client.List(context.Background(), &told, client.InNamespace(b.ns))
	for _, e := range told.Items {
		if e.ReportingController == "lull" {
			b.t.Logf("%s %s %s: %s", e.EventTime.Format("15:04:05"), e.Regarding.Name, e.Reason, e.Note)
		}
	}
	var plans v1alpha1.CarbonPlanList
	_ = env.client.List(context.Background(), &plans, client.InNamespace(b.ns))
	for i := range plans.Items {
		text, _ := json.Marshal(plans.Items[i].Status)
		b.t.Logf("%s: %s", plans.Items[i].Name, text)
	}
	b.t.Fatalf("gave up waiting for %s", what)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
