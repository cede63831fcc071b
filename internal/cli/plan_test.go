package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/planio"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/test/data"
	"lull.dev/lull/test/size"
)

// scorer is one Python process that scores many plans.
type scorer struct {
	in  *bufio.Writer
	out *bufio.Scanner
}

const scorerLoop = `
import json, sys, importlib.util
spec = importlib.util.spec_from_file_location("score", sys.argv[1])
score = importlib.util.module_from_spec(spec); spec.loader.exec_module(score)
for line in sys.stdin:
    a, b = line.rstrip("\n").split("\t")
    with open(a) as f: inst = json.load(f)
    with open(b) as f: pl = json.load(f)
    print(json.dumps(score.score(inst, pl)), flush=True)
`

func newScorer(t *testing.T, shared string) *scorer {
	t.Helper()
	cmd := exec.Command("python3", "-c", scorerLoop, filepath.Join(shared, "tools", "score.py"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the scorer: %v", err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	out := bufio.NewScanner(stdout)
	out.Buffer(nil, 1<<20)
	return &scorer{bufio.NewWriter(stdin), out}
}

type score struct {
	Feasible    bool     `json:"feasible"`
	Faults      []string `json:"faults"`
	FaultCount  int      `json:"fault_count"`
	CarbonG     float64  `json:"carbonG"`
	Planned     int      `json:"planned"`
	Unscheduled int      `json:"unscheduled"`
	Late        int      `json:"late"`
	MeanAlpha   *float64 `json:"meanAlpha"`
	Makespan    float64  `json:"makespan"`
	Z           []float64
	ZTotal      *float64 `json:"-"`
}

func (s *scorer) score(t *testing.T, instance, planFile string) score {
	t.Helper()
	fmt.Fprintf(s.in, "%s\t%s\n", instance, planFile)
	if err := s.in.Flush(); err != nil {
		t.Fatal(err)
	}
	if !s.out.Scan() {
		t.Fatalf("the scorer ended: %v", s.out.Err())
	}
	// "z" and "Z" differ in case only, which encoding/json folds: read them apart.
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(s.out.Bytes(), &raw); err != nil {
		t.Fatal(err)
	}
	z, total := raw["z"], raw["Z"]
	delete(raw, "z")
	delete(raw, "Z")
	rest, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	var out score
	if err := json.Unmarshal(rest, &out); err != nil {
		t.Fatal(err)
	}
	if z != nil {
		if err := json.Unmarshal(z, &out.Z); err != nil {
			t.Fatal(err)
		}
	}
	if total != nil {
		if err := json.Unmarshal(total, &out.ZTotal); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestPlansAgreeWithTheIndependentScorer runs `lull plan` on the shared examples with
// every planner, and on 1,000 random instances with a third of them each (exact on those
// that are small enough): the scorer accepts every
// feasible plan, finds nothing but the named jobs missing in an infeasible one,
// and computes the same emissions, lateness and Z.
func TestPlansAgreeWithTheIndependentScorer(t *testing.T) {
	shared := data.Shared(t)
	s := newScorer(t, shared)
	dir := t.TempDir()
	examples, err := filepath.Glob(filepath.Join(shared, "examples", "*.json"))
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range examples {
		if strings.HasSuffix(file, ".plan.json") {
			continue
		}
		for _, name := range plannerNames() {
			compare(t, s, file, filepath.Join(dir, "plan.json"), name)
		}
	}
	file := filepath.Join(dir, "instance.json")
	for seed := range size.Of[uint64](240, 1000) { // 60 have each mix of options with each third of the planners once
		o := plantest.Options{Loose: seed%4 == 1, NoLoad: true}
		if seed%5 == 0 {
			o.MaxJobs, o.MaxSlots, o.MaxHosts = 4, 5, 2
		}
		if seed%4 == 0 {
			o.Objective = plan.MOSP
		}
		var b bytes.Buffer
		if err := planio.WriteInstance(&b, plantest.Random(seed, o)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		for i, name := range plannerNames() {
			if uint64(i)%3 != seed%3 || (name == "exact" && seed%5 != 0) {
				continue
			}
			compare(t, s, file, filepath.Join(dir, "plan.json"), name)
			if t.Failed() {
				t.Fatalf("seed %d, planner %s:\n%s", seed, name, b.String())
			}
		}
	}
}

func compare(t *testing.T, s *scorer, instance, out, planner string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Main([]string{"plan", "-f", instance, "-o", out, "--planner", planner}, strings.NewReader(""), &stdout, &stderr)
	if planner == "exact" && status == exitError && strings.Contains(stderr.String(), "too large") {
		return
	}
	if status != exitOK && status != exitInfeasible {
		t.Fatalf("lull plan: status %d: %s", status, stderr.String())
	}
	f, err := os.Open(instance)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := planio.ReadInstance(f)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pl, err := planio.ReadPlan(g, p)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := plan.Evaluate(p, pl), s.score(t, instance, out)
	if status == exitOK && !theirs.Feasible {
		t.Errorf("%s: the scorer refuses the plan: %v", planner, theirs.Faults)
	}
	if status == exitInfeasible && (theirs.FaultCount != 1 || !strings.Contains(theirs.Faults[0], "jobs not planned")) {
		t.Errorf("%s: the scorer finds more than the missing jobs: %v", planner, theirs.Faults)
	}
	same := func(what string, a, b float64) {
		if math.Abs(a-b) > 1e-6*math.Max(1e-9, math.Abs(b)) {
			t.Errorf("%s: %s: ours %v, the scorer's %v", planner, what, a, b)
		}
	}
	same("emissions", ours.CarbonG, theirs.CarbonG)
	same("planned", float64(ours.Planned), float64(theirs.Planned))
	same("unscheduled", float64(ours.Unscheduled), float64(theirs.Unscheduled))
	same("late", float64(ours.Late), float64(theirs.Late))
	same("makespan", float64(ours.Makespan), theirs.Makespan)
	if theirs.MeanAlpha != nil {
		same("mean alpha", ours.MeanAlpha, *theirs.MeanAlpha)
	}
	for k := range theirs.Z {
		same(fmt.Sprintf("z%d", k+1), ours.Z[k], theirs.Z[k])
	}
	if theirs.ZTotal != nil {
		same("Z", ours.ZTotal, *theirs.ZTotal)
	}
}

func TestPlanCommandErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"version": 1, "colour": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--filename: not given":          {"plan"},
		"no such file":                   {"plan", "-f", filepath.Join(dir, "absent.json")},
		`unknown field "colour"`:         {"plan", "-f", bad},
		`"best"; accepted: asap`:         {"plan", "-f", bad, "--planner", "best"},
		`"speed"; accepted: expected-lo`: {"plan", "-f", bad, "--planner", "window", "--param", "speed=1"},
		`"soon"; accepted: a duration`:   {"plan", "-f", bad, "--planner", "window", "--param", "time-frame=soon"},
		`expectedLoad: 3`:                {"plan", "-f", bad, "--planner", "window", "--param", "expected-load=3"},
		`unknown command "plam"`:         {"plam"},
	} {
		status, stdout, stderr := runMain(args...)
		if status != exitError || !strings.Contains(stderr, want) {
			t.Errorf("lull %s: status %d, %q; want status 1 and %q", strings.Join(args, " "), status, stderr, want)
		}
		if stdout != "" {
			t.Errorf("lull %s: printed %q on an error", strings.Join(args, " "), stdout)
		}
	}
}

func TestPlanFromStandardInputNamesWhatDoesNotFit(t *testing.T) {
	instance := `{"version": 1, "start": "2023-01-01T00:00:00Z", "slot": "1h", "horizon": 3,
 "clusters": [{"name": "c", "capacity": {"cpu": 1}, "watts": {"cpu": 1000}, "intensity": [10, 100, 20]}],
 "jobs": [{"id": "fits", "arrival": 0, "length": 1, "deadline": 3, "kind": "rigid", "request": {"cpu": 1}},
          {"id": "late", "arrival": 1, "length": 3, "deadline": 3, "kind": "rigid", "request": {"cpu": 1}}]}`
	var stdout, stderr bytes.Buffer
	status := Main([]string{"plan", "-f", "-"}, strings.NewReader(instance), &stdout, &stderr)
	if status != exitInfeasible {
		t.Errorf("status %d, want %d", status, exitInfeasible)
	}
	if !strings.Contains(stderr.String(), "late: needs 3 slots") {
		t.Errorf("the error does not name the job: %s", stderr.String())
	}
	if !strings.Contains(stdout.String(), `"fits"`) || !strings.Contains(stdout.String(), `"unscheduled": [`) {
		t.Errorf("the plan of the others is missing: %s", stdout.String())
	}
}

// TestCheckAcceptsAndPricesThePlan: the shared example of a plan made by hand is accepted and
// priced, and a broken copy is refused with its fault named.
func TestCheckAcceptsAndPricesThePlan(t *testing.T) {
	examples := filepath.Join(data.Shared(t), "examples")
	instance, made := filepath.Join(examples, "carbonscaler-3-slots.json"), filepath.Join(examples, "carbonscaler-3-slots.plan.json")
	var stdout, stderr bytes.Buffer
	if status := Main([]string{"check", "-f", instance, made}, strings.NewReader(""), &stdout, &stderr); status != exitOK || !strings.Contains(stdout.String(), "26 gCO2eq") {
		t.Errorf("status %d: %s%s", status, stdout.String(), stderr.String())
	}
	text, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, bytes.Replace(text, []byte(`"workers": 2`), []byte(`"workers": 1`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	if status := Main([]string{"check", "-f", instance, broken}, strings.NewReader(""), &stdout, &stderr); status != exitInfeasible || !strings.Contains(stderr.String(), "work done") {
		t.Errorf("a broken plan: status %d: %s", status, stderr.String())
	}
}

func TestHelpHasExamplesAndCompletion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"plan", "--help"}, {"version", "--help"}} {
		if status, stdout, _ := runMain(args...); status != exitOK || !strings.Contains(stdout, "Examples:") {
			t.Errorf("lull %s: status %d without examples: %s", strings.Join(args, " "), status, stdout)
		}
	}
	var stdout, stderr bytes.Buffer
	if status := Main([]string{"completion", "bash"}, strings.NewReader(""), &stdout, &stderr); status != exitOK || !strings.Contains(stdout.String(), "__start_lull") {
		t.Errorf("completion: status %d: %s", status, stderr.String())
	}
}

// TestPlanExplainsTheGuard: --explain says which run time the deadline is kept for, and whether it is.
func TestPlanExplainsTheGuard(t *testing.T) {
	job := func(id string, arrival, deadline int, rest string) string {
		return fmt.Sprintf(`{"id": %q, "arrival": %d, "length": 2, "deadline": %d, "kind": "rigid", "request": {"cpu": 1}%s}`, id, arrival, deadline, rest)
	}
	uncertain := job("a", 0, 6, `, "quantiles": [{"p": 0.95, "length": 4}]`)
	const guarded = "has to end by 2023-01-01T04:00:00Z if it takes the expected 2 slots, so that one of 4 slots (--safe 0.95) keeps its deadline"
	const givenUp = "it ends later, as it found no such place"
	for name, tc := range map[string]struct {
		jobs         []string
		want, absent []string
	}{
		"certain":   {[]string{job("a", 0, 6, "")}, []string{"DIFFERENCE"}, []string{"uncertain"}},
		"uncertain": {[]string{uncertain}, []string{guarded, "guarded run time"}, []string{givenUp}},
		"no room":   {[]string{uncertain, job("b", 0, 2, ""), job("c", 2, 4, "")}, []string{guarded, givenUp}, nil},
	} {
		file := filepath.Join(t.TempDir(), "i.json")
		text := `{"version": 1, "start": "2023-01-01T00:00:00Z", "slot": "1h", "horizon": 6, "objective": {"kind": "carbon"},
		"clusters": [{"name": "c", "zone": "DE", "capacity": {"cpu": 1}, "watts": {"cpu": 100}, "pue": 1, "intensity": [60, 50, 40, 30, 20, 10]}],
		"jobs": [` + strings.Join(tc.jobs, ", ") + "]}"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, got := lull(t, exitOK, "plan", "-f", file, "--explain", "a", "--planner", "cheapest")
		for _, text := range tc.want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: lacks %q:\n%s", name, text, got)
			}
		}
		for _, text := range tc.absent {
			if strings.Contains(got, text) {
				t.Errorf("%s: says %q:\n%s", name, text, got)
			}
		}
	}
}

// TestSavingOfOtherJobs: of a full cluster joint leaves other jobs out than asap, as many of them. Their emissions do not
// compare.
func TestSavingOfOtherJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "i.json")
	stdout(t, "plan", "generate", "--load", "1.3", "--jobs", "12", "--clusters", "1", "--slots", "16", "--seed", "23", "-o", file)
	var plan, summary strings.Builder
	if status := Main([]string{"plan", "-f", file}, strings.NewReader(""), &plan, &summary); status != exitInfeasible || !strings.Contains(summary.String(), "not comparable: asap plans other jobs") {
		t.Errorf("status %d: %s", status, summary.String())
	}
}
