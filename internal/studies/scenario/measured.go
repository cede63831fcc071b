package scenario

import (
	"fmt"
	"maps"
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
	where := ""
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if !c.AnyZone || c.Zone != "" {
			c.AnyZone = false
			continue
		}
		stated := len(c.Carbon) > 0 || c.Forecast.Kind == "recorded" // nobody says where these intensities are from
		if c.Zone = ZoneOf(tr); stated {
			c.Zone, where = defaultZone, "with the carbon intensity of the files"
		}
		if c.Name == "" {
			c.Name = c.Zone
		}
		if !stated {
			s.reading.Notes = append(slices.Clone(s.reading.Notes), ZoneNote(tr.Zone(), c.Zone))
		}
	}
	if note := s.elsewhere(tr, where); note != "" {
		s.reading.Notes = append(slices.Clone(s.reading.Notes), note)
	}
	if slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return c.Nodes != nil }) {
		for i := range tr.Jobs {
			tr.Jobs[i].Watts = 0
		}
	}
}

// elsewhere says how many jobs ran in zones in which no cluster of the scenario is, "" for none. The simulator does not know
// where a job ran: it runs all jobs, also those of the baseline, in its clusters. how says how if nobody states their zone: then
// jobs of one zone are taken to be at home.
func (s *Scenario) elsewhere(tr *trace.Trace, how string) string {
	var here []string
	for i := range s.Clusters {
		here = append(here, s.Clusters[i].Zone)
	}
	if how != "" {
		here = nil
	}
	others, jobs, energy, all := map[string]bool{}, 0, 0.0, 0.0
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		used := j.Watts * j.Length.Hours()
		all += used
		if country, _, _ := strings.Cut(j.Zone, "-"); j.Zone != "" && !slices.Contains(here, j.Zone) && !slices.Contains(here, country) {
			others[j.Zone], jobs, energy = true, jobs+1, energy+used
		}
	}
	if jobs == 0 || how != "" && len(others) == 1 {
		return ""
	}
	share, ran := "", "other zones"
	if all > 0 {
		share = fmt.Sprintf(" (%.0f %% of the energy)", 100*energy/all)
	}
	if len(others) <= 5 {
		ran = strings.Join(slices.Sorted(maps.Keys(others)), ", ")
	}
	if how == "" {
		how = "in " + strings.Join(here, ", ")
	}
	return fmt.Sprintf("%d of %d jobs%s ran in %s: Lull simulates them %s, also in the baseline. To know what waiting saves where they ran, put the jobs of each zone in a file of their own",
		jobs, len(tr.Jobs), share, ran, how)
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
