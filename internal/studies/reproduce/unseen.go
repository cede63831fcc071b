package reproduce

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// This file compares planners under uncertainty, as in production: forecasts as issued, lengths unknown, arrivals
// unseen. The zones are none that planner joint was developed on.

func unseenExperiments() []Experiment {
	const jobs = "Jobs of an hour and more; profiles drawn by seed 1 as in carbonflex fig6; M for 50 % utilisation. Learning: the two weeks before. "
	return []Experiment{
		{Paper: Own, ID: "unseen", Title: "Weeks that no planner was tuned on", Run: unseen,
			Setup: "Nine zones, a week each of 2021, 2022 and 2023 (15, 27 and 43), Azure and, in 2022, PAI. " + jobs + "All methods know the coming days only from the blend of models of docs/forecasts.md, and no lengths. joint keeps two hours of the delay as margin. \"here\" is the best published method that makes no job late in that week; \"others\" is joint with full knowledge: of all arrivals, lengths and intensities."},
		{Paper: Own, ID: "knowledge", Title: "What knowledge is worth", Run: knowledge,
			Setup: "The weeks of 2022 and 2023 of the experiment before. " + jobs + "joint has only the knowledge that the row states."},
	}
}

// unseenZones are zones that planner joint was not developed on; AU-SA, CA-ON and DE are those it was.
var unseenZones = []string{"NL", "GB", "SE", "PL", "US-CAL-CISO", "US-TEX-ERCO", "JP-TK", "KR", "AU-NSW"}

// unseenWeeks are the weeks of each zone. Forecasts learn from the sixty days before.
var unseenWeeks = []struct {
	year, trace string
	week        int
}{{"2021", "azure-100k", 15}, {"2022", "pai-100k", 27}, {"2023", "azure-100k", 43}}

// unseenSpecs are the weeks from the given year on.
func unseenSpecs(from string) []weekSpec {
	var specs []weekSpec
	for _, zone := range unseenZones {
		for _, x := range unseenWeeks {
			if x.year >= from {
				s := azureWeek(x.week)
				s.trace, s.zone, s.year = x.trace, zone, x.year
				specs = append(specs, s)
			}
		}
	}
	return specs
}

// unseen compares joint with the best published method of each week.
func unseen(ctx context.Context, env *Env) (*Result, error) {
	published := []string{mFlex, mScaler, mVCC, mVCCScale, mCAP, mWait, mWaitDeadline, mGaia}
	methods := []string{mAgnostic, mFull}
	for _, name := range append(published, mRefined, mDefault, mObserved) {
		methods = append(methods, name+forecastMark)
	}
	specs := unseenSpecs("")
	scores, err := table(ctx, env, specs, methods)
	if err != nil {
		return nil, err
	}
	res := &Result{}
	first, late := 0, map[string]int{}
	var ahead []float64
	for i, s := range specs {
		o := outcomes(scores[i:i+1], methods)
		best := ""
		for _, name := range published {
			late[name] += o[name+forecastMark].late
			if x := o[name+forecastMark]; x.late == 0 && (best == "" || x.saving > o[best+forecastMark].saving) {
				best = name
			}
		}
		joint, other := o[mRefined+forecastMark], o[best+forecastMark]
		if joint.saving >= other.saving {
			first++
		}
		ahead = append(ahead, 100*(joint.saving-other.saving))
		res.Rows = append(res.Rows, Row{
			What: fmt.Sprintf("%s, %s, week %d: saving", s.zone, s.year, s.week), Unit: "%", Paper: None, Here: percent(other.saving), Anchor: percent(o[mFull].saving), Joint: percent(joint.saving),
			Why: fmt.Sprintf("here: %s; joint: %d late; with the defaults of a CarbonPolicy %.1f %%, %d late", best, joint.late, 100*o[mDefault+forecastMark].saving, o[mDefault+forecastMark].late),
		})
	}
	o := outcomes(scores, methods)
	for _, name := range methods[1:] {
		row := Row{What: "mean, " + name + ": saving", Unit: "%", Paper: None, Anchor: None, Here: percent(o[name].saving), Joint: None, Why: fmt.Sprintf("weeks from %.0f to %.0f %%; %d late; ends %.1f h later than at once", 100*o[name].low, 100*o[name].high, o[name].late, o[name].delay)}
		switch {
		case name == mFull:
			row.Here, row.Anchor = None, row.Here
		case strings.HasPrefix(name, mJoint):
			row.Here, row.Joint = None, row.Here
		}
		res.Rows = append(res.Rows, row)
	}
	res.Rows = append(res.Rows,
		Row{What: "joint above the best published method of the week, mean", Unit: "%", Paper: None, Anchor: None, Here: None, Joint: Value(mean(ahead)), Why: fmt.Sprintf("points of saving; joint saves most in %d of %d weeks", first, len(specs))},
		Row{What: "joint below full knowledge, mean", Unit: "%", Paper: None, Anchor: None, Here: None, Joint: percent(o[mFull].saving - o[mRefined+forecastMark].saving), Why: "points of saving"})
	var lates []string
	for _, name := range published {
		if late[name] > 0 {
			lates = append(lates, fmt.Sprintf("%s %d", name, late[name]))
		}
	}
	res.Notes = []string{
		fmt.Sprintf("By week, joint saves from %.1f to %+.1f points more than the best published method without a late job, and %+.1f in the mean.", slices.Min(ahead), slices.Max(ahead), mean(ahead)),
		"The published methods keep no margin. Jobs that they make late in all weeks: " + strings.Join(lates, ", ") + ". Which method makes none late in a week is known only afterwards.",
		"The published methods plan in slots of an hour. joint refines plans within slots and places elastic jobs of unknown length by what they are expected to emit (design 0023), as Lull does where no reserve is kept and starts take no time.",
		"With the defaults of a CarbonPolicy, joint keeps a reserve, which begins at half of the capacity. These weeks are the first ones. After a week of observation the reserve falls to what urgent work took, 5 % at least: the row \"after a week\" counts the same jobs where Lull has run the week before, of which jobs still wait and run when the week begins.",
	}
	return res, nil
}

