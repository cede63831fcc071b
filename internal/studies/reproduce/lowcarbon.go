package reproduce

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/studies/report"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

func lowCarbonExperiments() []Experiment {
	const cities = "weather/solcast/global_2022.csv, ten cities, half hours."
	return []Experiment{
		{Paper: "low-carbon-scheduler", ID: "fig4", Title: "Following the sun, a short test", Setup: "Planner follow, score = irradiance, 4 h from 2022-06-10T01:00Z; " + cities, Run: followSun(time.Date(2022, 6, 10, 1, 0, 0, 0, time.UTC), 8, "fig4")},
		{Paper: "low-carbon-scheduler", ID: "fig5", Title: "Following the sun through a day", Setup: "Planner follow, score = irradiance, 24 h from 2022-06-10T09:00Z; " + cities, Run: followSun(time.Date(2022, 6, 10, 9, 0, 0, 0, time.UTC), 48, "fig5")},
		{Paper: "low-carbon-scheduler", ID: "fig6", Title: "Following the wind", Setup: "Planner follow, score = wind, 24 h from 2022-06-10T00:00Z; weather/open-meteo, 14 zones, hours; with and without a threshold of 20 %.", Run: followWind},
		{Paper: "low-carbon-scheduler", ID: "ranks", Title: "Which zone is cleanest", Setup: "Every hour of 2022, all zones of one source (Electricity Maps, life-cycle) with a full year; the paper: half hours from 2019-02-18 to 2019-04-21 in 30 countries.", Run: lowCarbonRanks},
		{Paper: "low-carbon-scheduler", ID: "saving", Title: "What following saves", Setup: "A service of one unit of power for 2022 on GB, DE, NL, US-CAL-CISO, US-TEX-ERCO, AU-NSW; planner follow by intensity, hourly, dwell 1 h, against staying in each zone.", Run: lowCarbonSaving},
	}
}

// table reads a CSV file whose first column is a time, by name of the others.
func (e *Env) table(path ...string) (times []time.Time, columns map[string][]float64, names []string, err error) {
	file := filepath.Join(append([]string{e.Data}, path...)...)
	columns = map[string][]float64{}
	err = source.WithFile(file, func(r io.Reader) error {
		rows, err := csv.NewReader(r).ReadAll()
		if err != nil {
			return err
		}
		names = rows[0][1:]
		for _, row := range rows[1:] {
			t, err := time.Parse(time.RFC3339, row[0])
			if err != nil {
				return err
			}
			times = append(times, t)
			for i, name := range names {
				v, err := strconv.ParseFloat(row[i+1], 64)
				if err != nil {
					v = 0
				}
				columns[name] = append(columns[name], v)
			}
		}
		return nil
	})
	return times, columns, names, err
}

// service is a problem of one job that runs all the time and may move.
func service(start time.Time, slot time.Duration, n int, zones []string, intensity func(zone string, t int) float64, signals func(zone string, t int) (string, float64)) *plan.Problem {
	p := &plan.Problem{Grid: timegrid.Grid{Start: start, Slot: slot, N: n}, Objective: plan.Objective{Kind: plan.Carbon}}
	for _, z := range zones {
		c := plan.Cluster{Name: z, Zone: z, Watts: map[string]float64{"unit": 1000}, PUE: 1, Capacity: map[string][]float64{"unit": make([]float64, n)}, Intensity: make([]float64, n), Signals: map[string][]float64{}}
		for t := range n {
			c.Capacity["unit"][t] = 1
			c.Intensity[t] = intensity(z, t)
			if signals != nil {
				name, v := signals(z, t)
				if c.Signals[name] == nil {
					c.Signals[name] = make([]float64, n)
				}
				c.Signals[name][t] = v
			}
		}
		p.Clusters = append(p.Clusters, c)
	}
	p.Jobs = []workload.Job{{
		ID: "service", Kind: workload.Interruptible, Deadline: n, Length: float64(n), Request: map[string]float64{"unit": 1},
		MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}, Migratable: true,
	}}
	return p
}

// path is where a service was, and how often it moved.
func path(ctx context.Context, planner plan.Planner, p *plan.Problem) (where []int, moves int, res plan.Result, err error) {
	if err := p.Validate(); err != nil {
		return nil, 0, res, err
	}
	res, err = planner.Plan(ctx, p)
	if err != nil {
		return nil, 0, res, fmt.Errorf("plan the service: %w", err)
	}
	if len(res.Unplaced) > 0 {
		return nil, 0, res, fmt.Errorf("the service has no place: %s", res.Unplaced[0].Why)
	}
	where = make([]int, p.Grid.N)
	for _, s := range res.Plan.Jobs[0].Segments {
		where[s.Slot] = s.Cluster
	}
	for t := 1; t < len(where); t++ {
		if where[t] != where[t-1] {
			moves++
		}
	}
	return where, moves, res, nil
}

