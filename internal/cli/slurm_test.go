package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lull.dev/lull/internal/cluster/slurm"
)

// TestSlurmInstallOverwritesNoOtherScript: a site may have a job_submit.lua of its own.
func TestSlurmInstallOverwritesNoOtherScript(t *testing.T) {
	name := filepath.Join(t.TempDir(), "job_submit.lua")
	install := func() (string, int) {
		var out, problem bytes.Buffer
		status := Main([]string{"slurm", "install", "--output", name}, nil, &out, &problem)
		return out.String() + problem.String(), status
	}
	for range 2 { // anew after a change
		if text, status := install(); status != exitOK || !strings.Contains(text, "JobSubmitPlugins=lua") {
			t.Fatalf("%d: %s", status, text)
		}
		if text, err := os.ReadFile(name); err != nil || !strings.HasPrefix(string(text), slurm.JobSubmitBegins) {
			t.Fatalf("%v: %.60s", err, text)
		}
	}
	if err := os.WriteFile(name, []byte("-- ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, status := install(); status != exitError || !strings.Contains(text, "not made by lull") || !strings.Contains(text, "pcall(dofile, FILE)") || !strings.Contains(text, "touch yours") {
		t.Errorf("%d: %s", status, text)
	}
	if text, _ := os.ReadFile(name); string(text) != "-- ours\n" {
		t.Errorf("overwrote it with %.60s", text)
	}
}

// TestSlurmInstallKeepsLinksAndDevices: a link is followed, and a device stays one.
func TestSlurmInstallKeepsLinksAndDevices(t *testing.T) {
	dir := t.TempDir()
	file, link, device := filepath.Join(dir, "shared.lua"), filepath.Join(dir, "job_submit.lua"), filepath.Join(dir, "null")
	for of, name := range map[string]string{file: link, os.DevNull: device} {
		if err := os.Symlink(of, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{link, link, device} {
		var out, problem bytes.Buffer
		if status := Main([]string{"slurm", "install", "--output", name}, nil, &out, &problem); status != exitOK {
			t.Fatalf("%s: %s", name, problem.String())
		}
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != os.ModeSymlink {
			t.Errorf("%s is no link any more: %v, %v", name, info, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), slurm.JobSubmitBegins) {
		t.Errorf("%v: %.60s", err, text)
	}
	if info, err := os.Stat(device); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("%s is no device any more: %v, %v", device, info, err)
	}
}

// TestSlurmASiteLoadsTheScriptInPcall, by the page and by the script itself: else slurmctld does not start once the file is missing.
func TestSlurmASiteLoadsTheScriptInPcall(t *testing.T) {
	page, err := os.ReadFile("../../docs/slurm.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"docs/slurm.md": string(page), "job_submit.lua": slurm.JobSubmit(&slurm.Config{}, "test")} {
		if !strings.Contains(text, "pcall(dofile, ") || strings.Contains(text, "dofile(") || !strings.Contains(strings.ToLower(text), "touch ") {
			t.Errorf("%s: want pcall(dofile, ...) and touch", name)
		}
	}
}

// TestSlurmFlagsAreCheckedFirst: what cannot work is said before Slurm is asked.
func TestSlurmFlagsAreCheckedFirst(t *testing.T) {
	t.Setenv(zoneVariable, "")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("maxdelay: 8h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"controller":                                                       "--zone: missing",
		"controller --zone DE --interval 1ms":                              "--interval",
		"controller --zone DE --slot 2d":                                   "--slot",
		"controller --zone DE --planner best":                              "--planner",
		"controller --zone DE --min-saving 100":                            "--min-saving",
		"controller --zone DE --saving-confidence 101":                     "--saving-confidence",
		"controller --zone DE --config " + bad:                             "maxdelay",
		"controller --zone DE --slurm-api best":                            "auto, commands or rest",
		"controller --zone DE --slurm-api rest":                            "--slurm-rest: missing",
		"controller --zone DE --slurm-rest http://slurm.example:6820":      "unix:/path/of/socket",
		"controller --zone DE --slurm-token-file x":                        "without --slurm-rest",
		"controller --zone DE --slurm-rest unix:/s --slurm-rest-user me":   "without --slurm-token-file",
		"controller --zone DE --energy rapl":                               "accepted: model or slurm",
		"controller --zone DE --energy slurm":                              "without --ledger",
		"controller --zone DE --energy slurm --ledger l --watts-per-cpu 0": "--watts-per-cpu: 0, with --energy slurm; accepted: above 0",
		"install --config " + bad:                                          "maxdelay",
		"explain":                                                          "the number of a job",
		"controller --zone DE --slurm-bin /nowhere":                        "/nowhere/squeue",
	} {
		var out, problem bytes.Buffer
		if status := Main(append([]string{"slurm"}, strings.Fields(args)...), nil, &out, &problem); status != exitError || !strings.Contains(problem.String(), want) {
			t.Errorf("lull slurm %s: %d, %s; want %q", args, status, problem.String(), want)
		}
	}
}

// TestSlurmSaysWhatALedgerWithoutASourceHas: emissions need intensities that somebody has published.
func TestSlurmSaysWhatALedgerWithoutASourceHas(t *testing.T) {
	for source, warns := range map[string]bool{"climatology": true, "electricityMaps": false, "intensity.csv": false} {
		var log bytes.Buffer
		o := slurmController{ledger: filepath.Join(t.TempDir(), "ledger.db")}
		o.source = source
		_, done, err := o.keep(t.Context(), &slurm.About{}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		done()
		if got := strings.Contains(log.String(), "no emissions and no savings"); got != warns {
			t.Errorf("--source %s: %q; want a warning: %v", source, log.String(), warns)
		}
	}
}

// TestSlurmEnergyIsThatOfThePlugin: what it does not measure is the model's, and what cannot work is said.
func TestSlurmEnergyIsThatOfThePlugin(t *testing.T) {
	o := slurmController{energy: energySlurm, watts: 5, wattsPerGPU: 300, pue: 1.2}
	for plugin, want := range map[string][2]float64{"rapl": {0, 300}, "gpu": {5, 0}, "ipmi": {}, "rapl,gpu": {}, "rapl,acct_gather_energy/gpu": {}, "gpu, ipmi": {}, "pm_counters": {}} {
		m, err := o.measure(&slurm.About{Energy: plugin})
		if err != nil || m.PUE != 1.2 || m.WattsPerCPU != want[0] || m.WattsPerGPU != want[1] {
			t.Errorf("%s: %+v, %v; want %v", plugin, m, err, want)
		}
	}
	for want, about := range map[string]slurm.About{"no AcctGatherEnergyType": {}, "has JobAcctGatherType=none": {Energy: "rapl", NoEnergy: "JobAcctGatherType=none"}} {
		if _, err := o.measure(&about); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "accepted: with") {
			t.Errorf("%+v: %v; want %q", about, err, want)
		}
	}
	o.energy = energyModel
	if m, err := o.measure(&slurm.About{Energy: "rapl"}); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
}
