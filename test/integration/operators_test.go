//go:build integration && operators

package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/test/child"
)

// operator is one of the programs that make test-operators builds from source.
type operator struct {
	t    *testing.T
	name string
	dir  string // with its certificates and configuration
	env  []string
}

func newOperator(t *testing.T, name string) operator {
	t.Helper()
	if _, err := os.Stat(os.Getenv("LULL_OPERATORS")); err != nil {
		t.Fatalf("LULL_OPERATORS: %v (run the tests with: make test-operators)", err)
	}
	return operator{t: t, name: name, dir: t.TempDir()}
}

// apply applies manifests of the operator's own module.
func (o operator) apply(module string, files ...string) {
	o.t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = filepath.Join("..", "..", "lab", "operators", o.name)
	out, err := cmd.Output()
	if err != nil {
		o.t.Fatalf("find the module %s: %v", module, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), file))
		must(o.t, err)
		crds := decoded(o.t, string(text))
		o.applyText(string(text))
		for _, crd := range crds {
			bed{t: o.t}.eventually(crd.GetName()+" to be served", func() bool {
				must(o.t, env.client.Get(context.Background(), client.ObjectKeyFromObject(crd), crd))
				conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
				for _, c := range conditions {
					if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
						return true
					}
				}
				return false
			})
		}
	}
}

func (o operator) applyText(text string) {
	o.t.Helper()
	for _, obj := range decoded(o.t, text) {
		if len(obj.Object) == 0 || obj.GetKind() == "" {
			continue
		}
		var err error
		bed{t: o.t}.eventually(obj.GetKind()+" to be accepted", func() bool { // discovery lags behind a new kind
			err = env.client.Apply(context.Background(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("test"), client.ForceOwnership)
			return !meta.IsNoMatchError(err)
		})
		must(o.t, err)
		if obj.GetKind() != "CustomResourceDefinition" { // shared by the tests
			o.t.Cleanup(func() { _ = env.client.Delete(context.Background(), obj) })
		}
	}
}

func (o operator) file(name, text string) string {
	o.t.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(o.dir, name)
	}
	must(o.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(o.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start runs the operator until the end of the test.
func (o operator) start(args ...string) {
	o.t.Helper()
	log, err := os.Create(filepath.Join(o.dir, "log"))
	must(o.t, err)
	cmd := exec.Command(filepath.Join(os.Getenv("LULL_OPERATORS"), o.name), args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+env.kubeconfig, "TMPDIR="+o.temporary()), o.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(o.t, child.Start(cmd))
	o.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if o.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			o.t.Logf("end of the log of %s:\n%s", o.name, text[max(0, len(text)-4000):])
		}
		_ = log.Close()
	})
}

// temporary is the operator's own folder for temporary files, where it may have one.
func (o operator) temporary() string {
	if o.name == "training-operator" {
		return "/tmp" // it looks for its certificates in a folder there, wherever others are
	}
	return o.dir
}

// mounted is where training-operator waits for its certificates, as a kubelet mounts them.
const mounted = "/tmp/k8s-webhook-server/serving-certs"

