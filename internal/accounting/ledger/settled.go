package ledger

import "fmt"

// Settled returns the body of an entry of that kind as it is to be read. Methods before 3
// left time without an intensity out of emissions, each side its own hours, and stated the
// difference as saved: Settled withholds these figures, and those that no workload has. The entry itself, and with it the
// chain, stays as it was written.
//
// Errors wrap ErrBroken and name the entry.
func (e *Entry) Settled() (Settled, error) {
	b, err := bodyOf[Settled](e)
	if err != nil {
		return b, err
	}
	why := func(seconds float64) string {
		return fmt.Sprintf("method %s left out %.4g h without a known carbon intensity: the workload and its baseline do not count the same hours", b.Method, seconds/3600)
	}
	if b.MissingSeconds > 0 && b.Withheld == "" {
		b.Withheld = why(b.MissingSeconds)
		b.Grams, b.Counterfactual.Grams, b.SavedGrams = 0, 0, 0
	}
	if o := b.Beside; o != nil && o.MissingSeconds > 0 && o.Withheld == "" {
		o.Withheld = why(o.MissingSeconds)
		o.Grams, o.AsSubmittedGrams, o.SavedGrams = 0, 0, 0
	}
	if why := b.impossible(); why != "" { // written before there were limits
		b.refuse(why)
	}
	return b, nil
}

// incomplete says that some of the time behind the figures has no known intensity.
func (b *Settled) incomplete() bool {
	return b.FilledSeconds+b.Counterfactual.FilledSeconds > 0 || b.leavesOut() || b.Beside != nil && b.Beside.FilledSeconds > 0
}

// leavesOut says that some of that time is not even filled.
func (b *Settled) leavesOut() bool {
	return b.MissingSeconds > 0 || b.Beside != nil && b.Beside.MissingSeconds > 0
}
