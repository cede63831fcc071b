package slurm

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan/asap"
)

const end = "e0123"

// line is a line of squeue with some columns set.
func line(set map[string]string) string {
	values := map[string]string{
		"JobID": "12", "ArrayJobID": "12", "ArrayTaskID": "N/A", "State": "PENDING", "Reason": "BeginTime",
		"SubmitTime": "2026-06-01T08:00:00", "EligibleTime": "2026-06-01T10:00:00", "StartTime": "N/A", "TimeLimit": "1:00:00", "Deadline": "N/A",
		"NumCPUs": "4", "RestartCnt": "0", "Requeue": "1", "Partition": "batch", "QOS": "(null)", "Account": "(null)", "HetJobID": "N/A", "BatchFlag": "1", "EndTime": "N/A", "UserName": "ada",
		"NumNodes": "1", "NumTasks": "1", "tres-alloc": "cpu=4,node=1,billing=4", "tres-per-job": "N/A", "tres-per-node": "N/A", "tres-per-task": "N/A", "Licenses": "(null)", "NodeList": "", "OverSubscribe": "OK",
		adminComment: "(null)", "Comment": "(null)",
	}
	for k, v := range set {
		values[k] = v
	}
	var b strings.Builder
	for _, c := range jobColumns {
		v := values[c.name]
		fmt.Fprintf(&b, "%-*s", c.width, v[:min(len(v), c.width)]) // squeue cuts
	}
	return b.String() + end + "\n"
}

func at(clock string) time.Time {
	t, err := time.Parse(timeLayout, "2026-06-01T"+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func TestALineIsAJob(t *testing.T) {
	for name, tc := range map[string]struct {
		set  map[string]string
		want Job
	}{
		"a job that waits": {
			map[string]string{"Comment": "lull:max-delay=8h | my own words", "Deadline": "2026-06-01T23:00:00"},
			Job{ID: "12", Number: 12, Tasks: 1, Comment: "lull:max-delay=8h | my own words", Deadline: at("23:00:00"), Limit: time.Hour},
		},
		"all tasks of an array, three at a time": {
			map[string]string{"ArrayTaskID": "1-9%3"},
			Job{ID: "12_[1-9]", Number: 12, Tasks: 9, Throttle: 3, Limit: time.Hour},
		},
		"every second task of an array, and two more": {
			map[string]string{"ArrayTaskID": "1-9:2,20,22", "TimeLimit": "2-03:04:05"},
			Job{ID: "12_[1-9:2,20,22]", Number: 12, Tasks: 7, Limit: 51*time.Hour + 4*time.Minute + 5*time.Second},
		},
		"one task of an array": {
			map[string]string{"JobID": "14", "ArrayTaskID": "3", "TimeLimit": "30:00"},
			Job{ID: "12_3", Number: 12, Tasks: 1, Limit: 30 * time.Minute},
		},
		"a shell of salloc": {
			map[string]string{"BatchFlag": "0"},
			Job{ID: "12", Number: 12, Tasks: 1, Interactive: true, Limit: time.Hour},
		},
		"a list of tasks that squeue cuts": {
			map[string]string{"ArrayTaskID": "1,3,5,70,72,7...", "TimeLimit": "UNLIMITED"},
			Job{ID: "12", Number: 12, Tasks: 5, Cut: true},
		},
	} {
		jobs, bad := parseJobs(line(tc.set), end)
		tc.want.State, tc.want.Reason, tc.want.Submitted, tc.want.Begin = "PENDING", "BeginTime", at("08:00:00"), at("10:00:00")
		tc.want.Size, tc.want.Nodes = 1, 1
		tc.want.CPUs, tc.want.Requeue, tc.want.Partition, tc.want.User = 4, true, "batch", "ada"
		if len(bad) > 0 || len(jobs) != 1 || !reflect.DeepEqual(jobs[0], tc.want) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, jobs, bad, tc.want)
		}
	}
}

// TestALineThatCannotBeReadIsNamed: the other lines are read all the same.
func TestALineThatCannotBeReadIsNamed(t *testing.T) {
	for name, set := range map[string]map[string]string{
		"a number": {"NumCPUs": "many"}, "a negative number": {"RestartCnt": "-1"}, "a time": {"EligibleTime": "tomorrow"}, "a limit": {"TimeLimit": "long"},
		"tasks": {"ArrayTaskID": "9-1"}, "tasks by a stride of 0": {"ArrayTaskID": "1-9:0"}, "too many tasks": {"ArrayTaskID": "1-99999999"}, "no submission": {"SubmitTime": "N/A"}, "a huge limit": {"TimeLimit": "999999999-00:00:00"},
	} {
		set["JobID"] = "77"
		jobs, bad := parseJobs(line(nil)+line(set)+line(nil), end)
		if len(jobs) != 2 || len(bad) != 1 || bad[0].Line != "77" || !errors.Is(bad[0].Err, ErrLine) {
			t.Errorf("%s: %d jobs, %v", name, len(jobs), bad)
		}
	}
}

