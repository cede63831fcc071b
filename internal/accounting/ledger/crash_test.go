package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"lull.dev/lull/pkg/decide"
)

// days is what happens to a Job, hour by hour: it waits, runs in two pods one after the other, and ends.
var days = []func(*scene){
	func(*scene) {},
	func(s *scene) { s.pods = []*corev1.Pod{runningPod("p1", 1)} },
	func(*scene) {},
	func(s *scene) { s.pods = []*corev1.Pod{endedPod("p1", 1, 3)} },
	func(s *scene) { s.pods = append(s.pods, runningPod("p2", 4)) },
	func(s *scene) { s.pods[1] = endedPod("p2", 4, 5) },
	func(s *scene) { s.finish(6) },
	func(*scene) {},
}

// observed are the entries that objects restore, by key, with what they say. Of a submission that was not
// written before the end of the Job the expected run time, which was planned with, is not restored.
func (s *scene) observed() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for e, err := range s.l.Read(s.t.Context(), Query{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		switch e.Kind {
		case KindSubmitted:
			out[e.Key] = "submitted"
		case KindStarted, KindEnded, KindFinished, KindIntensity:
			out[e.Key] = string(e.Body)
		}
	}
	if _, err := Verify(s.l.Read(s.t.Context(), Query{})); err != nil {
		s.t.Error(err)
	}
	return out
}

// TestKilledControllerLosesNothing: a controller that is killed between a look and the write of what it has found loses
// nothing that objects tell, wherever that is and however much was not written.
func TestKilledControllerLosesNothing(t *testing.T) {
	run := func(written func(hour int) bool, killed func(hour int) bool) map[string]string {
		s := newScene(t)
		s.write()
		for hour, happens := range days {
			happens(s)
			s.record(float64(hour))
			if written(hour) {
				s.write()
			}
			if killed(hour) {
				s.r = NewRecorder(s.l)
				s.write() // what the next one reads
			}
		}
		s.look(float64(len(days)))
		s.look(float64(len(days)) + 0.1) // the intensities, once those that are there are known
		return s.observed()
	}
	always, never := func(int) bool { return true }, func(int) bool { return false }
	want := run(always, never)
	if len(want) != 1+2+2+1+1 {
		t.Fatalf("without a kill: %v", want)
	}
	for kill := range days {
		at := func(hour int) bool { return hour == kill }
		for since := range kill + 1 { // not written from that hour on
			if got := run(func(hour int) bool { return hour < since || hour > kill }, at); !maps.Equal(got, want) {
				t.Errorf("killed in hour %d with the looks since hour %d unwritten: %v, want %v", kill, since, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
		}
	}
	if got := run(never, always); !maps.Equal(got, want) {
		t.Errorf("killed after each look: %v", got)
	}
}

// TestFlushWritesWhatIsQueued: what is queued, and energy of an hour that has begun, is written at the end.
func TestFlushWritesWhatIsQueued(t *testing.T) {
	s := newScene(t)
	s.pods, s.drawn = []*corev1.Pod{runningPod("p1", 1)}, 80
	s.look(1)
	s.record(1.25)
	s.record(1.5)
	if err := s.r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.story(KindEnergy); len(got) != 1 || s.r.Health().Queued > 0 {
		t.Errorf("%s; %d wait", got, s.r.Health().Queued)
	}
	s.look(1.75)
	s.look(2.5)
	sum := 0.0
	for e, err := range s.l.Read(t.Context(), Query{Kind: KindEnergy}) {
		b, e := bodyOf[Energy](&e)
		if err := errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		sum += b.KWh
	}
	if !near(sum, 0.08*1.5) {
		t.Errorf("%v kWh, want 0.12", sum)
	}
}

// TestFullRecorderDropsNothing: above its bound the recorder holds back, and says so; it drops nothing that is queued, and
// observes again once that is written.
func TestFullRecorderDropsNothing(t *testing.T) {
	s := newScene(t)
	s.look(0)
	before := len(s.story(KindDecided))
	for i := range 3 {
		s.r.add(KindDecided, fmt.Sprint("decided/", i), "job", i)
	}
	s.r.bytes += mostQueued
	s.pods = []*corev1.Pod{runningPod("p1", 1)}
	s.record(1)
	s.record(2)
	if h := s.r.Health(); h.Queued != 3 || h.LostLooks != 2 {
		t.Errorf("%+v", h)
	}
	s.r.bytes -= mostQueued
	s.write()
	s.look(3)
	if h := s.r.Health(); h.Queued != 0 || h.LostLooks != 2 || s.r.bytes != 0 || len(s.story(KindDecided)) != before+3 || len(s.story(KindStarted)) != 1 {
		t.Errorf("%+v; %d bytes; started %v", h, s.r.bytes, s.story(KindStarted))
	}
	for i := range mostGone + 5 {
		s.r.PodGone(endedPod(fmt.Sprint("stranger-", i), 1, 2), at(2))
	}
	if h := s.r.Health(); h.LostPods != 5 {
		t.Errorf("%d pods were lost, want 5", h.LostPods)
	}
}

// TestEntryThatCannotBeEncodedBlocksNoOther: what cannot be encoded keeps nothing else from being recorded.
func TestEntryThatCannotBeEncodedBlocksNoOther(t *testing.T) {
	s := newScene(t)
	s.pods, s.drawn = []*corev1.Pod{runningPod("p1", 1)}, math.Inf(1)
	s.verb = decide.Continue
	for _, hour := range []float64{1, 1.5, 2.5, 3.5} {
		s.look(hour)
	}
	s.pods = []*corev1.Pod{endedPod("p1", 1, 4)}
	s.finish(4)
	s.look(4)
	if got := quarantined(t, s.l); len(got) == 0 || got[0].Kind != KindEnergy {
		t.Errorf("in quarantine: %+v", got)
	}
	if len(s.story(KindStarted)) != 1 || len(s.story(KindEnded)) != 1 || len(s.story(KindFinished)) != 1 {
		t.Errorf("%v %v %v", s.story(KindStarted), s.story(KindEnded), s.story(KindFinished))
	}
}
