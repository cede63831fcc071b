package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/internal/cluster/kube"
)

// Story is a workload with all that is known of it.
type Story struct {
	Plan Plan `json:"plan"`
	// Deleted says that the workload is gone, and that Plan is what the ledger has of it.
	Deleted bool `json:"deleted,omitempty"`
	// Entries are those of the ledger that can be decoded; Unreadable counts the others.
	Entries    []ledger.Entry `json:"entries"`
	Unreadable int            `json:"unreadable,omitempty"`
	// Runs are those of its pods, in the order of their starts.
	Runs []WorkloadRun `json:"runs"`
	// Intensities are those of the zones where it ran, or where it would run, from its submission to its end.
	Intensities []ZoneIntensities `json:"intensities"`
}

// WorkloadRun is a time in which a pod, or the workload in another cluster, ran.
type WorkloadRun struct {
	From time.Time `json:"from"`
	// To is nil while it runs.
	To      *time.Time `json:"to"`
	Zone    string     `json:"zone"`
	Cluster string     `json:"cluster,omitempty"`
	Node    string     `json:"node,omitempty"`
	Workers int        `json:"workers"`

	id string
}

// ZoneIntensities are values of a zone in the order of their times.
type ZoneIntensities struct {
	Zone   string      `json:"zone"`
	Values []Intensity `json:"values"`
}

// Intensity is the carbon intensity of a time, in gCO2eq/kWh.
type Intensity struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Value float64   `json:"value"`
	// Forecast says that the time is not over.
	Forecast bool `json:"forecast,omitempty"`
}

const (
	// maxEntries bounds the entries of a story: it has the last ones.
	maxEntries = 2000
	// maxZones bounds the zones whose intensities a story has.
	maxZones = 8
)

// workload reads a story. Complexity: O(entries of the workload + hours from its submission to its end).
func (s *Server) workload(r *http.Request) (any, error) {
	ctx := r.Context()
	out := Story{Entries: []ledger.Entry{}, Runs: []WorkloadRun{}, Intensities: []ZoneIntensities{}}
	var err error
	if out.Plan, out.Deleted, err = s.plan(ctx, r.PathValue("namespace"), r.PathValue("plan"), r.URL.Query().Get("uid")); err != nil {
		return nil, err
	}
	if s.Ledger != nil {
		for e, err := range s.Ledger.Read(ctx, ledger.Query{Workload: out.Plan.UID}) {
			if err == nil {
				err = e.Decodes()
			}
			if ledger.IsUnreadable(err) {
				out.Unreadable++
				continue
			}
			if err != nil {
				return nil, err
			}
			if out.Entries = append(out.Entries, e); len(out.Entries) > 2*maxEntries {
				out.Entries = slices.Delete(out.Entries, 0, maxEntries)
			}
		}
		if over := len(out.Entries) - maxEntries; over > 0 {
			out.Entries = out.Entries[over:]
		}
	}
	out.readRuns()
	return out, s.addIntensities(ctx, &out)
}

// readRuns takes the runs from the entries, which were decoded before.
func (o *Story) readRuns() {
	for i := range o.Entries {
		e := &o.Entries[i]
		switch e.Kind {
		case ledger.KindStarted:
			var b ledger.Started
			if json.Unmarshal(e.Body, &b) == nil {
				o.Runs = append(o.Runs, WorkloadRun{From: b.At, Zone: b.Zone, Cluster: b.Cluster, Node: b.Node, Workers: b.Workers, id: b.Run})
			}
		case ledger.KindEnded:
			var b ledger.Ended
			if json.Unmarshal(e.Body, &b) != nil {
				continue
			}
			if i := slices.IndexFunc(o.Runs, func(r WorkloadRun) bool { return r.id == b.Run && r.To == nil }); i >= 0 {
				o.Runs[i].To = &b.At
			}
		}
	}
	slices.SortStableFunc(o.Runs, func(a, b WorkloadRun) int { return a.From.Compare(b.From) })
}

// span is the time that the picture of a story shows: from the submission to the end, as it ran, as planned and as submitted.
func (o *Story) span() (from, to time.Time) {
	include := func(at time.Time) {
		if at.IsZero() {
			return
		}
		if from.IsZero() || at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
	}
	for i := range o.Entries {
		switch e := &o.Entries[i]; e.Kind {
		case ledger.KindSubmitted:
			var b ledger.Submitted
			if json.Unmarshal(e.Body, &b) == nil { // the entries were decoded before
				include(b.At)
			}
		case ledger.KindSettled:
			if b, err := e.Settled(); err == nil {
				include(b.Counterfactual.From)
				include(b.Counterfactual.To)
			}
		}
	}
	for _, r := range o.Runs {
		include(r.From)
		if r.To != nil {
			include(*r.To)
		}
	}
	for _, p := range o.Plan.Phases {
		include(p.From)
		include(p.To)
	}
	return from, to
}

