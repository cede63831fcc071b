package cli

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSimulateJSONJobs checks that --json-jobs adds a row for each job and planner, that the
// rows sum to the summary, and that there are none without the flag.
func TestSimulateJSONJobs(t *testing.T) {
	jobs := filepath.Join(t.TempDir(), "jobs.csv")
	if err := os.WriteFile(jobs, []byte("id,arrival_s,length_s,cpus\na,0,7200,2\nb,1800,3600,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type job struct {
		Planner, ID, Kind, Cluster, Withheld string
		Submitted, Started, Ended            time.Time
		Deadline                             *time.Time
		LateS                                float64 `json:"late_s"`
		Grams                                *float64
		BaselineGrams                        *float64 `json:"baseline_grams"`
		Runs                                 []struct {
			From, To time.Time
			Workers  int
			Cluster  string
		}
	}
	var d struct {
		Summary []struct {
			Planner string
			CarbonG float64 `json:"carbonG"`
			Missed  int
		}
		Jobs []job
	}
	args := []string{"simulate", "--jobs", jobs, "--zone", "DE", "--max-delay", "12h", "--kind", "interruptible", "--planner", "joint", "--json", "-"}
	if err := json.Unmarshal([]byte(stdout(t, args...)), &d); err != nil || d.Jobs != nil {
		t.Fatalf("without --json-jobs: %+v, %v", d.Jobs, err)
	}
	if err := json.Unmarshal([]byte(stdout(t, append(args, "--json-jobs")...)), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Jobs) != 4 || len(d.Summary) != 2 {
		t.Fatalf("%d rows of jobs, want 2 jobs of 2 planners", len(d.Jobs))
	}
	for _, s := range d.Summary {
		grams, late := 0.0, 0
		for _, j := range d.Jobs {
			if j.Planner != s.Planner {
				continue
			}
			if j.ID == "" || j.Kind != "interruptible" || j.Cluster == "" || j.Grams == nil || j.BaselineGrams == nil || j.Deadline == nil || len(j.Runs) == 0 {
				t.Fatalf("%+v: a field is missing", j)
			}
			if j.Started.Before(j.Submitted) || !j.Ended.After(j.Started) || !j.Runs[0].From.Equal(j.Started) {
				t.Errorf("%+v: times out of order", j)
			}
			if want := max(0, j.Ended.Sub(*j.Deadline).Seconds()); math.Abs(j.LateS-want) > 1 {
				t.Errorf("%s: late by %v s, want %v", j.ID, j.LateS, want)
			}
			if j.LateS > 0 {
				late++
			}
			grams += *j.Grams
			if s.Planner == "as submitted" && *j.Grams != *j.BaselineGrams {
				t.Errorf("%s: %v g as submitted, baseline %v g", j.ID, *j.Grams, *j.BaselineGrams)
			}
		}
		if math.Abs(grams-s.CarbonG) > 1e-6 || late != s.Missed {
			t.Errorf("%s: jobs sum to %v g and %d late, the summary has %v g and %d", s.Planner, grams, late, s.CarbonG, s.Missed)
		}
	}
}
