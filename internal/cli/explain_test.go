package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGenerateAndPlan: an instance by seed, a plan with a proven gap, an explanation, a
// plan that begins at it, and a plan in hardly any time.
func TestGenerateAndPlan(t *testing.T) {
	dir := t.TempDir()
	file, out, again := filepath.Join(dir, "i.json"), filepath.Join(dir, "p.json"), filepath.Join(dir, "q.json")
	lull(t, exitOK, "plan", "generate", "--jobs", "100", "--clusters", "2", "--slots", "48", "--load", "0.5", "--kinds", "rigid,elastic", "-o", file)
	_, text := lull(t, exitOK, "plan", "-f", file, "-o", out, "--explain", "w000003")
	for _, want := range []string{"joint (", "proven gap to optimum", "job w000003 (", "DIFFERENCE", "ROOM"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	lull(t, exitOK, "plan", "-f", file, "-o", again, "--start", out, "--time-limit", "2s")
	lull(t, exitOK, "check", "-f", file, again)
	lull(t, exitOK, "plan", "-f", file, "-o", again, "--param", "effort=500", "--time-limit", "1s")
	lull(t, exitOK, "check", "-f", file, again)
	first, _ := lull(t, exitOK, "plan", "generate", "--seed", "7")
	second, _ := lull(t, exitOK, "plan", "generate", "--seed", "7")
	if first != second {
		t.Error("equal seeds, two instances")
	}
}

func TestNormalisersAreFoundWhereTheInstanceHasNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "i.json")
	lull(t, exitOK, "plan", "generate", "--jobs", "40", "--objective", "mosp", "-o", file)
	for _, planner := range []string{"joint", "caspian", "asap"} {
		if _, text := lull(t, exitOK, "plan", "-f", file, "-o", filepath.Join(t.TempDir(), "p.json"), "--planner", planner); !strings.Contains(text, "Z ") {
			t.Errorf("%s: no Z:\n%s", planner, text)
		}
	}
}

// TestHistoryTeachesCarbonFlex: the same planner, told of a week before.
func TestHistoryTeachesCarbonFlex(t *testing.T) {
	dir := t.TempDir()
	past, now := filepath.Join(dir, "past.json"), filepath.Join(dir, "now.json")
	for seed, file := range map[string]string{"1": past, "2": now} {
		lull(t, exitOK, "plan", "generate", "--seed", seed, "--jobs", "150", "--clusters", "1", "--slots", "96", "--load", "0.3", "--kinds", "elastic", "--slack-low", "4", "--slack-high", "8", "-o", file)
	}
	a, _ := lull(t, exitOK, "plan", "-f", now, "--planner", "carbonflex")
	b, _ := lull(t, exitOK, "plan", "-f", now, "--planner", "carbonflex", "--param", "history="+past)
	if a == b {
		t.Error("history changes nothing")
	}
	// A policy's parameters never read files.
	if _, err := NewPlanner("carbonflex", map[string]string{"history": past}, nil); err == nil {
		t.Error("a policy may name files")
	}
}

func TestPlanFlagsErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "i.json")
	lull(t, exitOK, "plan", "generate", "--jobs", "30", "-o", file)
	for want, args := range map[string][]string{
		`--explain: "nobody"`:         {"--explain", "nobody"},
		"--safe: 2":                   {"--safe", "2"},
		"--time-limit: -1s":           {"--time-limit", "-1s"},
		"--start: planner asap":       {"--planner", "asap", "--start", file},
		"no such file":                {"--start", filepath.Join(dir, "absent.json")},
		"effort: 0":                   {"--param", "effort=0"},
		"omega1 of planner caspian":   {"--planner", "caspian", "--param", "omega1=x"},
		`lateness: "cubic"`:           {"--planner", "caspian", "--param", "lateness=cubic"},
		"floor: 2":                    {"--planner", "vcc", "--param", "floor=2"},
		"history of planner carbonfl": {"--planner", "carbonflex", "--param", "history=" + filepath.Join(dir, "absent.json")},
		"dwell of planner follow":     {"--planner", "follow", "--param", "dwell=soon"},
		"irradiance +":                {"--planner", "follow", "--param", "score=irradiance +"},
		"mean-length of planner":      {"--planner", "carbonscaler-multi", "--param", "mean-length=-1"},
	} {
		if _, text := lull(t, exitError, append([]string{"plan", "-f", file}, args...)...); !strings.Contains(text, want) {
			t.Errorf("%v: %q, want %q", args, text, want)
		}
	}
	if _, text := lull(t, exitError, "plan", "generate", "--kinds", "soft"); !strings.Contains(text, `kinds: "soft"`) {
		t.Error(text)
	}
}

func TestBar(t *testing.T) {
	if got, want := drawn("planning", 0.5, 10*time.Second), "planning [###############...............]  50 %, 10s left "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var b bytes.Buffer
	bar := newBar(&b, "x") // no terminal: silent
	bar.set(0.5)
	bar.close()
	if b.Len() != 0 {
		t.Errorf("drew %q", b.String())
	}
}
