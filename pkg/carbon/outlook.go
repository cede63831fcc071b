package carbon

// Outlook is what is known of a zone: past and expected intensities in one
// series, each sample with its own provenance, and how far they may be off. Low
// and High are the 10 % and 90 % quantiles over the same intervals; where the
// value is measured all three are equal.
type Outlook struct {
	Expected, Low, High *Series
	// Paths are courses that the hours to come may take, as far as they rest on one forecast; nil if too few of its errors are known.
	Paths *Paths
	// Earlier are the published values of the time before Expected begins, as they are now, in order of time: one that came
	// or was revised late concerns what was counted without it. They are not to be modified.
	Earlier []Sample
}
