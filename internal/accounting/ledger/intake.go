package ledger

import (
	"maps"
	"slices"
	"sort"

	"lull.dev/lull/pkg/account"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// read takes up an entry, or puts it aside if it cannot be decoded, as err says, or is found then. Any other error is returned.
func (s *Settler) read(e *Entry, err error) error {
	if err == nil {
		err = s.takeUp(e)
	}
	if IsUnreadable(err) {
		s.setAside(e, err)
		return nil
	}
	return err
}

// takeUp takes up an entry. An error says that it cannot be decoded.
func (s *Settler) takeUp(e *Entry) error {
	w := s.works[e.Workload]
	s.dropped = s.dropped || e.Kind == KindCheckpoint
	switch {
	case s.unsubmitted[e.Workload]:
		if e.Kind == KindFinished {
			delete(s.unsubmitted, e.Workload)
		}
		return nil
	case w == nil && e.Workload != "" && e.Kind == KindQuarantined && submission(e):
		s.unsubmitted[e.Workload] = true
		delete(s.early, e.Workload)
		return nil
	case w == nil && e.Workload != "" && s.past.of[e.Workload] != nil && e.Kind != KindSettled:
		return nil // read again where it is settled again
	case w == nil && e.Workload != "" && e.Kind != KindSubmitted && e.Kind != KindSettled:
		s.early[e.Workload] = append(s.early[e.Workload], *e)
		return nil
	case w == nil && !slices.Contains([]Kind{KindSubmitted, KindCapacity, KindIntensity, KindSettled}, e.Kind):
		return nil
	case w != nil && w.read[e.Key]:
		return nil
	case w != nil:
		w.read[e.Key] = true
	}
	switch e.Kind {
	case KindSubmitted:
		return s.readSubmitted(e)
	case KindCapacity:
		return s.readCapacity(e)
	case KindIntensity:
		return s.readIntensity(e)
	case KindSettled:
		return s.readSettled(e, w)
	}
	return w.observe(e)
}

// submission says whether what is in quarantine was a submission.
func submission(e *Entry) bool {
	b, err := bodyOf[Quarantined](e)
	return err == nil && b.Kind == KindSubmitted
}

// observe takes up what was seen of a workload.
func (w *work) observe(e *Entry) error {
	switch e.Kind {
	case KindDecided:
		b, err := bodyOf[Decided](e)
		if err != nil {
			return err
		}
		w.decided(&b)
	case KindStarted:
		b, err := bodyOf[Started](e)
		if err != nil {
			return err
		}
		w.started[b.Run] = b
	case KindEnded:
		b, err := bodyOf[Ended](e)
		if err != nil {
			return err
		}
		w.ended[b.Run] = b
	case KindEnergy:
		b, err := bodyOf[Energy](e)
		if err != nil {
			return err
		}
		w.energy = append(w.energy, b)
	case KindFinished:
		b, err := bodyOf[Finished](e)
		if err != nil {
			return err
		}
		w.finished = &b
	case KindQuarantined:
		b, err := bodyOf[Quarantined](e)
		if err != nil {
			return err
		}
		w.quarantined = b.Reason
	}
	return nil
}

// readSubmitted begins a workload: it takes its place in the queue of its policy, and what
// was read of it before.
func (s *Settler) readSubmitted(e *Entry) error {
	of, err := bodyOf[Submitted](e)
	if err != nil {
		return err
	}
	w := &work{uid: e.Workload, of: of, started: map[string]Started{}, ended: map[string]Ended{}, read: map[string]bool{e.Key: true}}
	s.works[e.Workload], s.zoneOfPolicy[of.Policy] = w, of.Zone
	s.seen(of.Zone, of.At, e.At)
	queue := s.queues[of.Policy]
	i := sort.Search(len(queue), func(i int) bool {
		q := queue[i]
		return q.of.At.After(of.At) || q.of.At.Equal(of.At) && q.uid > w.uid
	})
	s.queues[of.Policy] = slices.Insert(queue, i, w)
	for _, x := range s.spoiled[e.Workload] {
		w.spoil(&x.entry, x.reason)
	}
	delete(s.spoiled, e.Workload)
	early := s.early[e.Workload]
	delete(s.early, e.Workload)
	for i := range early {
		if err := s.read(&early[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// readCapacity offers capacity to the workloads of a policy.
func (s *Settler) readCapacity(e *Entry) error {
	b, err := bodyOf[Capacity](e)
	if err != nil {
		return err
	}
	if s.pools[b.Policy] == nil {
		s.pools[b.Policy] = &account.Pool{}
	}
	s.pools[b.Policy].Offer(b.Cluster, b.At, b.Free)
	s.zoneOf[b.Policy+" "+b.Cluster] = b.Zone
	return nil
}

// readIntensity takes up the intensity of a time, if it is its newest revision.
func (s *Settler) readIntensity(e *Entry) error {
	b, err := bodyOf[Intensity](e)
	if err != nil {
		return err
	}
	if !units.CarbonIntensity(b.Value).Valid() {
		return nil // written before there was a limit: as if it was not published
	}
	z := s.zones[b.Zone]
	if z == nil {
		z = &zoneHours{of: map[int64]Intensity{}}
		s.zones[b.Zone] = z
	}
	if last, there := z.of[b.From.Unix()]; !there {
		s.arrived = append(s.arrived, published{b, e.Seq, b.To})
		if b.From.Before(z.newest) {
			s.refined = append(s.refined, published{b, e.Seq, b.To})
		}
	} else if b.Revision <= last.Revision {
		return nil // written again by a drop
	} else {
		until := b.To
		if last.To.After(until) {
			until = last.To
		}
		s.revised = append(s.revised, published{b, e.Seq, until})
	}
	z.of[b.From.Unix()], z.series = b, nil
	s.seen(b.Zone, b.To, e.At)
	if b.Beside != "" {
		z.beside = b.Beside
	}
	if b.To.After(z.newest) {
		z.newest = b.To
	}
	return nil
}

// readSettled takes up what was settled of a workload; w is nil where what it rests on was
// dropped, or was not read.
func (s *Settler) readSettled(e *Entry, w *work) error {
	b, err := e.Settled()
	if err != nil {
		return err
	}
	if _, there := s.taken[e.Workload]; !there {
		s.take(e.Workload, &b)
	}
	s.zoneOfPolicy[b.Of.Policy] = b.Of.Zone
	s.seen(b.Of.Zone, b.To, e.At)
	delete(s.early, e.Workload)
	s.setSettled(e.Workload, &b)
	if w != nil {
		w.settled = &b
		s.queues[w.of.Policy] = slices.DeleteFunc(s.queues[w.of.Policy], func(q *work) bool { return q == w })
	}
	return nil
}

// series is that of a zone.
func (s *Settler) series(zone string) *carbon.Series {
	z := s.zones[zone]
	if z == nil {
		return &carbon.Series{}
	}
	if z.series == nil {
		var samples []carbon.Sample
		for _, at := range slices.Sorted(maps.Keys(z.of)) {
			b := z.of[at]
			if n := len(samples); n > 0 && samples[n-1].To.After(b.From) {
				samples[n-1].To = b.From // the resolution has changed
			}
			samples = append(samples, carbon.Sample{From: b.From, To: b.To, Value: units.CarbonIntensity(b.Value)})
		}
		z.series, _ = carbon.NewSeries(carbon.Provenance{Zone: zone}, samples) // ascending, and of values that were accepted before
	}
	return z.series
}
