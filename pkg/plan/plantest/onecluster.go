package plantest

import (
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/timegrid"
	"lull.dev/lull/pkg/workload"
)

// OneCluster is a problem of jobs on one cluster with so much of each slot's
// resource "server", hourly slots and 1 kW a server: emissions of a server in a
// slot are then its intensity.
func OneCluster(servers float64, intensity []float64, jobs ...workload.Job) *plan.Problem {
	room := make([]float64, len(intensity))
	for t := range room {
		room[t] = servers
	}
	return &plan.Problem{
		Grid:      timegrid.Grid{Start: time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), Slot: time.Hour, N: len(intensity)},
		Objective: plan.Objective{Kind: plan.Carbon},
		Clusters:  []plan.Cluster{{Name: "c", PUE: 1, Watts: map[string]float64{"server": 1000}, Capacity: map[string][]float64{"server": room}, Intensity: intensity}},
		Jobs:      jobs,
	}
}

// Job is a job of the kind that arrives at slot arrival and asks for one server a
// worker; its curve is 1 for the first worker and what each further one adds.
func Job(id string, kind workload.Kind, arrival, deadline int, length float64, further ...float64) workload.Job {
	return workload.Job{
		ID: id, Kind: kind, Arrival: arrival, Deadline: deadline, Length: length, Request: map[string]float64{"server": 1},
		MinWorkers: 1, MaxWorkers: 1 + len(further), Curve: append([]float64{1}, further...),
	}
}
