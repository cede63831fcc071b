//go:build integration

package integration

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ticks is how many units of /proc/PID/stat are a second, on every architecture that Go runs Linux on.
const ticks = 100

// cpuSeconds is the CPU time, in user and in kernel mode, that this test and each program below it has used so far, by what the program is: the name of a component of the lab,
// the command of lull, or test for this process. Only processes that still run count, so a difference is right for those that neither began nor ended in between.
func cpuSeconds(t *testing.T) map[string]float64 {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	parent, used := map[int]int{}, map[int]float64{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		must(t, err)
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ") // the name before may have spaces
		fields := strings.Fields(rest)                                                          // from the third one on, see proc_pid_stat(5)
		user, err1 := strconv.ParseFloat(fields[11], 64)
		system, err2 := strconv.ParseFloat(fields[12], 64)
		parent[pid], err = strconv.Atoi(fields[1])
		must(t, err)
		must(t, err1)
		must(t, err2)
		used[pid] = (user + system) / ticks
	}
	out := map[string]float64{}
	for pid, seconds := range used {
		above := pid
		for above > 1 && above != os.Getpid() {
			above = parent[above]
		}
		if above == os.Getpid() {
			out[programOf(pid)] += seconds
		}
	}
	return out
}

// programOf is what a process is.
func programOf(pid int) string {
	if pid == os.Getpid() {
		return "test"
	}
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	args := strings.Split(string(text), "\x00")
	if i := slices.Index(args, "__role"); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	if name := filepath.Base(args[0]); name == filepath.Base(os.Getenv("LULL_BIN")) && len(args) > 1 {
		return "lull " + args[1]
	} else if name != "" {
		return name
	}
	return "other"
}

// since is what was used between two times.
func since(before, after map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for program, seconds := range after {
		out[program] = seconds - before[program]
	}
	return out
}

// sum adds to the seconds of each program.
func sum(to, more map[string]float64) map[string]float64 {
	out := map[string]float64{}
	maps.Copy(out, more)
	for program, seconds := range to {
		out[program] += seconds
	}
	return out
}

// TestSumOfCPUSeconds: nothing, on either side, is added as nothing.
func TestSumOfCPUSeconds(t *testing.T) {
	some := map[string]float64{"etcd": 2}
	for what, got := range map[string]map[string]float64{"to nothing": sum(nil, some), "nothing more": sum(some, nil)} {
		if !maps.Equal(got, some) {
			t.Errorf("%s: %v, want %v", what, got, some)
		}
	}
	if got := sum(some, map[string]float64{"etcd": 1, "test": 3}); !maps.Equal(got, map[string]float64{"etcd": 3, "test": 3}) {
		t.Errorf("both: %v", got)
	}
}

// machineSeconds is the CPU time, of all cores, that the machine has been busy since it started, with what this test runs and with anything else.
func machineSeconds(t *testing.T) (busy float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	must(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first)[1:] {
		n, err := strconv.ParseFloat(field, 64)
		must(t, err)
		if i != 3 && i != 4 && i < 8 { // idle, waiting for a disk; guests are in user time
			busy += n / ticks
		}
	}
	return busy
}

// TestCPUSecondsFindsWhatRuns: the components of the lab and this process are found, and use time.
func TestCPUSecondsFindsWhatRuns(t *testing.T) {
	begin := cpuSeconds(t)
	b := newStandingBed(t, dirtyThenClean(), nil)
	b.eventually("the API server to use time", func() bool { return since(begin, cpuSeconds(t))["kube-apiserver"] > 0 })
	for _, program := range []string{"test", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if begin[program] <= 0 {
			t.Errorf("%s: not among %v", program, begin)
		}
	}
}