func words(where []int, names []string) string {
	var out []string
	for t, c := range where {
		if t == 0 || where[t-1] != c {
			out = append(out, names[c])
		}
	}
	return strings.Join(out, ", ")
}

func followChart(title string, p *plan.Problem, where []int, names []string) report.Chart {
	c := report.Chart{Title: title, From: p.Grid.Start, Series: []report.Series{{Name: "place: " + strings.Join(numbered(names), ", "), Stairs: true}}}
	for t, at := range where {
		c.Series[0].X, c.Series[0].Y = append(c.Series[0].X, float64(t)*p.Grid.Hours()), append(c.Series[0].Y, float64(at+1))
	}
	return c
}

func numbered(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%d %s", i+1, n)
	}
	return out
}

func followSun(start time.Time, slots int, id string) func(context.Context, *Env) (*Result, error) {
	return func(ctx context.Context, env *Env) (*Result, error) {
		times, columns, names, err := env.table("weather", "solcast", "global_2022.csv")
		if err != nil {
			return nil, err
		}
		first := sort.Search(len(times), func(i int) bool { return !times[i].Before(start) })
		const each = 6 // five-minute steps in half an hour
		if first+slots*each > len(times) {
			return nil, fmt.Errorf("solcast: ends before %s and %d half hours", start, slots)
		}
		at := func(z string, t int) float64 {
			sum := 0.0
			for k := range each {
				sum += columns[z][first+t*each+k] / each
			}
			return 1000 * sum // of a panel of 1 kW/m2
		}
		planner, err := env.Planner("follow", map[string]string{"score": "irradiance", "every": "30m", "dwell": "30m"})
		if err != nil {
			return nil, err
		}
		p := service(start, 30*time.Minute, slots, names, func(string, int) float64 { return 1 }, func(z string, t int) (string, float64) { return "irradiance", at(z, t) })
		where, moves, _, err := path(ctx, planner, p)
		if err != nil {
			return nil, err
		}
		got, best := 0.0, 0.0
		for t, c := range where {
			got += at(names[c], t)
			most := 0.0
			for _, z := range names {
				most = max(most, at(z, t))
			}
			best += most
		}
		row := Row{What: "moves", Unit: "", Paper: 0, Anchor: None, Here: Value(moves), Joint: None, Why: "it stays in Australia through the paper's test; here: " + words(where, names)}
		if id == "fig5" {
			row.Paper, row.Why = 2, "westeurope, eastus, centralus in the paper, whose regions and hours are fewer; here: "+words(where, names)
		}
		return &Result{
			Rows:   []Row{row, {What: "irradiance of the best place that was used", Unit: "%", Paper: None, Anchor: None, Here: percent(got / best), Joint: None, Why: "a place is ranked when a half hour begins"}},
			Charts: []report.Chart{followChart("Where the service runs", p, where, names)},
			Notes:  []string{"The paper uses diffuse horizontal irradiance of Azure regions in 2019; here the output of a nominal panel in ten cities."},
		}, nil
	}
}

func followWind(ctx context.Context, env *Env) (*Result, error) {
	zones := []string{"AU-NSW", "BR-CS", "CA-ON", "DE", "GB", "JP-TK", "KR", "SG", "US-CAL-CISO", "US-MIDA-PJM", "US-NY-NYIS", "US-TEX-ERCO", "ZA", "IN-WE"}
	start, n := time.Date(2022, 6, 10, 0, 0, 0, 0, time.UTC), 24
	wind := map[string][]float64{}
	for _, z := range zones {
		times, columns, _, err := env.table("weather", "open-meteo", z, "2022.csv")
		if err != nil {
			return nil, err
		}
		first := sort.Search(len(times), func(i int) bool { return !times[i].Before(start) })
		wind[z] = columns["wind_speed_m_s"][first : first+n]
	}
	p := service(start, time.Hour, n, zones, func(string, int) float64 { return 1 }, func(z string, t int) (string, float64) { return "wind", wind[z][t] })
	res := &Result{}
	for _, threshold := range []string{"0", "0.2"} {
		planner, err := env.Planner("follow", map[string]string{"score": "wind", "threshold": threshold})
		if err != nil {
			return nil, err
		}
		where, moves, _, err := path(ctx, planner, p)
		if err != nil {
			return nil, err
		}
		why := "\"a number of redeployments\" in the paper; here: " + words(where, zones)
		if threshold != "0" {
			why = "\"reallocation thresholds can limit the number of migrations\": " + words(where, zones)
		}
		res.Rows = append(res.Rows, Row{What: "moves, threshold " + threshold, Unit: "", Paper: None, Anchor: None, Here: Value(moves), Joint: None, Why: why})
		res.Charts = append(res.Charts, followChart("Where the service runs, threshold "+threshold, p, where, zones))
	}
	return res, nil
}

