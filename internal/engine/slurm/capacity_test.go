package slurm

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/pkg/workload"
)

// withCapacity bounds a controller by a method: at most 8 CPUs, of 16 licences.
func withCapacity(t *testing.T, c *Controller, method v1alpha1.CapacityMethod, state string) {
	t.Helper()
	c.o.Input.Config.Capacity = &slurm.Capacity{Licence: "power", Maximum: "8", Method: method, State: state}
	local, err := curve.NewLocal("slurm", v1alpha1.CapacityCurveSpec{Resource: slurm.LicenceResource, Maximum: "8", Method: method}, state, c.o.Log)
	if err != nil {
		t.Fatal(err)
	}
	c.o.Capacity = &Capacity{Curve: local, Licence: "power", Maximum: 8, Total: 16}
}

// held is a job of 4 CPUs and licences that job_submit.lua holds.
func held(id string) slurm.Job {
	j := job(id, "lull:max-delay=12h")
	j.CPUs, j.Licences, j.Begin = 4, "matlab:1,power:4", j.Begin.Add(2*time.Minute)
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin}.String()
	return j
}

// TestCapacityBoundsWhatRunsAtATime: there is room for both jobs in the clean hour, but capacity for one. The licences that are not to be used are
// reserved, for as long as somebody goes on reserving them.
func TestCapacityBoundsWhatRunsAtATime(t *testing.T) {
	c, f, _ := setup(t, held("1"), held("2"))
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "14:00", Capacity: "4"}, {From: "14:00", To: "20:00", Capacity: "8"}}}, "")
	step(t, c, f, 0)
	if f.reserved != 12 || !f.until.Equal(clockAt(8, 6)) {
		t.Errorf("%d licences are reserved until %v; want 12 of 16 until 08:06", f.reserved, f.until)
	}
	step(t, c, f, 10*time.Second)
	running := 0
	for _, j := range f.jobs {
		if j.State == "RUNNING" {
			running++
		} else if j.Begin.Hour() != 14 {
			t.Errorf("job %s begins at %v; want 14:00, when there is capacity again", j.ID, j.Begin)
		}
	}
	if running != 1 {
		t.Errorf("%d jobs run in the clean hour; want 1: the capacity is 4 CPUs", running)
	}
	reserves := func() int { return strings.Count(strings.Join(f.calls, "\n"), "reserve ") }
	before := reserves()
	for range 12 {
		step(t, c, f, 30*time.Second)
	}
	if n := reserves() - before; n != 3 || f.until.Sub(f.clock.Now()) < 3*time.Minute {
		t.Errorf("reserved %d times in 6 minutes, until %v; want three times, as the end comes near", n, f.until)
	}
	f.clock.SetTime(midnight.Add(14 * time.Hour))
	step(t, c, f, 0)
	if f.reserved != 8 { // those above the maximum
		t.Errorf("%d licences are reserved at 14:00; want 8 of 16", f.reserved)
	}
}

// TestWhatMayNotWaitRaisesTheCapacity: a job that runs and may not be paused, and one that comes to its latest start, are above the schedule.
func TestWhatMayNotWaitRaisesTheCapacity(t *testing.T) {
	runs, due := held("1"), held("2")
	runs.State, runs.Started, runs.AdminComment = "RUNNING", runs.Submitted, slurm.Mark{Phase: slurm.Released}.String()
	due.Comment = "lull:max-delay=10m"
	c, f, log := setup(t, runs, due)
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "20:00", To: "21:00", Capacity: "8"}}}, "")
	step(t, c, f, 0)
	if f.reserved != 8 || !strings.Contains(log.String(), "reason=Floor") {
		t.Errorf("%d licences are reserved; want 8 of 16: both jobs need their CPUs\n%s", f.reserved, log)
	}
}

// TestJobsRunWhenTheCapacityCannotBeSet: a Slurm that refuses the reservation is told so, and jobs are decided on.
func TestJobsRunWhenTheCapacityCannotBeSet(t *testing.T) {
	c, f, log := setup(t, held("1"))
	f.refusesReservation = errors.New("Access/permission denied")
	withCapacity(t, c, v1alpha1.CapacityMethod{Planned: &v1alpha1.PlannedMethod{}}, "")
	step(t, c, f, 0)
	step(t, c, f, 10*time.Second)
	if f.jobs[0].State != "RUNNING" || strings.Count(log.String(), "The capacity cannot be set") != 2 {
		t.Errorf("%+v\n%s", f.jobs[0], log)
	}
}

