package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Hardware is what a server embodies, for the SCI.
type Hardware struct {
	// EmbodiedGrams of a server, which has so many CPUs and lives for so long.
	EmbodiedGrams float64
	CPUs          float64
	Lifetime      time.Duration
}

// SCI is the Software Carbon Intensity (ISO/IEC 21031:2024): (O + M) / R.
type SCI struct {
	// Operational and Embodied are O and M in gCO2eq.
	Operational float64 `json:"operationalGCO2eq"`
	Embodied    float64 `json:"embodiedGCO2eq"`
	// Units is R, Unit what it counts.
	Units float64 `json:"functionalUnits"`
	Unit  string  `json:"functionalUnit"`
	// PerUnit is the SCI, in gCO2eq per unit.
	PerUnit float64 `json:"gCO2eqPerUnit"`
	// Withheld are the workloads whose emissions or units are not stated: O, M and R leave them out.
	Withheld int `json:"withheld,omitempty"`
}

func (h *Hardware) check() error {
	if !(h.EmbodiedGrams >= 0) || !(h.CPUs > 0) || h.Lifetime <= 0 {
		return fmt.Errorf("%w: hardware: %v g, %v CPUs, %v; accepted: 0 g and more, CPUs and a lifetime above 0", ErrInvalid, h.EmbodiedGrams, h.CPUs, h.Lifetime)
	}
	return nil
}

// share is what of a server's embodied emissions a workload has reserved, gCO2eq.
func (h *Hardware) share(b *Settlement) float64 {
	pods := b.Of.Workers + b.Of.Others // WorkerHours are those of all
	cpus := b.Of.Request["cpu"]
	if b.Of.Others > 0 {
		cpus *= float64(b.Of.Workers) / float64(pods)
	}
	return h.EmbodiedGrams * b.WorkerHours / h.Lifetime.Hours() * cpus / h.CPUs
}

// checkUnit checks a functional unit.
func checkUnit(unit string) error {
	if key, label := strings.CutPrefix(unit, "label:"); unit == "workload" || unit == "worker-hour" || label && key != "" {
		return nil
	}
	return fmt.Errorf("%w: unit: %q; accepted: workload, worker-hour, label:KEY", ErrInvalid, unit)
}

// units is how many functional units a workload is, by a unit that checkUnit accepts. An error wrapping
// ErrInvalid says that its label is no such number.
func (b *Settlement) units(unit string) (float64, error) {
	switch key, label := strings.CutPrefix(unit, "label:"); {
	case unit == "workload":
		return 1, nil
	case unit == "worker-hour":
		return b.WorkerHours, nil
	case label:
		v, err := strconv.ParseFloat(b.Of.Labels[key], 64)
		if err != nil || !(v >= 0 && v <= mostStated) {
			return 0, fmt.Errorf("%w: unit: label %s of %s/%s: %q; accepted: a number from 0 to %v", ErrInvalid, key, b.Of.Namespace, b.Of.Name, b.Of.Labels[key], float64(mostStated))
		}
		return v, nil
	}
	return 0, checkUnit(unit)
}

// sci is the Software Carbon Intensity of all workloads together whose emissions are stated. Embodied emissions are those of the
// servers, by the share of their CPUs and of their life that was reserved.
func (s *Summary) sci(list []Settlement, q Question) (*SCI, error) {
	h := q.Hardware
	if err := errors.Join(h.check(), checkUnit(cmp.Or(q.Unit, "workload"))); err != nil {
		return nil, err
	}
	out := &SCI{Unit: cmp.Or(q.Unit, "workload")}
	for i := range list {
		b := &list[i]
		if b.Withheld != "" { // what it emitted is not in O, so that it is in neither M nor R
			out.Withheld++
			continue
		}
		units, err := b.units(out.Unit)
		if err != nil { // a label
			out.Withheld++
			s.refuse(b, err.Error())
			continue
		}
		out.Operational += b.Grams
		out.Embodied += h.share(b)
		out.Units += units
	}
	if out.Units > 0 {
		out.PerUnit = (out.Operational + out.Embodied) / out.Units
	}
	return out, nil
}
