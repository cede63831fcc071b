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
