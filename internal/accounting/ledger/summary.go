package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Totals are sums over settled workloads.
type Totals struct {
	Name      string `json:"name,omitempty"`
	Workloads int    `json:"workloads"`
	// Late are those that ended after their deadline.
	Late        int     `json:"late"`
	WorkerHours float64 `json:"workerHours"`
	// FailedHours and EvictedHours are the part of WorkerHours that pods ran which failed by themselves, and which
	// were evicted.
	FailedHours  float64 `json:"failedHours,omitempty"`
	EvictedHours float64 `json:"evictedHours,omitempty"`
	KWh          float64 `json:"kWh"`
	MeasuredKWh  float64 `json:"measuredKWh"`
	Grams        float64 `json:"gCO2eq"`
	// AsSubmittedGrams are those of the counterfactual, SavedGrams what they are more.
	AsSubmittedGrams float64 `json:"asSubmittedGCO2eq"`
	SavedGrams       float64 `json:"savedGCO2eq"`
	// UncertainGrams is how far the emissions may be off at 90 %; errors of energy go one way for all
	// workloads, so they add up.
	UncertainGrams float64 `json:"uncertainGCO2eq"`
	// DelayHours is the mean of how much later those that ran ended than as submitted, LongestDelayHours
	// the most.
	DelayHours        float64 `json:"delayHours"`
	LongestDelayHours float64 `json:"longestDelayHours"`
	// DelayedHours are all hours of delay of those that ended later than as submitted, DelayCost what
	// they cost by Question.DelayCost.
	DelayedHours float64 `json:"delayedHours"`
	DelayCost    float64 `json:"delayCost,omitempty"`
	// FilledHours of run time, of both sides, have no known intensity and are priced by
	// carbon.FillRule.
	FilledHours float64 `json:"filledHours,omitempty"`
	// Withheld are the workloads whose emissions are not stated (see Settled): their energy,
	// WithheldKWh, is in KWh, and they are in no figure in grams.
	Withheld    int     `json:"withheld,omitempty"`
	WithheldKWh float64 `json:"withheldKWh,omitempty"`
	// Refused are those of the withheld whose energy is withheld too.
	Refused int `json:"refused,omitempty"`
	// Unplanned are the workloads that Lull let run as submitted: those that were held out, and those
	// released in Shadow mode. All figures include them: UnplannedKWh of KWh, and so on.
	Unplanned                 int     `json:"unplanned,omitempty"`
	UnplannedKWh              float64 `json:"unplannedKWh,omitempty"`
	UnplannedAsSubmittedGrams float64 `json:"unplannedAsSubmittedGCO2eq,omitempty"`
	UnplannedSavedGrams       float64 `json:"unplannedSavedGCO2eq,omitempty"`

	ran int // of the workloads, those that did
}

// delayHours is how much later it ended than as submitted; negative where earlier, 0 where it never ran.
func (b *Settlement) delayHours() float64 {
	if b.Runs == 0 {
		return 0
	}
	return b.To.Sub(b.Counterfactual.To).Hours()
}

// add counts a workload, an hour of whose delay has that price.
func (t *Totals) add(b *Settlement, price float64) {
	t.Workloads++
	if !b.OnTime {
		t.Late++
	}
	t.WorkerHours += b.WorkerHours
	t.FailedHours += b.FailedHours
	t.EvictedHours += b.EvictedHours
	t.KWh += b.KWh
	t.MeasuredKWh += b.MeasuredKWh
	unplanned := b.unplanned()
	if unplanned {
		t.Unplanned++
		t.UnplannedKWh += b.KWh
	}
	if b.Withheld != "" {
		t.Withheld++
		t.WithheldKWh += b.KWh
		if b.Refused {
			t.Refused++
		}
	} else {
		t.Grams += b.Grams
		t.AsSubmittedGrams += b.Counterfactual.Grams
		t.SavedGrams += b.SavedGrams
		t.UncertainGrams += b.Uncertainty * b.Grams
		if unplanned {
			t.UnplannedAsSubmittedGrams += b.Counterfactual.Grams
			t.UnplannedSavedGrams += b.SavedGrams
		}
		t.FilledHours += (b.FilledSeconds + b.Counterfactual.FilledSeconds) / 3600
	}
	if b.Runs == 0 {
		return
	}
	t.ran++
	delay := b.delayHours()
	t.DelayHours += (delay - t.DelayHours) / float64(t.ran)
	t.LongestDelayHours = max(t.LongestDelayHours, delay)
	t.DelayedHours += max(0, delay)
	t.DelayCost += price * max(0, delay)
}

