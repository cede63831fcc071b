package cli

import (
	"strings"
	"testing"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/plan/joint"
)

// TestReserveOfPolicies: a policy that names no planner gets joint with a learned reserve; one that states
// a reserve keeps that one. The command line keeps none where none is asked for.
func TestReserveOfPolicies(t *testing.T) {
	for _, x := range []struct {
		name, reserve string // "" is not given
		policy        bool
		share         float64
		learned       bool
	}{
		{"", "", true, 0, true},
		{"joint", "", true, 0, true},
		{"joint", "learned", true, 0, true},
		{"joint", "0.2", true, 0.2, false},
		{"joint", "0", true, 0, false},
		{"joint", "", false, 0, false},
		{"joint", "learned", false, 0, true},
		{"joint", "0.2", false, 0.2, false},
		{"cheapest", "", true, 0, false},
		{"cheapest", "learned", true, 0, true},
		{"cheapest", "0.3", false, 0.3, false},
		{"asap", "", true, 0, false},
	} {
		values := map[string]string{}
		if x.reserve != "" {
			values["reserve"] = x.reserve
		}
		before := len(values)
		var planner plan.Planner
		var err error
		if x.policy {
			planner, err = NewPlanner(x.name, values, nil)
		} else {
			planner, err = newPlanner(x.name, values, nil, true)
		}
		if err != nil {
			t.Errorf("%+v: %v", x, err)
			continue
		}
		for _, p := range []plan.Planner{planner, plan.ForSequence(planner)} {
			if share, learned := plan.KeptReserve(p); share != x.share || learned != x.learned {
				t.Errorf("%+v: reserve %v, learned %v", x, share, learned)
			}
		}
		if len(values) != before {
			t.Errorf("%+v: the parameters of the policy are changed: %v", x, values)
		}
	}
	for _, text := range []string{"much", "-0.1", "1", "NaN", ""} {
		for _, name := range []string{"joint", "cheapest"} {
			if _, err := NewPlanner(name, map[string]string{"reserve": text}, nil); err == nil || !strings.Contains(err.Error(), "reserve") || !strings.Contains(err.Error(), "accepted") {
				t.Errorf("planner %s, reserve %q: error %v; want one that names it and what is accepted", name, text, err)
			}
		}
	}
}

// TestNothingToLearnFrom: one instance has no past, so only a number is accepted, and offered.
func TestNothingToLearnFrom(t *testing.T) {
	for _, value := range []string{"learned", "much"} {
		for _, planner := range []string{"joint", "cheapest"} {
			out := failure(t, "plan", "-f", "i.json", "--planner", planner, "--param", "reserve="+value)
			if !strings.Contains(out, `--param reserve of planner `+planner+`: "`+value+`"; accepted: a number of 0 to below 1 (`) || strings.Contains(out, "or learned") {
				t.Errorf("%s, %s: %q", planner, value, out)
			}
		}
	}
	if out := failure(t, "plan", "-f", "i.json", "--planner", "asap", "--param", "reserve=much"); !strings.Contains(out, "unknown planner parameter") {
		t.Errorf("a planner without a reserve: %q", out)
	}
}

// TestJointIsToldTheTime: the core reads no clock, so that the command line gives planner joint one, by which it uses up --time-limit.
func TestJointIsToldTheTime(t *testing.T) {
	p, err := newPlannerOfInstance("joint", nil)
	if j, is := p.(joint.Planner); err != nil || !is || j.Now == nil {
		t.Errorf("%T, %v: without a clock", p, err)
	}
}