// TestCarbonFlexSetsTheCapacity: the method learns from jobs of the past two weeks, keeps what it has learned, and allows less in dirty hours than in
// clean ones. Before it has learned anything it allows all.
func TestCarbonFlexSetsTheCapacity(t *testing.T) {
	state := filepath.Join(t.TempDir(), "capacity")
	var past []curve.Past
	for h := range 14 * 24 {
		past = append(past, curve.Past{
			ID: fmt.Sprint(h), Kind: workload.Interruptible, Submitted: midnight.Add(time.Duration(h-14*24) * time.Hour), Delay: 12 * time.Hour, Hours: 1,
			Request: map[string]float64{slurm.LicenceResource: 2}, MinWorkers: 1, Curve: []float64{1},
		})
	}
	if err := curve.SeedFile(state, past); err != nil {
		t.Fatal(err)
	}
	c, f, log := setup(t, held("1"), held("2"))
	f.clock.SetTime(midnight.Add(10 * time.Hour))
	for i := range f.jobs {
		f.jobs[i].Submitted = f.clock.Now()
		f.jobs[i].Begin = f.clock.Now().Add(2 * time.Minute)
		f.jobs[i].AdminComment = slurm.Mark{Phase: slurm.Held, Begin: f.jobs[i].Begin}.String()
	}
	withCapacity(t, c, v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}, state)
	step(t, c, f, 0)
	if f.reserved != 8 || !strings.Contains(log.String(), "carbon-agnostic") {
		t.Errorf("%d licences are reserved before anything is learned; want 8\n%s", f.reserved, log)
	}
	for end := time.Now().Add(3 * time.Minute); !strings.Contains(log.String(), "Learned"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing is learned: %s", log)
		}
		step(t, c, f, 0)
	}
	allowed := map[int]int{}
	wanted := map[int]float64{}
	for h := 11; h < 18; h++ { // power is clean from 14:00 on
		f.clock.SetTime(midnight.Add(time.Duration(h) * time.Hour))
		step(t, c, f, 0)
		allowed[h], wanted[h] = 16-f.reserved, c.o.Capacity.Curve.Status().Wanted
	}
	if allowed[12] != 0 || wanted[15] <= wanted[12] || allowed[15] < int(wanted[15]) {
		t.Errorf("CPUs by hour: %v, wanted: %v; want none at 12:00, more at 15:00\n%s", allowed, wanted, log)
	}
	// Another controller goes on with it.
	again, g, log := setup(t)
	withCapacity(t, again, v1alpha1.CapacityMethod{CarbonFlex: &v1alpha1.CarbonFlexMethod{}}, state)
	g.clock.SetTime(midnight.Add(16 * time.Hour))
	step(t, again, g, 0)
	if strings.Contains(log.String(), "carbon-agnostic") {
		t.Errorf("what was learned is lost: %s", log)
	}
}

// TestAJobWhoseLicencesCannotBeChangedIsReleased: Slurm refuses a list that has a licence which it does not know any more.
func TestAJobWhoseLicencesCannotBeChangedIsReleased(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		j := held("1")
		j.CPUs, j.Licences = 8, "gone:1,power:2"
		c, f, log := setup(t, j)
		f.refusesLicences = refuses
		withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "20:00", Capacity: "8"}}}, "")
		step(t, c, f, 0) // power is clean
		if got := f.jobs[0]; got.Begin.After(f.clock.Now()) || (got.Licences == "gone:1,power:8") == refuses || strings.Contains(log.String(), "licences of a job") != refuses {
			t.Errorf("refuses %v: %+v\n%s", refuses, got, log)
		}
	}
}

// TestAReservationThatAnOperatorHasChangedStays, as long as it is there: it is extended as it is. Once it is deleted, Lull makes its own again.
func TestAReservationThatAnOperatorHasChangedStays(t *testing.T) {
	c, f, log := setup(t, held("1"), held("2"))
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "14:00", Capacity: "4"}, {From: "14:00", To: "20:00", Capacity: "8"}}}, "")
	step(t, c, f, 0)
	f.reserved = 5 // of 12
	for range 20 {
		step(t, c, f, time.Minute)
		if f.reserved != 5 || !f.clock.Now().Before(f.until) {
			t.Fatalf("%d licences are reserved until %v; want the 5 of the operator, extended", f.reserved, f.until)
		}
	}
	if n := strings.Count(log.String(), "Somebody else has changed the reservation"); n != 1 {
		t.Errorf("told %d times: %s", n, log)
	}
	f.clock.SetTime(midnight.Add(14 * time.Hour)) // another capacity
	f.until = f.clock.Now().Add(time.Minute)
	step(t, c, f, 0)
	if f.reserved != 5 {
		t.Errorf("%d licences are reserved; want the 5 of the operator", f.reserved)
	}
	f.reserved = 0
	step(t, c, f, time.Minute)
	if f.reserved != 8 {
		t.Errorf("%d licences are reserved after a deletion; want 8", f.reserved)
	}
}

