package zones

import "testing"

func TestHint(t *testing.T) {
	for text, want := range map[string]string{
		"de": "; did you mean DE?", " De": "; did you mean DE?", "ca_on": "; did you mean CA-ON?", "us-cal-ciso": "; did you mean US-CAL-CISO?",
		"eu-central-1": "; did you mean DE, in which aws/eu-central-1 lies?", "AWS/eu-central-1": "; did you mean DE, in which that region lies?",
		"deu": "; did you mean DE?", "FRA": "; did you mean FR?",
		"DE": "", "US-CAL-CISO": "", "SE-SE3": "", "": "", "XX": "", "Atlantis": "", "CAISO_NORTH": "",
	} {
		if got := Hint(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
