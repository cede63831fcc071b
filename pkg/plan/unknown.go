package plan

// WeighsLengths marks planners that place an elastic job of unknown length (workload.Unknown) by what it is expected to emit:
// an hour of its schedule counts with the probability that the job still runs. The others take the job to have its mean length.
type WeighsLengths interface {
	Planner
	WeighsLengths() bool
}

// Weighs reports whether a planner does what WeighsLengths says.
func Weighs(p Planner) bool {
	w, ok := p.(WeighsLengths)
	return ok && w.WeighsLengths()
}

// WeighsLengths is that of the planner that is guarded.
func (g Guarded) WeighsLengths() bool { return Weighs(g.Planner) }

// WeighsLengths is that of the planner in slots.
func (s InSlots) WeighsLengths() bool { return Weighs(s.Planner) }
