package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordedEnergy is what sacct of Slurm 22.05.8 prints: a job with a srun in its script, one of a CPU, an array, and one that was requeued and runs again. Of the first one,
// the energy of its batch step is that of NO_VAL64 in the database, which sacct leaves out.
const recordedEnergy = `1|2026-11-28T20:27:33|2026-11-28T20:27:35|16|1|n1|
1.batch|2026-11-28T20:27:33|2026-11-28T20:27:35|16|1|n1|
1.extern|2026-11-28T20:27:33|2026-11-28T20:27:35|16|1|n1|456
1.0|2026-11-28T20:27:33|2026-11-28T20:27:34|16|1|n1|123
2|2026-11-28T20:27:33|2026-11-28T20:27:34|1|1|n2|
2.batch|2026-11-28T20:27:33|2026-11-28T20:27:34|1|1|n2|0
2.extern|2026-11-28T20:27:33|2026-11-28T20:27:34|1|1|n2|500
4_1|2026-11-28T20:28:10|2026-11-28T20:28:11|1|1|n1|
4_1.batch|2026-11-28T20:28:10|2026-11-28T20:28:11|1|1|n1|0
4_1.extern|2026-11-28T20:28:10|2026-11-28T20:28:11|1|1|n1|0
3|2026-11-28T20:28:06|2026-11-28T20:28:10|32|2|n[1-2]|
3.batch|2026-11-28T20:28:06|2026-11-28T20:28:10|16|1|n1|900
3.extern|2026-11-28T20:28:06|2026-11-28T20:28:10|32|2|n[1-2]|1800
3|2026-11-28T20:28:14|Unknown|32|2|n[1-2]|
3.batch|2026-11-28T20:28:14|Unknown|16|1|n1|0
3.extern|2026-11-28T20:28:14|Unknown|32|2|n[1-2]|0
`

// recordedNodes is what sinfo prints, less spaces.
const recordedNodes = `n1 16 NO
n1 16 NO
n2 16 NO
n2 16 NO
n2 16 EXCLUSIVE
s1 16 NO
s1 16 FORCE:4
s2 16 YES:2
`

// scripted has commands that print fixed texts.
func scripted(t *testing.T, texts map[string]string) Commands {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file+".txt", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "#!/bin/sh\nexec cat %s.txt\n", file), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Commands{Dir: dir}
}

