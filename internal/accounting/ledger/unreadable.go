package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
)

// unreadable says that an entry of the table cannot be decoded. It wraps ErrBroken.
type unreadable struct {
	seq   int64
	cause error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("%v: entry %d: %v", ErrBroken, u.seq, u.cause)
}

func (u *unreadable) Unwrap() []error { return []error{ErrBroken, u.cause} }

// IsUnreadable says that an error is about one entry: the next ones may be read.
func IsUnreadable(err error) bool {
	var u *unreadable
	return errors.As(err, &u)
}

// Decodes returns nil if the body of an entry can be decoded as what its kind says. Other errors are IsUnreadable.
func (e *Entry) Decodes() error {
	var err error
	switch e.Kind {
	case KindSubmitted:
		_, err = bodyOf[Submitted](e)
	case KindDecided:
		_, err = bodyOf[Decided](e)
	case KindStarted:
		_, err = bodyOf[Started](e)
	case KindEnded:
		_, err = bodyOf[Ended](e)
	case KindFinished:
		_, err = bodyOf[Finished](e)
	case KindSettled:
		_, err = bodyOf[Settled](e)
	default:
		_, err = bodyOf[json.RawMessage](e)
	}
	return err
}

// setAside puts an entry into quarantine that cannot be decoded. What rests on it is settled without figures, or stays settled as it is; what was
// submitted by it is not settled. Without an intensity, the hour counts as not published; without a capacity, the one before stands.
func (s *Settler) setAside(e *Entry, why error) {
	n := quarantine(e.Kind, e.Key, e.Workload, string(e.Body), fmt.Errorf("it cannot be decoded: %w", why))
	s.aside = append(s.aside, n)
	reason := n.Body.(Quarantined).Reason //nolint:forcetypeassert // of quarantine
	w := s.works[e.Workload]
	switch {
	case e.Workload == "" || e.Kind == KindSettled:
	case w != nil:
		w.spoil(e, reason)
	case e.Kind == KindSubmitted:
		s.unsubmitted[e.Workload] = true
		delete(s.early, e.Workload)
	default:
		s.spoiled[e.Workload] = append(s.spoiled[e.Workload], spoiled{*e, reason}) // its submission is still to come: after a drop it may stand last
	}
}

// spoiled is an entry that cannot be decoded, and why.
type spoiled struct {
	entry  Entry
	reason string
}

// spoil notes that an entry of the workload cannot be decoded.
func (w *work) spoil(e *Entry, reason string) {
	w.quarantined = reason
	if e.Kind == KindFinished && w.finished == nil {
		w.finished = &Finished{At: e.At} // it is over, whenever it was
	}
}

// inQuarantine says why a workload has no figures.
func inQuarantine(why string) string { return "an entry of it is in quarantine: " + why }