func namespace(t *testing.T, name string) {
	t.Helper()
	must(t, client.IgnoreAlreadyExists(env.client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}

// certificates writes a serving certificate for the loopback address, and returns its
// authority, base64.
func (o operator) certificates(dir string) string {
	o.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(o.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(o.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	must(o.t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	o.file(filepath.Join(dir, "tls.crt"), string(certificate))
	o.file(filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	return base64.StdEncoding.EncodeToString(certificate)
}

// port is a free one.
func port(t *testing.T) int {
	t.Helper()
	_, text, err := net.SplitHostPort(freeAddress(t))
	must(t, err)
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

const emptyWebhooks = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks: []
`

// jobset runs the JobSet controller with its webhooks, which fill in defaults.
func jobset(t *testing.T) {
	t.Helper()
	o := newOperator(t, "jobset")
	o.apply("sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml")
	ca, hooks := o.certificates("certs"), port(t)
	config := o.file("config.yaml", fmt.Sprintf(`apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "0"}
webhook: {port: %d, host: 127.0.0.1, certDir: %s}
`, hooks, filepath.Join(o.dir, "certs")))
	o.start("--config", config)
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", hooks))
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the webhooks of jobset do not answer: %v", err)
		}
	}
	for kind, path := range map[string]string{"Mutating": "mutate", "Validating": "validate"} {
		o.applyText(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: jobset-%s}
webhooks:
- name: %sjobset.kb.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: "https://127.0.0.1:%d/%s-jobset-x-k8s-io-v1alpha2-jobset", caBundle: %s}
  rules: [{apiGroups: [jobset.x-k8s.io], apiVersions: [v1alpha2], operations: [CREATE, UPDATE], resources: [jobsets]}]
`, kind, path, path[:1], hooks, path, ca))
	}
}

// trainer runs the controller of TrainJobs, and the runtime that the example names.
func trainer(t *testing.T) {
	t.Helper()
	o := newOperator(t, "trainer")
	o.apply("github.com/kubeflow/trainer/v2", "manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml",
		"manifests/base/crds/trainer.kubeflow.org_trainingruntimes.yaml", "manifests/base/crds/trainer.kubeflow.org_clustertrainingruntimes.yaml")
	o.certificates("k8s-webhook-server/serving-certs")
	config := o.file("config.yaml", fmt.Sprintf(`apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
certManagement: {enable: false}
metrics: {bindAddress: "0", secureServing: false}
health: {healthProbeBindAddress: "0"}
webhook: {port: %d, host: 127.0.0.1}
`, port(t)))
	o.start("--config", config)
	// The nodes of the lab end pods whose template says so: the runtime's are the TrainJob's.
	runtime := `apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: auto}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              metadata: {annotations: {lab.lull.dev/runtime: 1h}}
              spec: {containers: [{name: node, image: example.invalid/torch}]}
`
	o.applyText(runtime)
}

func mpi(t *testing.T) {
	t.Helper()
	o := newOperator(t, "mpi-operator")
	o.apply("github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml")
	namespace(t, "mpi-operator")
	// It must not wait for the lease of one that a test before has killed.
	must(t, env.client.DeleteAllOf(context.Background(), &coordinationv1.Lease{}, client.InNamespace("mpi-operator")))
	o.start("-kubeConfig", env.kubeconfig)
}

func training(t *testing.T) {
	t.Helper()
	o := newOperator(t, "training-operator")
	o.apply("github.com/kubeflow/training-operator", "manifests/base/crds/kubeflow.org_pytorchjobs.yaml")
	namespace(t, "kubeflow")
	o.applyText("apiVersion: v1\nkind: Secret\nmetadata: {name: training-operator-webhook-cert, namespace: kubeflow}\n")
	o.applyText(fmt.Sprintf(emptyWebhooks, "validator.training-operator.kubeflow.org"))
	o.certificates(mounted)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(mounted)) })
	o.start("--enable-scheme", "pytorchjob", "--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--webhook-server-port", fmt.Sprint(port(t)))
}

func ray(t *testing.T) {
	t.Helper()
	o := newOperator(t, "kuberay")
	o.apply("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/ray.io_rayclusters.yaml", "config/crd/bases/ray.io_rayjobs.yaml", "config/crd/bases/ray.io_rayservices.yaml")
	o.start("--enable-leader-election=false", "--metrics-addr", "0", "--health-probe-bind-address", "0")
}

// appwrapper runs the AppWrapper controller, without its webhook, which only checks.
func appwrapper(t *testing.T) {
	t.Helper()
	o := newOperator(t, "appwrapper")
	o.apply("github.com/project-codeflare/appwrapper", "config/crd/bases/workload.codeflare.dev_appwrappers.yaml")
	namespace(t, "appwrapper-system")
	o.applyText(`apiVersion: v1
kind: ConfigMap
metadata: {name: appwrapper-operator-config, namespace: appwrapper-system}
data:
  config.yaml: |
    webhooksEnabled: false
    appwrapper: {autopilot: {monitorNodes: false}}
    controllerManager: {metrics: {bindAddress: "0"}, health: {bindAddress: "0"}}
`)
	o.env = []string{"NAMESPACE=appwrapper-system"}
	o.start()
}