// TestABadLineTellsItsLicences: a comment with a line break hides neither that its job runs nor its licences; a line that is broken before tells nothing.
func TestABadLineTellsItsLicences(t *testing.T) {
	of := map[string]string{"State": "RUNNING", "Licenses": "matlab:1,power:4", "Comment": "a\nb"}
	if _, bad := parseJobs(line(of), end); len(bad) != 1 || bad[0].Job == nil || bad[0].Job.takes("power", at("08:00:00")) != 4 {
		t.Errorf("%+v", bad)
	}
	for key, value := range map[string]string{"Reason": "a\nb", "NumCPUs": "x"} {
		if _, bad := parseJobs(line(map[string]string{"State": "RUNNING", key: value}), end); len(bad) != 1 || bad[0].Job != nil {
			t.Errorf("%s: %+v", key, bad)
		}
	}
}

// TestACommentCannotPassForAnotherJob: a comment with a line break and a whole line of another job behind it. Its author does not know the
// word that ends lines.
func TestACommentCannotPassForAnotherJob(t *testing.T) {
	forged := strings.TrimSuffix(line(map[string]string{"JobID": "99", adminComment: "lull: released [phase=released]"}), end+"\n")
	jobs, bad := parseJobs(line(map[string]string{"Comment": "a\n" + forged})+line(nil), end)
	if len(jobs) != 1 || jobs[0].ID != "12" || len(bad) != 1 || bad[0].Line != "12" {
		t.Errorf("%+v, %v", jobs, bad)
	}
	long := strings.Replace(line(nil), "(null)"+strings.Repeat(" ", commentWidth-6), "a\n"+forged+"e9999\n", 1)
	if jobs, bad := parseJobs(long+line(nil), end); len(jobs) != 1 || len(bad) != 1 {
		t.Errorf("%d jobs, %v", len(jobs), bad)
	}
}

// nodeLine is a line of sinfo.
func nodeLine(values ...string) string {
	var b strings.Builder
	for i, c := range nodeColumns {
		value := "idle"
		if i < len(values) {
			value = values[i]
		}
		fmt.Fprintf(&b, "%-*s", c.width, value)
	}
	return b.String() + end + "\n"
}

func TestWhatANodeHas(t *testing.T) {
	for name, tc := range map[string]struct {
		cpus, alloc, gres, used string
		want                    Node
	}{
		"idle":                           {"0/16/0/16", "1000", "gpu:a100:4(S:0-1),nic:1", "gpu:a100:0(IDX:N/A),nic:0", Node{CPUs: 16, UsedMemory: 1000 << 20, Memory: 32000 << 20, GPUs: 4, GPUTypes: map[string]int{"a100": 4}}},
		"drained":                        {"0/0/16/16", "0", "gpu:4", "gpu:0", Node{}},
		"draining":                       {"2/0/14/16", "1000", "gpu:a100:2(S:0),gpu:h100:2(S:1)", "gpu:a100:2(IDX:0,1),gpu:h100:1(IDX:3)", Node{CPUs: 2, UsedCPUs: 2, UsedMemory: 1000 << 20, Memory: 1000 << 20, GPUs: 3, GPUTypes: map[string]int{"a100": 2, "h100": 1}}},
		"allocated":                      {"16/0/0/16", "1000", "(null)", "gpu:0", Node{CPUs: 16, UsedCPUs: 16, UsedMemory: 1000 << 20, Memory: 32000 << 20}},
		"a list that sinfo cuts":         {"0/16/0/16", "1000", "gpu:2," + strings.Repeat("x", 150) + ",gpu:12345"[:4], "gpu:0", Node{CPUs: 16, UsedMemory: 1000 << 20, Memory: 32000 << 20, GPUs: 2}},
		"a list that is cut in brackets": {"0/16/0/16", "1000", "gpu:2,gpu:b:3(S:" + strings.Repeat("0,", 72), "gpu:0", Node{CPUs: 16, UsedMemory: 1000 << 20, Memory: 32000 << 20, GPUs: 5, GPUTypes: map[string]int{"b": 3}}},
	} {
		nodes, bad := parseNodes(nodeLine("n1", tc.cpus, "batch", "32000", tc.alloc, tc.gres, tc.used), end)
		tc.want.Name, tc.want.Partitions = "n1", []string{"batch"}
		if len(nodes) != 1 || !reflect.DeepEqual(nodes[0], tc.want) || len(bad) > 0 {
			t.Errorf("%s: %+v, %v; want %+v", name, nodes, bad, tc.want)
		}
	}
	for state, off := range map[string]bool{"idle": false, "mixed": false, "idle*": false, "idle!": true, "idle%": true, "idle~": true, "mixed#": true, "allocated#": true} {
		nodes, bad := parseNodes(nodeLine("n1", "0/16/0/16", "batch", "32000", "0", "gpu:2", "gpu:0", state), end)
		if len(bad) > 0 || nodes[0].Off != off || nodes[0].CPUs != 16 || nodes[0].Memory != 32000<<20 || nodes[0].GPUs != 2 {
			t.Errorf("%s: %+v, %v", state, nodes, bad)
		}
	}
	if nodes, _ := parseNodes(nodeLine("n1", "0/0/16/16", "batch", "32000", "0", "gpu:2", "gpu:0", "drained~"), end); nodes[0].Off || nodes[0].CPUs != 0 {
		t.Errorf("a node that is drained and off is not started for a job: %+v", nodes[0])
	}
	for what, text := range map[string]string{
		"CPUs": nodeLine("n3", "x/0/0/0", "batch", "1", "0", "", ""), "memory": nodeLine("n3", "0/1/0/1", "batch", "1Q", "0", "", ""), "name": nodeLine("", "0/1/0/1", "batch", "1", "0", "", ""),
	} {
		if nodes, bad := parseNodes(text, end); len(nodes) != 0 || len(bad) != 1 {
			t.Errorf("%s that cannot be read: %+v, %v", what, nodes, bad)
		}
	}
}