// addIntensities adds what was published of the zones of the runs, and the forecast of what is not over.
func (s *Server) addIntensities(ctx context.Context, o *Story) error {
	from, to := o.span()
	if from.IsZero() {
		return nil
	}
	from, to = from.Truncate(time.Hour), to.Truncate(time.Hour).Add(time.Hour)
	var names []string
	for _, r := range o.Runs {
		if !slices.Contains(names, r.Zone) && len(names) < maxZones {
			names = append(names, r.Zone)
		}
	}
	if len(names) == 0 {
		var p v1alpha1.CarbonPolicy
		if err := s.Reader.Get(ctx, client.ObjectKey{Namespace: o.Plan.Namespace, Name: o.Plan.Policy}, &p); err != nil {
			return client.IgnoreNotFound(err)
		}
		names = append(names, p.Spec.Zone)
	}
	for _, name := range names {
		z := ZoneIntensities{Zone: name, Values: []Intensity{}}
		if s.Ledger != nil {
			list, err := s.Ledger.Intensities(ctx, name, from, to)
			if err != nil {
				return err
			}
			for i := range list {
				z.Values = append(z.Values, Intensity{From: list[i].From, To: list[i].To, Value: list[i].Value})
			}
		}
		var zone v1alpha1.GridZone
		if err := s.Reader.Get(ctx, client.ObjectKey{Name: name}, &zone); client.IgnoreNotFound(err) != nil {
			return err
		}
		z.addForecast(zone.Status.Forecast, from, to)
		if len(z.Values) > 0 {
			o.Intensities = append(o.Intensities, z)
		}
	}
	return nil
}

// addForecast adds the values of a forecast, one an hour, after the last value that was published.
func (z *ZoneIntensities) addForecast(list []v1alpha1.ForecastPoint, from, to time.Time) {
	for i := range list {
		at := list[i].Time.UTC()
		end := at.Add(time.Hour)
		if i+1 < len(list) {
			end = list[i+1].Time.UTC()
		}
		after := len(z.Values) == 0 || !at.Before(z.Values[len(z.Values)-1].To)
		if after && end.After(from) && at.Before(to) {
			z.Values = append(z.Values, Intensity{From: at, To: end, Value: list[i].Intensity, Forecast: true})
		}
	}
}

// plan returns the plan of a workload by the name of its CarbonPlan, or what the ledger has of one that is deleted. A uid says which of
// several of that name; "" is the one that there is, or the last one.
func (s *Server) plan(ctx context.Context, namespace, name, uid string) (out Plan, deleted bool, err error) {
	var p v1alpha1.CarbonPlan
	err = s.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &p)
	if err == nil && (uid == "" || uid == string(p.Spec.Workload.UID)) {
		return planOf(&p), false, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return out, false, err
	}
	out, there, err := s.settledPlan(ctx, namespace, name, uid)
	if err == nil && !there {
		err = fmt.Errorf("%w: workload %s/%s; neither the cluster nor the ledger of the last %d days has it", errAbsent, namespace, name, savingsDays)
	}
	return out, true, err
}

// settledPlan returns what the settlements of the last days have of a workload that is deleted, by the name of its CarbonPlan.
// Without a uid it is the last of that name.
func (s *Server) settledPlan(ctx context.Context, namespace, name, uid string) (out Plan, there bool, err error) {
	if s.Ledger == nil {
		return out, false, nil
	}
	s.savingsMu.Lock()
	defer s.savingsMu.Unlock()
	if err := s.readSettled(ctx); err != nil {
		return out, false, err
	}
	var last time.Time
	for id, b := range s.settled {
		other := b.Of.Namespace != namespace || kube.PlanNameOf(b.Of.Kind, b.Of.Name) != name || uid != "" && uid != id
		if other || there && !b.Of.At.After(last) {
			continue
		}
		last, there = b.Of.At, true
		_, policy, _ := strings.Cut(b.Of.Policy, "/")
		out = Plan{
			Namespace: namespace, Kind: b.Of.Kind, Name: b.Of.Name, Object: name, UID: id, Policy: policy, State: string(v1alpha1.PlanFinished), Progress: 1,
			Message: "The workload has been deleted. The ledger has these entries of it.", EnergyKWh: b.KWh, EmittedG: b.Grams, ExpectedG: &b.Grams,
			BaselineG: b.Counterfactual.Grams, Phases: []Phase{},
		}
		if d := b.Of.Deadline; !d.IsZero() {
			out.Deadline = &d
		}
		if b.Withheld != "" {
			out.UnpricedKWh = b.KWh
		}
	}
	return out, there, nil
}
