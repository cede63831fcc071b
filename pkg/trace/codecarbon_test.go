package trace_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
)

// The headers of three major versions of CodeCarbon.
const (
	ccV1 = "timestamp,experiment_id,project_name,duration,emissions,energy_consumed,country_name,country_iso_code,region,on_cloud,cloud_provider,cloud_region\n"
	ccV2 = "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,country_name,country_iso_code,region,cloud_provider,cloud_region,os,python_version,codecarbon_version,cpu_count,cpu_model,gpu_count,gpu_model,longitude,latitude,ram_total_size,tracking_mode,on_cloud,pue\n"
	ccV3 = "timestamp,project_name,run_id,experiment_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,gpu_energy,ram_energy,energy_consumed,water_consumed,country_name,country_iso_code,region,cloud_provider,cloud_region,os,python_version,codecarbon_version,cpu_count,cpu_model,gpu_count,gpu_model,longitude,latitude,ram_total_size,tracking_mode,cpu_utilization_percent,gpu_utilization_percent,ram_utilization_percent,ram_used_gb,on_cloud,pue,wue\n"
	// ccTail is a row of version 2 from the operating system on.
	ccTail = "Linux-6.5.0,3.11.7,2.3.4,8,\"Xeon, Gold\",2,2 x A100,2.3,48.8,64,machine,N,1.0\n"
)

