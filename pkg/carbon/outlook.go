package carbon

// Outlook is what is known of a zone: past and expected intensities in one
// series, each sample with its own provenance, and how far they may be off. Low
// and High are the 10 % and 90 % quantiles over the same intervals; where the
// value is measured all three are equal.
type Outlook struct {
	Expected, Low, High *Series
	// Late are values from before Expected begins that were published or revised lately: what was counted
	// by others must be counted again.
	Late []Sample
}
