package plan

// Refiner is a planner whose plans may be refined between the boundaries of slots: package decide then places each job once
// more, alone beside all others, near the place that the plan gives it.
type Refiner interface {
	Planner
	// Single returns the planner of a problem with one job and shorter slots: it minimises the same objective and keeps the
	// same reserve. nil if plans are not to be refined.
	Single() Planner
}

// Single returns the planner that refines the plans of p, nil if there is none.
func Single(p Planner) Planner {
	if r, ok := p.(Refiner); ok {
		return r.Single()
	}
	return nil
}

// Single is that of the planner that g guards.
func (g Guarded) Single() Planner { return Single(g.Planner) }

// InSlots is a planner whose plans are not refined: they stay in the slots of the problem, as those of published methods do.
type InSlots struct{ Planner }

// Sequence implements Sequential.
func (s InSlots) Sequence() Planner { return InSlots{ForSequence(s.Planner)} }

// KeptReserve implements ReserveKeeper.
func (s InSlots) KeptReserve() (share float64, learned bool) { return KeptReserve(s.Planner) }

// CountsBegun implements CountsBegun.
func (s InSlots) CountsBegun() bool { return countsBegun(s.Planner) }
