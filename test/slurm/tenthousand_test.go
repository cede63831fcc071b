//go:build slurm

package slurm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/cluster/slurm"
)

var rpcCount = regexp.MustCompile(`(?m)^\s+(REQUEST_\S+)\s.*count:(\d+)`)

// calls are how many calls of each kind slurmctld has answered, but for the question itself.
func calls(t *testing.T) (total int, text string) {
	t.Helper()
	text = must(t, "sdiag")
	byType, _, _ := strings.Cut(text, "Remote Procedure Call statistics by user")
	for _, m := range rpcCount.FindAllStringSubmatch(byType, -1) {
		if n, err := strconv.Atoi(m[2]); err == nil && m[1] != "REQUEST_STATS_INFO" && m[1] != "REQUEST_PING" && !strings.HasPrefix(m[1], "REQUEST_NODE_REG") {
			total += n
		}
	}
	return total, text
}

// TestALookAtTenThousandJobs takes slurmctld less than a second of CPU time, and a few calls, however many jobs wait. It is the last test of the suite: Slurm takes
// long to forget so many jobs.
func TestALookAtTenThousandJobs(t *testing.T) {
	empty(t)
	const arrays, tasks = 10, 1000
	for range arrays {
		id := submit(t, "true", fmt.Sprintf("--array=1-%d", tasks), "--begin=now+1day", "--comment=lull:max-delay=3d,runtime=1h")
		for from := 1; from < tasks; from += 100 { // a task that was changed is a job of its own
			var each []string
			for i := from; i < from+100 && i <= tasks; i++ {
				each = append(each, fmt.Sprintf("%s_%d", id, i))
			}
			if err := wait("tasks to be changed", func() bool { // on a busy machine, scontrol does not wait for slurmctld to the end
				return lab.command("scontrol", "update", "JobId="+strings.Join(each, ","), "Nice=1").Run() == nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	client := slurm.Commands{Dir: lab.root + "/usr/bin", Ended: true}
	const looks = 5
	before, err := lab.ControllerTime()
	if err != nil {
		t.Fatal(err)
	}
	callsBefore, _ := calls(t)
	began := time.Now()
	for range looks {
		q, err := client.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Jobs) < arrays*tasks || len(q.Bad) > 0 {
			t.Fatalf("%d jobs, %d lines that cannot be read; want %d jobs", len(q.Jobs), len(q.Bad), arrays*tasks)
		}
	}
	wall := time.Since(began) / looks
	after, err := lab.ControllerTime()
	if err != nil {
		t.Fatal(err)
	}
	callsAfter, text := calls(t)
	took, asked := (after-before)/looks, float64(callsAfter-callsBefore)/looks
	t.Logf("a look at %d jobs takes slurmctld %v of CPU time and %.1f calls, and %v in all", arrays*tasks, took, asked, wall)
	if took >= time.Second || asked < 1 || asked > 8 {
		t.Errorf("a look takes slurmctld %v of CPU time and %.1f calls; want less than 1 s, and 8 calls at most: %s", took, asked, text)
	}
}
