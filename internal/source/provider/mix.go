package provider

import (
	"fmt"
	"sort"
	"time"

	"lull.dev/lull/pkg/carbon"
)

// mixes is generation by type on a regular grid.
type mixes map[time.Time]mix

func (m mixes) add(at time.Time, kind string, quantity float64) {
	if m[at] == nil {
		m[at] = mix{}
	}
	m[at][kind] += quantity
}

// overlay puts newer quantities over those of m; documents may overlap.
func (m mixes) overlay(newer mixes) {
	for at, x := range newer {
		if m[at] == nil {
			m[at] = mix{}
		}
		for kind, v := range x {
			m[at][kind] = v
		}
	}
}

// usualShare is in which share of the slots a type must occur so that a slot
// without it counts as incomplete.
const usualShare = 0.9

// points turns complete slots into intensities. A slot that lacks a type which
// nearly all others have is still being filled by the provider: its mean would
// be wrong, so it is a gap.
func (m mixes) points(factors map[string]float64) []point {
	count := map[string]int{}
	for _, x := range m {
		for kind := range x {
			count[kind]++
		}
	}
	var usual []string
	for kind, n := range count {
		if _, known := factors[kind]; known && float64(n) >= usualShare*float64(len(m)) {
			usual = append(usual, kind)
		}
	}
	sort.Strings(usual)
	out := make([]point, 0, len(m))
	for at, x := range m {
		pt := point{at: at, where: "mix at " + at.Format(time.RFC3339), estimated: true}
		for _, kind := range usual {
			if _, ok := x[kind]; !ok {
				pt.gap = true
			}
		}
		if v, ok := x.intensity(factors); ok {
			pt.value = v
		} else {
			pt.gap = true
		}
		out = append(out, pt)
	}
	return out
}

// tooMany bounds the slots of a mix.
func (m mixes) tooMany() error {
	if len(m) > maxPoints {
		return fmt.Errorf("%w: %d slots; accepted: at most %d", ErrWire, len(m), maxPoints)
	}
	return nil
}

// samples of the complete slots.
func (m mixes) samples(factors map[string]float64, step time.Duration, p carbon.Provenance) ([]carbon.Sample, error) {
	if err := m.tooMany(); err != nil {
		return nil, err
	}
	return samples(m.points(factors), step, p)
}
