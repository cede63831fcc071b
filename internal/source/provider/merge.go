package provider

import (
	"lull.dev/lull/pkg/carbon"
)

// Merge returns the samples of both in order of time. Where they overlap the
// newer ones stand: they are a revision.
//
// Complexity: O(n + m).
func Merge(older, newer []carbon.Sample) []carbon.Sample {
	if len(older) == 0 {
		return newer
	}
	if len(newer) == 0 {
		return older
	}
	out := make([]carbon.Sample, 0, len(older)+len(newer))
	n := 0
	for _, x := range older {
		for n < len(newer) && !newer[n].To.After(x.From) {
			out = append(out, newer[n])
			n++
		}
		if n < len(newer) && newer[n].From.Before(x.To) {
			continue // revised
		}
		out = append(out, x)
	}
	return append(out, newer[n:]...)
}
