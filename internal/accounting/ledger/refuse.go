package ledger

import (
	"fmt"

	"lull.dev/lull/pkg/units"
)

// Limits on the figures of one workload. A data center of 1 GW uses less than 10^10 kWh a year; what is
// beyond is an error in what the workload was counted by, and would spoil every sum.
const (
	mostKWh   = 1e10
	mostHours = 1e12
	mostGrams = mostKWh * float64(units.MaxCarbonIntensity)
)

// impossible says which figure is beyond the limits; "" where none is.
func (b *Settled) impossible() string {
	check := func(name string, value, most float64) string {
		if value >= 0 && value <= most {
			return ""
		}
		return fmt.Sprintf("%s is %.4g; accepted: 0 to %.4g", name, value, most)
	}
	c := &b.Counterfactual
	figures := []string{
		check("kWh", b.KWh, mostKWh), check("measured kWh", b.MeasuredKWh, mostKWh), check("kWh as submitted", c.KWh, mostKWh),
		check("worker hours", b.WorkerHours, mostHours), check("uncertainty", b.Uncertainty, 1),
		check("grams", b.Grams, mostGrams), check("grams as submitted", c.Grams, mostGrams),
	}
	if o := b.Beside; o != nil {
		figures = append(figures, check("grams beside", o.Grams, mostGrams), check("grams as submitted beside", o.AsSubmittedGrams, mostGrams))
	}
	for _, why := range figures {
		if why != "" {
			return why
		}
	}
	return ""
}

// refuse withholds all figures of energy and emissions.
func (b *Settled) refuse(why string) {
	b.KWh, b.MeasuredKWh, b.Sources, b.Uncertainty = 0, 0, nil, 0
	b.Grams, b.SavedGrams, b.Withheld, b.Refused = 0, 0, why, true
	c := &b.Counterfactual
	c.Watts, c.KWh, c.Grams = 0, 0, 0
	if !(b.WorkerHours >= 0 && b.WorkerHours <= mostHours) {
		b.WorkerHours = 0
	}
	if o := b.Beside; o != nil {
		o.Grams, o.AsSubmittedGrams, o.SavedGrams, o.Withheld = 0, 0, 0, why
	}
}
