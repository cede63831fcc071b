package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lull.dev/lull/internal/studies/scenario"
	"lull.dev/lull/pkg/advise"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
	jobtrace "lull.dev/lull/pkg/trace"
)

// priced are the intensities of the slots of a series as they are priced, and which of
// them are not known, nil for none. Hours that are missing are filled by carbon.FillRule.
func priced(s *carbon.Series, slot time.Duration) (values []float64, unknown []bool, filled time.Duration) {
	values = make([]float64, int(s.End().Sub(s.Start())/slot))
	for t := range values {
		from := s.Start().Add(time.Duration(t) * slot)
		m := s.FilledMean(from, from.Add(slot))
		values[t] = float64(m.Mean)
		filled += m.Filled
		if m.Unknown > 0 {
			if unknown == nil {
				unknown = make([]bool, len(values))
			}
			unknown[t] = true
		}
	}
	return values, unknown, filled
}

// told are the intensities that planners see: those of decisions.
func told(s *carbon.Series, slot time.Duration) []float64 {
	n := int(s.End().Sub(s.Start()) / slot)
	f, _ := carbon.FillSlots(s, timegrid.Grid{Start: s.Start(), Slot: slot, N: n})
	return f.Values
}

func (z *adviceZone) facts(slot time.Duration) zoneFacts {
	v, unknown, filled := priced(z.series, slot)
	f := zoneFacts{
		Zone: z.name, From: z.series.Start().Format(time.DateOnly), To: z.series.End().Format(time.DateOnly),
		Hours: float64(len(v)) * slot.Hours(), FilledH: filled.Hours(),
	}
	perDay := max(1, int(24*time.Hour/slot))
	if unknown != nil { // whole days that are known
		var days []float64
		for from := 0; from+perDay <= len(v); from += perDay {
			if !slices.Contains(unknown[from:from+perDay], true) {
				days = append(days, v[from:from+perDay]...)
			}
		}
		for _, is := range unknown {
			if is {
				f.UnknownH += slot.Hours()
			}
		}
		v = days
	}
	f.Daily, f.Whole = advise.Variation(v, perDay)
	for _, x := range v {
		f.Mean += x / float64(len(v))
	}
	return f
}

// defaultZone is the zone that is tried if none is stated: that of the history.
func (o *adviseOptions) defaultZone() (string, error) {
	tr := &jobtrace.Trace{}
	if o.jobs != "" {
		var err error
		if tr, err = scenario.ReadTrace(o.jobs, o.format, o.timeZone); err != nil {
			return "", err
		}
	}
	zone := scenario.ZoneOf(tr)
	if ran := tr.Zone(); ran != "" {
		o.zoneNote = scenario.ZoneNote(ran, zone)
	}
	return zone, nil
}

// note adds a note once.
func (a *advice) note(text string) {
	if !slices.Contains(a.Notes, text) {
		a.Notes = append(a.Notes, text)
	}
}

// explain notes what the columns are relative to, and what a reader must know before the
// figures are quoted.
func (a *advice) explain(o *adviseOptions) {
	each, hours := "start", "worker-hours"
	if o.jobs != "" {
		each, hours = "job", "CPU-hours"
	}
	notes := []string{
		fmt.Sprintf("saved of all: of the emissions of all %ss together; 5 %%, median, 95 %%: of the savings of single %ss", each, each),
		fmt.Sprintf("delay: against a run at once at the least scale; cost: added %s; late: %ss that end after the deadline", hours, each),
	}
	notes = append(notes, scenario.ReadingNotes(a.reading)...)
	if o.zoneNote != "" {
		notes = append(notes, "of the trace: "+o.zoneNote)
	}
	filled := 0.0
	for _, z := range a.Zones {
		if z.FilledH > 0 && o.jobs == "" {
			notes = append(notes, fmt.Sprintf("zone %s: %.0f of %.0f hours have no known intensity and are filled: %s", z.Zone, z.FilledH, z.Hours, carbon.FillRule))
		}
		if z.UnknownH > 0 {
			notes = append(notes, fmt.Sprintf("zone %s: %.0f of %.0f hours have no intensity, and none within 7 days at their time of day: mean and CoV are of the whole days without them", z.Zone, z.UnknownH, z.Hours))
		}
	}
	for i := range a.Options {
		x := &a.Options[i]
		filled = max(filled, x.FilledH)
		if x.Withheld != "" {
			notes = append(notes, fmt.Sprintf("zone %s, planner %s, slack %s: the saving is withheld: %s; state a carbon series that covers the jobs and their delays",
				x.Zone, x.Planner, scenario.ShortDuration(x.Slack), x.Withheld))
		}
	}
	if filled > 0 {
		notes = append(notes, fmt.Sprintf("up to %.1f h of run time, planned and as submitted, have no known intensity and are filled: %s", filled, carbon.FillRule))
	}
	a.Notes = append(notes, a.Notes...)
}

// MarshalJSON writes savings that are withheld as null.
func (x option) MarshalJSON() ([]byte, error) {
	type plain option
	if x.Withheld == "" {
		return json.Marshal(plain(x))
	}
	x.Saving, x.PerCost = 0, nil // NaN is no JSON
	return json.Marshal(struct {
		plain
		Saving   *float64       `json:"saving"`
		SavingOf *advise.Spread `json:"savingDistribution"`
	}{plain: plain(x)})
}
