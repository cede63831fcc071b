package ledger

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

// TestModeAtReleaseCounts: work counts as Shadow by the mode of its policy when Lull released it for its first run. The mode when Lull saw
// it first, or that of a later time, says nothing.
func TestModeAtReleaseCounts(t *testing.T) {
	const shadow, enforce = v1alpha1.ModeShadow, v1alpha1.ModeEnforce
	type look struct {
		hour    float64
		mode    v1alpha1.Mode
		verb    decide.Verb
		applied bool
	}
	for name, tc := range map[string]struct {
		submitted bool // in Shadow mode
		looks     []look
		want      bool
	}{
		"always Shadow":                       {true, []look{{0, shadow, decide.Wait, true}}, true},
		"always Enforce":                      {false, []look{{0, enforce, decide.Wait, true}, {3, enforce, decide.Release, true}}, false},
		"Enforce before its release":          {true, []look{{0, shadow, decide.Wait, true}, {1, enforce, decide.Wait, true}, {3, enforce, decide.Release, true}}, false},
		"Enforce after its release":           {true, []look{{0, shadow, decide.Wait, true}, {5, enforce, decide.Continue, false}}, true},
		"Shadow before its release":           {false, []look{{0, enforce, decide.Wait, true}, {3, shadow, decide.Release, true}}, true},
		"Shadow after its release":            {false, []look{{0, enforce, decide.Wait, true}, {3, enforce, decide.Release, true}, {5, shadow, decide.Continue, false}}, false},
		"Shadow between release and start":    {false, []look{{0, enforce, decide.Wait, true}, {3, enforce, decide.Release, true}, {3.5, shadow, decide.Continue, false}}, false},
		"there and back":                      {true, []look{{0, shadow, decide.Wait, true}, {1, enforce, decide.Wait, true}, {2, shadow, decide.Release, true}}, true},
		"released twice":                      {false, []look{{0, enforce, decide.Release, true}, {1, enforce, decide.Wait, true}, {2, shadow, decide.Release, true}}, true},
		"a release that could not be written": {false, []look{{0, enforce, decide.Wait, true}, {2, enforce, decide.Release, false}, {3, shadow, decide.Release, true}}, true},
		"never held, Enforce":                 {false, []look{{0, enforce, decide.Continue, false}}, false},
		"no decision before its start":        {true, []look{{5, enforce, decide.Continue, false}}, true},
		"of an earlier version":               {true, []look{{0, "", decide.Wait, true}}, true},
	} {
		b := book{t, open(t, t.TempDir()+"/ledger.db")}
		b.hours(0, 300, 300, 300, 300, 200, 100, 100, 100)
		b.offer(0, 10)
		b.submit("u", 0, func(of *Submitted) { of.Shadow = tc.submitted })
		for i, x := range tc.looks {
			b.add(KindDecided, "decided/"+string(rune('a'+i)), "u", Decided{At: at(x.hour), Verb: string(x.verb), Applied: x.applied, Mode: x.mode})
		}
		b.ran("u", "p", 4, 5)
		b.finished("u", 5)
		b.settle(NewSettler(b.l), 8, 1)
		got := b.settled()["u"]
		if got.shadow() != tc.want || got.unplanned() != tc.want {
			t.Errorf("%s: shadow %v, mode %q; want %v", name, got.shadow(), got.Mode, tc.want)
		}
		b.audited()
		s, err := Summarize([]Settlement{{"u", got}}, Question{})
		if err != nil || (s.All.Unplanned == 1) != tc.want {
			t.Errorf("%s: %d without a plan of Lull, %v", name, s.All.Unplanned, err)
		}
	}
}

// TestModeOfFirstRunCounts: a run that ends as it starts, as of a pod that crashes at once, is a run too: the mode of its release counts, and
// the auditor finds the same.
func TestModeOfFirstRunCounts(t *testing.T) {
	for name, again := range map[string]bool{"it runs again": true, "it does not": false} {
		b := book{t, open(t, t.TempDir()+"/ledger.db")}
		b.hours(0, 300, 300, 300, 300, 200, 100, 100, 100)
		b.offer(0, 10)
		b.submit("u", 0)
		b.add(KindDecided, "decided/1", "u", Decided{At: at(1), Verb: string(decide.Release), Applied: true, Mode: v1alpha1.ModeEnforce})
		b.ran("u", "crashed", 2, 2)
		b.add(KindDecided, "decided/2", "u", Decided{At: at(3), Verb: string(decide.Resume), Applied: true, Mode: v1alpha1.ModeShadow})
		if again {
			b.ran("u", "p", 4, 5)
		}
		b.finished("u", 5)
		b.settle(NewSettler(b.l), 8, 1)
		if got := b.settled()["u"]; got.Mode != v1alpha1.ModeEnforce {
			t.Errorf("%s: mode %q", name, got.Mode)
		}
		b.audited()
	}
}

