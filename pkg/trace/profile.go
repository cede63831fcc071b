package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"lull.dev/lull/pkg/units"
)

// Profile is how a job scales, as measured: throughput in any unit, and watts of all
// workers together where they were measured.
type Profile struct {
	Workers           []int
	Throughput, Watts []float64
}

// maxScales bounds the rows of a profile.
const maxScales = 10_000

// ReadProfile reads a table with the columns workers, throughput and, if measured,
// power_w. Workers ascend, throughputs are above 0.
//
// Errors wrap ErrTrace and name line, column, value and what is accepted.
func ReadProfile(r io.Reader) (*Profile, error) {
	text, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	cr := csv.NewReader(text)
	header, err := cr.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: line 1: no header: %w; accepted: workers,throughput[,power_w]", ErrTrace, units.ReadError(err))
	}
	at := map[string]int{}
	for i, name := range header {
		at[strings.TrimSpace(name)] = i
	}
	for _, name := range []string{"workers", "throughput"} {
		if _, ok := at[name]; !ok {
			return nil, fmt.Errorf("%w: line 1: column %s is missing; accepted: workers,throughput[,power_w]", ErrTrace, name)
		}
	}
	p := &Profile{}
	for {
		row, err := cr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(err, row, header)
		}
		line, _ := cr.FieldPos(0)
		if len(p.Workers) == maxScales {
			return nil, fmt.Errorf("%w: line %d: accepted: at most %d rows", ErrTrace, line, maxScales)
		}
		bad := func(column, accepted string) error {
			return fmt.Errorf("%w: line %d: column %s: %q; accepted: %s", ErrTrace, line, column, row[at[column]], accepted)
		}
		w, err := strconv.Atoi(strings.TrimSpace(row[at["workers"]]))
		if err != nil || w < 1 || (len(p.Workers) > 0 && w <= p.Workers[len(p.Workers)-1]) {
			return nil, bad("workers", "whole numbers above 0, ascending")
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(row[at["throughput"]]), 64)
		if err != nil || !(v > 0 && v < 1e15) {
			return nil, bad("throughput", "a number above 0")
		}
		p.Workers, p.Throughput = append(p.Workers, w), append(p.Throughput, v)
		if i, ok := at["power_w"]; ok && strings.TrimSpace(row[i]) != "" {
			watts, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
			if err != nil || !(watts >= 0 && watts < 1e9) {
				return nil, bad("power_w", "a number of at least 0, or nothing")
			}
			p.Watts = append(p.Watts, watts)
		}
	}
	if len(p.Workers) == 0 {
		return nil, fmt.Errorf("%w: no rows; accepted: at least one", ErrTrace)
	}
	if len(p.Watts) != len(p.Workers) {
		p.Watts = nil // not measured throughout
	}
	return p, nil
}

// MaxWorkers is the largest scale measured.
func (p *Profile) MaxWorkers() int { return p.Workers[len(p.Workers)-1] }

// Marginal is the marginal capacity curve of a range of scales, and the watts.
type Marginal struct{ Curve, Watts []float64 }

// Scale returns the marginal capacity curve of low..high workers. Between scales that
// were measured throughput and watts are interpolated linearly; beyond the largest the
// last increment goes on, as it does to one worker from the least.
//
// Errors: ErrTrace for an empty range.
func (p *Profile) Scale(low, high int) (Marginal, error) {
	if low < 1 || high < low {
		return Marginal{}, fmt.Errorf("%w: %d to %d workers; accepted: at least 1, rising", ErrTrace, low, high)
	}
	var m Marginal
	last := 0.0
	for w := low; w <= high; w++ {
		v := p.at(p.Throughput, w)
		m.Curve = append(m.Curve, max(0, v-last))
		last = max(last, v)
		if p.Watts != nil {
			m.Watts = append(m.Watts, p.at(p.Watts, w))
		}
	}
	return m, nil
}

// at is the value of a column at a scale.
func (p *Profile) at(values []float64, w int) float64 {
	n := len(p.Workers)
	i := sort.SearchInts(p.Workers, w)
	if i < n && p.Workers[i] == w {
		return values[i]
	}
	switch {
	case n == 1:
		return values[0] * float64(w) / float64(p.Workers[0])
	case i == 0:
		return values[0] * float64(w) / float64(p.Workers[0])
	case i == n:
		i = n - 1
	}
	a, b := p.Workers[i-1], p.Workers[i]
	slope := (values[i] - values[i-1]) / float64(b-a)
	return max(0, values[i-1]+slope*float64(w-a))
}
