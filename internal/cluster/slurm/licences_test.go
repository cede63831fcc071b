package slurm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

// TestJobsTakeALicenceForEachCPU, also for those that were added since their submission. An operator who has taken all away has decided that.
func TestJobsTakeALicenceForEachCPU(t *testing.T) {
	change := func(f func(*Job)) Job {
		j := waiting()
		j.CPUs, j.Licences = 8, "superpower:1,power:2,matlab@server:3"
		f(&j)
		return j
	}
	for name, tc := range map[string]struct {
		job  Job
		want string
	}{
		"fewer than CPUs":              {change(func(*Job) {}), "superpower:1,power:8,matlab@server:3"},
		"one for each":                 {change(func(j *Job) { j.CPUs = 2 }), ""},
		"more":                         {change(func(j *Job) { j.CPUs = 1 }), ""},
		"without a number":             {change(func(j *Job) { j.Licences = "power" }), "power:8"},
		"with another sign":            {change(func(j *Job) { j.Licences = "power=2" }), "power:8"},
		"as many as there are":         {change(func(j *Job) { j.CPUs = 90 }), "superpower:1,power:24,matlab@server:3"},
		"none":                         {change(func(j *Job) { j.Licences = "superpower:1" }), ""},
		"an operator has lowered them": {change(func(j *Job) { j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Licences: 4}.String() }), ""},
		"as they were set":             {change(func(j *Job) { j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Licences: 2}.String() }), "superpower:1,power:8,matlab@server:3"},
		"a list that is cut":           {change(func(j *Job) { j.LicencesCut = true }), ""},
		"waits for others":             {change(func(j *Job) { j.Reason = reasonDepends }), "superpower:1,power:8,matlab@server:3"},
		"runs": {change(func(j *Job) {
			j.State, j.Started, j.AdminComment = stateRunning, at("08:50:00"), Mark{Phase: Released}.String()
		}), ""},
		"is left to Slurm": {change(func(j *Job) { j.Comment = "" }), ""},
	} {
		in := inputAt(t, tc.job)
		in.Config = &Config{Capacity: &Capacity{Licence: "power", Maximum: v1alpha1.Amount("24")}}
		v := Observe(in)
		d := decide.Decision{}
		for i := range v.Jobs {
			d.Actions, d.Order = append(d.Actions, decide.Action{Verb: decide.Release}), append(d.Order, i)
		}
		c := Plan(&v, &d)
		got := ""
		for i, u := range c.Updates {
			if got += u.Licences; u.Licences != "" && (i > 0 || u.Comment != "" && !strings.Contains(u.Comment, "licences=") || u.SawLicences != tc.job.Licences || u.Now || !u.Begin.IsZero()) {
				t.Errorf("%s: %+v; want licences first, and nothing else with them", name, c.Updates)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
}

// TestALongListOfLicencesIsCut: what squeue does not show would be lost.
func TestALongListOfLicencesIsCut(t *testing.T) {
	for width, cut := range map[int]bool{tresWidth - 1: false, tresWidth: true, tresWidth + 5: true} {
		text := "power:2," + strings.Repeat("x", width-8)
		if jobs, bad := parseJobs(line(map[string]string{"Licenses": text}), end); len(bad) > 0 || jobs[0].LicencesCut != cut {
			t.Errorf("%d characters: %+v %v", width, jobs, bad)
		}
	}
}

// TestLicencesAreOneCommand, which leaves the AdminComment.
func TestLicencesAreOneCommand(t *testing.T) {
	c := commands(t, map[string]string{"scontrol": fmt.Sprintf("[ \"$*\" = %q ] || { echo \"$*\" >&2; exit 1; }", "update JobId=6 Licenses=power:8")})
	if err := c.Update(t.Context(), Update{IDs: []string{"6"}, Licences: "power:8"}); err != nil {
		t.Error(err)
	}
}

// TestLicencesThatWereChangedMeanwhileStay: those of others are kept, and a number that somebody else has set is not changed.
func TestLicencesThatWereChangedMeanwhileStay(t *testing.T) {
	u := Update{IDs: []string{"1", "2", "3", "4", "5", "6_[1-3]"}, SawLicences: "matlab:1,power:2", Licences: "matlab:1,power:8", Comment: "lull: x"}
	got := u.Relicense(map[string]string{"1": "matlab:1,power:2", "2": "power:2,matlab:5,ansys", "3": "matlab:1,power:1", "4": "matlab:1", "6_[1-3]": "matlab:1,power:2"})
	text := ""
	for _, of := range got {
		text += fmt.Sprintln(of.IDs, of.Licences, of.Comment)
	}
	if want := "[1] matlab:1,power:8 lull: x\n[2] power:8,matlab:5,ansys lull: x\n[6_[1-3]] matlab:1,power:8 lull: x\n"; text != want {
		t.Errorf("%s; want %s", text, want)
	}
}

// TestMarksStateTheLicencesThatWereGiven, each its own.
func TestMarksStateTheLicencesThatWereGiven(t *testing.T) {
	m := Mark{Phase: Held, Begin: at("09:00:00"), Licences: 2, Before: "ours", Text: "waits"}
	u := Update{IDs: []string{"1", "2", "3", "4"}, Begin: m.Begin, Comment: m.String(), Otherwise: m.String()}
	text := ""
	for _, of := range u.Marked(map[string]int{"1": 8, "3": 4, "4": 8}) {
		text += fmt.Sprintln(of.IDs, of.Begin.Equal(m.Begin), of.Comment == of.Otherwise, of.Comment)
	}
	want := ""
	for _, of := range []struct {
		ids string
		n   int
	}{{"[1 4]", 8}, {"[2]", 2}, {"[3]", 4}} {
		m.Licences = of.n
		want += fmt.Sprintln(of.ids, true, true, m.String())
	}
	if text != want {
		t.Errorf("%s; want %s", text, want)
	}
	for _, u := range []Update{{IDs: []string{"1"}, Now: true}, {IDs: []string{"1"}, Comment: "of others"}, {IDs: []string{"2"}, Comment: m.String()}} {
		if got := u.Marked(map[string]int{"1": 8}); len(got) != 1 || got[0].Comment != u.Comment || got[0].Now != u.Now {
			t.Errorf("%+v; want %+v", got, u)
		}
	}
}

// TestLicencesOfJobsThatWait are those of squeue now.
func TestLicencesOfJobsThatWait(t *testing.T) {
	row := func(f ...string) string {
		text := ""
		for i, c := range licenceColumns {
			text += fmt.Sprintf("%-*s", c.width, f[i])
		}
		return text
	}
	c := commands(t, map[string]string{"squeue": `case "$*" in *"--jobs=6,7,8 "*) ;; *) echo "$*" >&2; exit 1;; esac
end=${*##*:160}
printf "%s$end\\n" '` + row("6", "6", "N/A", "power:2,matlab:1") + `' '` + row("7", "7", "1-3%2", "power:1") + `' '` + row("8", "8", "N/A", strings.Repeat("x", tresWidth)) + `'`})
	got, err := c.LicencesOf(t.Context(), []string{"6", "7_[1-3]", "8"})
	if err != nil || len(got) != 2 || got["6"] != "power:2,matlab:1" || got["7_[1-3]"] != "power:1" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestTheReservationOfALicence is read as scontrol 22.05 writes it.
func TestTheReservationOfALicence(t *testing.T) {
	end := time.Date(2026, 11, 28, 14, 37, 40, 0, time.UTC)
	for text, want := range map[string]struct {
		r          Reservation
		there, bad bool
	}{
		"No reservations in the system": {},
		"ReservationName=other StartTime=2026-11-28T14:32:40 EndTime=2026-11-28T14:37:40 Licenses=power:5 State=ACTIVE":                                       {},
		"ReservationName=lull-power StartTime=2026-11-28T14:32:40 EndTime=2026-11-28T14:37:40 Nodes= NodeCnt=0 Features=(null) Licenses=power:3 State=ACTIVE": {Reservation{3, end}, true, false},
		"ReservationName=lull-power EndTime=2026-11-28T14:37:40 Licenses=(null) State=ACTIVE":                                                                 {Reservation{0, end}, true, false},
		"ReservationName=lull-power EndTime=soon Licenses=power:3 State=ACTIVE":                                                                               {Reservation{3, time.Time{}}, true, true},
		"ReservationName=lull-power Licenses=power:3 State=ACTIVE":                                                                                            {Reservation{3, time.Time{}}, true, true},
	} {
		c := commands(t, map[string]string{"scontrol": "echo '" + text + "'"})
		if r, there, err := c.Reserved(t.Context(), "power"); r != want.r || there != want.there || (err != nil) != want.bad || want.bad && !strings.Contains(err.Error(), "EndTime") {
			t.Errorf("%s: %v, %v, %v", text, r, there, err)
		}
	}
}
