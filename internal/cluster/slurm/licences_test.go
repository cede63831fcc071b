package slurm

import (
	"fmt"
	"strings"
	"testing"

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
		"fewer than CPUs":      {change(func(*Job) {}), "superpower:1,power:8,matlab@server:3"},
		"one for each":         {change(func(j *Job) { j.CPUs = 2 }), ""},
		"more":                 {change(func(j *Job) { j.CPUs = 1 }), ""},
		"without a number":     {change(func(j *Job) { j.Licences = "power" }), "power:8"},
		"with another sign":    {change(func(j *Job) { j.Licences = "power=2" }), "power:8"},
		"as many as there are": {change(func(j *Job) { j.CPUs = 90 }), "superpower:1,power:24,matlab@server:3"},
		"none":                 {change(func(j *Job) { j.Licences = "superpower:1" }), ""},
		"a list that is cut":   {change(func(j *Job) { j.LicencesCut = true }), ""},
		"waits for others":     {change(func(j *Job) { j.Reason = reasonDepends }), "superpower:1,power:8,matlab@server:3"},
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
			if got += u.Licences; u.Licences != "" && (i > 0 || u.Comment != "" || u.Now || !u.Begin.IsZero()) {
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