func readCC(t *testing.T, text string) *trace.Trace {
	t.Helper()
	tr, err := trace.ReadCSV(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func noted(tr *trace.Trace, text string) bool {
	return strings.Contains(strings.Join(tr.Notes, "\n"), text)
}

// TestCodeCarbonRowIsAJob checks that a row is a job that ran from timestamp - duration on with the mean power of the run, in
// the order of the starts, and that the last row of a run counts.
func TestCodeCarbonRowIsAJob(t *testing.T) {
	const france = ",France,FRA,île-de-france,,,"
	tr := readCC(t, "\ufeff"+ccV2+
		"2024-07-01T14:00:00,late,r1,600,0.01,0,0,0,0,0,0,0,0.1"+france+ccTail+
		"2024-07-01T15:00:00,late,r1,4200,0.01,0,0,0,0,0,0,0,0.7"+france+ccTail+
		"2024-07-01T14:30:00,early,r2,7200,0.01,0,0,0,0,0,0,0,1"+france+ccTail+
		"2024-07-01T14:30:00,nothing,r3,0,0,0,0,0,0,0,0,0,0"+france+ccTail+
		"2024-07-01T16:00:00,late,r1,60,0.01,0,0,0,0,0,0,0,0.001"+france+ccTail)
	if len(tr.Jobs) != 3 || tr.Skipped[trace.EarlierRow] != 1 || tr.Skipped[trace.NoRunTime] != 1 {
		t.Fatalf("%+v, skipped %v", tr.Jobs, tr.Skipped)
	}
	if want := time.Date(2024, 7, 1, 10, 30, 0, 0, time.UTC); !tr.Start.Equal(want) { // 14:30 in Paris - 2 h
		t.Errorf("start %v, want %v", tr.Start, want)
	}
	a, b, again := tr.Jobs[0], tr.Jobs[1], tr.Jobs[2]
	if a.ID != "r2" || a.Arrival != 0 || a.Length != 2*time.Hour || math.Abs(a.Watts-500) > 1e-9 || a.Zone != "FR" || a.Class != "early" {
		t.Errorf("%+v", a)
	}
	if a.Request[trace.CPU] != 8 || a.Request[trace.GPU] != 2 || a.Request[trace.Memory] != 64 {
		t.Errorf("request %v", a.Request)
	}
	if b.ID != "r1" || b.Arrival != 80*time.Minute || b.Length != 70*time.Minute || math.Abs(b.Watts-600) > 1e-9 {
		t.Errorf("%+v", b)
	}
	if again.ID == "r1" || !strings.Contains(again.ID, "line 6") || again.Length != time.Minute {
		t.Errorf("a run that begins anew: %+v", again)
	}
	if tr.Zone() != "FR" || !noted(tr, "FR: 3 jobs") || !noted(tr, "3 jobs: the timestamp has no offset and is read by the clock of the zone") {
		t.Errorf("zone %q, notes %q", tr.Zone(), tr.Notes)
	}
}

// TestCodeCarbonVersions checks the columns of other versions, and what they do not state.
func TestCodeCarbonVersions(t *testing.T) {
	tr := readCC(t, ccV1+
		"2021-03-04T12:00:00,e1,p,3600,0.2,0.05,France,FRA,Paris,N,,\n"+
		"2021-03-05T12:00:00,e2,p,3600,0.2,0.05,USA,USA,Iowa,Y,gcp,us-central1\n"+
		"2021-03-06T12:00:00,e3,p,3600,0.2,,USA,USA,Iowa,N,,\n")
	want := []struct {
		end, zone string
		watts     float64
	}{{"2021-03-04T11:00:00Z", "FR", 50}, {"2021-03-05T12:00:00Z", "US-MIDW-MISO", 50}, {"2021-03-06T12:00:00Z", "", 0}}
	for i, w := range want {
		j := tr.Jobs[i]
		if end := tr.Start.Add(j.Arrival + j.Length).Format(time.RFC3339); end != w.end || j.Zone != w.zone || math.Abs(j.Watts-w.watts) > 1e-9 || j.Request[trace.CPU] != 1 || !strings.HasPrefix(j.ID, "p (line") {
			t.Errorf("row %d: %+v, end %s; want %+v", i, j, end, w)
		}
	}
	for _, text := range []string{"no grid zone is known for the cloud region or the country of 1 job", "3 jobs: no cpu_count", "1 job: no energy", "2 jobs: the timestamp has no offset and is read as UTC"} {
		if !noted(tr, text) {
			t.Errorf("notes %q lack %q", tr.Notes, text)
		}
	}
	for system, want := range map[string]string{
		"Linux-6.8.0-1021-aws-x86_64-with-glibc2.39": "2026-01-01T12:00:00Z", "Linux-6.1.0-28-cloud-amd64-x86_64-with-glibc2.36": "2026-01-01T12:00:00Z",
		"Linux-6.1.115-126.197.amzn2023.x86_64-x86_64-with-glibc2.34": "2026-01-01T12:00:00Z", "Linux-6.8.0-47-generic-x86_64-with-glibc2.35": "2026-01-01T11:00:00Z",
	} {
		tr = readCC(t, "timestamp,duration,energy_consumed,country_iso_code,on_cloud,os\n2026-01-01T12:00:00,60,1,FRA,N,"+system+"\n")
		if end := tr.Start.Add(time.Minute).Format(time.RFC3339); end != want {
			t.Errorf("%s: the run ends at %s, want %s: CodeCarbon says N of AWS and Azure", system, end, want)
		}
	}
	const head = "2026-08-12T19:37:29+02:00,p,r,e,3600,0,0,0,0,0,0,0,0,0.15,0,Spain,ESP,madrid,,,macOS-26.5.2-arm64,3.13.13,3.3.0,10,Apple M5,0,,-3.7,40.4,24.0,process,0.0,0,64.2,9.1,N,1.5,0.0\n"
	tr = readCC(t, ccV3+head)
	if j := tr.Jobs[0]; j.ID != "r" || math.Abs(j.Watts-100) > 1e-9 || j.Zone != "ES" || !tr.Start.Equal(time.Date(2026, 8, 12, 16, 37, 29, 0, time.UTC)) || j.Request[trace.GPU] != 0 {
		t.Errorf("%+v from %v: want 100 W, as the energy has a PUE of 1.5, and the offset of the timestamp", j, tr.Start)
	}
	if noted(tr, "machine") || noted(tr, "offset") {
		t.Errorf("notes %q", tr.Notes)
	}
	tasks := readCC(t, "task_name,timestamp,run_id,duration,energy_consumed\na,2026-01-01T01:00:00Z,r,60,1\nb,2026-01-01T02:00:00Z,r,90,1\na,2026-01-01T03:00:00Z,r,90,1\n")
	if len(tasks.Jobs) != 3 || tasks.Jobs[0].ID != "r/a" || tasks.Jobs[1].ID != "r/b" {
		t.Errorf("tasks: %+v", tasks.Jobs)
	}
}

// TestCodeCarbonFilesTogether checks that a header in the middle holds for the rows below it, as after cat of files of two versions.
func TestCodeCarbonFilesTogether(t *testing.T) {
	const v3 = "2026-08-12T12:00:00,p,r3,e,3600,0,0,0,0,0,0,0,0,0.3,0,France,FRA,x,,,Linux-6.8,3.12.1,3.3.0,16,EPYC,1,T4,1,1,32.0,machine,0,0,0,0,N,1.0,0\n"
	const v1 = "2021-03-04T12:00:00,e1,p,3600,0.2,0.05,France,FRA,Paris,N,,\n"
	tr := readCC(t, ccV1+v1+"\ufeff"+ccV3+v3+ccV1+v1)
	if len(tr.Jobs) != 3 || math.Abs(tr.Jobs[0].Watts-50) > 1e-9 || math.Abs(tr.Jobs[2].Watts-300) > 1e-9 || tr.Jobs[2].Request[trace.CPU] != 16 {
		t.Errorf("%+v", tr.Jobs)
	}
}

// TestCodeCarbonShortRows checks rows that CodeCarbon 3.2 and later append without the fields that have no value: those
// of a tracker that is offline know no region and no coordinates.
func TestCodeCarbonShortRows(t *testing.T) {
	const numbers = "3600,0,0,0,0,0,0,0,0,0.2,0,"
	tr := readCC(t, ccV3+
		"2026-08-12T10:00:00,p,r1,e,"+numbers+"France,FRA,,,,Linux-6.8,3.12.1,3.3.0,16,EPYC,0,,,,32.0,machine,0,0,0,0,N,1.0,0\n"+
		"2026-08-12T12:00:00,p,r2,e,"+numbers+"France,FRA,,,Linux-6.8,3.12.1,3.3.0,16,EPYC,0,,32.0,machine,0,0,0,0,N,2.0,0\n"+
		"2026-08-12T14:00:00,p,r3,e,"+numbers+"USA,USA,gcp,us-central1,Linux-6.8,3.12.1,3.3.0,16,EPYC,0,,32.0,machine,0,0,0,0,Y,1.0,0\n")
	if len(tr.Jobs) != 3 || !noted(tr, "2 jobs: the row has fewer fields") {
		t.Fatalf("%+v, %q", tr.Jobs, tr.Notes)
	}
	if j := tr.Jobs[1]; j.Zone != "FR" || j.Request[trace.CPU] != 16 || math.Abs(j.Watts-100) > 1e-9 {
		t.Errorf("%+v", j)
	}
	if j := tr.Jobs[2]; j.Zone != "US-MIDW-MISO" || !tr.Start.Add(j.Arrival).Equal(time.Date(2026, 8, 12, 13, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", j)
	}
}

// TestCodeCarbonFaults checks that an error names line, column and value, and what is accepted.
func TestCodeCarbonFaults(t *testing.T) {
	const head = "timestamp,duration,energy_consumed,cpu_count,pue\n"
	for row, want := range map[string][]string{
		"2024-07-01T14:00:00,x,1,1,1\n":        {"line 3", "duration", `"x"`, "seconds"},
		"2024-07-01T14:00:00,-1,1,1,1\n":       {"line 3", "duration", `"-1"`},
		"2024-07-01T14:00:00,,1,1,1\n":         {"line 3", "duration", "a value"},
		",60,1,1,1\n":                          {"line 3", "timestamp", "a value"},
		"01/07/2024,60,1,1,1\n":                {"line 3", "timestamp", "01/07/2024", "2024-05-31T10:39:13"},
		"0001-01-01T00:00:00,60,1,1,1\n":       {"line 3", "timestamp", "1970"},
		"2024-07-01T14:00:00,60,NaN,1,1\n":     {"line 3", "energy_consumed", "NaN"},
		"2024-07-01T14:00:00,60,1e11,1,1\n":    {"line 3", "energy_consumed", "1e11", "W"},
		"2024-07-01T14:00:00,60,1,-4,1\n":      {"line 3", "cpu_count", "-4"},
		"2024-07-01T14:00:00,60,1,1,0.5\n":     {"line 3", "pue", "0.5", "1 to 10"},
		"2024-07-01T14:00:00,60,1,1,11\n":      {"line 3", "pue", "11", "1 to 10"},
		"2024-07-01T14:00:00,60,1,1\n":         {"line 3", "4 fields", "accepted: 5"},
		"2024-07-01T14:00:00,60,1,1,1,7\n":     {"line 3", "6 fields", "accepted: 5"},
		"2024-07-01T14:00:00,60,1,1,1,\"7\n\n": {"line"},
	} {
		_, err := trace.ReadCSV(strings.NewReader(head + "2024-07-01T14:00:00,60,1,1,1\n" + row))
		if !errors.Is(err, trace.ErrTrace) {
			t.Errorf("%q: error %v, want ErrTrace", row, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: error %q lacks %q", row, err, part)
			}
		}
	}
	if _, err := trace.ReadCSV(strings.NewReader("timestamp,duration,emissions\n")); err == nil || !strings.Contains(err.Error(), "energy_consumed") {
		t.Errorf("a header without energy: %v", err)
	}
}

func FuzzReadCodeCarbon(f *testing.F) {
	f.Add(ccV2 + "2024-07-01T14:00:00,p,r1,600,0.01,0,0,0,0,0,0,0,0.1,France,FRA,,,," + ccTail + "2024-07-01T14:00:00,p,r1,900,0.01,0,0,0,0,0,0,0,0.1,France,FRA,,," + ccTail)
	f.Add(ccV3 + "2026-08-12T12:00:00,p,r2,e,1,0,0,0,0,0,0,0,0,0.2,0,France,FRA,,,Linux-6.8,3.12.1,3.3.0,16,EPYC,0,,32.0,machine,0,0,0,0,N,2.0,0\n")
	f.Add("timestamp,duration,energy_consumed\n2024-07-01 14:00:00+02:00,1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := trace.ReadCSV(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, trace.ErrTrace) {
				t.Fatalf("%v", err)
			}
			return
		}
		last, seen := time.Duration(0), map[string]bool{}
		for _, j := range tr.Jobs {
			if j.Arrival < last || j.Length <= 0 || j.ID == "" || !(j.Watts >= 0 && j.Watts <= 1e9) {
				t.Fatalf("%+v", j)
			}
			if j.Zone != "" || j.Watts > 0 {
				if seen[j.ID] {
					t.Fatalf("%s stands twice", j.ID)
				}
				seen[j.ID] = true
			}
			last = j.Arrival
		}
	})
}
