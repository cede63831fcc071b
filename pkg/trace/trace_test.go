package trace_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/workload"
)

func TestReadCSV(t *testing.T) {
	tr, err := trace.ReadCSV(strings.NewReader(`arrival_s,id,extra,length_s,cpus,gpus,kind,max_delay_s,deadline_s,min_workers,max_workers,profile,class,estimate_s
0,a,x,60.5,2,,,,,,,,u1,
10,b,x,3600,2,1,elastic,7200,,1,8,resnet18,u1,1800
10,c,x,1,2,,rigid,,99,,,,u2,
`))
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := tr.Jobs[0], tr.Jobs[1], tr.Jobs[2]
	if a.ID != "a" || a.Length != 60500*time.Millisecond || a.Request[trace.CPU] != 2 || len(a.Request) != 1 || a.Class != "u1" {
		t.Errorf("a: %+v", a)
	}
	if b.Kind != workload.Elastic || b.MaxDelay != 2*time.Hour || b.MaxWorkers != 8 || b.Profile != "resnet18" || b.Request[trace.GPU] != 1 || b.Estimate != 30*time.Minute {
		t.Errorf("b: %+v", b)
	}
	if c.Deadline != 99*time.Second || tr.Span() != 10*time.Second {
		t.Errorf("c: %+v, span %v", c, tr.Span())
	}
	if part := tr.Between(5*time.Second, 20*time.Second); len(part.Jobs) != 2 || part.Jobs[0].Arrival != 5*time.Second || part.Jobs[1].Deadline != 94*time.Second {
		t.Errorf("part: %+v", part.Jobs)
	}
}

// TestFaultsAreNamed: the line, the column and the value of what is wrong.
func TestFaultsAreNamed(t *testing.T) {
	const head = "id,arrival_s,length_s,cpus\n"
	for text, want := range map[string][]string{
		"":                              {"line 1"},
		"id,arrival_s,cpus\n":           {"line 1", "length_s", "missing"},
		"id,id,arrival_s,length_s,cpus": {"line 1", "id", "twice"},
		head + "a,0,60,1\nb,-5,60,1\n":  {"line 3", "arrival_s", `"-5"`},
		head + "a,10,60,1\nb,5,60,1\n":  {"line 3", "arrival_s", "5", "ascending"},
		head + "a,0,0,1\n":              {"line 2", "length_s", `"0"`},
		head + "a,0,NaN,1\n":            {"line 2", "length_s"},
		head + "a,0,+Inf,1\n":           {"line 2", "length_s"},
		head + "a,0,60,-1\n":            {"line 2", "cpus", `"-1"`},
		head + "a,0,60,x\n":             {"line 2", "cpus", `"x"`},
		head + ",0,60,1\n":              {"line 2", "id"},
		head + "a,0,60\n":               {"line 2"},
		"id,arrival_s,length_s,cpus,kind\na,0,60,1,soft\n":                  {"line 2", "kind", "soft"},
		"id,arrival_s,length_s,cpus,deadline_s\na,9,60,1,9\n":               {"line 2", "deadline_s"},
		"id,arrival_s,length_s,cpus,min_workers,max_workers\na,0,6,1,4,2\n": {"line 2", "max_workers"},
		"id,arrival_s,length_s,cpus,max_workers\na,0,6,1,1e9\n":             {"line 2", "max_workers"},
	} {
		_, err := trace.ReadCSV(strings.NewReader(text))
		if !errors.Is(err, trace.ErrTrace) {
			t.Errorf("%q: error %v, want ErrTrace", text, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: error %q lacks %q", text, err, part)
			}
		}
	}
}

const swfText = `; Version: 2.2
; UnixStartTime: 1131000000
1 100 5 600 4 -1 -1 4 1200 -1 1 7 1 1 1 -1 -1 -1
2 160 5 -1 4 -1 -1 4 1200 -1 0 7 1 1 1 -1 -1 -1
3 160 5 60 -1 -1 -1 2 -1 -1 1 8 1 1 1 -1 -1 -1
`

func TestReadSWF(t *testing.T) {
	tr, err := trace.ReadSWF(strings.NewReader(swfText))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Jobs) != 2 || tr.Skipped.Total() != 1 || !tr.Start.Equal(time.Unix(1131000100, 0)) {
		t.Fatalf("%d jobs, skipped: %v, from %v", len(tr.Jobs), tr.Skipped, tr.Start)
	}
	if j := tr.Jobs[0]; j.Arrival != 0 || j.Length != 10*time.Minute || j.Estimate != 20*time.Minute || j.Request[trace.CPU] != 4 || j.Class != "7" {
		t.Errorf("%+v", j)
	}
	if j := tr.Jobs[1]; j.Arrival != time.Minute || j.Estimate != 0 || j.Request[trace.CPU] != 2 {
		t.Errorf("%+v", j)
	}
	if _, err := trace.ReadGWF(strings.NewReader(strings.ReplaceAll(swfText, ";", "#"))); err != nil {
		t.Errorf("GWF: %v", err)
	}
	for text, want := range map[string]string{
		"1 2 3\n": "line 1", "1 x 5 600 4 -1 -1 4 1200 -1 1\n": "submit time", "1 100 5 600 4 -1 -1 4 1 -1 1\n2 50 5 600 4 -1 -1 4 1 -1 1\n": "line 2",
		"1 1e300 5 600 4 -1 -1 4 1200 -1 1\n": "submit time",
	} {
		if _, err := trace.ReadSWF(strings.NewReader(text)); !errors.Is(err, trace.ErrTrace) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that names %s", text, err, want)
		}
	}
}

