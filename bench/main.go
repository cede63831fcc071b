// Command bench measures the planners and writes docs/benchmarks.md: how far from
// optimal they are proven to be, CPU time and memory, beside the published figures that
// they are to be compared with. Every figure is measured in a process of its own.
//
//	go run ./bench            all but the largest instance
//	go run ./bench -big       the largest as well
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"lull.dev/lull/internal/cli"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/generate"
	"lull.dev/lull/pkg/plan/planio"
	"lull.dev/lull/pkg/plan/relax"
	"lull.dev/lull/pkg/workload"
)

// decisions is a section of the page that is kept by hand: figures of go test -bench before and
// after changes, with their commands.
//
//go:embed decisions.md
var decisions string

func main() {
	one := flag.String("one", "", "measure this planner on the instance given as argument, print JSON")
	out := flag.String("o", "docs/benchmarks.md", "file to write")
	big := flag.Bool("big", false, "also the largest instance (a minute, 4 GiB)")
	flag.Parse()
	var err error
	if *one != "" {
		err = measure(*one, flag.Arg(0), flag.Arg(1))
	} else {
		err = run(*out, *big)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// figures are what a run of a planner gives.
type figures struct {
	CPU        float64  `json:"cpu"` // s
	MiB        float64  `json:"mib"` // most memory of the process
	CarbonKg   float64  `json:"carbonKg"`
	Z          *float64 `json:"z,omitempty"`
	Gap        *float64 `json:"gap,omitempty"`
	Unplaced   int      `json:"unplaced"`
	Late       int      `json:"late"`
	Infeasible bool     `json:"infeasible"`
	Scorer     string   `json:"-"`
	Err        string   `json:"err,omitempty"`
}

// measure runs in a process of its own.
func measure(planner, file, out string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	p, err := planio.ReadInstance(f)
	f.Close()
	if err != nil {
		return err
	}
	if p, err = relax.Normalised(context.Background(), p); err != nil {
		return err
	}
	pl, err := cli.NewPlanner(planner, nil, nil)
	if err != nil {
		return err
	}
	runtime.GC()
	before := cpu()
	res, err := pl.Plan(context.Background(), p) // with a deadline joint would use all of the time
	took := cpu() - before
	if err != nil {
		return json.NewEncoder(os.Stdout).Encode(figures{Err: err.Error()})
	}
	e := plan.Evaluate(p, res.Plan)
	x := figures{CPU: took, CarbonKg: e.CarbonG / 1000, Unplaced: e.Unscheduled, Late: e.Late, Infeasible: res.Status == plan.Infeasible}
	if p.Objective.Kind == plan.MOSP {
		x.Z = &e.ZTotal
	}
	if gap, ok := planio.Gap(p, res, e); ok {
		x.Gap = &gap
	}
	if x.MiB, err = peak(); err != nil {
		return err
	}
	if out != "" {
		var text bytes.Buffer
		if err := planio.WritePlan(&text, p, planner, res); err != nil {
			return err
		}
		if err := os.WriteFile(out, text.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(x)
}

// peak is the most memory that this process has held, MiB (Linux).
func peak() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / 1024, nil
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

var kinds = []workload.Kind{workload.Rigid, workload.Interruptible, workload.Elastic}

// target is an instance that joint is held to.
type target struct {
	name    string
	options generate.Options
	cpu     float64 // s, at most
	gap     float64 // share, at most
	anchor  string  // what others need, measured on a machine of this kind
	big     bool
}

var targets = []target{
	{"Z, 200 x 3 x 24, load 0.7", generate.Options{Jobs: 200, Clusters: 3, Slots: 24, Objective: plan.MOSP}, 0.02, 0.01, "published 6.4 s, 11.4 %; compact LP 0.072 s", false},
	{"Z, 1000 x 3 x 24, overload", generate.Options{Jobs: 1000, Clusters: 3, Slots: 24, Objective: plan.MOSP}, 0.1, 0.015, "published 170 s, 13.5 %; compact LP 0.12 s", false},
	{"Z, 1000 x 10 x 24", generate.Options{Jobs: 1000, Clusters: 10, Slots: 24, Objective: plan.MOSP}, 0.25, 0.02, "published about 2000 s, 10.6 %; compact LP 1.4 s", false},
	{"Z, 5000 x 30 x 48", generate.Options{Jobs: 5000, Clusters: 30, Slots: 48, Objective: plan.MOSP}, 1, 0.03, "published days, 13 GB; compact LP 47 s", false},
	{"Z, 100,000 x 50 x 168, overload", generate.Options{Jobs: 100_000, Clusters: 50, Slots: 168, Objective: plan.MOSP}, 60, 0.05, "", true},
	{"carbon, 100,000 x 50 x 168", generate.Options{Jobs: 100_000, Clusters: 50, Slots: 168, Load: 0.4}, 60, 0.05, "", true},
	{"carbon, 5000 x 30 x 48, load 0.6", generate.Options{Jobs: 5000, Clusters: 30, Slots: 48, Load: 0.6}, 1, 0.03, "", false},
	{"carbon, 2,000 elastic jobs, 1 cluster, 336 slots, kmax 16", generate.Options{Jobs: 2000, Clusters: 1, Slots: 336, Load: 0.5, Kinds: kinds[2:], MaxScale: 16, MaxLength: 24}, 1, 0.01, "", false},
	{"carbon, all kinds, 1000 x 3 x 48, load 0.7", generate.Options{Jobs: 1000, Clusters: 3, Slots: 48, Load: 0.7, Kinds: kinds}, 2, 0.03, "", false},
}

// grid are the instances that every planner meets.
var grid = []target{
	{name: "carbon, rigid, 200 x 3 x 40", options: generate.Options{Jobs: 200, Clusters: 3, Slots: 40, Load: 0.5}},
	{name: "Z, rigid, 200 x 3 x 40", options: generate.Options{Jobs: 200, Clusters: 3, Slots: 40, Objective: plan.MOSP}},
	{name: "carbon, all kinds, 300 x 3 x 72, two resources", options: generate.Options{Jobs: 300, Clusters: 3, Slots: 72, Load: 0.4, Kinds: kinds, Memory: true}},
	{name: "carbon, elastic, 300 x 1 x 168", options: generate.Options{Jobs: 300, Clusters: 1, Slots: 168, Load: 0.3, Kinds: kinds[2:], MaxScale: 16, MaxLength: 12, SlackLow: 3, SlackHigh: 6}},
	{name: "carbon, all kinds, 5 x 2 x 8", options: generate.Options{Jobs: 5, Clusters: 2, Slots: 8, Kinds: kinds, MaxLength: 2, MaxScale: 3, Capacity: 5}},
}

var planners = []string{
	"asap", "window", "waitawhile-threshold", "waitawhile-deadline", "gaia-lowest-slot", "gaia-lowest-window", "gaia-saving", "staticscale",
	"carbonscaler", "carbonscaler-multi", "caspian", "carbonflex-oracle", "carbonflex", "vcc", "vcc-scaling", "cap", "follow", "cheapest", "exact", "joint",
}

func run(out string, big bool) error {
	dir, err := os.MkdirTemp("", "lull-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Benchmarks\n\nFor readers who choose or judge a planner: how close to the best possible each one comes, and how long it takes.\n\n`go run ./bench%s` writes this page, except the last section, which is bench/decisions.md. Times are CPU seconds of one process on %d cores of a shared machine; memory is that of the process.\n`lull plan generate` makes the instances (seed 0). The gap is the distance of a plan to its own proven bound.\n\n", map[bool]string{true: " -big"}[big], runtime.NumCPU())
	text.WriteString("## Planner joint and its limits\n\n\"Others\" is a re-implementation of Caspian's published structure, and its linear program in compact form (CLP): CPU time, and gap to the exact LP bound, on instances of the same size. These figures are from an earlier run on a machine of this kind.\n\n| instance | CPU s | at most | gap | at most | MiB | others |\n|---|---|---|---|---|---|---|\n")
	for i, t := range targets {
		if t.big && !big {
			continue
		}
		x, err := measured(dir, fmt.Sprintf("target%d", i), t, "joint")
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "| %s | %.3f | %g | %s | %g %% | %.0f | %s |\n", t.name, x.CPU, t.cpu, percent(x.Gap), 100*t.gap, x.MiB, t.anchor)
		fmt.Fprintln(os.Stderr, t.name, x.CPU, percent(x.Gap))
	}
	text.WriteString("\n## Every planner on a grid of instances\n\nThe scorer `score.py` checks and prices plans independently (-: absent; x: it refuses more jobs than the planner names as unplaced).\n")
	for i, t := range grid {
		fmt.Fprintf(&text, "\n### %s\n\n| planner | kgCO2eq | Z | unplaced | late | gap | CPU s | MiB | scorer |\n|---|---|---|---|---|---|---|---|---|\n", t.name)
		for _, name := range planners {
			x, err := measured(dir, fmt.Sprintf("grid%d", i), t, name)
			if err != nil {
				return err
			}
			if x.Err != "" {
				fmt.Fprintf(&text, "| %s | %s |||||||\n", name, x.Err)
				continue
			}
			z := ""
			if x.Z != nil {
				z = fmt.Sprintf("%.4f", *x.Z)
			}
			fmt.Fprintf(&text, "| %s | %.2f | %s | %d | %d | %s | %.3f | %.0f | %s |\n", name, x.CarbonKg, z, x.Unplaced, x.Late, percent(x.Gap), x.CPU, x.MiB, x.Scorer)
		}
	}
	if err := growth(&text, dir); err != nil {
		return err
	}
	text.WriteString(decisions)
	return os.WriteFile(out, text.Bytes(), 0o644)
}

// growth shows how the cost of joint grows in jobs N, clusters M, slots T and scales K.
func growth(w io.Writer, dir string) error {
	fmt.Fprintf(w, "\n## How the cost of joint grows\n\nCarbon objective, load 0.5, half of the jobs rigid and half elastic; one size varies at a time from 500 x 4 x 48 with 8 scales.\n\n| what | size | CPU s | gap | MiB |\n|---|---|---|---|---|\n")
	base := generate.Options{Jobs: 500, Clusters: 4, Slots: 48, Load: 0.5, Kinds: []workload.Kind{workload.Rigid, workload.Elastic}, MaxScale: 8}
	for _, axis := range []struct {
		name  string
		sizes []int
		set   func(o *generate.Options, n int)
	}{
		{"jobs N", []int{125, 250, 500, 1000, 2000}, func(o *generate.Options, n int) { o.Jobs = n }},
		{"clusters M", []int{1, 4, 16}, func(o *generate.Options, n int) { o.Clusters = n }},
		{"slots T", []int{24, 48, 96, 192}, func(o *generate.Options, n int) { o.Slots = n }},
		{"scales K", []int{2, 8, 32}, func(o *generate.Options, n int) { o.MaxScale = n }},
	} {
		for _, n := range axis.sizes {
			o := base
			axis.set(&o, n)
			x, err := measured(dir, fmt.Sprintf("grow-%s-%d", axis.name[:1]+axis.name[len(axis.name)-1:], n), target{options: o}, "joint")
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s | %d | %.3f | %s | %.0f |\n", axis.name, n, x.CPU, percent(x.Gap), x.MiB)
		}
	}
	return nil
}

func percent(gap *float64) string {
	if gap == nil {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100**gap)
}

// measured runs a planner on an instance in a process of its own.
func measured(dir, name string, t target, planner string) (figures, error) {
	file := filepath.Join(dir, name+".json")
	if _, err := os.Stat(file); err != nil {
		if err := write(file, t.options); err != nil {
			return figures{}, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return figures{}, err
	}
	out := filepath.Join(dir, "plan.json")
	cmd := exec.Command(self, "-one", planner, file, out)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return figures{}, fmt.Errorf("%s on %s: %w", planner, name, err)
	}
	var x figures
	if err := json.Unmarshal(text, &x); err != nil || x.Err != "" {
		return x, err
	}
	x.Scorer, err = scored(file, out, x)
	return x, err
}

// write makes the instance; those with Z get their normalisers, as bounds on the optima.
func write(file string, o generate.Options) error {
	p, err := generate.Instance(o)
	if err != nil {
		return err
	}
	if p.Objective.Kind == plan.MOSP {
		if p, err = relax.Normalised(context.Background(), p); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := planio.WriteInstance(&text, p); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

// scorer is the independent scorer, "" where it or Python is absent.
func scorer() string {
	shared := os.Getenv("LULL_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "shared")
	}
	script := filepath.Join(shared, "tools", "score.py")
	_, missing := os.Stat(script)
	_, none := exec.LookPath("python3")
	if missing != nil || none != nil {
		return ""
	}
	return script
}

// scored asks the independent scorer, where it is there.
func scored(instance, plan string, x figures) (string, error) {
	script := scorer()
	if script == "" {
		return "-", nil
	}
	text, err := exec.Command("python3", script, instance, plan).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // its status says infeasible, its text why
		return "", fmt.Errorf("the scorer: %w", err)
	}
	var s struct {
		Feasible bool     `json:"feasible"`
		Faults   []string `json:"faults"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return "", fmt.Errorf("the scorer: %w", err)
	}
	if s.Feasible || (x.Infeasible && len(s.Faults) == 1) {
		return "ok", nil
	}
	return "x", nil
}
