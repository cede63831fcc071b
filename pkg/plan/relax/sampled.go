package relax

import "context"

// Unit returns what one unit of a row costs through its slot without a price of capacity:
// the power of the resource included, the power that jobs state themselves apart.
func (m *Model) Unit(row int) float64 { return m.unit[row] }

// RefineSampled spends so many evaluations of L near the best prices as Refine does. If there
// are very many jobs, a sample of them is evaluated instead, and L once: the prices are
// about as good, the bound is less tight.
func (a *Ascent) RefineSampled(ctx context.Context, evaluations int) {
	if len(a.m.jobs) < manyJobs {
		a.Refine(ctx, evaluations)
		return
	}
	a.Start()
	s := NewAscent(a.all.sample(len(a.all.jobs)/(manyJobs/4)), a.Lambda)
	s.Refine(ctx, evaluations)
	a.sampled += s.Looked()
	a.Try(s.Lambda)
}
