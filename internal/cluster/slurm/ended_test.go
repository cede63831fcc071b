package slurm

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestAJobThatIsOver: its end is read, which for others is when their time limit ends, and how it ended.
func TestAJobThatIsOver(t *testing.T) {
	for state, want := range map[string]struct{ over, succeeded, evicted, failed bool }{
		"COMPLETED": {over: true, succeeded: true}, "NODE_FAIL": {over: true, evicted: true}, "PREEMPTED": {over: true, evicted: true}, "TIMEOUT": {over: true, failed: true},
		"OUT_OF_MEMORY": {over: true, failed: true}, "CANCELLED": {over: true}, "RUNNING": {}, "PENDING": {}, "COMPLETING": {},
	} {
		jobs, bad := parseJobs(line(map[string]string{"State": state, "EndTime": "2026-06-01T11:00:00"}), end)
		if len(bad) > 0 || len(jobs) != 1 {
			t.Fatal(bad)
		}
		j := jobs[0]
		if j.Over() != want.over || j.Succeeded() != want.succeeded || j.Evicted() != want.evicted || j.Failed() != want.failed || j.Ended.IsZero() == want.over {
			t.Errorf("%s: over %v, succeeded %v, evicted %v, failed %v, ended %v", state, j.Over(), j.Succeeded(), j.Evicted(), j.Failed(), j.Ended)
		}
	}
}

// TestWhatSlurmSaysOfItself: the name of the cluster, and for how long it knows a job that is over.
func TestWhatSlurmSaysOfItself(t *testing.T) {
	var a About
	a.configured("Configuration data as of 2026\nClusterName             = lab\nJobSubmitPlugins        = throttle,lua\nMinJobAge               = 300 sec\nResumeTimeout           = 600 sec\nSuspendTime             = INFINITE\n")
	if a.Cluster != "lab" || !a.Lua || a.MinJobAge != 5*time.Minute || a.ResumeTimeout != 10*time.Minute {
		t.Errorf("%+v", a)
	}
}

// TestHoldOutIsAShare: from none to a half.
func TestHoldOutIsAShare(t *testing.T) {
	for _, text := range []string{"holdOut: 0.6", "holdOut: -0.1"} {
		if _, err := ParseConfig([]byte(text)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "holdOut") {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := ParseConfig([]byte("holdOut: 0.5"))
	if err != nil {
		t.Fatal(err)
	}
	out := 0
	for n := range 1000 {
		g := Governed{Job: &Job{Number: n, Submitted: at("08:00:00")}}
		task := Governed{Job: &Job{ID: "x_1", Number: n, Submitted: at("08:00:00")}} // of the same array
		if g.HeldOut(&c) != task.HeldOut(&c) {
			t.Errorf("tasks of array %d are on different sides", n)
		}
		if g.HeldOut(&c) {
			out++
		}
	}
	if out < 430 || out > 570 {
		t.Errorf("%d of 1000 are held out", out)
	}
}
