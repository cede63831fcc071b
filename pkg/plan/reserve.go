package plan

// ReserveKeeper is a planner that keeps a share of the capacity free for work to come.
type ReserveKeeper interface {
	Planner
	// KeptReserve returns the share, or learned if it is that of the problem (Problem.Reserve).
	KeptReserve() (share float64, learned bool)
}

// KeptReserve returns the share of the capacity that a planner keeps free, 0 for none. If it is learned,
// whoever plans with it learns Problem.Reserve from the recent past (package reserve) and states it.
func KeptReserve(p Planner) (share float64, learned bool) {
	if k, ok := p.(ReserveKeeper); ok {
		return k.KeptReserve()
	}
	return 0, false
}

// KeptReserve is that of the planner that g guards.
func (g Guarded) KeptReserve() (share float64, learned bool) { return KeptReserve(g.Planner) }
