package track

import (
	"fmt"
	"math"
	"strings"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
)

// Outlooks are the forecasts that plans rest on, by cluster. The zero value knows none.
type Outlooks struct {
	known map[string]outlook
}

// outlook is the forecast of a cluster that plans rest on.
type outlook struct {
	id     string
	issued time.Time
	series *carbon.Series
}

// looksAhead is how far two forecasts are compared.
const looksAhead = 24 * time.Hour

// Name names the outlook of all clusters together. Another name than before means that a
// provider has issued a forecast since, or that what is expected of the next day differs from
// what the plans rest on by more than the threshold, relative to its mean. A cluster that
// comes or goes changes the name too.
func (k *Outlooks) Name(clusters []decide.Cluster, now time.Time, threshold float64) string {
	before := k.known
	k.known = make(map[string]outlook, len(clusters))
	names := make([]string, len(clusters))
	for i := range clusters {
		c := &clusters[i]
		o := before[c.Name]
		o.update(c.Carbon, now, threshold)
		k.known[c.Name] = o
		names[i] = o.id
		if len(clusters) > 1 {
			names[i] = c.Name + ": " + o.id
		}
	}
	return strings.Join(names, "; ")
}

// update takes over what is expected now, if that differs enough.
func (o *outlook) update(series *carbon.Series, now time.Time, threshold float64) {
	if series == nil {
		*o = outlook{id: "none"}
		return
	}
	if o.series == series {
		return
	}
	issued := issuedAt(series, now)
	switch {
	case o.series == nil || !issued.Equal(o.issued):
		*o = outlook{issued: issued, series: series, id: "issued " + issued.UTC().Format(time.RFC3339)}
		if issued.IsZero() {
			o.id = "as known at first"
		}
	default:
		if off := difference(o.series, series, now); off > threshold {
			*o = outlook{issued: issued, series: series, id: fmt.Sprintf("%.0f %% off the one before, at %s", 100*off, now.UTC().Format(time.RFC3339))}
		}
	}
}

// issuedAt is when a provider has issued what the series says of the next hour; zero where
// it rests on something else.
func issuedAt(series *carbon.Series, now time.Time) time.Time {
	x, ok := series.At(now.Add(time.Hour))
	if !ok {
		return time.Time{}
	}
	p := &series.Provenance
	if x.Of != nil {
		p = x.Of
	}
	if p.Basis == carbon.LiveForecast || p.Basis == carbon.CachedForecast {
		return p.IssuedAt
	}
	return time.Time{}
}

// difference is the mean absolute difference of two series over the hours ahead that both
// cover, relative to the mean of the first.
func difference(a, b *carbon.Series, now time.Time) float64 {
	sum, mean := 0.0, 0.0
	for at := now; at.Before(now.Add(looksAhead)); at = at.Add(time.Hour) {
		x, ok := a.At(at)
		y, too := b.At(at)
		if ok && too {
			sum += math.Abs(float64(x.Value - y.Value))
			mean += float64(x.Value)
		}
	}
	if mean == 0 {
		if sum > 0 {
			return 1
		}
		return 0
	}
	return sum / mean
}