// TestModeCountsByTimeNotByOrder: a drop writes the decisions on open work again, after those that came later. The mode is that of the last
// release before the start all the same, or of the last decision if there was no release.
func TestModeCountsByTimeNotByOrder(t *testing.T) {
	const shadow, enforce = v1alpha1.ModeShadow, v1alpha1.ModeEnforce
	look := func(hour float64, verb decide.Verb, mode v1alpha1.Mode) Decided {
		return Decided{At: at(hour), Verb: string(verb), Applied: verb == decide.Release, Mode: mode}
	}
	for name, tc := range map[string]struct {
		later, earlier []Decided
		want           v1alpha1.Mode
	}{
		"released before":   {[]Decided{look(3, decide.Continue, shadow)}, []Decided{look(0, decide.Wait, enforce), look(1, decide.Release, enforce)}, enforce},
		"released later":    {[]Decided{look(3, decide.Release, enforce)}, []Decided{look(0, decide.Wait, shadow), look(1, decide.Release, shadow)}, enforce},
		"never held":        {[]Decided{look(5, decide.Continue, enforce)}, []Decided{look(0, decide.Continue, enforce)}, enforce},
		"never held before": {[]Decided{look(3, decide.Continue, shadow)}, []Decided{look(0, decide.Continue, enforce)}, shadow},
	} {
		b := book{t, open(t, t.TempDir()+"/ledger.db")}
		b.hours(0, 300, 300, 300, 300, 200, 100, 100, 100)
		b.offer(0, 10)
		for i, x := range tc.later {
			b.add(KindDecided, "decided/later/"+string(rune('a'+i)), "u", x)
		}
		b.submit("u", 0)
		for i, x := range tc.earlier {
			b.add(KindDecided, "decided/earlier/"+string(rune('a'+i)), "u", x)
		}
		b.ran("u", "p", 4, 5)
		b.finished("u", 5)
		b.settle(NewSettler(b.l), 8, 1)
		if got := b.settled()["u"]; got.Mode != tc.want {
			t.Errorf("%s: mode %q, want %q", name, got.Mode, tc.want)
		}
		b.audited()
	}
}

// TestModeOfDecisionsIsRecorded: a decision says in which mode it was made, and another mode is another decision.
func TestModeOfDecisionsIsRecorded(t *testing.T) {
	s := newScene(t)
	for hour, mode := range []v1alpha1.Mode{v1alpha1.ModeShadow, v1alpha1.ModeShadow, "", v1alpha1.ModeEnforce, v1alpha1.ModeShadow} {
		s.mode = mode
		s.look(float64(hour + 1))
	}
	var modes []v1alpha1.Mode
	for _, text := range s.story(KindDecided) {
		var b Decided
		if err := json.Unmarshal([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		modes = append(modes, b.Mode)
	}
	if len(modes) != 3 || modes[0] != v1alpha1.ModeShadow || modes[1] != v1alpha1.ModeEnforce || modes[2] != v1alpha1.ModeShadow {
		t.Errorf("modes of the decisions: %v", modes)
	}
}

// TestModeSwitchesWhileWorkWaits: a policy that switches to Enforce while a workload waits has planned it; one that switches to Shadow has not. A
// controller that starts in between says the same.
func TestModeSwitchesWhileWorkWaits(t *testing.T) {
	for before, after := range map[v1alpha1.Mode]v1alpha1.Mode{v1alpha1.ModeShadow: v1alpha1.ModeEnforce, v1alpha1.ModeEnforce: v1alpha1.ModeShadow} {
		for _, restart := range []bool{false, true} {
			s := newScene(t)
			s.mode, s.verb = before, decide.Wait
			s.look(1)
			if restart {
				s.r = NewRecorder(s.l)
			}
			s.mode, s.verb = after, decide.Release
			s.look(2)
			s.pods = []*corev1.Pod{endedPod("p", 3, 4)}
			s.look(5)
			s.finish(4)
			s.look(6)
			b := book{t, s.l}
			b.settle(NewSettler(s.l), 300, 1)
			if got := b.settled()["job"]; got.Mode != after {
				t.Errorf("from %s to %s, restart %v: mode %q", before, after, restart, got.Mode)
			}
		}
	}
}