func TestEnergyOfSacct(t *testing.T) {
	got, err := scripted(t, map[string]string{"sacct": recordedEnergy, "sinfo": recordedNodes}).Energy(t.Context(), []string{"1", "2", "3", "4_1"})
	if err != nil {
		t.Fatal(err)
	}
	on := func(clock string) time.Time {
		return at(clock).AddDate(0, 0, 28-at(clock).Day()).AddDate(0, int(11-at(clock).Month()), 0)
	}
	want := []Used{
		{ID: "1", Started: on("20:27:33"), Ended: on("20:27:35"), CPUs: 16, Joules: 456},
		{ID: "2", Started: on("20:27:33"), Ended: on("20:27:34"), CPUs: 1, Why: SharedNodes},
		{ID: "4_1", Started: on("20:28:10"), Ended: on("20:28:11"), CPUs: 1, Why: NoReading},
		{ID: "3", Started: on("20:28:06"), Ended: on("20:28:10"), CPUs: 32, Joules: 1800},
		{ID: "3", Started: on("20:28:14"), CPUs: 32},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestEnergyThatIsNotTheJobs: a run of an hour, whose nodes used 100 W each, by what Slurm says of it.
func TestEnergyThatIsNotTheJobs(t *testing.T) {
	const begin, end = "2026-06-01T08:00:00", "2026-06-01T09:00:00"
	run := func(cpus, nodes, list string, steps ...string) string {
		lines := []string{strings.Join([]string{"7", begin, end, cpus, nodes, list, "720000"}, "|")}
		for _, s := range steps {
			name, energy, _ := strings.Cut(s, "=")
			lines = append(lines, strings.Join([]string{"7." + name, begin, end, cpus, nodes, list, energy}, "|"))
		}
		return strings.Join(lines, "\n") + "\n"
	}
	for name, tc := range map[string]struct {
		text   string
		joules float64
		why    NotMeasured
	}{
		"the extern step has all":                {run("16", "1", "n1", "batch=360000", "extern=360100", "0=300000"), 360100, ""},
		"no extern step":                         {run("16", "1", "n1", "batch=360000", "0=300000"), 360000, ""},
		"no extern step, several nodes":          {run("32", "2", "n[1-2]", "batch=360000", "0=300000"), 0, NotOnAll},
		"no steps":                               {run("16", "1", "n1"), 0, NoReading},
		"nothing":                                {run("16", "1", "n1", "extern=", "batch=360000"), 0, NoReading},
		"zero":                                   {run("16", "1", "n1", "extern=0"), 0, NoReading},
		"NO_VAL64":                               {run("16", "1", "n1", "extern=18446744073709551614"), 0, NoReading},
		"INFINITE64":                             {run("16", "1", "n1", "extern=18446744073709551615"), 0, NoReading},
		"more than 64 bits":                      {run("16", "1", "n1", "extern=99999999999999999999"), 0, NoReading},
		"NO_VAL":                                 {run("16", "1", "n1", "extern=4294967294"), 0, NoReading},
		"negative":                               {run("16", "1", "n1", "extern=-5"), 0, NoReading},
		"a unit":                                 {run("16", "1", "n1", "extern=360K"), 0, NoReading},
		"a counter that began anew":              {run("16", "1", "n1", "extern=18446744073709000000"), 0, Implausible},
		"less than a node draws":                 {run("16", "1", "n1", "extern=3599"), 0, Implausible},
		"more than a node draws":                 {run("16", "1", "n1", "extern=180000001"), 0, Implausible},
		"not all CPUs":                           {run("15", "1", "n1", "extern=360000"), 0, SharedNodes},
		"not all CPUs of two nodes":              {run("31", "2", "n1,n2", "extern=720000"), 0, SharedNodes},
		"more CPUs than there are":               {run("33", "2", "n1,n2", "extern=720000"), 0, SharedNodes},
		"jobs may share CPUs by force":           {run("16", "1", "s1", "extern=360000"), 0, SharedNodes},
		"jobs may share CPUs":                    {run("16", "1", "s2", "extern=360000"), 0, SharedNodes},
		"a node that is gone":                    {run("16", "1", "gone", "extern=360000"), 0, UnknownNodes},
		"another number of nodes":                {run("16", "2", "n1", "extern=360000"), 0, UnknownNodes},
		"a list that cannot be read":             {run("16", "1", "n[1", "extern=360000"), 0, UnknownNodes},
		"no list":                                {run("16", "1", "None assigned", "extern=360000"), 0, UnknownNodes},
		"no number of nodes":                     {run("16", "", "n1", "extern=360000"), 0, UnknownNodes},
		"the step of another job":                {run("16", "1", "n1", "batch=360000") + "8.extern|" + begin + "|" + end + "|16|1|n1|9\n", 360000, ""},
		"a step of a name that begins like ours": {run("16", "1", "n1", "batch=360000", "external=9"), 360000, ""},
	} {
		got, err := scripted(t, map[string]string{"sacct": tc.text, "sinfo": recordedNodes}).Energy(t.Context(), []string{"7"})
		if err != nil || len(got) != 1 || got[0].Joules != tc.joules || got[0].Why != tc.why || got[0].Ended.IsZero() {
			t.Errorf("%s: %+v, %v; want %v, %q", name, got, err, tc.joules, tc.why)
		}
	}
	for name, text := range map[string]string{
		"the extern step is not over": strings.Replace(run("16", "1", "n1", "batch=360000", "extern=0"), "7.extern|"+begin+"|"+end, "7.extern|"+begin+"|Unknown", 1),
		"the job is not over":         strings.Replace(run("16", "1", "n1", "extern=0"), end, "Unknown", 2),
	} {
		got, err := scripted(t, map[string]string{"sacct": text, "sinfo": recordedNodes}).Energy(t.Context(), []string{"7"})
		if err != nil || len(got) != 1 || !got[0].Ended.IsZero() {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, text := range []string{"\n|||||||\n", "x\n", "7|yesterday|" + end + "|16|1|n1|\n", "7.extern|" + begin + "|" + end + "|16|1|n1|5\n"} {
		if got, err := scripted(t, map[string]string{"sacct": text, "sinfo": "n1 x NO\nn2\n"}).Energy(t.Context(), []string{"7"}); err != nil || len(got) != 0 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestHostsOfAList(t *testing.T) {
	for list, want := range map[string]string{
		"n1": "n1", "n1,m": "m n1", "n[1-3]": "n1 n2 n3", "n[08-10,12]": "n08 n09 n10 n12", "r[1-2]n[1-2]x": "r1n1x r1n2x r2n1x r2n2x", "a[1],b": "a1 b", "": "", "n[00000000000000000001]": "n00000000000000000001", "a[1]b[1]c[1]d[1]": "a1b1c1d1",
	} {
		if got, err := hosts(list); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", list, got, err, want)
		}
	}
	for _, list := range []string{"n[1", "n1]", "n[2-1]", "n[x]", "n[]", "n[1-]", ",n1", "n1,,n2", "n1,n1", "n[1,1]", "None assigned", "(null)", "n[0-4294967295]", "n[1-1000]m[1-1000]", "n[-1]", "n[" + strings.Repeat("0", 20_000) + "1-10000]", "n[000000000000000000001-2]", strings.Repeat("[1]", 20_000), strings.Repeat("n", 300), strings.Repeat("n", 300) + "[1-2]", "n[1-2]" + strings.Repeat("x", 300), strings.Repeat("n[1-99999],m", 3), "n[[1-2]]"} {
		if got, err := hosts(list); !errors.Is(err, ErrLine) {
			t.Errorf("%q: %d names, %v", list, len(got), err)
		}
	}
}

func FuzzHosts(f *testing.F) {
	f.Add("n[1-3,07],m")
	f.Fuzz(func(t *testing.T, list string) {
		if got, err := hosts(list); err == nil && len(got) > mostHosts {
			t.Errorf("%d names", len(got))
		}
	})
}

// TestWhatAnEnergyOfJobsNeeds, by slurm.conf.
func TestWhatAnEnergyOfJobsNeeds(t *testing.T) {
	const all = "AccountingStorageType = accounting_storage/slurmdbd\nAcctGatherEnergyType = acct_gather_energy/rapl\nJobAcctGatherType = jobacct_gather/linux\nSelectTypeParameters = CR_CORE_MEMORY\n"
	for name, tc := range map[string]struct{ text, energy, no string }{
		"all":          {all, "rapl", ""},
		"no plugin":    {strings.Replace(all, "rapl", "none", 1), "", ""},
		"null":         {strings.Replace(all, "acct_gather_energy/rapl", "(null)", 1), "", ""},
		"no gathering": {strings.Replace(all, "gather/linux", "gather/none", 1), "rapl", "JobAcctGatherType"},
		"no slurmdbd":  {strings.Replace(all, "slurmdbd", "none", 1), "rapl", "AccountingStorageType"},
		"no CPUs":      {strings.Replace(all, "CR_CORE_MEMORY", "CR_MEMORY", 1), "rapl", "SelectTypeParameters"},
	} {
		var a About
		if a.configured(tc.text); a.Energy != tc.energy || (a.NoEnergy == "") != (tc.no == "") || !strings.Contains(a.NoEnergy, tc.no) {
			t.Errorf("%s: %q, %q", name, a.Energy, a.NoEnergy)
		}
	}
}
