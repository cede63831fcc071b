package scenario

import (
	"fmt"
	"slices"
	"strings"

	"lull.dev/lull/pkg/climatology"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
)

// defaultZone is the grid zone of a cluster if neither the user nor the trace states one.
const defaultZone = "DE"

// place applies what a trace measured to the scenario: the zone of clusters that have none, and the power of its jobs,
// except where machines (Cluster.Nodes) have the power.
func (s *Scenario) place(tr *trace.Trace) {
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if !c.AnyZone || c.Zone != "" {
			c.AnyZone = false
			continue
		}
		stated := len(c.Carbon) > 0 || c.Forecast.Kind == "recorded" // nobody says where these intensities are from
		if c.Zone = ZoneOf(tr); stated {
			c.Zone = defaultZone
		}
		if c.Name == "" {
			c.Name = c.Zone
		}
		if !stated {
			s.reading.Notes = append(slices.Clone(s.reading.Notes), ZoneNote(tr.Zone(), c.Zone))
		}
	}
	if slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return c.Nodes != nil }) {
		for i := range tr.Jobs {
			tr.Jobs[i].Watts = 0
		}
	}
}

// ZoneOf returns the grid zone in which the jobs of a trace used most energy, else DE. If only the country of the zone
// has a climatology, as SE of SE-SE3, ZoneOf returns the country.
func ZoneOf(tr *trace.Trace) string {
	zone := tr.Zone()
	country, _, _ := strings.Cut(zone, "-")
	switch known := climatology.Zones(); {
	case zone == "":
		return defaultZone
	case !slices.Contains(known, zone) && slices.Contains(known, country):
		return country
	}
	return zone
}

// ZoneNote says why a zone is taken if the user states none, and the jobs of the trace used most energy in another or
// the same one, or the trace tells none ("").
func ZoneNote(ran, taken string) string {
	if ran == "" {
		return fmt.Sprintf("neither a flag nor the jobs state a zone: all are taken to run in %s", taken)
	}
	if ran == taken {
		return fmt.Sprintf("no zone is stated, and all jobs are taken to run in %s, where most of their energy was used", taken)
	}
	return fmt.Sprintf("no zone is stated, and all jobs are taken to run in %s, as most of their energy was used in %s, which has no climatology", taken, ran)
}

// withWatts returns a scale whose power is the measured one of the least scale, in W, and in proportion to the workers;
// the scale itself if it has a power of its own, or none was measured.
func withWatts(s *sim.Scale, watts float64) *sim.Scale {
	if s.Watts != nil || watts == 0 {
		return s
	}
	out := *s
	for n := s.MinWorkers; n <= s.MaxWorkers; n++ {
		out.Watts = append(out.Watts, watts*float64(n)/float64(s.MinWorkers))
	}
	return &out
}
