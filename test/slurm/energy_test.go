//go:build slurm

package slurm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/internal/studies/slurmlab"
)

// configure adds to slurm.conf, or changes it, until the test is over.
func configure(t *testing.T, change func(text string) string) {
	t.Helper()
	file := lab.dir + "/slurm.conf"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		must(t, "scontrol", "reconfigure")
	}
	t.Cleanup(func() { set(string(before)) })
	set(change(string(before)))
}

// TestTheLedgerHasTheEnergyThatSlurmMeasured: of four jobs, slurmdbd has the energy of two nodes, of a node that another job used too, nothing, and NO_VAL64. The ledger has
// the energy of the first, and that of the model of the others.
func TestTheLedgerHasTheEnergyThatSlurmMeasured(t *testing.T) {
	accounted(t)
	configure(t, func(text string) string {
		return text + "AcctGatherEnergyType=acct_gather_energy/rapl\nPrologFlags=Contain\n"
	})
	file := filepath.Join(t.TempDir(), "ledger.db")
	intensities := curve(t, [2]time.Duration{-time.Minute, 15 * time.Minute})
	l := controller(t, intensities, "--ledger", file)
	run := func(args ...string) string {
		return submit(t, "sleep 5", append(args, "--comment=lull:max-delay=5m,runtime=6s", "--account="+slurmlab.Account)...)
	}
	ids := []string{run("--exclusive", "-N2"), run("-n1"), run("--exclusive", "-N1"), run("--exclusive", "-N1")}
	if err := wait("the run in the ledger", func() bool {
		story, _ := exec.Command(os.Getenv("LULL_BIN"), "ledger", "show", ids[0], "-n", slurmlab.Account, "--database", file).Output()
		return strings.Contains(string(story), "  runs: ")
	}); err != nil {
		t.Fatalf("%v: %s", err, l.log)
	}
	l.kill() // nobody is to read 0 of it
	for _, id := range ids {
		until(t, id, "completed", completed)
	}
	const steps = "set s.consumed_energy=%s where j.id_job=%s and s.id_step=%d"
	const extern, batch = -4, -5
	for i, energy := range []string{"1080", "1080", "0", "18446744073709551614"} {
		for _, step := range []int{extern, batch} {
			if err := lab.SQL(fmt.Sprintf("update lull_step_table s join lull_job_table j on s.job_db_inx=j.job_db_inx "+steps, energy, ids[i], step)); errors.Is(err, slurmlab.ErrNoPackages) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	// Users see the jobs of others there too, without PrivateData.
	if out, err := as(lullUID, "sacct", "-n", "-P", "-D", "-j", strings.Join(ids, ","), "--format=JobID,Start,End,AllocCPUS,NNodes,NodeList,ConsumedEnergyRaw"); err != nil || !strings.Contains(out, ids[3]+".extern") {
		t.Errorf("%v: %s", err, out)
	} else {
		t.Log(out)
	}
	// slurmstepd 22.05 crashes if it gathers with the plugin rapl on a machine that has no such counters, so this comes after the jobs.
	configure(t, func(text string) string {
		return strings.Replace(text, "jobacct_gather/none", "jobacct_gather/linux", 1)
	})
	l = controller(t, intensities, "--ledger", file, "--energy", "slurm", "--pue", "1.5")
	for i, want := range []string{"measured by slurm ", "(0 % measured)", "(0 % measured)", "(0 % measured)"} {
		story := ""
		if err := wait("job "+ids[i]+" to be settled", func() bool {
			text, _ := exec.Command(os.Getenv("LULL_BIN"), "ledger", "show", ids[i], "-n", slurmlab.Account, "--database", file).Output()
			story = string(text)
			return strings.Contains(story, "  settled")
		}); err != nil {
			t.Fatalf("%v: %s\n%s", err, story, l.log)
		}
		if !strings.Contains(story, want) || strings.Contains(story, "inferred") || i == 0 && (!strings.Contains(story, "0.00045 kWh (100 % measured)")) {
			t.Errorf("job %s: %s", ids[i], story)
		}
	}
	if text := l.log.String(); !strings.Contains(text, "had not all CPUs of its nodes") || !strings.Contains(text, "has no reading of its nodes") {
		t.Errorf("%s", text)
	}
	if out := lullSays(t, "report", "--database", file); !strings.Contains(out, "% of the energy was measured") || strings.Contains(out, "\n0 % of the energy") {
		t.Errorf("%s", out)
	}
}
