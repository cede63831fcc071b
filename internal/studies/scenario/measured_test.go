package scenario

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/power"
)

// emissionsCSV has a run of 2 h with 500 W in Sweden and one of 1 h with 100 W in France; both machines have 8 CPUs.
const emissionsCSV = `timestamp,project_name,run_id,duration,emissions,energy_consumed,country_iso_code,region,cloud_provider,cloud_region,cpu_count,tracking_mode,on_cloud,pue
2023-03-01T02:00:00+00:00,p,a,7200,0.1,1,SWE,,aws,eu-north-1,8,machine,Y,1.0
2023-03-01T02:00:00+00:00,p,b,3600,0.1,0.1,FRA,,,,8,machine,N,1.0
`

func measuredScenario(t *testing.T, c Cluster) *Scenario {
	t.Helper()
	file := filepath.Join(t.TempDir(), "emissions.csv")
	if err := os.WriteFile(file, []byte(emissionsCSV), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Scenario{Jobs: Jobs{File: file}, Clusters: []Cluster{c}}
}

// TestCodeCarbonJobEmitsItsMeasuredEnergy checks that a job of CodeCarbon emits its measured energy times the intensity of the cluster, with
// the cluster's PUE, and that the zone is the one of most energy, or of its country if only that has a climatology.
func TestCodeCarbonJobEmitsItsMeasuredEnergy(t *testing.T) {
	s := measuredScenario(t, Cluster{AnyZone: true, PUE: 2, Watts: map[string]float64{"cpu": 1000}})
	cfg, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	if c := cfg.Clusters[0]; c.Zone != "SE" || c.Name != "SE" || !strings.Contains(strings.Join(s.Reading().Notes, "\n"), "all jobs are taken to run in SE, as most of their energy was used in SE-SE3") {
		t.Errorf("zone %q, notes %q", c.Zone, s.Reading().Notes)
	}
	trials, err := Run(context.Background(), cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, watts := range []float64{500, 100} {
		x := cfg.Jobs[i]
		want := float64(power.PriceOver(2*500, cfg.Clusters[0].Actual, x.Submitted, x.Submitted.Add(x.Length)).Emissions) * watts / 500
		if got := float64(trials[0].Jobs[i].Emissions); x.Watts != watts || math.Abs(got-want) > 1e-6*want || want == 0 {
			t.Errorf("job %s with %v W: %v g, want %v", x.ID, x.Watts, got, want)
		}
	}
	s = measuredScenario(t, Cluster{AnyZone: true, Zone: "FR"})
	if cfg, err = s.Build(); err != nil || cfg.Clusters[0].Zone != "FR" || strings.Contains(strings.Join(s.Reading().Notes, "\n"), "no zone is stated") {
		t.Errorf("a stated zone: %v, %q", err, s.Reading().Notes)
	}
	carbonFile := filepath.Join(t.TempDir(), "carbon.csv")
	if err := os.WriteFile(carbonFile, []byte("time,intensity_gco2eq_per_kwh\n2023-03-01T00:00:00Z,100\n2023-03-01T01:00:00Z,100\n2023-03-01T02:00:00Z,100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = measuredScenario(t, Cluster{AnyZone: true, Carbon: []string{carbonFile}})
	if cfg, err = s.Build(); err != nil || cfg.Clusters[0].Zone != "DE" || strings.Contains(strings.Join(s.Reading().Notes, "\n"), "no zone is stated") {
		t.Errorf("a stated intensity: %v, %q", err, s.Reading().Notes)
	}
	s = measuredScenario(t, Cluster{Zone: "FR", Nodes: &Nodes{Count: 4, Resource: "cpu", Each: 8, Idle: 50, Peak: 100}})
	if cfg, err = s.Build(); err != nil || cfg.Jobs[0].Watts != 0 {
		t.Errorf("with machines: job of %v W, %v; want 0, as their power counts", cfg.Jobs[0].Watts, err)
	}
}

// TestJobsOfSeveralZones checks that a note says which jobs ran in a zone in which they are not simulated.
func TestJobsOfSeveralZones(t *testing.T) {
	carbonFile := filepath.Join(t.TempDir(), "carbon.csv")
	if err := os.WriteFile(carbonFile, []byte("time,intensity_gco2eq_per_kwh\n2023-03-01T00:00:00Z,100\n2023-03-01T01:00:00Z,100\n2023-03-01T02:00:00Z,100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		clusters []Cluster
		want     string
	}{
		"the zone of most energy": {[]Cluster{{AnyZone: true}}, "1 of 2 jobs (9 % of the energy) ran in FR: Lull simulates them in SE,"},
		"one of the zones":        {[]Cluster{{Zone: "FR"}}, "1 of 2 jobs (91 % of the energy) ran in SE-SE3: Lull simulates them in FR,"},
		"a third zone":            {[]Cluster{{Zone: "PL"}}, "2 of 2 jobs (100 % of the energy) ran in FR, SE-SE3: Lull simulates them in PL,"},
		"both zones":              {[]Cluster{{Name: "a", Zone: "FR"}, {Name: "b", Zone: "SE"}}, ""},
		"files of one of them":    {[]Cluster{{Zone: "SE-SE3", Carbon: []string{carbonFile}}}, "1 of 2 jobs (9 % of the energy) ran in FR: Lull simulates them in SE-SE3,"},
		"files without a zone":    {[]Cluster{{AnyZone: true, Carbon: []string{carbonFile}}}, "2 of 2 jobs (100 % of the energy) ran in FR, SE-SE3: Lull simulates them with the carbon intensity of the files,"},
		"files of their zone":     {[]Cluster{{AnyZone: true, Carbon: []string{carbonFile}}}, ""},
	} {
		s := measuredScenario(t, Cluster{})
		s.Clusters = tc.clusters
		if name == "files of their zone" {
			if err := os.WriteFile(s.Jobs.File, []byte(strings.ReplaceAll(emissionsCSV, "FRA,,,,", "SWE,,aws,eu-north-1,")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Build(); err != nil {
			t.Fatal(name, err)
		}
		notes := strings.Join(s.Reading().Notes, "\n")
		if tc.want == "" && strings.Contains(notes, "Lull simulates them") || !strings.Contains(notes, tc.want) {
			t.Errorf("%s: no %q in %q", name, tc.want, notes)
		}
	}
}

// TestZoneWithoutClimatology checks that the error says where the zone is from.
func TestZoneWithoutClimatology(t *testing.T) {
	s := measuredScenario(t, Cluster{AnyZone: true})
	if err := os.WriteFile(s.Jobs.File, []byte(strings.ReplaceAll(strings.ReplaceAll(emissionsCSV, "SWE,,aws,eu-north-1", "MAR,,,"), "FRA", "MAR")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Build(); err == nil || !strings.Contains(err.Error(), "MA, in which most energy of the trace was used; accepted: carbon files, or one of") {
		t.Errorf("error %v", err)
	}
	s.Clusters = []Cluster{{AnyZone: true, Zone: "TN"}}
	if _, err := s.Build(); err == nil || strings.Contains(err.Error(), "most energy") {
		t.Errorf("a stated zone: error %v", err)
	}
}

// TestMeasuredPowerScales checks that the measured power is that of the least scale of an elastic job, and grows with
// the workers.
func TestMeasuredPowerScales(t *testing.T) {
	curve := filepath.Join(t.TempDir(), "curve.csv")
	if err := os.WriteFile(curve, []byte("workers,throughput\n1,10\n2,18\n4,30\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := measuredScenario(t, Cluster{Zone: "FR"})
	s.Jobs.Elastic, s.Slot = &Elastic{Min: 2, Profiles: []string{curve}, Watts: true}, Duration{time.Hour}
	cfg, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	if x := cfg.Jobs[0]; x.Watts != 0 || len(x.Scale.Watts) != 3 || x.Scale.Watts[0] != 500 || x.Scale.Watts[2] != 1000 {
		t.Errorf("%v W, by scale %v; want 500 W at 2 workers and 1000 W at 4", x.Watts, x.Scale.Watts)
	}
	if same := cfg.Jobs[1].Scale; same.Watts[0] != 100 {
		t.Errorf("the scale of the other job has %v", same.Watts)
	}
}