// rankZones are the zones of one source with a full year 2022, without those of parts
// of a country.
var rankZones = []string{
	"AT", "BE", "BR-CS", "CA-ON", "CA-QC", "DE", "FI", "FR", "GB", "IT-NO", "JP-TK", "KR", "NL", "NO-NO2", "PL", "PT", "SE", "SG",
	"US-CAL-CISO", "US-MIDA-PJM", "US-TEX-ERCO", "ZA", "IS", "DK-DK2", "AU-NSW", "AU-SA", "NZ", "TW",
}

func lowCarbonRanks(_ context.Context, env *Env) (*Result, error) {
	values := map[string][]float64{}
	var zones []string
	for _, z := range rankZones {
		s, err := env.carbon(z, "2022")
		if err != nil || s.Len() != 8760 {
			continue // no full year of it
		}
		values[z] = hours(s)
		zones = append(zones, z)
	}
	count := func(without string) ([]string, map[string]int) {
		counts := map[string]int{}
		for t := range 8760 {
			best := ""
			for _, z := range zones {
				if !strings.Contains(without, " "+z+" ") && (best == "" || values[z][t] < values[best][t]) {
					best = z
				}
			}
			counts[best]++
		}
		var order []string
		for z := range counts {
			order = append(order, z)
		}
		sort.Slice(order, func(a, b int) bool {
			return counts[order[a]] > counts[order[b]] || counts[order[a]] == counts[order[b]] && order[a] < order[b]
		})
		return order, counts
	}
	res := &Result{Notes: []string{
		fmt.Sprintf("%d zones: %s. Switzerland has no series of this source and year, so it is left out. In the paper it was first, before Norway, France and Sweden.", len(zones), strings.Join(zones, ", ")),
		"Life-cycle factors: hydro and nuclear zones have similar values, so their ranks depend on the factors of the provider's revision.",
	}}
	order, counts := count("")
	paper := map[string]string{"NO-NO2": "second in the paper", "FR": "third in the paper", "SE": "fourth in the paper"}
	c := report.Chart{Title: "Hours as the cleanest zone", YUnit: " %", Series: []report.Series{{Name: "share of hours", Points: true}}}
	for i, z := range order[:min(8, len(order))] {
		res.Rows = append(res.Rows, Row{What: z + ": share of hours as the cleanest", Unit: "%", Paper: None, Anchor: None, Here: Value(100 * float64(counts[z]) / 8760), Joint: None, Why: paper[z]})
		c.XNames = append(c.XNames, z)
		c.Series[0].X, c.Series[0].Y = append(c.Series[0].X, float64(i)), append(c.Series[0].Y, 100*float64(counts[z])/8760)
	}
	order, counts = count(" IS CA-QC NZ ")
	for _, z := range order[:min(4, len(order))] {
		res.Rows = append(res.Rows, Row{What: z + ": the same without IS, CA-QC, NZ", Unit: "%", Paper: None, Anchor: None, Here: Value(100 * float64(counts[z]) / 8760), Joint: None, Why: paper[z]})
	}
	res.Charts = []report.Chart{c}
	return res, nil
}

func lowCarbonSaving(ctx context.Context, env *Env) (*Result, error) {
	zones := []string{"GB", "DE", "NL", "US-CAL-CISO", "US-TEX-ERCO", "AU-NSW"}
	values := map[string][]float64{}
	for _, z := range zones {
		s, err := env.carbon(z, "2022")
		if err != nil {
			return nil, err
		}
		values[z] = hours(s)
	}
	p := service(time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC), time.Hour, 8760, zones, func(z string, t int) float64 { return values[z][t] }, nil)
	res := &Result{Notes: []string{"The paper states no saving. joint plans the same service with perfect foresight and free moves, so its emissions are the least possible."}}
	grams := map[string]float64{}
	for _, name := range []string{"follow", "joint"} {
		planner, err := env.Planner(name, nil)
		if err != nil {
			return nil, err
		}
		where, moves, out, err := path(ctx, planner, p)
		if err != nil {
			return nil, err
		}
		grams[name] = plan.Evaluate(p, out.Plan).CarbonG
		if name == "follow" {
			res.Rows = append(res.Rows, Row{What: "moves in the year", Unit: "", Paper: None, Anchor: None, Here: Value(moves), Joint: None})
			_ = where
		}
	}
	for _, z := range zones {
		stay := 0.0
		for _, v := range values[z] {
			stay += v
		}
		res.Rows = append(res.Rows, Row{What: "below staying in " + z, Unit: "%", Paper: None, Anchor: None, Here: percent(1 - grams["follow"]/stay), Joint: percent(1 - grams["joint"]/stay)})
	}
	return res, nil
}
