//go:build slurm

package slurm

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestSlurmKeepsWhatIsWrongWithAComment, where its user can read it after the end: with slurmdbd, and for a while without.
func TestSlurmKeepsWhatIsWrongWithAComment(t *testing.T) {
	accounted(t)
	controller(t, curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute}))
	const why = `left to Slurm: invalid comment: max-delay: "8x" is not a duration`
	id := submit(t, "sleep 5", "--comment=lull:max-delay=8x")
	if j := until(t, id, "completed", completed); !strings.Contains(j["AdminComment"], why) {
		t.Errorf("scontrol show job: %s", j["AdminComment"])
	}
	told := ""
	if err := wait("sacct to say what is wrong", func() bool {
		told = must(t, "sacct", "-n", "-P", "-X", "-j", id, "-o", "AdminComment")
		return strings.Contains(told, why)
	}); err != nil {
		t.Errorf("%v: %q", err, told)
	}
}

// TestAControllerWithoutTheDefaultsReleasesTheirJobs, and says so.
func TestAControllerWithoutTheDefaultsReleasesTheirJobs(t *testing.T) {
	empty(t)
	intensities := curve(t, [2]time.Duration{10 * time.Minute, 15 * time.Minute})
	l := controller(t, intensities, "--config", patient(t))
	id := submit(t, "sleep 1", "--partition=green")
	until(t, id, "planned", planned)
	l.kill()
	config := t.TempDir() + "/none.yaml"
	if err := os.WriteFile(config, []byte("margin: 10s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l = controller(t, intensities, "--config", config)
	if err := wait("the log to say what is released", func() bool {
		text := l.log.String()
		return strings.Contains(text, "Released jobs that waited: Lull leaves them to Slurm") && strings.Contains(text, `"jobs":"`+id+`"`) && strings.Contains(text, "start it with --config")
	}); err != nil {
		t.Fatalf("%v\n%s", err, l.log)
	}
	until(t, id, "completed", completed)
}

// TestAMendedCommentKeepsTheBeginTimeOfItsUser: what was wrong with it is noted, and no more.
func TestAMendedCommentKeepsTheBeginTimeOfItsUser(t *testing.T) {
	empty(t)
	controller(t, curve(t, [2]time.Duration{-time.Minute, 15 * time.Minute}))
	id := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--begin=now+600", "--comment=lull:max-delay=8x", "--wrap", "sleep 1")
	noted := until(t, id, "noted", func(j job) bool { return strings.Contains(j["AdminComment"], "phase=noted") })
	asNobody(t, "scontrol", "update", "JobId="+id, "Comment=lull:max-delay=15m,runtime=4s")
	j := until(t, id, "left with another reason", func(j job) bool {
		return strings.Contains(j["AdminComment"], "it was submitted with a begin time of its own [phase=noted]")
	})
	if j.state() != "PENDING" || j["StartTime"] != noted["StartTime"] || j["EligibleTime"] != noted["EligibleTime"] {
		t.Errorf("noted: %v; mended: %v", noted, j)
	}
	if text := explain(t, id); !strings.Contains(text, "begin time of its own") {
		t.Errorf("explain: %s", text)
	}
}
