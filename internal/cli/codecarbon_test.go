package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCodeCarbonHistory runs the example of the docs: simulate and advise take the emissions.csv of CodeCarbon as a
// history, plan with its power, and say where it ran.
func TestCodeCarbonHistory(t *testing.T) {
	const head = "timestamp,project_name,run_id,duration,emissions,energy_consumed,country_iso_code,region,cloud_provider,cloud_region,cpu_count,tracking_mode,on_cloud,pue\n"
	file := filepath.Join(t.TempDir(), "emissions.csv")
	if err := os.WriteFile(file, []byte(head+
		"2023-03-01T20:00:00,train,a,3600,0.1,1,FRA,,,,8,machine,N,1\n"+
		"2023-03-01T21:00:00,train,a,7200,0.2,2,FRA,,,,8,machine,N,1\n"+
		"2023-03-02T21:00:00,train,b,7200,0.2,4,FRA,,,,8,machine,N,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	simulate := []string{"simulate", "--jobs", file, "--kind", "interruptible", "--planner", "joint"}
	if text := stdout(t, simulate...); !strings.Contains(text, "1 with a later row of the same run") || !strings.Contains(text, "all jobs are taken to run in FR") {
		t.Errorf("simulate:\n%s", text)
	}
	rows := filepath.Join(t.TempDir(), "rows.csv")
	stdout(t, append(simulate, "--csv", rows, "--watts", "1000")...)
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	table := strings.Split(strings.TrimSpace(string(text)), "\n")
	column := func(row, name string) string {
		for i, x := range strings.Split(table[0], ",") {
			if x == name {
				return strings.Split(row, ",")[i]
			}
		}
		t.Fatalf("no column %s in %s", name, table[0])
		return ""
	}
	for _, row := range table[1:] {
		want := map[string]float64{"a": 2, "b": 4}[column(row, "job")]
		var kWh, carbon, expected float64
		for name, to := range map[string]*float64{"energy_kwh": &kWh, "carbon_g": &carbon, "expected_g": &expected} {
			if x := column(row, name); x != "" {
				if err := json.Unmarshal([]byte(x), to); err != nil {
					t.Fatal(err)
				}
			}
		}
		if math.Abs(kWh-want) > 1e-6 {
			t.Errorf("%s: %v kWh, want the %v that CodeCarbon states", row, kWh, want)
		}
		if column(row, "planner") == "joint" && math.Abs(carbon-expected) > 0.02*carbon { // later plans differ by what is not worth a pause
			t.Errorf("%s: the plan expected %v g with a perfect forecast, and it was %v g", row, expected, carbon)
		}
	}
	if err := os.WriteFile(file+".ma.csv", []byte(head+"2023-03-02T21:00:00,train,b,7200,0.2,4,MAR,,,,8,machine,N,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text := failure(t, "advise", "--jobs", file+".ma.csv"); !strings.Contains(text, "MA") || !strings.Contains(text, "Most energy of --jobs was used in MA") {
		t.Errorf("advise without a climatology: %s", text)
	}
	if text := stdout(t, "advise", "--jobs", file, "--slack", "6h", "--planner", "joint", "--zone", "SE", "--zone", "PL"); !strings.Contains(text, "2 of 2 jobs (100 % of the energy) ran in FR: Lull simulates them in SE") || !strings.Contains(text, "Lull simulates them in PL") {
		t.Errorf("advise for other zones:\n%s", text)
	}
	if text := stdout(t, "advise", "--jobs", file, "--slack", "6h", "--planner", "joint"); !strings.Contains(text, "all jobs are taken to run in FR") || !strings.Contains(text, "In FR") {
		t.Errorf("advise:\n%s", text)
	}
}
