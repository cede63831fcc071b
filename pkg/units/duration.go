package units

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrDuration marks a text that is no duration Lull accepts.
var ErrDuration = errors.New("not a duration")

// AcceptedDurations says in words what ParseDuration takes; error messages and
// help texts quote it.
const AcceptedDurations = `a duration such as "90m" or "1h30m", or in ISO 8601 such as "PT1H30M" or "P1DT6H"`

// maxDurationText bounds the input of ParseDuration.
const maxDurationText = 64

var isoDuration = regexp.MustCompile(
	`^P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// ParseDuration reads a duration of zero or more, in Go's form or in ISO 8601's
// (weeks, days, hours, minutes, seconds; no years and months, whose length
// depends on the date). The error wraps ErrDuration and names the value and
// what is accepted.
func ParseDuration(text string) (time.Duration, error) {
	d, ok := parseDuration(text)
	if !ok {
		shown := text
		if len(shown) > maxDurationText {
			shown = shown[:maxDurationText] + "..."
		}
		return 0, fmt.Errorf("%w: %q; accepted: %s", ErrDuration, shown, AcceptedDurations)
	}
	return d, nil
}

func parseDuration(text string) (time.Duration, bool) {
	if len(text) == 0 || len(text) > maxDurationText {
		return 0, false
	}
	if text[0] != 'P' {
		d, err := time.ParseDuration(text)
		return d, err == nil && d >= 0
	}
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(text, "T") {
		return 0, false
	}
	units := []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second}
	total, any := 0.0, false
	for i, unit := range units {
		if m[i+1] == "" {
			continue
		}
		v, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil {
			return 0, false
		}
		total += v * float64(unit)
		any = true
	}
	// 2^63 itself is not representable, and float64(math.MaxInt64) rounds up to it.
	if !any || total >= math.MaxInt64 {
		return 0, false
	}
	return time.Duration(math.Round(total)), true
}
