//go:build slurm

package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tasksOf is what squeue says of the tasks of an array that wait, and of those that run.
func tasksOf(t *testing.T, id string) (waiting, throttle, mark string, running int) {
	t.Helper()
	for _, line := range strings.Split(must(t, "squeue", "-h", "--array-unique", "-O", "ArrayJobID:12,ArrayTaskID:40,State:12,admin_comment:300"), "\n") {
		if !strings.HasPrefix(line, id+" ") {
			continue
		}
		f := strings.Fields(line)
		switch f[2] {
		case "PENDING":
			waiting, throttle, _ = strings.Cut(f[1], "%")
			mark = strings.Join(f[3:], " ")
		case "RUNNING":
			running++
		}
	}
	return waiting, throttle, mark, running
}

// full takes all CPUs but six.
func full(t *testing.T) {
	t.Helper()
	until(t, submit(t, "sleep 300", "-n26"), "running", running)
}

// TestThrottleOfAnArrayFollowsThePlan: in clean seconds there is room for six tasks beside another job. An array that may run fewer tasks at a time than its throttle
// lets runs as many as the plan has, and never more than its user lets. All tasks complete.
func TestThrottleOfAnArrayFollowsThePlan(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{30 * time.Second, 45 * time.Second}))
	full(t)
	id := submit(t, "sleep 4", "--array=0-39%8", "--comment=lull:max-delay=60s,runtime=4s,min-tasks=2")
	seen, most := map[string]bool{}, 0
	if err := wait("all tasks to complete", func() bool {
		waiting, throttle, _, running := tasksOf(t, id)
		if throttle != "" || strings.ContainsAny(waiting, "[,-") { // of the last task that waits, squeue shows none
			seen[throttle] = true
		}
		most = max(most, running)
		return waiting == "" && running == 0
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("throttles %v, %d tasks at a time at most", seen, most)
	lowered := false
	for throttle := range seen {
		n := 0
		if _, err := fmt.Sscan(throttle, &n); err != nil || n > 8 || n < 1 {
			t.Errorf("a throttle %q; want 1 to 8", throttle)
		}
		lowered = lowered || n < 8
	}
	if !lowered || most > 8 {
		t.Errorf("throttles %v, %d tasks at a time at most; want a lower throttle than that of the user, and 8 tasks at most", seen, most)
	}
}

// TestThrottleIsKeptWithoutLull, and is one with which the array ends in time. The next controller gives back that of the user once the array is not scaled any more.
func TestThrottleIsKeptWithoutLull(t *testing.T) {
	empty(t)
	file := curve(t, [2]time.Duration{0, time.Minute})
	l := controller(t, file)
	full(t)
	id := submit(t, "sleep 4", "--array=0-59%10", "--comment=lull:max-delay=3m,runtime=4s,min-tasks=2")
	var throttle, mark string
	if err := wait("a lower throttle", func() bool {
		_, throttle, mark, _ = tasksOf(t, id)
		return throttle != "10" && throttle != ""
	}); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
	l.kill()
	// Lull may change it until it is killed.
	_, throttle, mark, _ = tasksOf(t, id)
	if !strings.Contains(mark, "limit=10 set="+throttle+" of=60") {
		t.Fatalf("throttle %s, AdminComment %s", throttle, mark)
	}
	n, left := 0, 0
	if _, err := fmt.Sscan(throttle, &n); err != nil {
		t.Fatal(err)
	}
	var first int
	waiting, _, _, _ := tasksOf(t, id)
	if _, err := fmt.Sscanf(waiting, "%d-59", &first); err != nil {
		t.Fatalf("%s: %v", waiting, err)
	}
	left = 60 - first
	submitted := show(t, id).at(t, "SubmitTime")
	ends := time.Now().Add(time.Duration((left+n-1)/n) * 4 * time.Second)
	if latest := submitted.Add(3*time.Minute + 6*4*time.Second); ends.After(latest) {
		t.Errorf("%d tasks are left, %d at a time: they end %v after the deadline, as Lull is dead", left, n, ends.Sub(latest))
	}
	must(t, "scontrol", "update", "JobId="+id, "Comment=lull:max-delay=3m,runtime=4s")
	controller(t, file)
	if err := wait("the throttle of the user", func() bool {
		_, throttle, mark, _ = tasksOf(t, id)
		return throttle == "10"
	}); err != nil {
		t.Errorf("%v: %s %s", err, throttle, mark)
	}
}

// TestThrottleOfAUserCounts: who changes the throttle has it, from then on.
func TestThrottleOfAUserCounts(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{0, time.Minute}))
	full(t)
	id := submit(t, "sleep 4", "--array=0-59%10", "--comment=lull:max-delay=3m,runtime=4s,min-tasks=2")
	throttle, mark := "", ""
	if err := wait("a lower throttle", func() bool {
		_, throttle, mark, _ = tasksOf(t, id)
		return throttle != "10" && throttle != ""
	}); err != nil {
		t.Fatal(err)
	}
	must(t, "scontrol", "update", "JobId="+id, "ArrayTaskThrottle=9")
	if err := wait("Lull to note it", func() bool {
		_, throttle, mark, _ = tasksOf(t, id)
		return strings.Contains(mark, "throttle=own")
	}); err != nil {
		t.Fatalf("%v: %s %s", err, throttle, mark)
	}
	time.Sleep(5 * time.Second)
	if _, throttle, mark, _ = tasksOf(t, id); throttle != "9" {
		t.Errorf("throttle %s, AdminComment %s; want 9", throttle, mark)
	}
}

// TestThrottleThatChangesDuringADecisionIsTheUsers: the user changes it after the look on which Lull decides, and before Lull sets its own. This squeue does so
// as soon as Lull reads the throttle again.
func TestThrottleThatChangesDuringADecisionIsTheUsers(t *testing.T) {
	empty(t)
	bin := t.TempDir()
	for _, name := range []string{"sinfo", "scontrol", "sacct"} {
		if err := os.Symlink(filepath.Join(lab.root, "usr/bin", name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	squeue := fmt.Sprintf(`#!/bin/bash
if [[ "$*" =~ --jobs=([0-9]+) ]] && [ ! -e %[1]s/once ]; then
	touch %[1]s/once
	%[2]s/scontrol update JobId=${BASH_REMATCH[1]} ArrayTaskThrottle=7
fi
exec %[2]s/squeue "$@"
`, bin, lab.root+"/usr/bin")
	if err := os.WriteFile(filepath.Join(bin, "squeue"), []byte(squeue), 0o755); err != nil {
		t.Fatal(err)
	}
	l := controller(t, curve(t, [2]time.Duration{0, time.Minute}), "--slurm-bin", bin)
	full(t)
	id := submit(t, "sleep 4", "--array=0-59%10", "--comment=lull:max-delay=3m,runtime=4s,min-tasks=2")
	throttle, mark := "", ""
	if err := wait("Lull to note that the user has changed it", func() bool {
		_, throttle, mark, _ = tasksOf(t, id)
		return strings.Contains(mark, "throttle=own")
	}); err != nil {
		t.Fatalf("%v: %s %s: %s", err, throttle, mark, l.log)
	}
	time.Sleep(5 * time.Second)
	if _, throttle, mark, _ = tasksOf(t, id); throttle != "7" {
		t.Errorf("throttle %s, AdminComment %s; want 7", throttle, mark)
	}
}
