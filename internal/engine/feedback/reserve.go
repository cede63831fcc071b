package feedback

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/reserve"
)

// LearnReserve has the decision under way learn its reserve, if learned is set, from what came since the
// last one. A controller that has just started goes on from stated, the status that an earlier one wrote.
// If that cannot be read, learning begins anew, and LearnReserve returns why.
func (m *Memory) LearnReserve(learned bool, stated *v1alpha1.ReserveStatus) (err error) {
	m.round.Reserve = nil
	if !learned {
		return nil
	}
	if m.learner == nil {
		var state reserve.State
		if stated != nil && stated.ObservedUntil != nil {
			state.Until = stated.ObservedUntil.UTC()
			for _, v := range stated.HourlyPeaks {
				state.Peaks = append(state.Peaks, int(v))
			}
		}
		if m.learner, err = reserve.Restore(reserve.Default(), state); err != nil {
			var fresh error
			m.learner, fresh = reserve.New(reserve.Default())
			err = errors.Join(err, fresh)
		}
	}
	m.round.Reserve = m.learner
	return err
}

// Reserve is the reserve in force, to be stated: kept is that of the planner, learned says that it is
// learned. before is what is stated already. nil if nothing is kept free.
func (m *Memory) Reserve(kept float64, learned bool, before *v1alpha1.ReserveStatus) *v1alpha1.ReserveStatus {
	switch {
	case learned && m.learner == nil:
		return before // nothing has been decided yet
	case !learned && kept > 0:
		return &v1alpha1.ReserveStatus{Share: kept}
	case !learned:
		return nil
	}
	state := m.learner.State()
	if state.Until.IsZero() {
		return before
	}
	out := &v1alpha1.ReserveStatus{Share: m.learner.Share(), HourlyPeaks: make([]int32, len(state.Peaks))}
	for i, v := range state.Peaks {
		out.HourlyPeaks[i] = int32(v)
	}
	// The time alone does not call for a write: it is as of the last change of a peak.
	if before != nil && before.ObservedUntil != nil && before.Share == out.Share && slices.Equal(before.HourlyPeaks, out.HourlyPeaks) && sameHour(before.ObservedUntil, &state) {
		return before
	}
	until := metav1.NewTime(state.Until.UTC().Truncate(1e9))
	out.ObservedUntil = &until
	return out
}

// sameHour reports whether the peaks that are stated end with the hour that a state ends with.
func sameHour(stated *metav1.Time, s *reserve.State) bool {
	return stated.UTC().Truncate(3600 * 1e9).Equal(s.Until.UTC().Truncate(3600 * 1e9))
}
