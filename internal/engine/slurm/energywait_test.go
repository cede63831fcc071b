package slurm

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

// hourOf is what Slurm measured of job 1, from 8:00 to 9:00, and recordOf what its accounting says of its end.
var (
	hourOf   = slurm.Used{ID: "1", Started: clockAt(8, 0), Ended: clockAt(9, 0), CPUs: 8, Joules: 3.6e6}
	recordOf = slurm.Job{ID: "1", Number: 1, Tasks: 1, CPUs: 8, State: "COMPLETED", Submitted: clockAt(8, 0), Started: clockAt(8, 0), Ended: clockAt(9, 0)}
)

func (b *bed) measuredOnce(name string) {
	b.t.Helper()
	if s := b.settled()[name]; math.Abs(s.MeasuredKWh-1) > 1e-9 || s.Runs != 1 || math.Abs(s.WorkerHours-1) > 1e-9 || s.Inferred != 0 {
		b.t.Errorf("%+v", s)
	}
}

// TestEnergyOfAJobThatEndedLongAgo: the controller was down from 8:59 to 12:00. The answers of the accounting come after the look that asks.
func TestEnergyOfAJobThatEndedLongAgo(t *testing.T) {
	b := measuring(t, Measure{PUE: 1}, job("1", "lull:max-delay=12h"))
	b.f.lasts["1"], b.f.age = time.Hour, time.Minute
	b.until(8*time.Hour + 59*time.Minute)
	b.f.readings, b.f.records = []slurm.Used{hourOf}, []slurm.Job{recordOf}
	b.f.clock.SetTime(clockAt(12, 0))
	b.restart()
	var asked []func()
	b.c.ledger.energies.beside = func(f func()) { asked = append(asked, f) }
	for range 5 {
		b.until(b.f.clock.Now().Add(b.step).Sub(midnight))
		for _, f := range asked {
			f()
		}
		asked = nil
	}
	b.measuredOnce("1")
}

// TestShortJobIsInTheLedgerAtOnce: a job came and went between two looks, and the controller ends while the job waits for its energy. Slurm forgets the job, or still lists it.
func TestShortJobIsInTheLedgerAtOnce(t *testing.T) {
	for _, age := range []time.Duration{0, time.Minute} {
		b := measuring(t, Measure{PUE: 1})
		b.until(9 * time.Hour)
		j := job("1", "lull:max-delay=12h")
		j.State, j.Started, j.Ended = "COMPLETED", clockAt(8, 0), clockAt(9, 0)
		b.f.ended, b.f.records, b.f.age = []slurm.Job{j}, []slurm.Job{recordOf}, age
		b.until(9*time.Hour + 2*time.Minute)
		b.restart()
		b.until(9*time.Hour + 4*time.Minute)
		b.f.readings = []slurm.Used{hourOf}
		b.until(9*time.Hour + 10*time.Minute)
		b.measuredOnce("1")
	}
}

// TestEnergyWhileTheDatabaseIsAway: the looks in which a job ends, and its energy is known, are not recorded.
func TestEnergyWhileTheDatabaseIsAway(t *testing.T) {
	b := measuring(t, Measure{PUE: 1}, job("1", "lull:max-delay=12h"))
	b.f.lasts["1"] = time.Hour
	b.until(8*time.Hour + 59*time.Minute)
	b.f.readings = []slurm.Used{hourOf}
	b.away = true
	b.restart()
	b.until(9*time.Hour + 10*time.Minute)
	b.away = false
	b.until(9*time.Hour + 20*time.Minute)
	b.measuredOnce("1")
}

// TestSlowAccounting answers about the first hundred jobs of a question in time. The rest is asked about later, and what was answered counts.
func TestSlowAccounting(t *testing.T) {
	const jobs = 450
	k := newAccounting(mostAsked, func(u *slurm.Used) string { return u.ID })
	var fails bool
	var asked [][]string
	k.beside = func(f func()) { f() }
	k.ask = func(ids []string) ([]slurm.Used, int, error) {
		asked = append(asked, ids)
		answered := len(ids)
		if fails {
			answered = 100
		}
		var out []slurm.Used
		for _, id := range ids[:answered] {
			out = append(out, slurm.Used{ID: id})
		}
		if fails {
			return out, answered, slurm.ErrCommand
		}
		return out, answered, nil
	}
	var uids, ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint(i))
		uids = append(uids, fmt.Sprintf("slurm/lab/%d/1", i))
	}
	now := midnight
	for i, tc := range []struct {
		after          time.Duration
		fails          bool
		from, to, know int
	}{
		{0, true, 0, 200, 100}, {10 * time.Second, true, 0, 0, 100}, {time.Minute, false, 100, 300, 300}, {10 * time.Second, false, 300, 450, 450}, {time.Hour, false, 0, 0, 450},
	} {
		asked, fails, now = nil, tc.fails, now.Add(tc.after)
		a := k.of(uids, ids, now)
		var want [][]string
		if tc.to > 0 {
			want = [][]string{ids[tc.from:tc.to]}
		}
		if !slices.EqualFunc(asked, want, slices.Equal) || len(a.uids) != tc.know || len(a.of) != tc.know {
			t.Errorf("%d: asked %v; %d are known, with %d readings; want %d", i, asked, len(a.uids), len(a.of), tc.know)
		}
	}
	k.again(uids[7])
	if a := k.of(uids, ids, now); len(a.uids) != jobs || !slices.EqualFunc(asked, [][]string{ids[7:8]}, slices.Equal) || len(a.of) != jobs {
		t.Errorf("asked %v; %d known, %d readings", asked, len(a.uids), len(a.of))
	}
}

// TestOutageOfTheAccountingIsLoggedOnce: each question fails with an error of its own.
func TestOutageOfTheAccountingIsLoggedOnce(t *testing.T) {
	b := measuring(t, Measure{PUE: 1}, job("1", "lull:max-delay=12h"))
	b.f.lasts["1"] = time.Hour
	b.until(8*time.Hour + 59*time.Minute)
	said := &strings.Builder{}
	b.c.ledger.log = slog.New(slog.NewTextHandler(said, nil))
	b.f.noReadings = slurm.ErrCommand
	b.until(9*time.Hour + 30*time.Minute)
	if n := strings.Count(said.String(), "does not say what jobs have used"); n != 1 || len(b.f.measured) < 10 {
		t.Errorf("logged %d times, asked %d times: %s", n, len(b.f.measured), said)
	}
}
