//go:build integration

package integration

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workspace is a folder that looks like the repository to the commands of a page, and leaves it as it is.
func workspace(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	must(t, err)
	for _, e := range entries {
		if e.Name() != ".lab" {
			must(t, os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())))
		}
	}
	return dir
}

// shell runs a script in a folder until it ends, ten minutes at most.
func shell(dir, script string, environ ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	cmd.WaitDelay = 20 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runPage runs the commands of a page of docs as they are printed, in a folder that looks like the
// repository, and returns what they print. The page ends its lab itself, or it is ended.
func runPage(t *testing.T, page string, blocks int) string {
	t.Helper()
	dir := workspace(t)
	text, err := os.ReadFile(filepath.Join(dir, "docs", page))
	must(t, err)
	script := "set -eu\nshopt -s expand_aliases\ntrap 'kill $(jobs -p); bin/lab down' EXIT\n"
	found := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) < blocks {
		t.Fatalf("%d blocks of commands; the page has at least %d", len(found), blocks)
	}
	for _, block := range found {
		script += block[1]
	}
	out, err := shell(dir, script)
	if err != nil {
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, name := range logs {
			log, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", name, log[max(0, len(log)-2000):])
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// whole are the pages whose sh blocks runPage runs, from the first to the last.
var whole = []string{"docs/quickstart.md", "docs/many-clusters.md"}

// realNodePages needs a node that runs Lull's image; inCluster are the pages of which it runs commands.
const realNodePages = "TestRealNodePages"

var inCluster = []string{"docs/install.md", "docs/web.md", "docs/ledger.md"}

// slurmPage needs a Slurm.
const slurmPage = "there is no Slurm here; TestCommandsOfTheSlurmPageRun of make test-slurm"

// elsewhere says of the commands that TestCommandsOfEveryPageRun does not run, by their beginnings, what does, or why nothing can.
var elsewhere = []struct{ command, by string }{
	{"make test", "is what runs this"},
	{"go test -count=1 -timeout 90m -run TestControlLoop", "make test-seeds"},
	{"make verify", "CI"},
	{"make site", "builds Hugo, which takes minutes"},
	{"make bin/lull", "what runs this has built it"},
	{"make demo DEMO=multicluster", "runs for half an hour and needs the evaluation data; its table is in docs"},
	{"make demo DEMO=extender", "runs for one to two hours and needs the evaluation data; its table is in docs"},
	{"make demo DEMO=slurm-week", "runs for 25 minutes and needs the evaluation data; its table is in docs"},
	{"make demo DEMO=slurm", "make test-slurm"},
	{"make demo", "make test-demos"}, // as are DEMO=elastic and DEMO=follow
	{"lull demo --live --outage 24h", "make test-demos"},
	{"lull reproduce", "runs for hours and needs the evaluation data; TestHeadlinesMatchTheReproductionPage runs parts of it"},
	{"lull forecast --zone GB --source ukCarbonIntensity", "asks the provider itself; TestEverySourceLive asks one of this machine"},
	{"lull forecast backtest --weather", "needs the evaluation data; TestBacktestWithWeather reads such a file"},
	{"lull simulate --uncertain --jobs pai-1k-week.csv.gz", "needs the evaluation data; TestSimulateUncertain reads such files"},
	{"lull forecast backtest --recorded", "needs the evaluation data; TestBacktestWritesEachFormat reads such a file"},
	{"lull run ", "waits for hours; TestRunEndToEnd waits for seconds"},
	{"sbatch --comment=lull:", slurmPage},
	{"sbatch ", "there is no Slurm here; TestWhenForSchedulers checks the time"},
	{"lull slurm ", slurmPage},
	{"squeue ", slurmPage},
	{"lull ledger show 4711", "there is no Slurm here; TestTheLedgerSaysWhatWasSaved of make test-slurm"},
	{"at -t", "needs a daemon; TestWhenForSchedulers checks the time"},
	{"lull profile", "measures for minutes; TestProfilerMeasuresThroughput, and TestRealNode with real work"},
	{"lull controller --prometheus", "TestPrometheusMeasuresPowerAndProgress, with a Prometheus of this machine"},
	{"make image", realNodePages},
	{"helm ", realNodePages},
	{"lull manifests --image", realNodePages},
	{"lull manifests --webhook --image", realNodePages},
	{"lull manifests --web", realNodePages},
	{"lull retire", realNodePages},
	{"kubectl create secret tls lull-web-tls", realNodePages},
	{"kubectl delete -n lull-system persistentvolumeclaim", realNodePages},
	{"kubectl delete $(kubectl get customresourcedefinitions", realNodePages},
	{"kubectl exec", realNodePages},
	{"kubectl port-forward", realNodePages},
	{"curl ", realNodePages},
}

// runBy is the place in elsewhere of what it says of a command; -1 for nothing.
func runBy(line string) int {
	return slices.IndexFunc(elsewhere, func(e struct{ command, by string }) bool { return strings.HasPrefix(line, e.command) })
}

var commandLine = regexp.MustCompile(`^(bin/)?(lull|lab|kubectl|make|helm|go|python3|curl|sqlite3|skopeo|docker|ln|bash|for|git|promtool|sbatch|squeue|at)( |$)`)

// commandsOf are the command lines of a page: every line of its sh blocks, where runPage does not run them, and of what is
// indented or in a block of no language those that begin as one does.
func commandsOf(t *testing.T, page string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	must(t, err)
	fence, inside := "", false
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		trimmed := strings.TrimSpace(line)
		if language, is := strings.CutPrefix(trimmed, "```"); is {
			fence, inside = language, !inside
			continue
		}
		if inside && fence == "sh" && slices.Contains(whole, page) {
			continue
		}
		code := inside && (fence == "sh" || fence == "") || !inside && strings.HasPrefix(line, "    ")
		trimmed = strings.TrimPrefix(trimmed, "$ ")
		if code && (commandLine.MatchString(trimmed) || inside && fence == "sh" && trimmed != "") {
			out = append(out, trimmed)
		}
	}
	return out
}

// installed puts the tools that pages use into the path of what it returns, an environment.
func installed(t *testing.T, dir string) []string {
	t.Helper()
	tools := t.TempDir()
	for name, of := range map[string]string{"lull": "lull", "kubectl-lull": "lull", "helm": "helm"} {
		must(t, os.Symlink(filepath.Join(dir, "bin", of), filepath.Join(tools, name)))
	}
	must(t, os.WriteFile(filepath.Join(tools, "kubectl"), []byte("#!/bin/sh\nexec "+filepath.Join(dir, "bin", "lab")+" kubectl \"$@\"\n"), 0o700))
	return []string{"PATH=" + tools + ":" + os.Getenv("PATH")}
}

// servers are the commands that run until they are ended.
var servers = regexp.MustCompile(`^lull (controller|failsafe|serve|fakegrid|extender)\b|&$`)

// TestCommandsOfEveryPageRun runs every command of every page as it is printed, in one folder and on one cluster, page by page;
// for those that it cannot run, elsewhere has the reason. Design notes are what was meant before it was built:
// TestDocsAreCorrect checks their commands.
//
// Servers run with their default ports, as printed, so that this test runs once at a time on a machine. They get four
// seconds: a slow machine makes this weaker, and never fails.
func TestCommandsOfEveryPageRun(t *testing.T) {
	dir := workspace(t)
	environ := append(installed(t, dir), "KUBECONFIG="+filepath.Join(dir, ".lab", "kubeconfig"))
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	for year := 2021; year <= 2023; year++ {
		csv := yearCSV(year)
		write(fmt.Sprintf("de-%d.csv", year), csv)
		write(fmt.Sprintf("%d.csv", year), csv)
	}
	write("train.csv", "workers,throughput\n1,1\n2,1.9\n3,2.7\n4,3.4\n5,4\n6,4.5\n7,4.9\n8,5.2\n")
	write("emissions.csv", "timestamp,project_name,run_id,duration,energy_consumed,country_iso_code,cpu_count,pue\n2023-03-01T19:00:00,train,a,7200,1,DEU,8,1\n")
	week, err := os.ReadFile(filepath.Join(dir, "examples", "slurm", "week.sacct"))
	must(t, err)
	write("last-year.sacct", string(week))
	write("job.yaml", manifestsIn(t, "kinds/job.md", "Job")[0])
	write("crunch.yaml", manifestsIn(t, "kinds/other.md", "WorkloadKind")[0])
	write("toronto.yaml", "apiVersion: v1\nkind: Config\n")
	write("curve.yaml", manifestsIn(t, "capacity.md", "CapacityCurve")[0])
	write("setup.sh", pagesSetup)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "controller.log"))
			t.Logf("controller.log:\n%s", log[max(0, len(log)-4000):])
		}
		_, _ = shell(dir, "bin/lab down", environ...)
	})
	if out, err := shell(dir, "bash setup.sh", environ...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	pages := []string{"README.md", "CONTRIBUTING.md"}
	must(t, filepath.WalkDir(filepath.Join("..", "..", "docs"), func(path string, _ os.DirEntry, err error) error {
		page, _ := filepath.Rel(filepath.Join("..", ".."), path)
		if strings.HasSuffix(page, ".md") && !strings.HasPrefix(page, "docs/design/") {
			pages = append(pages, page)
		}
		return err
	}))
	ran, fits := map[string]bool{}, map[int]bool{}
	for _, page := range pages {
		for _, line := range commandsOf(t, page) {
			if i := runBy(line); i >= 0 {
				fits[i] = true
				if elsewhere[i].by == realNodePages && !slices.Contains(inCluster, page) {
					t.Errorf("%s: %s: nothing runs it", page, line)
				}
				t.Logf("%s: not here: %s (%s)", page, line, elsewhere[i].by)
				continue
			}
			if ran[line] {
				continue
			}
			ran[line] = true
			began := time.Now()
			script := line
			if servers.MatchString(line) {
				script = "timeout 4 " + strings.TrimSuffix(line, "&") + "\ntest $? = 124"
			}
			out, err := shell(dir, "set -o pipefail\n"+script, environ...)
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", page, line, err, out[max(0, len(out)-3000):])
			}
			t.Logf("%s: %s (%.1f s)", page, line, time.Since(began).Seconds())
		}
	}
	for i, e := range elsewhere {
		if !fits[i] {
			t.Errorf("no page has a command %q any more", e.command)
		}
	}
	if len(ran) < 50 {
		t.Errorf("only %d commands", len(ran))
	}
}

