package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/timegrid"
)

// site is what a look has of zones and clusters, whatever runs there.
type site struct {
	policy   string
	timeline timegrid.Timeline
	now      time.Time // wall time
	snapshot *decide.Snapshot
	zones    map[string]carbon.Outlook
	beside   map[string]string
	// due says that a plan was made anew.
	due bool
}

func (k *Look) site() *site {
	return &site{policyName(k.Policy), k.Timeline, k.Now, &k.View.Snapshot, k.Zones, k.Beside, len(k.Due) > 0}
}

// intensities notes hours that are over, and what was revised of them.
func (r *Recorder) intensities(k *site) {
	now := k.timeline.ToGrid(k.now)
	for _, zone := range slices.Sorted(maps.Keys(k.zones)) {
		s := k.zones[zone].Expected
		if s == nil {
			continue
		}
		known := r.hours[zone]
		if known == nil {
			r.wanted[zone] = beginsOf(s, now)
			r.signal()
			continue
		}
		r.forget(zone, k.zones[zone])
		for i := range s.Len() {
			x := s.Sample(i)
			if x.To.After(now) {
				break
			}
			if p := s.ProvenanceOf(i); p.Basis == carbon.Measured {
				r.intensity(k, zone, &x, &p)
			}
		}
		r.earlierIntensities(k, zone)
	}
}

// intensity notes a value of the past that is not in the ledger as it is. If it was published in finer steps before, each of
// them is revised.
func (r *Recorder) intensity(k *site, zone string, x *carbon.Sample, p *carbon.Provenance) {
	known, part := r.hours[zone], *x
	for at := x.From.Add(finestStep); at.Before(x.To); at = at.Add(finestStep) {
		if _, there := known[at.Unix()]; there {
			part.To = at
			r.intensityPart(k, zone, &part, p)
			part.From, part.To = at, x.To
		}
	}
	r.intensityPart(k, zone, &part, p)
}

// finestStep is the finest step in which intensities are published.
const finestStep = 5 * time.Minute

func (r *Recorder) intensityPart(k *site, zone string, x *carbon.Sample, p *carbon.Provenance) {
	known, at := r.hours[zone], x.From.Unix()
	last, there := known[at]
	if there && last.value == float64(x.Value) && last.estimated == x.Estimated {
		return
	}
	if there {
		last.revision++
	}
	last.value, last.estimated = float64(x.Value), x.Estimated
	known[at] = last
	b := Intensity{
		Zone: zone, Grid: p.Zone, From: x.From.UTC(), To: x.To.UTC(), Value: float64(x.Value),
		Signal: string(p.Signal), Factor: string(p.Factor), Source: p.Source, Estimated: x.Estimated, Revision: last.revision, Beside: k.beside[zone],
	}
	r.add(KindIntensity, intensityKey(zone, at, b.Revision), "", b)
}

// earlier is what is known of the values from before the series of a zone's outlook.
type earlier struct {
	// sought are the seconds that were looked for in the ledger.
	sought map[int64]bool
	// noted are the values that the ledger has as they are: the same slice is not compared again.
	noted []carbon.Sample
}

// earlierIntensities notes values that were published or revised when the series of the outlook did not show them any more,
// however long ago that was. What is in the ledger of them is read first. What lies before the ledger begins concerns nothing.
func (r *Recorder) earlierIntensities(k *site, zone string) {
	list := k.zones[zone].Earlier
	e := r.earlier[zone]
	if e == nil {
		e = &earlier{sought: map[int64]bool{}}
		r.earlier[zone] = e
	}
	if len(list) == 0 || len(e.noted) == len(list) && &e.noted[0] == &list[0] {
		return
	}
	if r.opened.IsZero() {
		r.opened = k.now
	}
	first := k.timeline.ToGrid(r.opened).Add(-carbon.FillReach)
	var unread []int64
	for i := range list {
		x := &list[i]
		at := x.From.Unix()
		switch _, there := r.hours[zone][at]; {
		case !there && x.To.Before(first):
		case !there && !e.sought[at]:
			unread = appendBegins(unread, x)
		default:
			r.intensity(k, zone, x, x.Of)
		}
	}
	if len(unread) > 0 {
		r.wanted[zone] = unread
		r.signal()
		return
	}
	e.noted = list
}

