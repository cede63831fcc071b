package relax

import "lull.dev/lull/pkg/capacity"

// Room is what is left of the capacity of every row while jobs are placed: a
// capacity.Slots whose rows are those of the model. A part of the capacity may be kept in
// reserve: only jobs placed after UseReserve(true) may take it.
type Room struct {
	m     *Model
	slots *capacity.Slots
	left  []float64 // of the last call of Left
}

// NewRoom returns the whole capacity of m, without a reserve.
func NewRoom(m *Model) *Room {
	r := &Room{m: m, slots: capacity.NewSlots(m.M, m.resources, m.T)}
	for c := range m.M {
		for i := range m.R {
			row := m.row(c, i, 0)
			r.slots.Offer(c, i, m.Cap[row:row+m.T])
		}
	}
	return r
}

// Keep puts the given amount of every row in reserve. The room must be empty.
func (r *Room) Keep(reserve []float64) { r.slots.Keep(reserve) }

// UseReserve says whether what is placed from now on may use the reserve.
func (r *Room) UseReserve(may bool) { r.slots.UseReserve(may) }

// Left returns what is left of every row, less the reserve. It is valid until the next
// call.
//
// Complexity: O(rows).
func (r *Room) Left() []float64 {
	r.left = r.slots.AppendFree(r.left[:0])
	return r.left
}

// Free returns what is left of a resource on cluster c in slot t, less the reserve.
func (r *Room) Free(c, resource, t int) float64 { return r.slots.Free(c, resource, t) }

// FreeRow returns what is left of a row, less the reserve.
func (r *Room) FreeRow(row int) float64 {
	return r.slots.Free(row/r.m.T/r.m.R, row/r.m.T%r.m.R, row%r.m.T)
}

// Take removes a schedule of job j from the room; sign -1 gives it back. A slot
// counts with the largest scale used in it.
func (r *Room) Take(j int, parts []Part, sign float64) {
	jb := &r.m.jobs[j]
	cl := &r.m.classes[jb.class]
	for i := range parts {
		s := &parts[i]
		if i > 0 && parts[i-1].Slot == s.Slot {
			continue // of two parts of a slot the larger comes first
		}
		r.slots.Take(int(s.Cluster), cl.need, sign*jb.times(cl, s), int(s.Slot))
	}
}

// times is how many times the need of its class a job takes in a part of its schedule.
func (jb *job) times(cl *class, s *Part) float64 {
	if s.Scale == 0 {
		return jb.size
	}
	return jb.size * (float64(cl.minimum+int(s.Scale)) / float64(cl.minimum))
}

// Scales returns how many scales of job j fit on cluster c in slot t; 0 where not even
// MinWorkers do.
func (r *Room) Scales(j, c, t int) int {
	jb := &r.m.jobs[j]
	return r.fits(&r.m.classes[jb.class], jb.size, c, t)
}

// fits returns how many scales of a job of class cl fit on cluster c in slot t.
func (r *Room) fits(cl *class, size float64, c, t int) int {
	return max(0, r.slots.Room(c, cl.need, size, cl.minimum, cl.minimum+cl.scales-1, t)-cl.minimum+1)
}

// runFits reports whether a run of a rigid job that begins in slot t fits on cluster c.
func (r *Room) runFits(cl *class, size float64, c, t int) bool {
	return r.slots.Blocked(c, cl.need, size, t, min(r.m.T, t+cl.slots)) < 0
}

// Choices are the sets of clusters that job j may use together.
func (m *Model) Choices(j int) [][]int { return m.classes[m.jobs[j].class].choices }

// Fits reports whether a schedule of job j fits the room.
func (r *Room) Fits(j int, parts []Part) bool {
	jb := &r.m.jobs[j]
	cl := &r.m.classes[jb.class]
	for i := range parts {
		s := &parts[i]
		if !r.slots.Fits(int(s.Cluster), cl.need, jb.times(cl, s), int(s.Slot)) {
			return false
		}
	}
	return true
}

// SlotCost is what a whole slot t on cluster c at the i-th scale of job j, from 0, costs at the prices set.
func (e *Pricer) SlotCost(j, c, t, i int) float64 {
	jb := &e.m.jobs[j]
	return jb.size * e.m.slotCost(&e.m.classes[jb.class], e.price, c, t, i)
}