// pagesSetup is what the pages take for granted: a cluster with Lull, a zone, policies, and Jobs that have run.
var pagesSetup = `set -eu
bin/lab up --time-factor 900
lull manifests --capacity | kubectl apply -f -
kubectl create namespace batch
kubectl create namespace team
kubectl create namespace monitoring
kubectl apply -f - <<EOF
# Kinds that others bring; what their schemas are does not matter here.
` + crunchCRD + "---\n" + crdOf("monitoring.coreos.com", "prometheusrules", "PrometheusRule") + `EOF
lull forecast --zone DE --at 2026-10-05T04:00:00Z --horizon 96h -o csv >de.csv
kubectl create configmap de --from-file=de.csv
kubectl apply -f - <<EOF
apiVersion: lull.dev/v1alpha1
kind: GridZone
metadata: {name: de}
spec:
  zone: DE
  source: {configMap: {namespace: default, name: de, key: de.csv}}
  replay: {start: "2026-10-05T04:00:00Z", factor: 900}
EOF
sed 's/zone: au-sa/zone: de/; s/clusterQueue: batch/nodes: {matchLabels: {kubernetes.io\/os: linux}}/; s/namespace: team/namespace: batch/' curve.yaml | kubectl apply -f -
for namespace in default batch; do
kubectl apply -f - <<EOF
apiVersion: lull.dev/v1alpha1
kind: CarbonPolicy
metadata: {name: clean, namespace: $namespace}
spec:
  selector: {matchLabels: {lull.dev/may-wait: "true"}}
  zone: de
  maxDelay: 4h
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: $namespace
  labels: {lull.dev/may-wait: "true", images: "3", team: vision, cost-of-an-hour: "0.25"}
  annotations: {lull.dev/runtime: 2h}
spec:
  template:
    metadata: {annotations: {lab.lull.dev/runtime: 2h}}
    spec:
      restartPolicy: Never
      containers:
      - {name: work, image: registry.example/train, resources: {requests: {cpu: "1"}}}
EOF
done
lull controller --ledger ledger.db --metrics-bind-address 0 --health-probe-bind-address 0 >controller.log 2>&1 &
kubectl wait job/train --for=condition=Complete --timeout=4m
kubectl wait job/train -n batch --for=condition=Complete --timeout=4m
for i in $(seq 240); do ! lull report --database ledger.db | grep '^2 workloads' || break; sleep 1; done
lull report --database ledger.db | grep '^2 workloads'
`

