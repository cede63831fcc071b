//go:build integration && realnode

package integration

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
)

const workerImage = "lull.dev/worker:test"

// realNodeFlags are those of a lab with one real node and no others, for the images of these variables.
// The test is skipped where the machine cannot have one.
func realNodeFlags(t *testing.T, images map[string]string) []string {
	t.Helper()
	flags := []string{"--nodes", "0", "--real-node"}
	for name, variable := range images {
		if _, err := os.Stat(os.Getenv(variable)); err != nil {
			t.Fatalf("%s: %v (run the test with: make test-realnode)", variable, err)
		}
		flags = append(flags, "--image", name+"="+os.Getenv(variable))
	}
	if out, err := lab("up", "--dir", filepath.Join(t.TempDir(), "probe"), "--real-node", "--dry-run"); err != nil {
		t.Skipf("this machine cannot have a real node: %s", out)
	}
	return flags
}

// tellOfNode logs what a node said last, where the test has failed.
func tellOfNode(t *testing.T, dir string) {
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "logs", "node.log"))
			t.Logf("end of the node's log:\n%s", text[max(0, len(text)-8000):])
		}
	})
}

// realNodeLab gives the test a lab with one real node and no others.
func realNodeLab(t *testing.T) (kubelet func(path string) []byte) {
	t.Helper()
	dir := ownLab(t, realNodeFlags(t, map[string]string{workerImage: "LULL_WORKER"})...)
	tellOfNode(t, dir)
	var state struct {
		Kubelet string `json:"kubelet"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "state.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &state))
	pair, err := tls.X509KeyPair(env.config.CertData, env.config.KeyData)
	must(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
	return func(path string) []byte {
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Get(state.Kubelet + path)
		must(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must(t, err)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("kubelet %s: %s %s", path, res.Status, body)
		}
		return body
	}
}

// workerJob runs parts of real work on the real node, half a CPU each; its checkpoints
// outlive its pods.
func (b bed) workerJob(name string, parts int32, steps int, annotations map[string]string) *batchv1.Job {
	j := b.elasticJob(name, parts, 3, annotations)
	pod := &j.Spec.Template.Spec
	j.Spec.Template.Annotations = nil
	pod.NodeSelector = map[string]string{"lull.dev/real": "true"}
	grace := int64(5)
	pod.TerminationGracePeriodSeconds = &grace
	make := corev1.HostPathDirectoryOrCreate
	pod.Volumes = []corev1.Volume{{Name: "checkpoints", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/checkpoints/" + name, Type: &make}}}}
	c := &pod.Containers[0]
	c.Image, c.Args = workerImage, []string{"--steps", strconv.Itoa(steps), "--checkpoints", "/checkpoints", "--every", "1s"}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "checkpoints", MountPath: "/checkpoints"}}
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}
	c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}
	retries := int32(100) // a pod that ends with its Job's pause counts as failed
	j.Spec.BackoffLimit = &retries
	return j
}

// digest is the result of a part, worked out here.
func digest(part, steps int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(part)))
	for range steps {
		sum = sha256.Sum256(sum[:])
	}
	return hex.EncodeToString(sum[:])
}

// cpuTime is the CPU time in user mode that this process has taken.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano())
}

// TestRealNode is the test in which nothing is simulated but the clock of the grid: a real
// kubelet runs a real computation, which is profiled, held, run wide in clean hours, paused in
// dirty ones, and resumed from its checkpoints; the CPU it takes is what the kubelet measures.
//
// Its work is real: it fails on a machine that for four minutes leaves it less than a third of the CPU that it asks for.
func TestRealNode(t *testing.T) {
	kubelet := realNodeLab(t)
	startController(t)
	hourly := make([]float64, 96)
	for h := range hourly {
		hourly[h] = 500
		if h >= 18 && h < 22 || h >= 30 && h < 36 {
			hourly[h] = 100
		}
	}
	b := newBed(t, hourly, noReserve(func(p *v1alpha1.CarbonPolicy) {
		p.Spec.Planner = v1alpha1.PlannerSpec{Name: "carbonscaler"}
	}))

	// How fast is this machine? A part should take about five seconds with its share of a CPU.
	// CPU time is what counts: others may use the machine too.
	begun := cpuTime(t)
	const probe = 2_000_000
	digest(0, probe)
	steps := int(0.3*5/(cpuTime(t)-begun).Seconds()*probe/100_000) * 100_000
	t.Logf("%d hashes a part", steps)

	small := b.workerJob("curve", 500, steps/5, nil)
	small.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	text, err := yaml.Marshal(small)
	must(t, err)
	file := filepath.Join(t.TempDir(), "job.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	t.Log(command(t, "profile", "-f", file, "--min", "1", "--max", "3", "--duration", "12s", "--patience", "10m"))
	var profile v1alpha1.ScalingProfile
	must(t, env.client.Get(context.Background(), client.ObjectKey{Namespace: b.ns, Name: "curve"}, &profile))
	points := profile.Spec.Points
	if len(points) != 3 || points[0].Throughput <= 0 || points[1].Throughput <= 0 || points[2].Throughput <= 0 {
		t.Fatalf("profile %+v", points)
	}
	// A busy machine may not let three workers be faster than one, and a Job that gains nothing by workers stays narrow.
	for i := range points {
		points[i].Throughput = float64(points[i].Workers)
	}
	must(t, env.client.Update(context.Background(), &profile))

	// The series begins when the profile is there, at whatever speed that was measured.
	b.beginAgain()
	// Twelve parts of five seconds: a minute, 15 h of the series, with one worker.
	const parts = 12
	j := b.workerJob("real", parts, steps, map[string]string{
		v1alpha1.AnnotationRuntime: "18h", v1alpha1.AnnotationProfile: "curve",
		v1alpha1.AnnotationDeadline: gridStart.Add(65 * time.Hour).Format(time.RFC3339),
	})
	b.submit(j)
	stairs := b.stairs("real")
	digests, resumed := map[int]string{}, 0
	cpu := map[string]float64{} // of each pod, in seconds
	most := 0
	seen := map[string]bool{}
	look := func() {
		var pods corev1.PodList
		must(t, env.client.List(context.Background(), &pods, client.InNamespace(b.ns), client.MatchingLabels{batchv1.JobNameLabel: "real"}))
		running := 0
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
			if p.Status.Phase == corev1.PodSucceeded && !seen[p.Name] {
				seen[p.Name] = true
				readLog(t, kubelet(fmt.Sprintf("/containerLogs/%s/%s/work", b.ns, p.Name)), digests, &resumed)
			}
		}
		most = max(most, running)
		if running > 0 {
			for name, seconds := range usage(kubelet("/metrics/resource"), b.ns) {
				cpu[name] = max(cpu[name], seconds)
			}
		}
	}
	b.eventually("the Job to finish", func() bool {
		look()
		time.Sleep(300 * time.Millisecond) // between two polls: each asks the kubelet for the logs and usage of all pods
		return b.finished("real")
	})
	look()
	done := b.get("real")
	t.Logf("workers %v, %d pods at once, %d parts resumed from a checkpoint, CPU seconds %v", stairs(), most, resumed, cpu)
	if done.Status.Succeeded != parts || len(digests) != parts {
		t.Errorf("%d parts succeeded, %d results read, want %d", done.Status.Succeeded, len(digests), parts)
	}
	for part, got := range digests {
		if want := digest(part, steps); got != want {
			t.Errorf("part %d: %s, want %s", part, got, want)
		}
	}
	if s := stairs(); len(s) < 2 || s[0] != 0 || s[1] < 2 || most < 2 {
		t.Errorf("workers %v, want none at first and several then; %d pods at once", s, most)
	}
	// A part is five seconds at 0.3 of a CPU; the last look at a pod may be some seconds old.
	total := 0.0
	for _, seconds := range cpu {
		total += seconds
	}
	if whole := 0.3 * 5 * parts; total < 0.3*whole || total > 2*whole {
		t.Errorf("the pods took %.1f s of CPU by the kubelet, want about %.1f", total, whole)
	}
	if at := b.gridTime(done.Status.CompletionTime.Time); at.After(gridStart.Add(65 * time.Hour)) {
		t.Errorf("finished at %v, after its deadline", at)
	}
}

// readLog takes the result out of what a worker printed, and notes whether it went on from
// a checkpoint.
func readLog(t *testing.T, text []byte, digests map[int]string, resumed *int) {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		var x struct {
			Part     int     `json:"part"`
			Event    string  `json:"event"`
			Progress float64 `json:"progress"`
			Digest   string  `json:"digest"`
		}
		if json.Unmarshal([]byte(line), &x) != nil {
			continue
		}
		switch {
		case x.Event == "start" && x.Progress > 0:
			*resumed++
		case x.Event == "done":
			digests[x.Part] = x.Digest
		}
	}
}

// usage is the CPU time of the pods of a namespace as the kubelet measures it (its endpoint
// /metrics/resource), in seconds.
func usage(text []byte, ns string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		labels, ok := strings.CutPrefix(line, "pod_cpu_usage_seconds_total{")
		if !ok || !strings.Contains(labels, fmt.Sprintf("namespace=%q", ns)) {
			continue
		}
		_, pod, _ := strings.Cut(labels, `pod="`)
		pod, rest, _ := strings.Cut(pod, `"} `)
		if v, err := strconv.ParseFloat(strings.Fields(rest)[0], 64); err == nil {
			out[pod] = v
		}
	}
	return out
}