// beginsOf returns the seconds at which the published intensities of a series begin, or began in finer steps.
func beginsOf(s *carbon.Series, now time.Time) (out []int64) {
	for i := range s.Len() {
		if x := s.Sample(i); !x.To.After(now) && s.ProvenanceOf(i).Basis == carbon.Measured {
			out = appendBegins(out, &x)
		}
	}
	return out
}

// appendBegins appends the seconds at which a value begins, and at which those of finer steps in its place may have begun.
func appendBegins(out []int64, x *carbon.Sample) []int64 {
	out = append(out, x.From.Unix())
	for at := x.From.Add(finestStep); at.Before(x.To); at = at.Add(finestStep) {
		out = append(out, at.Unix())
	}
	return out
}

// forget drops, now and then, what an outlook of a zone has no more, so that no more is kept than it has.
func (r *Recorder) forget(zone string, o carbon.Outlook) {
	first, n := o.Expected.Start(), o.Expected.Len()+len(o.Earlier)
	if len(o.Earlier) > 0 {
		first = o.Earlier[0].From
	}
	if e := r.earlier[zone]; e != nil && len(e.sought) > 2*n {
		maps.DeleteFunc(e.sought, func(at int64, _ bool) bool { return at < first.Unix() })
	}
	if known := r.hours[zone]; len(known) > 2*n {
		maps.DeleteFunc(known, func(at int64, _ hour) bool { return at < first.Unix() })
	}
}

// capacities notes what clusters have for the policy, as far as it has changed.
func (r *Recorder) capacities(k *site) {
	s := k.snapshot
	at := timegrid.Align(s.Now, s.Slot).UTC()
	for i := range s.Clusters {
		c := &s.Clusters[i]
		b := Capacity{Policy: k.policy, Cluster: c.Name, Zone: c.Zone, At: at, Free: map[string]float64{}}
		for res, v := range c.Capacity {
			used := c.Load[res]
			if ahead := c.LoadAt[res]; len(ahead) > 0 {
				used += ahead[0]
			}
			b.Free[res] = max(0, v-used)
		}
		of := b.Policy + " " + b.Cluster
		// Once a day in any case, so that who reads on from a day finds it.
		if last, there := r.capacity[of]; there && (last.At.Equal(at) || maps.Equal(last.Free, b.Free) && at.Sub(last.At) < capacityEvery) {
			continue
		}
		r.capacity[of] = b
		r.add(KindCapacity, fmt.Sprintf("capacity/%s/%s/%d", b.Policy, b.Cluster, at.Unix()), "", b)
	}
}

// capacityEvery is how long (grid time) a capacity that has not changed stands without an entry.
const capacityEvery = 24 * time.Hour

// mostForecast is how far ahead a forecast is kept.
const mostForecast = 96

// forecasts notes what is expected of the zones of the clusters, where that is news, and returns the keys.
func (r *Recorder) forecasts(k *site) []string {
	s := k.snapshot
	var keys []string
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if c.Carbon == nil || !k.due && r.forecast[c.Zone] != "" {
			if key := r.forecast[c.Zone]; key != "" {
				keys = append(keys, key)
			}
			continue
		}
		from := timegrid.Align(s.Now, time.Hour).UTC()
		b := Forecast{Zone: c.Zone, From: from}
		grid, err := timegrid.New(from, time.Hour, mostForecast)
		if err != nil {
			continue
		}
		b.Values, _ = c.Carbon.OnGrid(grid)
		for h, v := range b.Values {
			if !(v >= 0) {
				b.Values[h] = -1
			}
		}
		if x, ok := c.Carbon.At(s.Now.Add(time.Hour)); ok {
			p := &c.Carbon.Provenance
			if x.Of != nil {
				p = x.Of
			}
			b.Basis, b.Source, b.Issued = string(p.Basis), p.Source, p.IssuedAt.UTC()
		}
		key := "forecast/" + c.Zone + "/" + digest(b)
		if r.forecast[c.Zone] != key {
			r.forecast[c.Zone] = key
			r.add(KindForecast, key, "", b)
		}
		keys = append(keys, key)
	}
	return keys
}

func digest(b Forecast) string {
	text, _ := json.Marshal(b) // of numbers and text
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:8])
}