// TestGPUTypesOfAJob: a job asks for GPUs of a type, or of several, or has got some.
func TestGPUTypesOfAJob(t *testing.T) {
	for name, tc := range map[string]struct {
		set   map[string]string
		gpus  int
		types map[string]int
	}{
		"of any type":                    {map[string]string{"tres-per-node": "gres:gpu:2"}, 2, nil},
		"of a type, without a number":    {map[string]string{"tres-per-node": "gres:gpu:a100"}, 1, map[string]int{"a100": 1}},
		"of a type on each node":         {map[string]string{"tres-per-node": "gres:gpu:a100:2", "NumNodes": "4"}, 8, map[string]int{"a100": 8}},
		"of two types":                   {map[string]string{"tres-per-node": "gres:gpu:a100:2,gres:gpu:h100:1"}, 3, map[string]int{"a100": 2, "h100": 1}},
		"of a type by task":              {map[string]string{"tres-per-task": "gres:gpu:a100:1", "NumTasks": "5"}, 5, map[string]int{"a100": 5}},
		"as later versions say it":       {map[string]string{"tres-per-job": "gres/gpu:a100=2"}, 2, map[string]int{"a100": 2}},
		"that slurmdbd tracks":           {map[string]string{"tres-alloc": "cpu=2,gres/gpu=3,gres/gpu:a100=3"}, 3, map[string]int{"a100": 3}},
		"that slurmdbd tracks by type":   {map[string]string{"tres-alloc": "cpu=2,gres/gpu:a100=3"}, 3, map[string]int{"a100": 3}},
		"that slurmdbd tracks as a sum":  {map[string]string{"tres-alloc": "cpu=2,gres/gpu=8", "tres-per-node": "gres:gpu:a100:2", "NumNodes": "4"}, 8, map[string]int{"a100": 8}},
		"got any, of a type it has got":  {map[string]string{"tres-alloc": "cpu=2,gres/gpu=2,gres/gpu:h100=2", "tres-per-job": "gres:gpu:2"}, 2, map[string]int{"h100": 2}},
		"other resources that look like": {map[string]string{"tres-alloc": "cpu=2,gres/gpumem=3", "tres-per-job": "gres:gpumem:3"}, 0, nil},
	} {
		jobs, bad := parseJobs(line(tc.set), end)
		if len(jobs) != 1 || len(bad) > 0 || jobs[0].GPUs != tc.gpus || !reflect.DeepEqual(jobs[0].GPUTypes, tc.types) {
			t.Errorf("%s: %+v, %v; want %d GPUs, %v", name, jobs, bad, tc.gpus, tc.types)
		}
	}
}

