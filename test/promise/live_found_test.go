package promise_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// liveFound are small worlds like those of live clusters in which a deadline was once missed.
var liveFound = []struct {
	name string
	in   func() *instance
}{
	// Seed 16000011 of TestLiveWorldsKeepDeadlines. The cluster would start the job at once, and let it run on.
	{"no slack, and the capacity falls", func() *instance {
		in := single(1, flat(300), 15*time.Minute, 0,
			sim.Job{ID: "j", Kind: workload.Rigid, Request: cpu(1), Submitted: at("8h"), Length: 4 * time.Hour, Deadline: at("12h")})
		c := &in.cfg.Clusters[0]
		c.Announced, c.Changes = true, []sim.Change{{At: at("9h"), Capacity: cpu(0)}, {At: at("10h"), Capacity: cpu(1)}}
		return in
	}},
	// The cluster would start the job at once, and the others would wait.
	{"no slack, and others come", func() *instance {
		in := single(1, flat(300), 15*time.Minute, 0,
			sim.Job{ID: "j", Kind: workload.Rigid, Request: cpu(1), Submitted: at("8h"), Length: 4 * time.Hour, Deadline: at("12h")})
		in.cfg.Clusters[0].Load = []sim.Load{{From: at("9h"), To: at("10h"), Amount: cpu(1), Announced: true}}
		return in
	}},
}

// TestFoundLiveWorldsKeepDeadlines: deadlines that running as submitted keeps are kept.
func TestFoundLiveWorldsKeepDeadlines(t *testing.T) {
	for _, x := range liveFound {
		t.Run(x.name, func(t *testing.T) {
			broken := ""
			for _, m := range byName(t, "asap", "cheapest", "joint") {
				if breaks(t, x.in(), m) {
					broken += " " + m.name
				}
			}
			if broken != "" {
				t.Errorf("a deadline is missed by%s", broken)
			}
		})
	}
}

// TestFoundLiveWorldsKeepInvariants: worlds of TestLiveWorldsKeepDeadlines in which decisions broke an invariant when each planner had 20,000 jobs.
func TestFoundLiveWorldsKeepInvariants(t *testing.T) {
	for _, x := range []struct {
		name    string
		seed    uint64
		planner string
	}{
		// A plan in room that the queue of a cluster took, and that lasted after the capacity had fallen: not of its own making.
		{"the queue took the room", 16_000_034, "follow"},
		// Work that is held out began unforeseen, and no new plan was better. Standing plans were followed where there was no room any more.
		{"runs on where there is too little", 16_000_046, "asap"},
		{"is to start where there is too little", 16_000_046, "window"},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := byName(t, x.planner)[0]
			in := generate(t, x.seed, false, m, recorded(t))
			in.like(t, live{heldOut: true, load: true, falls: true, bars: true, triggers: true})
			base, err := sim.AsSubmitted(t.Context(), in.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := trial(t, in, m, &base, nil); err != nil {
				t.Error(err)
			}
		})
	}
}