func TestReadProfile(t *testing.T) {
	p, err := trace.ReadProfile(strings.NewReader("workers,throughput,power_w\n1,10,100\n2,18,180\n4,30,300\n"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Scale(1, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{10, 8, 6, 6, 6} {
		if math.Abs(m.Curve[i]-want) > 1e-9 {
			t.Errorf("increment %d: %v, want %v", i, m.Curve[i], want)
		}
	}
	if math.Abs(m.Watts[2]-240) > 1e-9 || math.Abs(m.Watts[4]-360) > 1e-9 {
		t.Errorf("watts %v", m.Watts)
	}
	for _, bad := range []string{"", "workers\n", "workers,throughput\n", "workers,throughput\n2,1\n1,1\n", "workers,throughput\n1,0\n", "workers,throughput,power_w\n1,1,-2\n", "workers,throughput\n1,NaN\n"} {
		if _, err := trace.ReadProfile(strings.NewReader(bad)); !errors.Is(err, trace.ErrTrace) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	if _, err := p.Scale(3, 2); !errors.Is(err, trace.ErrTrace) {
		t.Errorf("an empty range: %v", err)
	}
}

// TestGeneratedJobsFollowTheRate: as many jobs as the rate says, more of them at the peak of the day.
func TestGeneratedJobsFollowTheRate(t *testing.T) {
	spec := trace.Spec{
		Arrivals: trace.Arrivals{PerHour: 20, Swing: 0.8, Peak: 15}, Span: 30 * 24 * time.Hour,
		Length: trace.Exponential(2, 10), CPUs: trace.UniformInt(1, 4), Whole: time.Hour, Seed: 3,
	}
	tr, err := trace.Generate(spec)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(len(tr.Jobs))
	if want := 20.0 * 24 * 30; math.Abs(n-want) > 5*math.Sqrt(want) {
		t.Errorf("%v jobs, want about %v", n, want)
	}
	peak, low := 0, 0
	for _, j := range tr.Jobs {
		switch h := int(j.Arrival.Hours()) % 24; {
		case h >= 12 && h < 18:
			peak++
		case h < 6:
			low++
		}
		if j.Length%time.Hour != 0 || j.Length > 10*time.Hour {
			t.Fatalf("length %v", j.Length)
		}
	}
	if peak < 3*low {
		t.Errorf("%d jobs at the peak, %d at night", peak, low)
	}
	again, _ := trace.Generate(spec)
	if len(again.Jobs) != len(tr.Jobs) || again.Jobs[5].Arrival != tr.Jobs[5].Arrival {
		t.Error("two traces of one seed differ")
	}
	for _, bad := range []trace.Spec{{Span: time.Hour}, {Arrivals: trace.Arrivals{PerHour: 1, Swing: 2}, Span: time.Hour}, {Arrivals: trace.Arrivals{PerHour: 1e9}, Span: 1e6 * time.Hour}} {
		if _, err := trace.Generate(bad); !errors.Is(err, trace.ErrTrace) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	if v := trace.LogNormal(1, 3, 5)(rng); v <= 0 || v > 5 {
		t.Errorf("log-normal: %v", v)
	}
	if v := trace.Constant(2)(rng); v != 2 {
		t.Errorf("constant: %v", v)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("id,arrival_s,length_s,cpus\na,0,60,1\nb,1,60,1\n")
	f.Add("id,arrival_s,length_s,cpus,kind,max_workers,min_workers\na,0,60,1,elastic,4,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := trace.ReadCSV(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, trace.ErrTrace) {
				t.Fatalf("%v", err)
			}
			return
		}
		last := time.Duration(0)
		for _, j := range tr.Jobs {
			if j.Arrival < last || j.Length <= 0 || j.ID == "" {
				t.Fatalf("%+v", j)
			}
			last = j.Arrival
		}
	})
}

func FuzzReadSWF(f *testing.F) {
	f.Add(swfText)
	f.Fuzz(func(t *testing.T, text string) {
		if tr, err := trace.ReadSWF(strings.NewReader(text)); err == nil {
			for _, j := range tr.Jobs {
				if j.Length < 0 || j.Arrival < 0 {
					t.Fatalf("%+v", j)
				}
			}
		}
	})
}

func FuzzReadProfile(f *testing.F) {
	f.Add("workers,throughput,power_w\n1,10,100\n2,18,180\n", 4)
	f.Fuzz(func(t *testing.T, text string, most int) {
		p, err := trace.ReadProfile(strings.NewReader(text))
		if err != nil || most > 1000 {
			return
		}
		m, err := p.Scale(1, most)
		if err != nil {
			return
		}
		for _, v := range m.Curve {
			if !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("curve %v", m.Curve)
			}
		}
	})
}
