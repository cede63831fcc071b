package hub

import (
	"reflect"
	"testing"
	"time"

	"lull.dev/lull/internal/fleet/spoke"
)

var t0 = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestUsualLoad(t *testing.T) {
	var u Usual
	u = u.learn(5, map[string]float64{"cpu": 10})
	next := u.learn(5, map[string]float64{"cpu": 20, "gpu": 1})
	if want := map[string]float64{"cpu": 13, "gpu": 1}; !reflect.DeepEqual(next[5], want) {
		t.Errorf("usual %v, want %v", next[5], want)
	}
	if u[5]["cpu"] != 10 {
		t.Error("what was usual before has changed")
	}
	if gone := next.learn(5, nil); gone[5]["cpu"] != 13*0.7 {
		t.Errorf("without load %v, want it to fade", gone[5])
	}
	c := Cluster{Look: spoke.Look{Capacity: map[string]float64{"cpu": 12}, Load: map[string]float64{"cpu": 4}}, Usual: next}
	got := c.Load(t0.Add(4*time.Hour), 30*time.Minute, 6)["cpu"]
	// Now for an hour, then what is usual at 5 o'clock, up to the capacity; then as now, as 6
	// o'clock is not known.
	if want := []float64{4, 4, 12, 12, 4, 4}; !reflect.DeepEqual(got, want) {
		t.Errorf("load %v, want %v", got, want)
	}
	if (&Cluster{}).Load(t0, time.Hour, 3) != nil {
		t.Error("a load where there is none")
	}
}

func TestHour(t *testing.T) {
	var h hourOf
	for i, cpu := range []float64{1, 2, 6} {
		if _, _, ended := h.add(t0.Add(time.Duration(i)*10*time.Minute), map[string]float64{"cpu": cpu}); ended {
			t.Error("the hour has ended too early")
		}
	}
	hour, mean, ended := h.add(t0.Add(time.Hour), map[string]float64{"cpu": 100})
	if !ended || hour != 0 || mean["cpu"] != 3 {
		t.Errorf("hour %d, mean %v, ended %v; want 0, 3 CPUs, true", hour, mean, ended)
	}
	if _, mean, _ := h.add(t0.Add(2*time.Hour), nil); mean["cpu"] != 100 {
		t.Errorf("mean of the next hour %v, want 100", mean)
	}
}

func TestNames(t *testing.T) {
	c := NewClusters()
	c.set(Cluster{Name: "frankfurt", Zone: "de", MultiKueue: "mk-2"})
	if c.Of("mk-2") != "frankfurt" || c.Of("other") != "other" {
		t.Error("names of clusters are mixed up")
	}
}
