package plan

// Sequential is a planner that plans a sequence of similar problems faster than each of them
// alone, because it remembers its plans.
type Sequential interface {
	Planner
	// Sequence returns a planner for one sequence of problems, without a memory yet. Equal
	// sequences give equal plans, byte for byte.
	Sequence() Planner
}

// ForSequence returns a planner for one sequence of problems, as the decisions of a policy
// are: that of Sequence if the planner is Sequential, else the planner itself. The live controllers
// and the simulator both call it, so that what is simulated is what runs.
func ForSequence(p Planner) Planner {
	if s, ok := p.(Sequential); ok {
		return s.Sequence()
	}
	return p
}

// Sequence guards the plans of ForSequence(g.Planner).
func (g Guarded) Sequence() Planner {
	return Guarded{Planner: ForSequence(g.Planner), Probability: g.Probability}
}
