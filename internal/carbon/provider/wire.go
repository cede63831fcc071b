package provider

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// wireNumber is a number on the wire that says nothing about the others: it may be null, and a string. What is neither
// is kept as a bad one, so that the answer around it can be read.
type wireNumber struct {
	value float64
	there bool   // false for null, for an empty string and for a bad one
	bad   string // what stands there, if it is no number
}

// UnmarshalJSON never fails.
func (n *wireNumber) UnmarshalJSON(raw []byte) error {
	v, null, err := number(raw)
	*n = wireNumber{value: v, there: !null && err == nil}
	if err != nil {
		n.bad = clip(string(raw))
	}
	return nil
}

// or is n if it says anything, else other: providers spell a field in several ways.
func (n wireNumber) or(other wireNumber) wireNumber {
	if n.there || n.bad != "" {
		return n
	}
	return other
}

// point is the point of a value that begins at a time; the value in the unit of the answer.
func (n wireNumber) point(at time.Time, where string) point {
	pt := point{at: at, value: n.value, gap: !n.there, where: where}
	if n.bad != "" {
		pt.bad = fmt.Errorf("%w: %s: %s; accepted: a number or null", ErrWire, where, n.bad)
	}
	return pt
}

// number reads a JSON number that may be a string, or null. An empty string is none.
func number(raw json.RawMessage) (v float64, null bool, _ error) {
	text := string(raw)
	if text == "" || text == "null" {
		return 0, true, nil
	}
	if text[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, false, fmt.Errorf("%w: %w", ErrWire, err)
		}
		if text == "" {
			return 0, true, nil
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !finite(v) {
		return 0, false, fmt.Errorf("%w: %q; accepted: a number", ErrWire, clip(text))
	}
	return v, false, nil
}
