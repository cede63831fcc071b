package provider

import (
	"time"

	"lull.dev/lull/pkg/carbon"
)

// Merge returns the samples of both in order of time. Where they overlap the newer ones
// stand: they are a revision. What the newer ones do not cover of an older one stays, also
// if that is a part of it: the resolution may have changed.
//
// Complexity: O(n + m).
func Merge(older, newer []carbon.Sample) []carbon.Sample {
	return merge(older, newer, func(x *carbon.Sample) (from, to *time.Time) { return &x.From, &x.To })
}

// merge is Merge for anything with an interval.
func merge[T any](older, newer []T, interval func(*T) (from, to *time.Time)) []T {
	if len(older) == 0 {
		return newer
	}
	if len(newer) == 0 {
		return older
	}
	out := make([]T, 0, len(older)+len(newer))
	n := 0
	for _, x := range older {
		from, to := interval(&x)
		for n < len(newer) {
			newFrom, newTo := interval(&newer[n])
			if !newFrom.Before(*to) {
				break
			}
			if from.Before(*newFrom) {
				part := x
				_, end := interval(&part)
				*end = *newFrom
				out = append(out, part)
			}
			if newTo.After(*from) {
				*from = *newTo
			}
			if newTo.After(*to) {
				break // it may cover the next one too
			}
			out = append(out, newer[n])
			n++
		}
		if from.Before(*to) {
			out = append(out, x)
		}
	}
	return append(out, newer[n:]...)
}
