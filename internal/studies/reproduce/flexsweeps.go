package reproduce

import (
	"context"
	"fmt"
	"math"

	"lull.dev/lull/internal/studies/report"
)

// This file has the experiments of CarbonFlex that vary one setting.

// sweep runs methods for several settings of two weeks and draws savings over them.
func sweep(ctx context.Context, env *Env, title, unit string, at []float64, methods []string, spec func(i, week int) weekSpec, weeks ...int) ([]map[string]outcome, report.Chart, error) {
	c := report.Chart{Title: title, XUnit: unit, YUnit: " %"}
	var specs []weekSpec
	for i := range at {
		for _, w := range weeks {
			specs = append(specs, spec(i, w))
		}
	}
	scores, err := table(ctx, env, specs, methods)
	if err != nil {
		return nil, c, err
	}
	var out []map[string]outcome
	for i := range at {
		out = append(out, outcomes(scores[i*len(weeks):(i+1)*len(weeks)], methods))
	}
	for _, name := range methods[1:] {
		line := report.Series{Name: name}
		for i := range at {
			line.X, line.Y = append(line.X, at[i]), append(line.Y, 100*out[i][name].saving)
		}
		c.Series = append(c.Series, line)
	}
	return out, c, nil
}

var sweepMethods = []string{mAgnostic, mOracle, mFlex, mScaler, mWait, mGaia, mJoint}

// savings are rows of some methods' savings.
func savings(o map[string]outcome, label string, papers map[string]Value, why string) []Row {
	var out []Row
	best := ""
	for _, name := range []string{mOracle, mFlex, mScaler, mWait, mGaia, mVCC, mVCCScale} {
		got, ok := o[name]
		if !ok {
			continue
		}
		if name != mOracle && (best == "" || got.saving > o[best].saving) {
			best = name
		}
		p, ok := papers[name]
		if !ok {
			p = None
		}
		row := Row{What: label + name + ": saving", Unit: "%", Paper: p, Anchor: None, Here: percent(got.saving), Joint: None}
		if !math.IsNaN(float64(p)) {
			row.Why = why
		}
		if name == mFlex {
			row.Joint = percent(o[mJoint].saving)
		}
		out = append(out, row)
	}
	why = fmt.Sprintf("points of saving; late: %s %d, joint %d", best, o[best].late, o[mJoint].late)
	return append(out, Row{What: label + "joint above the best published, " + best, Unit: "%", Paper: None, Anchor: None, Here: None, Joint: percent(o[mJoint].saving - o[best].saving), Why: why})
}

func flexFig8(ctx context.Context, env *Env) (*Result, error) {
	at := []float64{75, 50, 37}
	weeks := []int{13, 37}
	base := map[int]float64{}
	for _, w := range weeks {
		b, err := azureWeek(w).build(env)
		if err != nil {
			return nil, err
		}
		base[w] = b.servers
	}
	o, c, err := sweep(ctx, env, "Saving by utilisation", " %", at, sweepMethods, func(i, w int) weekSpec {
		s := azureWeek(w)
		s.servers = math.Round(base[w] * 50 / at[i])
		return s
	}, weeks...)
	if err != nil {
		return nil, err
	}
	res := &Result{Charts: []report.Chart{c}}
	for i, u := range at {
		res.Rows = append(res.Rows, savings(o[i], fmt.Sprintf("%.0f %% utilisation, ", u), nil, "")...)
	}
	res.Rows = append(res.Rows,
		Row{What: "oracle: from 75 to 37 % utilisation", Unit: "%", Paper: 13.2, Anchor: None, Here: percent(o[2][mOracle].saving - o[0][mOracle].saving), Joint: None, Why: "points of saving; other weeks"},
		Row{What: "CarbonFlex: from 75 to 37 % utilisation", Unit: "%", Paper: 13, Anchor: None, Here: percent(o[2][mFlex].saving - o[0][mFlex].saving), Joint: percent(o[2][mJoint].saving - o[0][mJoint].saving), Why: "as above"})
	return res, nil
}

func flexFig9(ctx context.Context, env *Env) (*Result, error) {
	at := []float64{0, 6, 12, 24, 36}
	o, c, err := sweep(ctx, env, "Saving by allowed delay", " h", at, sweepMethods, func(i, w int) weekSpec {
		s := azureWeek(w)
		s.delays = [3]int{int(at[i]), int(at[i]), int(at[i])}
		return s
	}, 13, 37)
	if err != nil {
		return nil, err
	}
	last := len(at) - 1
	res := &Result{Charts: []report.Chart{c}, Rows: []Row{
		{What: "oracle: from no delay to 36 h", Unit: "%", Paper: 18.3, Anchor: None, Here: percent(o[last][mOracle].saving - o[0][mOracle].saving), Joint: None, Why: "points of saving; without delay the oracle extends deadlines if it must"},
		{What: "CarbonFlex: from no delay to 36 h", Unit: "%", Paper: 13.8, Anchor: None, Here: percent(o[last][mFlex].saving - o[0][mFlex].saving), Joint: percent(o[last][mJoint].saving - o[0][mJoint].saving), Why: "without delay each job runs here from its arrival with at least kmin workers; in the paper jobs overrun their delay by 3.4 hours on average"},
		{What: "Wait Awhile at no delay", Unit: "%", Paper: 0, Anchor: None, Here: percent(o[0][mWait].saving), Joint: None},
		{What: "Wait Awhile at 36 h", Unit: "%", Paper: 19.7, Anchor: None, Here: percent(o[last][mWait].saving), Joint: None, Why: "these weeks vary more"},
		{What: "CarbonFlex at 36 h: mean wait", Unit: "h", Paper: None, Anchor: None, Here: Value(o[last][mFlex].wait), Joint: Value(o[last][mJoint].wait)},
	}}
	for i, d := range at {
		res.Rows = append(res.Rows, savings(o[i], fmt.Sprintf("%.0f h, ", d), nil, "")...)
	}
	return res, nil
}

