package relax

import "math"

// roomEps is the share of a capacity by which a use may exceed it through rounding.
const roomEps = 1e-9

// Room is what is left of the capacity of every row while jobs are placed. A part of the
// capacity may be kept in reserve: only jobs placed after UseReserve(true) may take it.
type Room struct {
	m    *Model
	left []float64 // less the reserve; below 0 where the reserve is used
	// tol is the rounding allowance, whole the allowance with the reserve, and allow the
	// one of them that applies now.
	tol, whole, allow []float64
}

// NewRoom returns the whole capacity of m, without a reserve.
func NewRoom(m *Model) *Room {
	r := &Room{m: m, left: append([]float64(nil), m.Cap...), tol: make([]float64, len(m.Cap))}
	for i, c := range m.Cap {
		r.tol[i] = roomEps * math.Max(1, c)
	}
	r.whole, r.allow = r.tol, r.tol
	return r
}

// Keep puts the given amount of every row in reserve. The room must be empty.
func (r *Room) Keep(reserve []float64) {
	r.whole = make([]float64, len(r.tol))
	for i, v := range reserve {
		r.left[i] -= v
		r.whole[i] = r.tol[i] + v
	}
}

// UseReserve says whether what is placed from now on may use the reserve.
func (r *Room) UseReserve(may bool) {
	r.allow = r.tol
	if may {
		r.allow = r.whole
	}
}

// Left returns what is left of every row, less the reserve.
func (r *Room) Left() []float64 { return r.left }

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
		amount := sign * jb.size
		if s.Scale > 0 {
			amount *= float64(cl.minimum+int(s.Scale)) / float64(cl.minimum)
		}
		for _, d := range cl.need {
			r.left[r.m.row(int(s.Cluster), d.resource, int(s.Slot))] -= amount * d.amount
		}
	}
}

// Scales returns how many scales of job j fit on cluster c in slot t; 0 where not even
// MinWorkers do.
func (r *Room) Scales(j, c, t int) int {
	jb := &r.m.jobs[j]
	return r.fits(&r.m.classes[jb.class], jb.size, c, t)
}

// fits returns how many scales of a job of class cl fit on cluster c in slot t.
func (r *Room) fits(cl *class, size float64, c, t int) int {
	n := cl.scales
	for _, d := range cl.need {
		row := r.m.row(c, d.resource, t)
		least := size * d.amount
		left := r.left[row] + r.allow[row]
		if left < least {
			return 0
		}
		if most := least * float64(cl.minimum+n-1) / float64(cl.minimum); most > left {
			n = min(n, max(1, int(left/least*float64(cl.minimum)+1e-12)-cl.minimum+1))
		}
	}
	return n
}

// runFits reports whether a run of a rigid job that begins in slot t fits on cluster c.
func (r *Room) runFits(cl *class, size float64, c, t int) bool {
	end := min(r.m.T, t+cl.slots)
	for _, d := range cl.need {
		row := r.m.row(c, d.resource, 0)
		need := size * d.amount
		for s := row + t; s < row+end; s++ {
			if r.left[s]+r.allow[s] < need {
				return false
			}
		}
	}
	return true
}

// Choices are the sets of clusters that job j may use together.
func (m *Model) Choices(j int) [][]int { return m.classes[m.jobs[j].class].choices }

// Fits reports whether a schedule of job j fits the room.
func (r *Room) Fits(j int, parts []Part) bool {
	r.Take(j, parts, 1)
	defer r.Take(j, parts, -1)
	cl := &r.m.classes[r.m.jobs[j].class]
	for _, s := range parts {
		for _, d := range cl.need {
			if row := r.m.row(int(s.Cluster), d.resource, int(s.Slot)); r.left[row] < -r.tol[row] {
				return false
			}
		}
	}
	return true
}
