package cli

import (
	"strings"
	"testing"
)

// TestUnknownDemoIsNamedAsTyped: a demo that does not exist is named as it was typed.
func TestUnknownDemoIsNamedAsTyped(t *testing.T) {
	if text := failure(t, "demo", "elastic", "follow"); !strings.Contains(text, `"elastic follow"; accepted: nothing, or one of elastic, `) {
		t.Error(text)
	}
}

// TestDemoRefusesAZoneWithoutClimatology: a zone without a climatology is refused before anything starts, with a hint where one is meant. The zone of a
// trace is a name.
func TestDemoRefusesAZoneWithoutClimatology(t *testing.T) {
	for zone, want := range map[string]string{
		"de":                  "did you mean DE?",
		"eu-central-1":        "did you mean DE, in which aws/eu-central-1 lies?",
		"DEU":                 "did you mean DE?",
		"XX":                  `--zone: "XX"; accepted without --trace: AU-SA, CA-ON, DE,`,
		"":                    `--zone: ""; accepted without --trace: `,
		"aws/eu-central-9":    "accepted: those of lull forecast regions",
		"aws/ap-northeast-1":  `--zone: "aws/ap-northeast-1"; accepted without --trace: `,
		"aws/ap-northeast-1 ": "accepted: those of lull forecast regions",
	} {
		for _, which := range []string{"", "elastic"} {
			o := demoFlags{}
			o.Zone, o.Jobs, o.Factor, o.Planner, o.omegas, o.scenarios = zone, 1, 1, "window", []float64{1}, []int{1}
			if err := o.complete(which, func(flag string) bool { return flag == "zone" }); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--zone: ") {
				t.Errorf("demo %s --zone %q: %v, want one that says %s", which, zone, err, want)
			}
		}
	}
	for zone, want := range map[string]string{"FR": "FR", "aws/eu-central-1": "DE"} {
		o := demoFlags{}
		o.Zone, o.Jobs, o.Factor, o.Planner, o.omegas, o.scenarios = zone, 1, 1, "window", []float64{1}, []int{1}
		if err := o.complete("", func(flag string) bool { return flag == "zone" }); err != nil || o.Zone != want {
			t.Errorf("--zone %s: %q, %v; want %s", zone, o.Zone, err, want)
		}
	}
	o := demoFlags{}
	o.Trace, o.Zone, o.Jobs, o.Factor, o.Planner, o.omegas, o.scenarios = "x.csv", "mine", 1, 1, "window", []float64{1}, []int{1}
	if err := o.complete("", func(flag string) bool { return flag == "zone" }); err != nil || o.Zone != "mine" {
		t.Errorf("the zone of a trace: %q, %v", o.Zone, err)
	}
}
