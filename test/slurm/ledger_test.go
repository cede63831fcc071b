//go:build slurm

package slurm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// report is what is read of lull report --format json --by namespace.
type report struct {
	Groups    []group
	Unsettled int
}

type group struct {
	Name       string
	Workloads  int
	Late       int
	SavedGrams float64 `json:"savedGCO2eq"`
	KWh        float64
}

// of is the group of a name; one without workloads if there is none.
func (r *report) of(name string) group {
	for _, g := range r.Groups {
		if g.Name == name {
			return g
		}
	}
	return group{}
}

func lullSays(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(os.Getenv("LULL_BIN"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("lull %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// scrape returns the metrics of a controller, whose log has their address.
func scrape(t *testing.T, l *lull) string {
	t.Helper()
	_, rest, found := strings.Cut(l.log.String(), `"msg":"Serves metrics","address":"`)
	if !found {
		t.Fatal(l.log.String())
	}
	address, _, _ := strings.Cut(rest, `"`)
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheLedgerSaysWhatWasSaved: jobs wait for clean power, and one is requeued by an operator, one is cancelled, and one ends while no controller
// runs. Each is in the ledger once, with its end, and the chain holds.
func TestTheLedgerSaysWhatWasSaved(t *testing.T) {
	empty(t)
	file := filepath.Join(t.TempDir(), "ledger.db")
	// Slurm still knows the jobs of a run of this test before (MinJobAge), which this ledger has too: those of this run have an account of their own.
	account := fmt.Sprintf("run%d", time.Now().UnixNano())
	submit := func(t *testing.T, run string, args ...string) string {
		t.Helper()
		return submit(t, run, append(args, "--account="+account)...)
	}
	intensities := curve(t, [2]time.Duration{40 * time.Second, 15 * time.Minute})
	l := controller(t, intensities, "--ledger", file, "--metrics-bind-address", "127.0.0.1:0")
	var ids []string
	for range 3 {
		ids = append(ids, submit(t, "sleep 4", "--comment=lull:max-delay=5m,runtime=4s", "-n2"))
	}
	array := submit(t, "sleep 2", "--array=1-2", "--comment=lull:max-delay=5m,runtime=4s")
	requeued := submit(t, "sleep 20", "--requeue", "--comment=lull:max-delay=5m,runtime=20s")
	cancelled := submit(t, "sleep 4", "--comment=lull:max-delay=5m,runtime=4s")
	not := submit(t, "sleep 1")
	for _, id := range append(ids, requeued, cancelled) {
		until(t, id, "planned", planned)
	}
	must(t, "scancel", cancelled)
	if text := scrape(t, l); !strings.Contains(text, `lull_slurm_jobs{state="waiting"}`) || !strings.Contains(text, `lull_slurm_changes_total{change="held"}`) {
		t.Errorf("metrics: %s", text)
	}
	last := submit(t, "sleep 8", "--comment=lull:max-delay=40s,runtime=8s")
	until(t, requeued, "running", running)
	until(t, last, "running", running)
	if err := wait("both runs in the ledger", func() bool {
		for _, id := range []string{requeued, last} {
			story, _ := exec.Command(os.Getenv("LULL_BIN"), "ledger", "show", id, "-n", account, "--database", file).Output()
			if !strings.Contains(string(story), "  runs: ") {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	l.kill()
	must(t, "scontrol", "requeue", requeued)
	until(t, requeued, "requeued", func(j job) bool { return j.state() == "PENDING" && j["Restarts"] == "1" })
	must(t, "scontrol", "update", "JobId="+requeued, "StartTime=now+5") // at once, slurmd may still end the first run, and fails the second
	until(t, last, "completed", completed)
	controller(t, intensities, "--ledger", file)
	until(t, requeued, "completed", completed)
	for _, id := range append(ids, not, array+"_1", array+"_2") {
		until(t, id, "completed", completed)
	}
	const jobs = 3 + 2 + 1 + 1 + 1 // three, two tasks, the one that is requeued, the one that is cancelled, and the last
	var r report
	if err := wait("all jobs to be settled", func() bool {
		r = report{}
		text, err := exec.Command(os.Getenv("LULL_BIN"), "report", "--database", file, "--format", "json", "--by", "namespace").Output()
		return err == nil && json.Unmarshal(text, &r) == nil && r.of(account).Workloads >= jobs && r.Unsettled == 0
	}); err != nil {
		t.Fatalf("%v; the report says %+v\n%s", err, r, lullSays(t, "ledger", "export", "--entries", "--database", file))
	}
	t.Logf("%+v", r)
	if all := r.of(account); all.Workloads != jobs || all.Late > 0 || all.SavedGrams <= 0 || all.KWh <= 0 {
		t.Errorf("%+v", all)
	}
	if out := lullSays(t, "ledger", "verify", "--database", file); !strings.Contains(out, "entries") {
		t.Errorf("lull ledger verify: %s", out)
	}
	story := lullSays(t, "ledger", "show", requeued, "-n", account, "--database", file)
	if strings.Count(story, "  runs: ") != 2 {
		t.Errorf("a requeued job has two runs: %s", story)
	}
	for _, id := range append(ids, last) {
		story := lullSays(t, "ledger", "show", id, "-n", account, "--database", file)
		if strings.Contains(story, "inferred") {
			t.Errorf("job %s: its end was not observed: %s", id, story)
		}
	}
	if out, err := exec.Command(os.Getenv("LULL_BIN"), "ledger", "show", not, "-n", account, "--database", file).CombinedOutput(); err == nil {
		t.Errorf("a job that may not wait is in the ledger: %s", out)
	}
}

// TestTheLedgerHasAnEndThatNobodySaw: a job ends while no controller runs, and slurmctld forgets it. The next controller finds its end in the job
// completion records.
func TestTheLedgerHasAnEndThatNobodySaw(t *testing.T) {
	empty(t)
	file := filepath.Join(t.TempDir(), "ledger.db")
	intensities := curve(t, [2]time.Duration{-time.Minute, 15 * time.Minute})
	l := controller(t, intensities, "--ledger", file)
	account := fmt.Sprintf("run%d", time.Now().UnixNano())
	id := submit(t, "sleep 12", "--comment=lull:max-delay=5m,runtime=1h", "--account="+account)
	if err := wait("the run in the ledger", func() bool {
		text, _ := exec.Command(os.Getenv("LULL_BIN"), "ledger", "show", id, "-n", account, "--database", file).Output()
		return strings.Contains(string(text), "  runs: ")
	}); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
	l.kill()
	over := until(t, id, "completed", completed)
	lab.stopController(t)
	if err := lab.StartController("-c"); err != nil { // it forgets all jobs
		t.Fatal(err)
	}
	registered(t)
	if out := must(t, "squeue", "-h", "--states=all"); out != "" {
		t.Fatalf("Slurm has not forgotten: %s", out)
	}
	l = controller(t, intensities, "--ledger", file, "--completions", lab.dir+"/log/jobcomp.txt")
	story := ""
	if err := wait("the end in the ledger", func() bool {
		text, _ := exec.Command(os.Getenv("LULL_BIN"), "ledger", "export", "--entries", "--database", file).Output()
		story = string(text)
		return strings.Contains(story, `"kind":"finished","key":"finished/slurm/lull/`+id+`/`)
	}); err != nil {
		t.Fatalf("%v: %s\n%s", err, story, l.log)
	}
	if end := over.at(t, "EndTime").Format(time.RFC3339); strings.Count(story, end) < 2 || strings.Contains(story, `"how":"inferred"`) {
		t.Errorf("want the end %s of the run and of the job: %s", end, story)
	}
}