// yearCSV is a year of intensities that vary by the day and the week.
func yearCSV(year int) string {
	var b strings.Builder
	b.WriteString("time,intensity_gco2eq_per_kwh\n")
	for at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == year; at = at.Add(time.Hour) {
		fmt.Fprintf(&b, "%s,%.1f\n", at.Format(time.RFC3339), 350+120*math.Sin(2*math.Pi*float64(at.Hour())/24)+40*math.Sin(2*math.Pi*float64(at.YearDay())/7))
	}
	return b.String()
}

// TestCommandsOfTheQuickStartRun does what a new user does, in the words of docs/quickstart.md.
func TestCommandsOfTheQuickStartRun(t *testing.T) {
	out := runPage(t, "quickstart.md", 6)
	t.Log(out)
	for _, want := range []string{"Suspended", "governed by CarbonPolicy batch", "CleanerLater", "job.batch/train condition met", "Release", "default/train  Job"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output has no %q", want)
		}
	}
}

// TestKustomizeBaseIsAccepted: the base renders with an image of one's own, and the API server accepts what comes of it.
func TestKustomizeBaseIsAccepted(t *testing.T) {
	dir := t.TempDir()
	base, err := filepath.Abs(filepath.Join("..", "..", "kustomize"))
	must(t, err)
	from, err := filepath.EvalSymlinks(dir)
	must(t, err)
	base, err = filepath.Rel(from, base)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: ["+base+"]\nimages: [{name: lull, newName: registry.example/lull, newTag: v9}]\n"), 0o600))
	out, err := lab("kubectl", "kustomize", dir)
	if err != nil || strings.Count(out, "image: registry.example/lull:v9") != 2 {
		t.Fatalf("%v\n%s", err, out[:min(len(out), 2000)])
	}
	file := filepath.Join(dir, "all.yaml")
	must(t, os.WriteFile(file, []byte(out), 0o600))
	if out, err := lab("kubectl", "--kubeconfig", env.kubeconfig, "apply", "--dry-run=server", "-f", file); err != nil || strings.Count(out, "\n") < 45 {
		t.Errorf("%v\n%s", err, out)
	}
}