func flexFig10(ctx context.Context, env *Env) (*Result, error) {
	kinds := []struct {
		label    string
		profiles []string
		kmax     int
		papers   map[string]Value
	}{
		{"high (N-body 100k), ", []string{"nbody100k"}, 16, map[string]Value{mOracle: 56.1, mFlex: 49.5}},
		{"moderate (MobileNetV2), ", []string{"mobilenet_v2"}, 16, nil},
		{"low (N-body 10k), ", []string{"nbody10k"}, 16, nil},
		{"mix, ", flexProfiles, 16, nil},
		{"no scaling, ", nil, 1, nil},
	}
	at := make([]float64, len(kinds))
	for i := range at {
		at[i] = float64(i)
	}
	o, c, err := sweep(ctx, env, "Saving by elasticity", "", at, sweepMethods, func(i, w int) weekSpec {
		s := azureWeek(w)
		s.profiles, s.kmax = kinds[i].profiles, kinds[i].kmax
		return s
	}, 13, 37)
	if err != nil {
		return nil, err
	}
	c.XNames = []string{"high", "moderate", "low", "mix", "none"}
	res := &Result{Charts: []report.Chart{c}, Notes: []string{"The Jacobi profiles of the paper are not in the data; of the available profiles, MobileNetV2 and N-body (10k) scale least."}}
	for i := range kinds {
		res.Rows = append(res.Rows, savings(o[i], kinds[i].label, kinds[i].papers, "other weeks")...)
	}
	return res, nil
}

func flexFig12(ctx context.Context, env *Env) (*Result, error) {
	zones := []string{"AU-SA", "CA-ON", "NL", "US-CAL-CISO", "DE", "GB", "FR", "US-TEX-ERCO", "PL", "US-MIDA-PJM"}
	at := make([]float64, len(zones))
	for i := range at {
		at[i] = float64(i)
	}
	o, c, err := sweep(ctx, env, "Saving by zone", "", at, sweepMethods, func(i, w int) weekSpec {
		s := azureWeek(w)
		s.zone = zones[i]
		return s
	}, 21)
	if err != nil {
		return nil, err
	}
	c.XNames = zones
	res := &Result{Charts: []report.Chart{c}}
	least, most := math.Inf(1), math.Inf(-1)
	for i, zone := range zones {
		gap := o[i][mOracle].saving - o[i][mFlex].saving
		least, most = min(least, gap), max(most, gap)
		res.Rows = append(res.Rows, savings(o[i], zone+", ", nil, "")...)
	}
	res.Rows = append(res.Rows,
		Row{What: "CarbonFlex below its oracle, least over zones", Unit: "%", Paper: 0.9, Anchor: None, Here: percent(least), Joint: None, Why: "points of saving; one week"},
		Row{What: "CarbonFlex below its oracle, most over zones", Unit: "%", Paper: 6.31, Anchor: None, Here: percent(most), Joint: None, Why: "as for fig6"})
	return res, nil
}

func flexFig13(ctx context.Context, env *Env) (*Result, error) {
	base, err := azureWeek(37).build(env)
	if err != nil {
		return nil, err
	}
	shifts := []float64{0.8, 1, 1.2}
	type pair struct{ rate, length float64 }
	var pairs []pair
	at := []float64{}
	for _, s := range shifts {
		pairs = append(pairs, pair{s, s})
		at = append(at, 100*(s-1))
	}
	o, c, err := sweep(ctx, env, "Saving by shift of arrivals and lengths", " %", at, sweepMethods, func(i, w int) weekSpec {
		s := azureWeek(w)
		s.rate, s.length, s.servers = pairs[i].rate, pairs[i].length, base.servers
		return s
	}, 37)
	if err != nil {
		return nil, err
	}
	res := &Result{Charts: []report.Chart{c}}
	for i := range at {
		papers := map[string]Value{}
		if at[i] > 1 {
			papers[mFlex] = 26
		}
		res.Rows = append(res.Rows, savings(o[i], fmt.Sprintf("%+.0f %%, ", at[i]), papers, "\"reaching 26 %\" with more arrivals")...)
	}
	res.Rows = append(res.Rows, Row{What: "CarbonFlex: gain by -20 %", Unit: "%", Paper: 10.1, Anchor: None, Here: percent(o[0][mFlex].saving - o[1][mFlex].saving), Joint: percent(o[0][mJoint].saving - o[1][mJoint].saving), Why: "points of saving; both shifts at once here"})
	return res, nil
}