// knowledge is what joint saves with each piece of knowledge, and of freedom.
func knowledge(ctx context.Context, env *Env) (*Result, error) {
	methods := []string{mAgnostic, mRefined + forecastMark, mLengths + forecastMark, mRefined, mLengths, mFull, mUnscaled + forecastMark, mRoom + forecastMark}
	labels := []string{"", "forecasts, lengths learned, arrivals unseen", "lengths known", "intensities known", "lengths and intensities known", "arrivals, too: full knowledge",
		"as the first row, but jobs may pause and not scale", "as the first row, with room for all"}
	const unscaled = 6
	specs := unseenSpecs("2022")
	scores, err := table(ctx, env, specs, methods)
	if err != nil {
		return nil, err
	}
	o := outcomes(scores, methods)
	res := &Result{}
	for m, name := range methods[1:] {
		x := o[name]
		less := 0
		for w := range scores {
			if scores[w][m+1].grams > scores[w][1].grams {
				less++
			}
		}
		why := fmt.Sprintf("weeks from %.0f to %.0f %%; %d late", 100*x.low, 100*x.high, x.late)
		switch m + 1 {
		case 1:
		case unscaled:
			why += fmt.Sprintf("; saves more than the first row in %d of %d weeks", len(specs)-less, len(specs))
		default:
			why += fmt.Sprintf("; saves less than the first row in %d of %d weeks", less, len(specs))
		}
		res.Rows = append(res.Rows, Row{What: labels[m+1] + ": saving", Unit: "%", Paper: None, Anchor: None, Here: None, Joint: percent(x.saving), Why: why})
	}
	return res, nil
}

// withRoom is the week on a cluster that has room for all jobs at any scale.
func (w *week) withRoom() *week {
	out := *w
	out.cluster.Capacity = make(map[string]float64, len(w.cluster.Capacity))
	for name, amount := range w.cluster.Capacity {
		out.cluster.Capacity[name] = 20 * amount
	}
	return &out
}

// full simulates the week with planner joint where all arrivals, lengths and intensities are known from the start: what
// remains is what the planner and the capacity cost.
func (w *week) full(ctx context.Context, planner plan.Planner) (score, error) {
	cfg := sim.Config{Clusters: []sim.Cluster{w.cluster}, Planner: planner, Jobs: w.jobs, Slot: w.problem.Grid.Slot, Known: true, Revise: sim.OnChange}
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return score{}, err
	}
	return scoreOf(&res), nil
}

// asPolicy simulates the week as a CarbonPolicy does by default: with the reserve that joint learns, plans that stand until
// something changes, and its margin.
func (w *week) asPolicy(ctx context.Context, planner plan.Planner, history []*plan.Problem) (score, error) {
	cfg := w.config(planner, workload.Elastic, true, history)
	cfg.Revise = sim.OnChange
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return score{}, err
	}
	return scoreOf(&res), nil
}

// afterAWeek simulates this week and the one before as asPolicy does, and returns what it did with the jobs of this week. Jobs of the
// week before that still run take their part of the capacity.
func (w *week) afterAWeek(ctx context.Context, env *Env, planner plan.Planner) (score, error) {
	s := w.weekSpec
	s.week--
	before, err := s.build(env)
	if err != nil {
		return score{}, err
	}
	history, err := before.history(env)
	if err != nil {
		return score{}, err
	}
	cfg := w.config(planner, workload.Elastic, true, history)
	cfg.Revise = sim.OnChange
	first := len(before.jobs)
	cfg.Jobs = append(before.jobs, cfg.Jobs...)
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return score{}, err
	}
	var out score
	n := float64(len(res.Jobs) - first)
	for i := range res.Jobs[first:] {
		o := &res.Jobs[first+i]
		out.grams += float64(o.Emissions)
		if o.Missed {
			out.late++
		}
		out.delay, out.wait, out.planned = out.delay+o.Delay.Hours()/n, out.wait+o.Wait.Hours()/n, out.planned+1
	}
	return out, nil
}

// knownLengths simulates the week with a planner that knows lengths.
func (w *week) knownLengths(ctx context.Context, planner plan.Planner) (score, error) {
	cfg := w.config(planner, workload.Elastic, true, nil)
	cfg.Lengths = nil
	res, err := sim.Simulate(ctx, cfg)
	if err != nil {
		return score{}, err
	}
	return scoreOf(&res), nil
}
