package slurm

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/test/child"
)

// audited fails unless the auditor finds the figures of the ledger from its export alone.
func (b *bed) audited(t *testing.T, kWh, saved float64) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.WriteEntries(out, b.ledger.Read(t.Context(), ledger.Query{})); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(python, child.Reads(t, "../../../examples/audit/audit.py"), file).CombinedOutput()
	var found struct {
		KWh        float64 `json:"kWh"`
		SavedGrams float64 `json:"saved_gCO2eq"`
	}
	if err != nil || json.Unmarshal(text, &found) != nil || math.Abs(found.KWh-kWh) > 1e-9 || math.Abs(found.SavedGrams-saved) > 1e-9 {
		t.Errorf("%v: %s; want %v kWh and %v g saved", err, text, kWh, saved)
	}
}

// TestAsSubmittedAJobHasAllTasks: a job of 2 h with 8 tasks runs 8 h with 2 of them, while another one has the rest: 16 CPU hours. As submitted it takes 2 h with 8.
//
// With half of the work side by side, 8 tasks take 0.75 times as long as 2: 6 h.
func TestAsSubmittedAJobHasAllTasks(t *testing.T) {
	for comment, hours := range map[string]float64{"": 2, ",parallel=0.5": 6} {
		asSubmitted(t, comment, hours)
	}
}

func asSubmitted(t *testing.T, comment string, hours float64) {
	t.Helper()
	j := sizing()
	j.Comment = "lull:max-delay=20h,runtime=2h,interruptible,min-tasks=2" + comment
	j.Size, j.CPUs = 2, 2
	j.Submitted = midnight.Add(14 * time.Hour)
	j.Begin = midnight.Add(14 * time.Hour)
	j.AdminComment = slurm.Mark{Phase: slurm.Released, Begin: j.Begin, Size: 2, User: 8, Each: 1}.String()
	j.State, j.Node, j.Started = "RUNNING", "n", j.Begin
	other := job("9", "")
	other.CPUs, other.State, other.Started = 6, "RUNNING", midnight.Add(7*time.Hour)
	b := withLedger(t, j, other)
	b.f.clock.SetTime(j.Begin)
	b.f.lasts = map[string]time.Duration{"1": 8 * time.Hour, "9": 40 * time.Hour}
	b.step = time.Minute
	b.until(23 * time.Hour)
	s := b.settled()["1"]
	t.Logf("%v kWh, %d runs, %v to %v, saved %v g of %v; as submitted %+v", s.KWh, s.Runs, s.From, s.To, s.SavedGrams, s.Grams, s.Counterfactual)
	if got := s.Counterfactual; math.Abs(got.KWh/(hours*28/1000)-1) > 0.01 || math.Abs(got.To.Sub(got.From).Hours()/hours-1) > 0.01 || math.Abs(s.KWh-8*7/1000.) > 1e-9 {
		t.Errorf("%q: %v kWh, as submitted %+v; want 0.056 kWh, and as submitted %v h with 28 W", comment, s.KWh, got, hours)
	}
	b.audited(t, s.KWh, s.SavedGrams)
}