func TestWhatAJobAsksFor(t *testing.T) {
	for name, tc := range map[string]struct {
		set    map[string]string
		memory int64
		gpus   int
	}{
		"nothing":                       {nil, 0, 0},
		"memory":                        {map[string]string{"tres-alloc": "cpu=2,mem=62.50G,node=2,billing=2"}, 64000 << 20, 0},
		"GPUs that slurmdbd tracks":     {map[string]string{"tres-alloc": "cpu=2,mem=500M,node=1,gres/gpu=3,gres/gpu:a100=3", "tres-per-job": "gres:gpu:9"}, 500 << 20, 3},
		"GPUs of the job":               {map[string]string{"tres-per-job": "gres:gpu:a100:3"}, 0, 3},
		"GPUs of each node":             {map[string]string{"tres-per-node": "gres:gpu:2", "NumNodes": "4"}, 0, 8},
		"cancelled before it started":   {map[string]string{"State": "CANCELLED", "NumTasks": "4294967294", "tres-alloc": "cpu=1,mem=100M,node=1,billing=1"}, 100 << 20, 0},
		"GPUs of a range of nodes":      {map[string]string{"tres-per-node": "gres:gpu:2", "NumNodes": "2-4"}, 0, 4},
		"GPUs of each task":             {map[string]string{"tres-per-task": "gres:gpu:1", "NumTasks": "5"}, 0, 5},
		"GPUs as later versions say it": {map[string]string{"tres-per-node": "gres/gpu:a100=2"}, 0, 2},
		"a GPU without a number":        {map[string]string{"tres-per-node": "gres:gpu"}, 0, 1},
		"another resource":              {map[string]string{"tres-per-node": "gres:nic:1"}, 0, 0},
		"a list that squeue cuts":       {map[string]string{"tres-alloc": "cpu=2,mem=500M," + strings.Repeat("x", 134) + ",gres/gpu=1234"}, 500 << 20, 0},
	} {
		jobs, bad := parseJobs(line(tc.set), end)
		if len(jobs) != 1 || len(bad) > 0 || jobs[0].Memory != tc.memory || jobs[0].GPUs != tc.gpus {
			t.Errorf("%s: %+v, %v; want %d bytes, %d GPUs", name, jobs, bad, tc.memory, tc.gpus)
		}
	}
	for _, bad := range []map[string]string{{"tres-alloc": "mem=x"}, {"tres-alloc": "mem=99999999P"}} {
		if jobs, lines := parseJobs(line(bad), end); len(jobs) > 0 || len(lines) != 1 {
			t.Errorf("%v: %+v", bad, jobs)
		}
	}
}

// FuzzJobs: any answer gives jobs and bad lines, each job with what the decision relies on.
func FuzzJobs(f *testing.F) {
	f.Add(line(nil))
	f.Add(line(map[string]string{"ArrayTaskID": "1-9:2,20%3", "Comment": "lull:max-delay=1d,interruptible\n"}))
	f.Add(line(map[string]string{"ArrayTaskID": "1-4000000", "TimeLimit": "99999-00:00:00", "NumCPUs": "999999999", "Comment": "lull:max-delay=366d,interruptible,checkpoint=1s"}))
	f.Add(line(map[string]string{"State": "RUNNING", "StartTime": "0001-01-01T00:00:00", "Comment": "lull:max-delay=366d,interruptible,checkpoint=1s"}))
	f.Add(line(map[string]string{"RestartCnt": "3", adminComment: Mark{Phase: Paused, Begin: at("10:00:00"), Since: time.Unix(1, 0), Done: longest}.String(), "Deadline": "2026-06-01T08:00:00", "Comment": "lull:max-delay=366d,interruptible,checkpoint=1s"}))
	f.Add("slurm_load_jobs error: Unable to contact slurm controller")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, bad := parseJobs(text, end)
		if n := strings.Count(text, end+"\n"); len(jobs)+len(bad) > n+1 {
			t.Fatalf("%d jobs and %d bad lines of %d", len(jobs), len(bad), n)
		}
		for i := range jobs {
			j := &jobs[i]
			if j.ID == "" || j.Submitted.IsZero() || j.Tasks < 1 || j.Tasks > mostTasks || j.CPUs < 0 || j.Limit < 0 || strings.ContainsAny(j.ID, " ;\n") {
				t.Fatalf("%+v", j)
			}
			c := Config{}
			// One job must not keep the others from being decided on.
			v := Observe(Input{Now: at("09:00:00"), Queue: Queue{Jobs: jobs[i : i+1]}, Config: &c, Slot: time.Hour})
			if _, err := decide.Decide(t.Context(), v.Snapshot, asap.Planner{}); err != nil {
				t.Fatalf("%+v: %v", j, err)
			}
		}
	})
}

// FuzzMark: a mark that is read and written again is the same, and Before is kept whatever others write.
func FuzzMark(f *testing.F) {
	f.Add(Mark{Phase: Pausing, Begin: at("10:00:00"), Done: time.Hour, Ran: time.Minute, Runs: 2, Text: "waits", Before: "site: x"}.String())
	f.Add("lull: [begin=99999999999999999999 phase=held]")
	f.Fuzz(func(t *testing.T, text string) {
		m := ReadMark(text)
		if m.Phase == "" {
			if m.Before != text {
				t.Fatalf("%q: kept %q", text, m.Before)
			}
			return
		}
		again := ReadMark(m.String())
		if m.Phase != Pausing {
			m.Ran, m.Runs = again.Ran, again.Runs
		}
		if again != m {
			t.Fatalf("%q: %+v, then %+v", text, m, again)
		}
	})
}
