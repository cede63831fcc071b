package planio_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/cheapest"
	"lull.dev/lull/pkg/plan/planio"
	"lull.dev/lull/pkg/plan/plantest"
	"lull.dev/lull/pkg/workload"
)

// TestRoundTrip: what is written is what is read, for instances and plans.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		for _, objective := range []plan.ObjectiveKind{plan.Carbon, plan.MOSP} {
			p := plantest.Random(seed, plantest.Options{Objective: objective, NoLoad: true, Begun: objective == plan.Carbon && seed%2 == 0})
			var b bytes.Buffer
			if err := planio.WriteInstance(&b, p); err != nil {
				t.Fatal(err)
			}
			q, err := planio.ReadInstance(&b)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !reflect.DeepEqual(p, q) {
				t.Fatalf("seed %d: read\n%+v\nwrote\n%+v", seed, q, p)
			}
			res, err := cheapest.Planner{}.Plan(context.Background(), p)
			if err != nil {
				t.Fatal(err)
			}
			if err := planio.WritePlan(&b, p, "cheapest", res); err != nil {
				t.Fatal(err)
			}
			pl, err := planio.ReadPlan(&b, p)
			if err != nil {
				t.Fatal(err)
			}
			got, want := plan.Evaluate(p, pl), plan.Evaluate(p, res.Plan)
			if math.Abs(got.CarbonG-want.CarbonG) > 1e-12*math.Max(1, want.CarbonG) || got.Planned != want.Planned {
				t.Fatalf("seed %d: read plan emits %v, written %v", seed, got.CarbonG, want.CarbonG)
			}
		}
	}
}

const head = `{"version": 1, "start": "2023-01-01T00:00:00Z", "slot": "1h", "horizon": 3,`
const cluster = `"clusters": [{"name": "c1", "capacity": {"cpu": 2}, "intensity": [10, 100, 20]}],`
const job = `{"id": "j", "arrival": 0, "length": 2, "deadline": 3, "kind": "rigid", "request": {"cpu": 1}}`

func TestReadInstanceErrors(t *testing.T) {
	good := head + cluster + `"jobs": [` + job + `]}`
	if _, err := planio.ReadInstance(strings.NewReader(good)); err != nil {
		t.Fatalf("the instance the others are made from: %v", err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"empty":             {"", "it is empty"},
		"array":             {"[]", "; accepted: "},
		"trailing":          {good + "{}", "more data"},
		"unknown field":     {strings.Replace(good, `"slot"`, `"colour": 1, "slot"`, 1), `"colour"`},
		"unknown job field": {strings.Replace(good, `"kind"`, `"speed": 1, "kind"`, 1), `"speed"`},
		"version":           {strings.Replace(good, `"version": 1`, `"version": 2`, 1), "version: 2"},
		"start":             {strings.Replace(good, `2023-01-01T00:00:00Z`, `1 January`, 1), `start: "1 January"`},
		"slot":              {strings.Replace(good, `"1h"`, `"soon"`, 1), `"soon"`},
		"negative slot":     {strings.Replace(good, `"1h"`, `"-1h"`, 1), `"-1h"`},
		"huge horizon":      {strings.Replace(good, `"horizon": 3`, `"horizon": 2000000000`, 1), "2000000000"},
		"short intensity":   {strings.Replace(good, `[10, 100, 20]`, `[10, 100]`, 1), "2 values"},
		"no intensity":      {strings.Replace(good, `, "intensity": [10, 100, 20]`, ``, 1), "intensity: absent"},
		"empty intensity":   {strings.Replace(good, `[10, 100, 20]`, `[]`, 1), "0 values"},
		"text intensity":    {strings.Replace(good, `[10, 100, 20]`, `"low"`, 1), "; accepted: "},
		"kind":              {strings.Replace(good, `"rigid"`, `"soft"`, 1), `"soft"`},
		"weights":           {strings.Replace(good, `"clusters"`, `"objective": {"kind": "mosp", "weights": [1]}, "clusters"`, 1), "weights: 1 values"},
		"theta for carbon":  {strings.Replace(good, `"clusters"`, `"objective": {"kind": "carbon", "theta": [1,1,1]}, "clusters"`, 1), "belong to kind"},
		"no cluster list":   {strings.Replace(good, `"rigid"`, `"rigid", "clusters": []`, 1), "clusters: []"},
	} {
		_, err := planio.ReadInstance(strings.NewReader(tc.text))
		known := errors.Is(err, planio.ErrFormat) || errors.Is(err, plan.ErrProblem) || errors.Is(err, workload.ErrJob)
		if !known || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that names %q", name, err, tc.want)
		}
	}
}