// SavedPerDelayedHour is in gCO2eq; 0 where nothing was delayed.
func (t *Totals) SavedPerDelayedHour() float64 {
	if t.DelayedHours <= 0 {
		return 0
	}
	return t.SavedGrams / t.DelayedHours
}

// CostPerKilogram is what a kilogram saved has cost in delay; 0 where nothing was saved.
func (t *Totals) CostPerKilogram() float64 {
	if t.SavedGrams <= 0 {
		return 0
	}
	return 1000 * t.DelayCost / t.SavedGrams
}

// Share is what was saved of what would have been emitted, by all workloads, also those that Lull let run as submitted; 0 where that is nothing.
func (t *Totals) Share() float64 {
	if t.AsSubmittedGrams <= 0 {
		return 0
	}
	return t.SavedGrams / t.AsSubmittedGrams
}

// PlannedShare is Share of the workloads that Lull planned, without those that it let run as submitted.
func (t *Totals) PlannedShare() float64 {
	as := t.AsSubmittedGrams - t.UnplannedAsSubmittedGrams
	if as <= 0 {
		return 0
	}
	return (t.SavedGrams - t.UnplannedSavedGrams) / as
}

// Summary is a report over a time.
type Summary struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Signal string    `json:"signal"`
	Factor string    `json:"factor"`
	By     string    `json:"by,omitempty"`
	All    Totals    `json:"all"`
	Groups []Totals  `json:"groups,omitempty"`
	// Days are the totals by the day (UTC) of the ends.
	Days []Totals `json:"days,omitempty"`
	// Top are the workloads that emitted most.
	Top []Record `json:"top,omitempty"`
	SCI *SCI     `json:"sci,omitempty"`
	// Beside are the same emissions by other signals or factors, of the workloads that have them.
	Beside []BesideTotals `json:"beside,omitempty"`
	// Refused names workloads that are in no sum of energy or emissions, or of what a label states: one
	// has an entry in quarantine, a figure that no workload has, or a label that is no number. The first
	// mostRefused of them.
	Refused []RefusedWorkload `json:"refused,omitempty"`
	// Unsettled are workloads that are in no sum, as they are not settled yet: they are not over, or the intensities of their
	// hours are not published. Who reads the ledger counts them; Summarize does not.
	Unsettled int `json:"unsettled,omitempty"`
	// HoldOut compares with the workloads that ran as submitted, where there are any.
	HoldOut *HoldOut `json:"holdOut,omitempty"`
}

// RefusedWorkload is a workload that a sum leaves out, and why.
type RefusedWorkload struct {
	Name     string `json:"name"` // namespace/name
	Workload string `json:"workload"`
	Why      string `json:"why"`
}

// mostRefused bounds the workloads that a summary names as refused.
const mostRefused = 100

// refuse names a workload.
func (s *Summary) refuse(b *Settlement, why string) {
	if len(s.Refused) < mostRefused {
		s.Refused = append(s.Refused, RefusedWorkload{b.Of.Namespace + "/" + b.Of.Name, b.Workload, why})
	}
}

// BesideTotals are sums by a signal and factor beside those that were planned with.
type BesideTotals struct {
	Signal           string  `json:"signal"`
	Factor           string  `json:"factor"`
	Workloads        int     `json:"workloads"`
	Grams            float64 `json:"gCO2eq"`
	AsSubmittedGrams float64 `json:"asSubmittedGCO2eq"`
	SavedGrams       float64 `json:"savedGCO2eq"`
	// FilledHours are priced by carbon.FillRule; Withheld are workloads, not among Workloads,
	// whose emissions by this signal are not stated.
	FilledHours float64 `json:"filledHours,omitempty"`
	Withheld    int     `json:"withheld,omitempty"`
}

