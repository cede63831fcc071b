package promise_test

import (
	"testing"
	"time"

	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/workload"
)

// step4 is the work that the worlds in awaited wait for.
const step4 = "design 0017, step 4: one model of what queues do, in decisions and in the simulator"

// awaited are the worlds in which Lull is known to miss a deadline that running as submitted keeps, with what is to be built
// until it does not: kinds of worlds of TestLive, and cases of TestLiveFound. A case that is kept must leave the table.
var awaited = map[string]string{
	"falling capacity": step4,
	"load of others":   step4,
	"all but parts":    step4,
}

// liveFound are small worlds like those of live clusters in which a deadline was once missed.
var liveFound = []struct {
	name string
	in   func() *instance
}{
	// Seed 16000011 of TestLive. The cluster would start the job at once, and let it run on.
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

// TestLiveFound: deadlines that running as submitted keeps are kept.
func TestLiveFound(t *testing.T) {
	for _, x := range liveFound {
		t.Run(x.name, func(t *testing.T) {
			broken := ""
			for _, m := range byName(t, "asap", "cheapest", "joint") {
				if breaks(t, x.in(), m) {
					broken += " " + m.name
				}
			}
			switch why, known := awaited[x.name]; {
			case known && broken != "":
				t.Skip("missed by", broken, "until", why)
			case known:
				t.Errorf("no deadline is missed; take it out of the table of what is awaited")
			case broken != "":
				t.Errorf("a deadline is missed by%s", broken)
			}
		})
	}
}