// TestTheEndThatAnOperatorHasSetStays, as far as it is later than that of Lull, with a number of the operator or of Lull: a number of Lull follows the capacity.
func TestTheEndThatAnOperatorHasSetStays(t *testing.T) {
	morning := midnight.Add(33 * time.Hour)
	for name, tc := range map[string]struct {
		number, before, after int
	}{"and a number": {14, 14, 14}, "alone": {12, 12, 8}} {
		c, f, log := setup(t, held("1"), held("2"))
		withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "14:00", Capacity: "4"}, {From: "14:00", To: "20:00", Capacity: "8"}, {From: "20:00", To: "24:00", Capacity: "4"}}}, "")
		step(t, c, f, 0)
		f.reserved, f.until = tc.number, morning
		calls := len(f.calls)
		for range 5 {
			step(t, c, f, 2*time.Minute)
			if f.reserved != tc.before || !f.until.Equal(morning) {
				t.Fatalf("%s: %d licences are reserved until %v; want %d until %v\n%s", name, f.reserved, f.until, tc.before, morning, log)
			}
		}
		if made := strings.Join(f.calls[calls:], "\n"); strings.Contains(made, "reserve") {
			t.Errorf("%s: reserved again: %s", name, made)
		}
		f.clock.SetTime(midnight.Add(14 * time.Hour)) // another capacity
		for i := range 3 {
			f.refusesReservation = nil
			if i == 0 {
				f.refusesReservation = slurm.ErrCommand
			}
			step(t, c, f, 2*time.Minute)
		}
		if f.reserved != tc.after || !f.until.Equal(morning) {
			t.Errorf("%s, at 14:00: %d licences are reserved until %v; want %d until %v\n%s", name, f.reserved, f.until, tc.after, morning, log)
		}
		f.clock.SetTime(morning.Add(-time.Minute)) // that of Lull is later
		step(t, c, f, 0)
		if !f.until.Equal(morning.Add(5 * time.Minute)) {
			t.Errorf("%s: the reservation ends at %v; want it extended\n%s", name, f.until, log)
		}
	}
}

// TestTheEndThatAnOperatorHasSetOutlivesTheController: the next one finds an end later than Lull gives, so somebody else has given it. An end that Lull has given is extended.
func TestTheEndThatAnOperatorHasSetOutlivesTheController(t *testing.T) {
	morning := midnight.Add(20 * time.Hour)
	for _, refused := range []bool{false, true} { // at first
		for end, want := range map[time.Time]time.Time{
			morning: morning, clockAt(8, 15): clockAt(8, 15), clockAt(8, 6): clockAt(8, 7), clockAt(8, 3): clockAt(8, 7),
		} {
			first, f, log := setup(t, held("1"))
			method := v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "14:00", Capacity: "4"}}}
			withCapacity(t, first, method, "")
			step(t, first, f, 0)
			f.until = end
			next, _, _ := setup(t)
			next.o.Client, next.o.Clock = f, f.clock
			withCapacity(t, next, method, "")
			f.clock.Step(time.Minute)
			if refused {
				f.refusesReservation = slurm.ErrCommand
				step(t, next, f, 0)
				f.refusesReservation, f.until = nil, end
			}
			step(t, next, f, 0)
			if f.reserved != 12 || !f.until.Equal(want) {
				t.Errorf("%v, refused %v: %d licences are reserved until %v; want 12 until %v\n%s", end, refused, f.reserved, f.until, want, log)
			}
			if end.Equal(morning) {
				f.clock.SetTime(midnight.Add(14 * time.Hour)) // another capacity
				step(t, next, f, 0)
				if !f.until.Equal(morning) {
					t.Errorf("with another number, they are reserved until %v; want %v\n%s", f.until, morning, log)
				}
			}
		}
	}
}

