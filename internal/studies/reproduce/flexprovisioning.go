package reproduce

import (
	"context"
	"fmt"
	"strings"

	"lull.dev/lull/internal/studies/report"
)

// This file has the experiments of CarbonFlex on how much of a cluster runs in an hour.

func flexFig14(ctx context.Context, env *Env) (*Result, error) {
	methods := []string{mAgnostic, mOracle, mFlex, mVCC, mVCCScale, mJoint}
	o, c, err := sweep(ctx, env, "Saving of provisioning", "", []float64{0}, methods, func(_, w int) weekSpec {
		s := azureWeek(w)
		s.delays = [3]int{24, 24, 24}
		return s
	}, 13, 37)
	if err != nil {
		return nil, err
	}
	for i := range c.Series {
		c.Series[i].Points = true
	}
	res := &Result{Charts: []report.Chart{c}, Rows: savings(o[0], "", nil, "")}
	res.Rows = append(res.Rows,
		Row{What: "VCC: saving by scaling", Unit: "%", Paper: 1.6, Anchor: None, Here: percent(o[0][mVCCScale].saving - o[0][mVCC].saving), Joint: None, Why: "points of saving; scaling also moves work"},
		Row{What: "VCC: mean wait less by scaling", Unit: "%", Paper: 36, Anchor: None, Here: percent(1 - o[0][mVCCScale].wait/o[0][mVCC].wait), Joint: None, Why: "other weeks"})
	return res, nil
}

// flexProvisioning compares who decides how much runs, over zones, with what is known in production.
func flexProvisioning(ctx context.Context, env *Env) (*Result, error) {
	baselines := []string{mFlex, mScaler, mVCC, mVCCScale, mWait, mGaia}
	methods := []string{mAgnostic, mOracle, mFlex, mJoint}
	for _, name := range append(baselines, mJoint) {
		methods = append(methods, name+forecastMark)
	}
	zones := []string{"AU-SA", "CA-ON", "DE"}
	var specs []weekSpec
	for _, zone := range zones {
		for _, trace := range []string{"azure-100k", "pai-100k"} {
			for _, year := range []string{"2022", "2023"} {
				for _, w := range []int{13, 37} {
					s := azureWeek(w)
					s.trace, s.zone, s.year = trace, zone, year
					specs = append(specs, s)
				}
			}
		}
	}
	scores, err := table(ctx, env, specs, methods)
	if err != nil {
		return nil, err
	}
	res := &Result{Notes: []string{
		"The capacity of an hour is what the plans of joint use (method planned of a CapacityCurve). joint plans all jobs anew every hour, keeps two hours of their delay as margin, and learns lengths as jobs end.",
		"Each line compares means over eight weeks of one zone, on which joint was also developed: not each week, and not every published method. Wait Awhile is its threshold method here; waitawhile-deadline is not in this table. The experiment lull unseen compares all of them on weeks that joint was never tuned on.",
	}}
	each := len(specs) / len(zones)
	lines := make([]report.Series, len(methods)-1)
	for z, zone := range zones {
		o := outcomes(scores[z*each:(z+1)*each], methods)
		for m, name := range methods[1:] {
			lines[m].Name, lines[m].X, lines[m].Y = name, append(lines[m].X, float64(z)), append(lines[m].Y, 100*o[name].saving)
			row := Row{What: zone + ", " + name + ": saving", Unit: "%", Paper: None, Anchor: None, Here: percent(o[name].saving), Joint: None,
				Why: fmt.Sprintf("weeks from %.0f to %.0f %%; %d late; ends %.1f h later than at once", 100*o[name].low, 100*o[name].high, o[name].late, o[name].delay)}
			if strings.HasPrefix(name, mJoint) {
				row.Here, row.Joint = None, row.Here
			}
			res.Rows = append(res.Rows, row)
		}
		best := baselines[0] + forecastMark
		for _, name := range baselines {
			if name += forecastMark; o[name].saving > o[best].saving {
				best = name
			}
		}
		below := func(label, mark string) Row {
			return Row{What: zone + ": below the oracle, " + label, Unit: "%", Paper: None, Anchor: None,
				Here: percent(o[mOracle].saving - o[mFlex+mark].saving), Joint: percent(o[mOracle].saving - o[mJoint+mark].saving), Why: "points of saving; here: CarbonFlex"}
		}
		res.Rows = append(res.Rows, below("intensities known", ""), below("intensities forecast", forecastMark),
			Row{What: zone + ": joint above the best of the published methods here, " + best, Unit: "%", Paper: None, Anchor: None, Here: None, Joint: percent(o[mJoint+forecastMark].saving - o[best].saving), Why: "points of saving, both with forecasts"})
	}
	res.Charts = []report.Chart{{Title: "Saving by zone", YUnit: " %", XNames: zones, Series: lines}}
	return res, nil
}
