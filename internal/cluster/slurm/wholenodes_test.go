package slurm

import (
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
)

// TestWhoGetsWholeNodes: squeue says it in the column OverSubscribe. A value that is missing, or that Lull does not know, says nothing, and the other columns are read as ever.
func TestWhoGetsWholeNodes(t *testing.T) {
	for text, whole := range map[string]bool{"NO": true, "OK": false, "YES": false, "USER": false, "MCS": false, "": false, "(null)": false, "N/A": false, "SOMETHING-ELSE": false} {
		jobs, bad := parseJobs(line(map[string]string{"OverSubscribe": text, "Licenses": "power:4", "NodeList": "n1", "Comment": "lull:max-delay=8h"}), end)
		if len(bad) > 0 || len(jobs) != 1 || jobs[0].WholeNodes != whole {
			t.Fatalf("%q: %+v %v", text, jobs, bad)
		}
		if j := jobs[0]; j.Node != "n1" || j.Licences != "power:4" || j.Comment != "lull:max-delay=8h" || j.AdminComment != "" {
			t.Errorf("%q: %+v", text, j)
		}
	}
	for text, whole := range map[string]bool{"none": true, "": false, "user": false, "shared": false} {
		x := restJob{ID: 1, Submitted: 1, Shared: text}
		count := int64(1)
		x.CPUs = &count
		if j, err := parseJob(x.fields()); err != nil || j.WholeNodes != whole {
			t.Errorf("slurmrestd, %q: %v, %v", text, j.WholeNodes, err)
		}
	}
}

// TestExplainSaysThatWholeNodesKeepTheirTasks, of jobs whose user lets Lull change their number, and of no others.
func TestExplainSaysThatWholeNodesKeepTheirTasks(t *testing.T) {
	for _, running := range []bool{false, true} {
		j := changed(sizing(), func(j *Job) { j.WholeNodes = true })
		if running {
			j.State, j.Node, j.Started, j.AdminComment = stateRunning, "n1", at("08:30:00"), Mark{Phase: Released, Begin: at("08:30:00"), Text: "released"}.String()
		}
		v := Observe(inputAt(t, j))
		x := v.Explain("12", at("09:00:00"))
		if len(x) != 1 || !strings.Contains(x[0].Message, "stays as it is: it gets whole nodes") || x[0].Size != 0 {
			t.Errorf("%+v", x)
		}
		c := planOf(inputAt(t, j), decide.Action{Verb: decide.Wait, Reason: decide.Reason{PlannedStart: at("14:00:00")}, Phases: []decide.Phase{{From: at("14:00:00"), To: at("14:00:00").Add(time.Hour), Workers: 2}}})
		for _, u := range c.Updates {
			if m := ReadMark(u.Comment); u.Size != 0 || m.User != 0 || m.Size != 0 {
				t.Errorf("%+v", u)
			}
		}
	}
	other := waiting()
	other.WholeNodes = true
	v := Observe(inputAt(t, other))
	if x := v.Explain("12", at("09:00:00")); len(x) != 1 || strings.Contains(x[0].Message, "whole nodes") {
		t.Errorf("%+v", x)
	}
}