// workersRunOn lets the workers run until the operator ends them, as real ones do.
func workersRunOn(group string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "spec", group, "Worker", "template", "metadata", "annotations")
	}
}

func init() { nodes = "6" } // the kinds run at the same time

// TestOperators runs the operators and, beside each other, the examples of their kinds. A
// TrainJob becomes a JobSet, which is part of it and not governed by itself. What Ray itself
// does cannot run here, so a RayJob has no end; its cluster comes, scales and, held, has no
// pods.
func TestOperators(t *testing.T) {
	jobset(t)
	trainer(t)
	mpi(t)
	training(t)
	ray(t)
	appwrapper(t)
	startController(t)
	for _, x := range []asPrinted{
		{page: "jobset", kind: "JobSet", plan: "jobset-simulation"},
		{page: "trainjob", kind: "TrainJob", plan: "trainjob-finetune"},
		{page: "mpijob", kind: "MPIJob", plan: "mpijob-train", change: workersRunOn("mpiReplicaSpecs")},
		{page: "pytorchjob", kind: "PyTorchJob", plan: "pytorchjob-train", change: workersRunOn("pytorchReplicaSpecs")},
		{page: "appwrapper", kind: "AppWrapper", plan: "appwrapper-training"},
		{page: "raycluster", kind: "RayCluster", plan: "raycluster-pool", endless: true, unfinished: true},
		{page: "rayjob", kind: "RayJob", plan: "rayjob-tune", endless: true, unfinished: true},
	} {
		t.Run(x.kind, x.run)
	}
	t.Run("pauses and resumes", pausesAndResumes)
}

// pausesAndResumes: an MPIJob that may pause gives its pods up in the dirty hours
// and has them again after.
func pausesAndResumes(t *testing.T) {
	t.Parallel()
	hourly := slices.Repeat([]float64{100}, 96)
	for h := range 10 {
		hourly[10+h] = 600 // after 40 s of clean hours, in which a slow machine has the time to begin
	}
	b := newBed(t, hourly, noReserve(func(p *v1alpha1.CarbonPolicy) { p.Spec.Kinds = []string{"Job", "MPIJob"} }))
	obj := documented(t, "mpijob")[0]
	obj.SetNamespace(b.ns)
	live(obj.Object, true)
	obj.SetAnnotations(map[string]string{v1alpha1.AnnotationRuntime: "14h", v1alpha1.AnnotationMaxDelay: "40h", v1alpha1.AnnotationInterruptible: "true"})
	kind := kindNamed(t, "MPIJob")
	b.eventually("admission to know the kind", func() bool {
		probe := obj.DeepCopy()
		return env.client.Create(context.Background(), probe, client.DryRunAll) == nil && probe.GetAnnotations()[v1alpha1.AnnotationHold] != ""
	})
	b.beginAgain()
	must(t, env.client.Create(context.Background(), obj))
	pods := func() int {
		var list corev1.PodList
		must(t, env.client.List(context.Background(), &list, client.InNamespace(b.ns), client.MatchingLabels(kind.PodLabels(obj.Object))))
		n := 0
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	var seen bytes.Buffer
	for _, want := range []struct {
		state v1alpha1.PlanState
		pods  bool
	}{{v1alpha1.PlanRunning, true}, {v1alpha1.PlanPaused, false}, {v1alpha1.PlanRunning, true}} {
		b.eventually(string(want.state), func() bool {
			return b.plan("mpijob-train").Status.State == want.state && (pods() > 0) == want.pods
		})
		fmt.Fprintf(&seen, "%s at %s; ", want.state, b.gridTime(time.Now()).Format("15:04"))
	}
	t.Log(seen.String())
}
