package relax

import (
	"context"
	"fmt"
	"math"

	"lull.dev/lull/pkg/plan"
)

// exactRows and exactSize are the rows, and rows x jobs, up to which the simplex method
// solves a relaxation within a second.
const (
	exactRows = 400
	exactSize = 100_000
)

// Small reports whether the relaxation is small enough for the simplex method (Solve); of a
// larger one the ascent gives a proven bound, and prices.
func (m *Model) Small() bool {
	return len(m.Cap) <= exactRows && len(m.Cap)*len(m.P.Jobs) <= exactSize
}

// thetaTolerance is how near to its optimum a normaliser is computed, relative.
const thetaTolerance = 1e-6

// thetaEvaluations is what the ascent may spend on a normaliser.
const thetaEvaluations = 400

// TermsOf are the weights of p's objective: emissions, or omega_k / theta_k of
// Caspian's Z. Objective.Theta must be set for the latter (see Normalised).
func TermsOf(p *plan.Problem) Terms {
	if p.Objective.Kind == plan.Carbon {
		return Terms{Carbon: 1}
	}
	var t Terms
	for k, w := range p.Objective.Weights {
		t.Z[k] = w / p.Objective.Theta[k]
	}
	return t
}

// Normalised returns p with Objective.Theta set: theta_k is the optimum of the
// linear relaxation of Z_k alone (Caspian, Section IV-B), 1 where that is 0. A
// problem that needs none is returned as it is.
//
// Above 400 rows (clusters x resources x slots), or 100,000 rows x jobs, theta_k is a proven upper bound on
// that optimum, typically within half a percent of it.
//
// Errors: that of ctx.
func Normalised(ctx context.Context, p *plan.Problem) (*plan.Problem, error) {
	if p.Objective.Kind != plan.MOSP || p.Objective.Theta != nil {
		return p, nil
	}
	var theta [3]float64
	for k := range theta {
		var t Terms
		t.Z[k] = 1
		m := New(p, t)
		a := NewAscent(m, nil)
		a.Climb(ctx, thetaEvaluations, nil)
		v := -a.Bound
		if m.Small() {
			x, err := Solve(ctx, m, a.Lambda, thetaTolerance)
			if err != nil {
				return nil, err
			}
			v = math.Min(v, -x.Bound)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("normalising the objectives: %w", err)
		}
		if v <= 0 {
			v = 1
		}
		theta[k] = v
	}
	out := *p
	out.Objective.Theta = &theta
	return &out, nil
}