// TestAnEarlierEndIsExtended: whoever has set it, and also after the clocks were set back, the reservation of Lull ends when Lull says.
func TestAnEarlierEndIsExtended(t *testing.T) {
	c, f, log := setup(t, held("1"))
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "08:00", To: "20:00", Capacity: "4"}}}, "")
	step(t, c, f, 0)
	f.until = f.clock.Now().Add(3 * time.Minute)
	step(t, c, f, 2*time.Minute)
	if !f.until.Equal(f.clock.Now().Add(6 * time.Minute)) {
		t.Errorf("ends at %v\n%s", f.until, log)
	}
	f.clock.SetTime(f.clock.Now().Add(-time.Hour))
	c.o.Capacity.reserved, f.reserved = 11, 11 // so that Lull sets it again
	step(t, c, f, 0)
	if !f.until.Equal(f.clock.Now().Add(6 * time.Minute)) {
		t.Errorf("the clocks were set back to %v; ends at %v\n%s", f.clock.Now(), f.until, log)
	}
}

// TestLicencesThatChangeDuringADecisionStay: an operator changes the licences of a job after the look on which the decision rests.
func TestLicencesThatChangeDuringADecisionStay(t *testing.T) {
	for change, want := range map[string]string{"matlab:3,power:2": "matlab:3,power:8", "matlab:1,power:1": "matlab:1,power:1", "matlab:1": "matlab:1"} {
		j := held("1")
		j.CPUs, j.Licences = 8, "matlab:1,power:2"
		c, f, log := setup(t, j)
		f.meanwhile = func() { f.jobs[0].Licences = change }
		withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "20:00", To: "21:00", Capacity: "8"}}}, "")
		step(t, c, f, 0)
		f.meanwhile = nil
		step(t, c, f, time.Minute)
		if got := f.jobs[0]; got.Licences != want {
			t.Errorf("changed to %s: %s; want %s\n%s", change, got.Licences, want, log)
		}
	}
}

// TestLicencesAreTriedAgain: while they cannot be raised, what else is written of a job does not say that they were. Once they are, it does: an operator who lowers
// them again has decided that.
func TestLicencesAreTriedAgain(t *testing.T) {
	j := held("1")
	j.CPUs = 8
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Licences: 4}.String()
	c, f, log := setup(t, j)
	f.forgets = 1
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "14:00", To: "20:00", Capacity: "8"}}}, "")
	steps := func(want string) {
		t.Helper()
		for range 5 {
			step(t, c, f, 10*time.Second)
		}
		if got := f.jobs[0]; got.Licences != want || slurm.ReadMark(got.AdminComment).Licences != 8 {
			t.Fatalf("%s, %s; want %s, and a mark of 8\n%s", got.Licences, got.AdminComment, want, log)
		}
	}
	steps("matlab:1,power:8")
	f.jobs[0].Licences = "matlab:1,power:4"
	steps("matlab:1,power:4")
}

// TestRefusedLicencesAreTriedLess: Slurm refuses each change of licences, as one of them is gone from its configuration. The controller tries it ever less often, and
// changes them once Slurm accepts that.
func TestRefusedLicencesAreTriedLess(t *testing.T) {
	j := held("1")
	j.CPUs = 8
	j.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: j.Begin, Licences: 4}.String()
	c, f, log := setup(t, j)
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "14:00", To: "20:00", Capacity: "8"}}}, "")
	const many = 1 << 20
	f.forgets = many
	for range 360 {
		step(t, c, f, 10*time.Second)
	}
	// After 10, 20, 40 s and so on, and every ten minutes at last: eleven times in an hour.
	if tried := many - f.forgets; tried < 8 || tried > 13 {
		t.Errorf("tried %d times in an hour\n%s", tried, log)
	}
	f.forgets = 0
	for range 61 {
		step(t, c, f, 10*time.Second)
	}
	if got := f.jobs[0]; got.Licences != "matlab:1,power:8" {
		t.Errorf("%s, %s, ten minutes after Slurm accepts it; want power:8", got.Licences, got.AdminComment)
	}
}

// TestWhatFollowsRaisedLicencesSaysSo: a job that gets its licences and its begin time in one decision has both in its mark, and another has what it had.
func TestWhatFollowsRaisedLicencesSaysSo(t *testing.T) {
	a, b := held("1"), held("2")
	a.CPUs = 8
	a.AdminComment = slurm.Mark{Phase: slurm.Held, Begin: a.Begin, Licences: 4}.String()
	b.AdminComment = a.AdminComment
	c, f, log := setup(t, a, b)
	withCapacity(t, c, v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "14:00", To: "20:00", Capacity: "8"}}}, "")
	step(t, c, f, 0)
	for i, want := range []int{8, 4} {
		if m := slurm.ReadMark(f.jobs[i].AdminComment); m.Licences != want || m.Text == "" {
			t.Errorf("job %s: %s; want a plan, and a mark of %d\n%s", f.jobs[i].ID, f.jobs[i].AdminComment, want, log)
		}
	}
}
