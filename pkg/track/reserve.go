package track

import (
	"math"

	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/reserve"
)

// learn tells the reserve which urgent work came that no decision before has known, and takes up the
// reserve that follows. Work that is known before it may start did not come unexpectedly.
func (r *Round) learn() {
	s := r.Snapshot
	if s.Objective.Kind == plan.MOSP {
		return // deadlines are soft: nothing is kept free for them
	}
	var came []reserve.Arrival
	slack := s.Slacks()
	for i := range s.Tasks {
		t, rec := &s.Tasks[i], r.Records[i]
		if !rec.known && !t.NotBefore.After(s.Now) && t.Submitted.After(r.Reserve.Since()) && slack(t) < reserve.Ahead {
			came = append(came, arrival(s, t))
		}
	}
	r.Reserve.Observe(s.Now, came)
	s.Reserve = r.Reserve.Share()
}

// arrival is a task as work that came unannounced: at its least scale, by the resource that is scarcest
// on the clusters that it may use. A resource that none of them has does not count.
func arrival(s *decide.Snapshot, t *decide.Task) reserve.Arrival {
	workers := 1.0
	if t.Scaling != nil {
		workers = float64(t.Scaling.MinWorkers)
	}
	out := reserve.Arrival{Length: t.Remaining}
	all := make(map[string]float64, len(t.Request))
	for name, amount := range t.Request {
		for c := range s.Clusters {
			if s.MayUse(t, c) {
				all[name] += s.Clusters[c].CapacityNow(name)
			}
		}
		if amount > 0 && all[name] > 0 {
			out.Share = max(out.Share, workers*amount/all[name])
		}
	}
	least := math.Inf(1)
	for c := range s.Clusters {
		if !s.MayUse(t, c) {
			continue
		}
		here := 0.0
		for name, amount := range t.Request {
			if amount > 0 && all[name] > 0 {
				here = max(here, workers*amount/s.Clusters[c].CapacityNow(name)) // infinite where it is missing
			}
		}
		least = min(least, here)
	}
	if !math.IsInf(least, 1) {
		out.Alone = least
	}
	return out
}