// addBeside adds those of a workload, if it has any.
func (s *Summary) addBeside(o *Beside) {
	if o == nil {
		return
	}
	i := slices.IndexFunc(s.Beside, func(t BesideTotals) bool { return t.Signal == o.Signal && t.Factor == o.Factor })
	if i < 0 {
		i = len(s.Beside)
		s.Beside = append(s.Beside, BesideTotals{Signal: o.Signal, Factor: o.Factor})
	}
	t := &s.Beside[i]
	if o.Withheld != "" {
		t.Withheld++
		return
	}
	t.Workloads++
	t.FilledHours += o.FilledSeconds / 3600
	t.Grams += o.Grams
	t.AsSubmittedGrams += o.AsSubmittedGrams
	t.SavedGrams += o.SavedGrams
}

// HoldOut is what was saved as measured: workloads chosen by chance ran as submitted, the others as planned. Means
// are of emissions per energy, weighted by energy, in gCO2eq/kWh.
type HoldOut struct {
	// HeldOut and Planned count the workloads on either side that used energy and whose
	// emissions are stated.
	HeldOut int `json:"heldOut"`
	Planned int `json:"planned"`
	// HeldOutMean and PlannedMean are those of either side, ModelMean what the model says of the planned
	// ones had they run as submitted.
	HeldOutMean float64 `json:"heldOutMean"`
	PlannedMean float64 `json:"plannedMean"`
	ModelMean   float64 `json:"modelMean"`
	// Saved is how much less the planned ones emitted per energy, Low and High its 95 % confidence
	// interval, both 0 with fewer than two workloads on a side; ModelSaved is what the model says.
	Saved      float64 `json:"saved"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	ModelSaved float64 `json:"modelSaved"`
	// TooSmall says that there are too few workloads to tell: fewer than thirty on a side, or an interval
	// wider than what was saved on either side.
	TooSmall bool `json:"tooSmall"`
}

// leastSample is how many workloads on each side a mean needs for its interval to hold.
const leastSample = 30

// compare compares planned workloads with those that were held out; nil where none was. Work that was released in Shadow mode is neither. The
// interval is that of a difference of two ratio estimators (Cochran, Sampling Techniques, 1977, chapter 6).
func compare(list []Settlement) *HoldOut {
	var out HoldOut
	var held, planned, model []Settlement
	for _, b := range list {
		switch {
		case b.KWh <= 0 || b.Withheld != "" || b.shadow():
		case b.Of.HeldOut:
			held = append(held, b)
		default:
			planned = append(planned, b)
			as := b
			as.Grams, as.KWh = b.Counterfactual.Grams, b.Counterfactual.KWh
			model = append(model, as)
		}
	}
	out.HeldOut, out.Planned = len(held), len(planned)
	if out.HeldOut == 0 || out.Planned == 0 {
		return nil
	}
	a, varA := ratio(held)
	b, varB := ratio(planned)
	out.ModelMean, _ = ratio(model)
	out.HeldOutMean, out.PlannedMean = a, b
	out.Saved, out.ModelSaved = a-b, out.ModelMean-b
	if min(out.HeldOut, out.Planned) < 2 {
		out.TooSmall = true
		return &out
	}
	width := 1.959964 * math.Sqrt(varA+varB)
	out.Low, out.High = out.Saved-width, out.Saved+width
	out.TooSmall = min(out.HeldOut, out.Planned) < leastSample || width > math.Abs(out.Saved)
	return &out
}

// ratio is the mean of emissions per energy, weighted by energy, and the variance of that mean.
func ratio(list []Settlement) (mean, variance float64) {
	var grams, kWh float64
	for i := range list {
		grams, kWh = grams+list[i].Grams, kWh+list[i].KWh
	}
	if kWh <= 0 {
		return 0, 0
	}
	mean = grams / kWh
	n := float64(len(list))
	for i := range list {
		off := list[i].Grams - mean*list[i].KWh
		variance += off * off
	}
	return mean, variance * n / max(1, n-1) / (kWh * kWh)
}

// Question is what a summary answers.
type Question struct {
	// By groups: namespace, policy, zone, kind, label:KEY, or team, which is label:team; "" does not.
	By string
	// Top is how many workloads are named.
	Top int
	// Signal and Factor are those that count, where zones have several; "" takes the only one.
	Signal, Factor string
	// Hardware asks for the SCI; Unit is its functional unit: workload, worker-hour or label:KEY, whose
	// values are summed.
	Hardware *Hardware
	Unit     string
	// DelayCost is what an hour by which a workload ends later costs, in any currency: a number, or
	// label:KEY, a label whose value is one and counts as 0 where it is absent; "" costs nothing.
	DelayCost string
}

// mostStated bounds the numbers that a label or a question states.
const mostStated = 1e15

// price is that of an hour of delay of a workload.
func (q *Question) price(b *Settlement) (float64, error) {
	text, of := q.DelayCost, ""
	if key, label := strings.CutPrefix(q.DelayCost, "label:"); label {
		text, of = b.Of.Labels[key], fmt.Sprintf("label %s of %s/%s: ", key, b.Of.Namespace, b.Of.Name)
	}
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= mostStated) {
		return 0, fmt.Errorf("%w: delay cost: %s%q; accepted: a number from 0 to %v per hour, or label:KEY", ErrInvalid, of, text, float64(mostStated))
	}
	return v, nil
}

// group is the name of the group of a workload.
func (q *Question) group(b *Settlement) (string, error) {
	by := q.By
	if by == "team" {
		by = "label:team"
	}
	switch {
	case by == "namespace":
		return b.Of.Namespace, nil
	case by == "policy":
		return b.Of.Policy, nil
	case by == "zone":
		return b.Of.Zone, nil
	case by == "kind":
		return b.Of.Kind, nil
	case strings.HasPrefix(by, "label:") && len(by) > len("label:"):
		return cmp.Or(b.Of.Labels[strings.TrimPrefix(by, "label:")], "(none)"), nil
	}
	return "", fmt.Errorf("%w: by: %q; accepted: namespace, team, policy, zone, kind, label:KEY", ErrInvalid, q.By)
}

// Summarize sums settlements. An error wrapping ErrInvalid says what is not accepted: a group, a unit, or
// intensities of several signals or factors, which must not be summed.
//
// Complexity: O(n log n).
func Summarize(list []Settlement, q Question) (Summary, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(b Settlement) bool {
		return q.Signal != "" && b.Signal != q.Signal || q.Factor != "" && b.Factor != q.Factor
	})
	s := Summary{By: q.By, Signal: q.Signal, Factor: q.Factor}
	if q.By != "" {
		if _, err := q.group(&Settlement{}); err != nil {
			return s, err
		}
	}
	groups, days := map[string]*Totals{}, map[string]*Totals{}
	to := func(m map[string]*Totals, name string, b *Settlement, price float64) {
		if m[name] == nil {
			m[name] = &Totals{Name: name}
		}
		m[name].add(b, price)
	}
	if _, err := q.price(&Settlement{}); err != nil {
		return s, err
	}
	counted := false
	for i := range list {
		b := &list[i]
		if b.Runs > 0 && b.Withheld == "" { // one that never ran has no intensity
			if counted && (b.Signal != s.Signal || b.Factor != s.Factor) {
				return s, fmt.Errorf("%w: intensities of several signals or factors (%s %s, %s %s), which do not add up; accepted: a choice of one", ErrInvalid, s.Signal, s.Factor, b.Signal, b.Factor)
			}
			s.Signal, s.Factor, counted = b.Signal, b.Factor, true
		}
		if s.From.IsZero() || b.Of.At.Before(s.From) {
			s.From = b.Of.At
		}
		if b.To.After(s.To) {
			s.To = b.To
		}
		if b.Refused {
			s.refuse(b, b.Withheld)
		}
		price, err := q.price(b)
		if err != nil { // a label: what the question states was checked above
			s.refuse(b, err.Error())
		}
		s.All.add(b, price)
		s.addBeside(b.Beside)
		to(days, b.To.UTC().Format(time.DateOnly), b, price)
		if q.By != "" {
			name, err := q.group(b)
			if err != nil {
				return s, err
			}
			to(groups, name, b, price)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(days)) {
		s.Days = append(s.Days, *days[name])
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		s.Groups = append(s.Groups, *groups[name])
	}
	slices.SortStableFunc(s.Groups, func(a, b Totals) int { return cmp.Compare(b.Grams, a.Grams) })
	slices.SortStableFunc(list, func(a, b Settlement) int { return cmp.Compare(b.Grams, a.Grams) })
	s.Top = Records(list[:min(len(list), q.Top)])
	s.HoldOut = compare(list)
	if q.Hardware == nil {
		return s, nil
	}
	var err error
	s.SCI, err = s.sci(list, q)
	return s, err
}
