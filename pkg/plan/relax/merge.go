package relax

// worthMerging is the share of the jobs that may remain where merging is worth it.
const worthMerging = 0.5

// alike is equal for jobs whose best responses are equal, per unit of size, at all prices.
type alike struct {
	class, arrival, last int32
	// deadline, size and weight count only where the moment at which a job begins has a cost,
	// which does not grow with its size.
	deadline     int32
	size, weight float64
	// begun is 0, or 1 + the number of a job that has run before: it is like no other.
	begun int32
}

// Alike is equal for jobs that have the same places in a room, at equal costs.
type Alike alike

// Alike returns what job j is compared by.
func (m *Model) Alike(j int) Alike {
	jb := &m.jobs[j]
	out := Alike{class: jb.class, arrival: jb.arrival, last: jb.last, deadline: jb.deadline, size: jb.size, weight: jb.weight}
	if jb.begun != nil {
		out.begun = int32(j) + 1
	}
	return out
}

// merged returns a model in which one job stands for all that are alike: of the same class and
// window. Tasks that wait may all begin now, so there are often many. Large jobs, whose
// responses depend on their size, and jobs that have run before stay as they are.
//
// L and the demand are those of m, except for the order of sums. If few jobs are alike, merged
// returns m.
//
// Complexity: O(jobs).
func (m *Model) merged() *Model {
	first := make(map[alike]int32, len(m.jobs))
	jobs := make([]job, 0, len(m.jobs))
	for j := range m.jobs {
		jb := &m.jobs[j]
		if jb.large || jb.begun != nil {
			jobs = append(jobs, *jb)
			continue
		}
		key := alike{class: jb.class, arrival: jb.arrival, last: jb.last}
		if m.timed() {
			key.deadline, key.size, key.weight = jb.deadline, jb.size, jb.weight
		}
		at, known := first[key]
		if !known {
			first[key] = int32(len(jobs))
			jobs = append(jobs, *jb)
			continue
		}
		jobs[at].size += jb.size
		jobs[at].weight += jb.weight
	}
	if float64(len(jobs)) > worthMerging*float64(len(m.jobs)) {
		return m
	}
	out := *m
	out.jobs = jobs
	return &out
}

// responding is about how many slots are looked at to find the best responses of all jobs: those
// of Work, but of a rigid job whose start has no cost at most runWork (see Pricer.starts).
func (m *Model) responding() int {
	less := 0
	for _, j := range m.runJobs() {
		less += max(0, int(m.jobs[j].last-m.jobs[j].arrival)-runWork)
	}
	return m.Work() - less
}

const runWork = 8