func TestReadPlanErrors(t *testing.T) {
	p, err := planio.ReadInstance(strings.NewReader(head + cluster + `"jobs": [` + job + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"version": {`{"version": 9, "jobs": [], "unscheduled": []}`, "version: 9"},
		"job":     {`{"version": 1, "jobs": [{"id": "x", "segments": []}], "unscheduled": []}`, `"x"`},
		"cluster": {`{"version": 1, "jobs": [{"id": "j", "segments": [{"t": 0, "cluster": "mars", "workers": 1}]}], "unscheduled": []}`, `"mars"`},
	} {
		if _, err := planio.ReadPlan(strings.NewReader(tc.text), p); !errors.Is(err, planio.ErrFormat) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one that names %q", name, err, tc.want)
		}
	}
}

func FuzzReadInstance(f *testing.F) {
	f.Add(head + cluster + `"jobs": [` + job + `]}`)
	f.Add(head + `"objective": {"kind": "mosp", "weights": [1,1,1], "theta": [1,1,1]},` + cluster + `"jobs": []}`)
	for seed := range uint64(5) {
		var b bytes.Buffer
		if err := planio.WriteInstance(&b, plantest.Random(seed, plantest.Options{MaxJobs: 3, MaxSlots: 6, NoLoad: true})); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := planio.ReadInstance(strings.NewReader(text))
		if err != nil {
			return
		}
		if p.Grid.N > 1000 || len(p.Jobs) > 50 || len(p.Clusters) > 10 {
			return
		}
		// Whatever is accepted can be planned: a result, never a panic or NaN.
		res, err := cheapest.Planner{}.Plan(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		if e := plan.Evaluate(p, res.Plan); math.IsNaN(e.CarbonG) {
			t.Fatalf("emissions are NaN")
		}
	})
}

func FuzzReadPlan(f *testing.F) {
	p := plantest.Random(3, plantest.Options{MaxJobs: 3, MaxSlots: 6, NoLoad: true})
	f.Add(`{"version": 1, "jobs": [{"id": "j000", "segments": [{"t": 0, "cluster": "c0", "workers": 1, "fraction": 0.5}]}], "unscheduled": []}`)
	f.Add(`{"version": 1, "jobs": [{"id": "j000", "segments": [{"t": -1, "cluster": "c0", "workers": -5}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		pl, err := planio.ReadPlan(strings.NewReader(text), p)
		if err != nil {
			if !errors.Is(err, planio.ErrFormat) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		_ = plan.Check(p, pl) // must not panic
		plan.Evaluate(p, pl)
	})
}

// TestOtherText: editors write a byte order mark, and PowerShell UTF-16.
func TestOtherText(t *testing.T) {
	var b bytes.Buffer
	if err := planio.WriteInstance(&b, plantest.Random(1, plantest.Options{NoLoad: true})); err != nil {
		t.Fatal(err)
	}
	if _, err := planio.ReadInstance(strings.NewReader("\ufeff" + b.String())); err != nil {
		t.Errorf("byte order mark: %v", err)
	}
	if _, err := planio.ReadInstance(strings.NewReader("{\n\x00}")); !errors.Is(err, planio.ErrFormat) || !strings.Contains(err.Error(), "line 2: NUL (U+0000); accepted: plain text in UTF-8") {
		t.Errorf("NUL: error %v", err)
	}
	if _, err := planio.ReadInstance(strings.NewReader("\xff\xfe{\x00")); !errors.Is(err, planio.ErrFormat) || !strings.Contains(err.Error(), "UTF-16") {
		t.Errorf("UTF-16: error %v", err)
	}
}
