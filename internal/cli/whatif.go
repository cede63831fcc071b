package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/decide"
	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/reserve"
	"lull.dev/lull/pkg/units"
	"lull.dev/lull/pkg/workload"
)

func newExplainCommand() *cobra.Command {
	var f clusterFlags
	format := ""
	cmd := &cobra.Command{
		Use:   "explain KIND/NAME",
		Short: "Explain the plan of a workload, and what would change it",
		Long: `Explain shows the plan of a workload as its CarbonPlan has it, hour by hour beside the
expected intensity. It also shows the plans that the workload would have with more time,
or if it could pause or scale. It makes these plans with the planner of the policy and the
forecast of its GridZone, or of the clusters to which it may go, as if nothing else ran.
While the workload waits, Explain names the reserve of the policy. If lull release took the
workload out of its policy, Explain says when, and how the policy governs it again.`,
		Example: "  lull explain job/train -n team-a",
		Args:    takes(1, 1, "KIND/NAME of a workload"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := f.connect(cmd.Context())
			if err != nil {
				return err
			}
			w, err := f.workload(ctx, c, args[0])
			if err != nil {
				return err
			}
			return explainWorkload(ctx, cmd.OutOrStdout(), c, w, format)
		},
	}
	f.register(cmd)
	textFlag(cmd.Flags(), &format)
	return cmd
}

// explainWorkload explains a workload.
func explainWorkload(ctx context.Context, out io.Writer, c client.Client, w *kube.Workload, format string) error {
	if released, known := kube.ReadRecord(w.Annotations()); known && released.Reason == kube.CodeReleased && w.Annotations()[v1alpha1.AnnotationPolicy] == "" {
		if structured(format) {
			return writeStructured(out, format, explanationReport{Workload: referenceOf(w), Decision: &released, Hours: []hourRow{}, WhatIf: []whatIfRow{}})
		}
		return explainReleased(out, w, released)
	}
	x, err := gather(ctx, c, w)
	if err != nil {
		return err
	}
	if structured(format) {
		r, err := x.report(ctx, time.Now())
		if err != nil {
			return err
		}
		return writeStructured(out, format, r)
	}
	return x.write(ctx, out, time.Now())
}

// explainReleased explains a workload that an operator has taken out of its policy.
func explainReleased(out io.Writer, w *kube.Workload, r kube.Record) error {
	fmt.Fprintf(out, "%s %s/%s, not governed: it %s at %s.\n", w.Kind.Name, w.Namespace(), w.Name(), r.Message, r.At.Format(time.RFC3339))
	if w.Facts.Finished || r.Policy == "" {
		return nil
	}
	_, err := fmt.Fprintf(out, "To have the policy govern it again: kubectl annotate %s/%s -n %s %s=%s\nA workload that cannot be paused runs on as it is; the policy holds it if you create it again.\n",
		strings.ToLower(w.Kind.Name), w.Name(), w.Namespace(), v1alpha1.AnnotationPolicy, r.Policy)
	return err
}

// explanation is all that is needed to explain a workload.
type explanation struct {
	w        *kube.Workload
	policy   v1alpha1.CarbonPolicy
	zone     v1alpha1.GridZone
	plan     *v1alpha1.CarbonPlan // nil where there is none yet
	profiles map[string]*v1alpha1.ScalingProfile
	clusters []v1alpha1.ComputeCluster // to which the policy may send it; none for this one
	missing  string                    // why Lull decides nothing about it: what is gone that a decision takes, or its user has suspended it
}

// suspendedByUser is why Lull decides nothing about a workload that is suspended without a mark of Lull.
const suspendedByUser = "it is suspended, and not by Lull: Lull decides nothing about it, and does not resume it. The user who suspended it can resume it"

func gather(ctx context.Context, c client.Client, w *kube.Workload) (*explanation, error) {
	x := &explanation{w: w, profiles: map[string]*v1alpha1.ScalingProfile{}}
	name := w.Annotations()[v1alpha1.AnnotationPolicy]
	if name == "" {
		if why := w.Excluded(kinds.DefaultNamespace); why != "" {
			return nil, fmt.Errorf("%s %s/%s is not governed: %s. One that is created with the name of its CarbonPolicy in the annotation %s is", w.Kind.Name, w.Namespace(), w.Name(), why, v1alpha1.AnnotationGovernBy)
		}
		missed, err := missedBy(ctx, c, w)
		if missed != "" || err != nil {
			return nil, cmp.Or(err, fmt.Errorf("%s %s/%s is not governed: %s", w.Kind.Name, w.Namespace(), w.Name(), missed))
		}
		unknown := kube.UnknownAnnotations(w.Annotations())
		if unknown != "" {
			unknown = "; " + unknown
		}
		return nil, fmt.Errorf("%s %s/%s is not governed: no CarbonPolicy of its namespace selected it when it was created%s", w.Kind.Name, w.Namespace(), w.Name(), unknown)
	}
	switch err := c.Get(ctx, client.ObjectKey{Namespace: w.Namespace(), Name: name}, &x.policy); {
	case apierrors.IsNotFound(err):
		x.missing = fmt.Sprintf("CarbonPolicy %s is not there: Lull holds nothing for it. Create it again, or name another one in the annotation %s", name, v1alpha1.AnnotationPolicy)
	case err != nil:
		return nil, fmt.Errorf("read CarbonPolicy %s: %w", name, err)
	}
	if x.missing == "" {
		switch err := c.Get(ctx, client.ObjectKey{Name: x.policy.Spec.Zone}, &x.zone); {
		case apierrors.IsNotFound(err):
			x.missing = fmt.Sprintf("GridZone %s, which CarbonPolicy %s names, is not there: Lull holds nothing for it. kubectl get gridzones lists the existing ones", x.policy.Spec.Zone, name)
		case err != nil:
			return nil, fmt.Errorf("read GridZone %s: %w", x.policy.Spec.Zone, err)
		}
	}
	for _, name := range x.policy.Spec.Clusters {
		var cc v1alpha1.ComputeCluster
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &cc); err == nil {
			x.clusters = append(x.clusters, cc)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read ComputeCluster %s: %w", name, err)
		}
	}
	var p v1alpha1.CarbonPlan
	if x.missing == "" && w.Facts.Suspended && !w.Held() && !w.Facts.Finished && w.Facts.Queue == "" {
		x.missing = suspendedByUser
		return x, nil // its plan is the one of when it ran
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: w.Namespace(), Name: kube.PlanName(w)}, &p)
	if err == nil {
		x.plan = &p
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read CarbonPlan: %w", err)
	}
	var profiles v1alpha1.ScalingProfileList
	if err := c.List(ctx, &profiles, client.InNamespace(w.Namespace())); err != nil {
		return nil, fmt.Errorf("list ScalingProfiles: %w", err)
	}
	for i := range profiles.Items {
		x.profiles[profiles.Items[i].Name] = &profiles.Items[i]
	}
	if w.OfCronJob() {
		// Without the right to it the CronJob is not taken into account: the plan above is right all the same.
		if of, err := kube.ListCronJobs(ctx, c, w.Namespace()); err == nil {
			x.w = kube.WithCronJobs([]*kube.Workload{w}, func() kube.CronJobs { return of })[0]
		} else if !apierrors.IsForbidden(err) {
			return nil, err
		}
	}
	return x, nil
}

func (x *explanation) write(ctx context.Context, out io.Writer, now time.Time) error {
	if x.missing != "" {
		fmt.Fprintf(out, "%s %s/%s: %s\n", x.w.Kind.Name, x.w.Namespace(), x.w.Name(), x.missing)
	} else {
		fmt.Fprintf(out, "%s %s/%s, governed by CarbonPolicy %s (planner %s) in zone %s\n", x.w.Kind.Name, x.w.Namespace(), x.w.Name(), x.policy.Name, x.policy.Spec.Planner.Name, x.zone.Name)
	}
	if text := kube.UnknownAnnotations(x.w.Annotations()); text != "" {
		fmt.Fprintf(out, "warning: %s\n", text)
	}
	last, told := kube.ReadRecord(x.w.Annotations())
	switch {
	case x.plan != nil:
		if told && last.Verb != decide.Wait && string(last.Reason) != x.plan.Status.Reason { // the plan says only that it runs, or has ended
			fmt.Fprintf(out, "%s at %s: %s (%s)\n", last.Verb, last.At.UTC().Format(time.RFC3339), last.Message, last.Reason)
		}
		x.writePlan(out)
	case told && x.missing != "":
		fmt.Fprintf(out, "%s at %s: %s (%s)\n", last.Verb, last.At.UTC().Format(time.RFC3339), last.Message, last.Reason)
	case told:
		fmt.Fprintf(out, "%s: %s (%s)\n", last.Verb, last.Message, last.Reason)
	default:
		fmt.Fprintln(out, "no plan yet: the controller has not seen it")
	}
	if x.w.Facts.Finished || last.Reason == kube.CodeInvalid || x.missing != "" {
		return nil
	}
	rows, note, err := x.whatIf(ctx, now)
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	if note != "" {
		_, err = fmt.Fprintln(out, note)
		return err
	}
	fmt.Fprintln(out, "what Lull would plan now, if no other work ran:")
	return writeRows(out, formatTable, whatIfColumns(len(x.clusters) > 0), rows)
}

func (x *explanation) writePlan(out io.Writer) {
	s := &x.plan.Status
	fmt.Fprintf(out, "%s: %s (%s)\n", s.State, s.Message, s.Reason)
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	at := func(label string, t time.Time) {
		fmt.Fprintf(tw, "%s\t%s\n", label, t.UTC().Format(time.RFC3339))
	}
	if s.Deadline != nil {
		at("deadline", s.Deadline.Time)
	}
	if s.LatestStart != nil {
		at("runs at the latest from", s.LatestStart.Time)
	}
	if text := x.reserve(); text != "" {
		fmt.Fprintf(tw, "reserve\t%s\n", text)
	}
	fmt.Fprintf(tw, "progress\t%s (by %s)\n", s.Shown.Progress, s.ProgressSource)
	if s.EnergyKWh > 0 {
		emitted := units.Emissions(s.EmittedG).String()
		if s.UnpricedKWh > 0 {
			emitted = fmt.Sprintf("emissions withheld: %s were used in hours without a carbon intensity", units.Energy(s.UnpricedKWh))
		}
		fmt.Fprintf(tw, "so far\t%s (by %s), %s\n", units.Energy(s.EnergyKWh), s.EnergySource, emitted)
	}
	expected := "unknown"
	if s.ExpectedG != nil {
		expected = units.Emissions(*s.ExpectedG).String()
	}
	fmt.Fprintf(tw, "emits\t%s", expected)
	if s.BaselineG > 0 {
		fmt.Fprintf(tw, ", at once and in one piece %s", units.Emissions(s.BaselineG))
	}
	if s.Shown.Saves != "" {
		fmt.Fprintf(tw, ": saves %s", s.Shown.Saves)
	}
	fmt.Fprintln(tw)
	if s.Shown.Bound != "" {
		fmt.Fprintf(tw, "proven\tthe plans made together with this one are %s of the least possible emissions, with all other work as it is\n", s.Shown.Bound)
	}
	if s.Trigger != nil {
		fmt.Fprintf(tw, "plan %d\tmade for %s at %s", s.Plans, s.Trigger.Reason, s.Trigger.At.UTC().Format(time.RFC3339))
		if s.Trigger.Message != "" {
			fmt.Fprintf(tw, ": %s", s.Trigger.Message)
		}
		fmt.Fprintln(tw)
	}
	if s.Cluster != "" {
		fmt.Fprintf(tw, "cluster\t%s\n", s.Cluster)
	}
	_ = tw.Flush()
	if len(s.Phases) == 0 {
		return
	}
	fmt.Fprintln(out)
	tw = tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprint(tw, "HOUR\tINTENSITY\t\tWORKERS\n")
	hours, most := x.hours()
	for _, h := range hours {
		bar := ""
		if most > 0 {
			bar = strings.Repeat("#", int(math.Round(20*h.Intensity/most)))
		}
		fmt.Fprintf(tw, "%s\t%.0f\t%s\t%s\n", h.Time.UTC().Format("2006-01-02 15:04"), h.Intensity, bar, h.Workers)
	}
	_ = tw.Flush()
}

// reserve says what the policy keeps free of the capacity that the workload waits for; empty if it keeps
// nothing, or if the workload does not wait.
func (x *explanation) reserve() string {
	s, r := &x.plan.Status, x.policy.Status.Reserve
	if r == nil || r.Share == 0 || s.State != v1alpha1.PlanWaiting && s.State != v1alpha1.PlanPaused {
		return ""
	}
	from := "stated by spec.planner.parameters.reserve of the policy"
	if r.ObservedUntil != nil {
		from = fmt.Sprintf("learned from %d of the last %d hours; spec.planner.parameters.reserve of the policy states another share", len(r.HourlyPeaks), reserve.Hours)
	}
	text := fmt.Sprintf("plans keep %.0f %% of the capacity free for work that cannot wait (%s)", 100*r.Share, from)
	if s.Reason == string(decide.CodeSharedCapacity) {
		text += "; this workload waits for room outside the reserve"
	}
	return text
}

// workersIn are the scales of a plan within an interval.
func workersIn(phases []v1alpha1.PlanPhase, from, to time.Time) string {
	var out []string
	for _, p := range phases {
		if p.From.Time.Before(to) && p.To.After(from) {
			text := fmt.Sprint(p.Workers)
			if len(out) == 0 || out[len(out)-1] != text {
				out = append(out, text)
			}
		}
	}
	if out == nil {
		return "-"
	}
	return strings.Join(out, ", ")
}

// forecastSeries is what a GridZone or a ComputeCluster says of the hours to come.
func forecastSeries(forecast []v1alpha1.ForecastPoint, zone, source string) (*carbon.Series, error) {
	var samples []carbon.Sample
	for _, p := range forecast {
		samples = append(samples, carbon.Sample{From: p.Time.Time, To: p.Time.Add(time.Hour), Value: units.CarbonIntensity(p.Intensity)})
	}
	return carbon.NewSeries(carbon.Provenance{Zone: zone, Source: source}, samples)
}

// places are the clusters to which it may go, each by the forecast of its zone.
func (x *explanation) places() ([]decide.Cluster, error) {
	var out []decide.Cluster
	for i := range x.clusters {
		cc := &x.clusters[i]
		model, err := kube.PowerModel(&cc.Spec.Power)
		if err != nil {
			return nil, fmt.Errorf("ComputeCluster %s: %w", cc.Name, err)
		}
		place := decide.Cluster{Name: cc.Name, Zone: cc.Spec.Zone, Power: model}
		if len(cc.Status.Forecast) > 0 {
			if place.Carbon, err = forecastSeries(cc.Status.Forecast, cc.Spec.Zone, cc.Spec.Zone); err != nil {
				return nil, fmt.Errorf("forecast of ComputeCluster %s: %w", cc.Name, err)
			}
		}
		out = append(out, place)
	}
	return out, nil
}

// otherwise is one thing that could be otherwise.
type otherwise struct {
	what  string
	apply func(t *decide.Task) bool // false where it does not apply
}

// changes are what a user could do about a workload.
func (x *explanation) changes() []otherwise {
	return []otherwise{
		{"as it is", func(*decide.Task) bool { return true }},
		later(6 * time.Hour), later(24 * time.Hour),
		{"it could be paused (" + v1alpha1.AnnotationInterruptible + ")", func(t *decide.Task) bool {
			if t.Kind != workload.Rigid || !x.w.Kind.Pausable() {
				return false
			}
			t.Kind = workload.Interruptible
			return true
		}},
		{"it could use up to 4 times the workers (" + v1alpha1.AnnotationMaxWorkers + ")", func(t *decide.Task) bool {
			if !x.w.Kind.Elastic() {
				return false
			}
			const wider = 4
			n := x.w.Workers()
			if t.Scaling != nil {
				n = t.Scaling.MaxWorkers
			} else {
				for r := range t.Request {
					t.Request[r] /= float64(n)
				}
				t.Scaling = &decide.Scaling{MinWorkers: n, MaxWorkers: n, Curve: []float64{1}}
				t.Kind, t.Workers = workload.Elastic, n
			}
			s := *t.Scaling
			s.Curve = append([]float64(nil), s.Curve...)
			if s.Watts != nil {
				s.Watts = append([]float64(nil), s.Watts...)
			}
			for len(s.Curve) < wider*n-s.MinWorkers+1 {
				s.Curve = append(s.Curve, 0.9*s.Curve[0]/float64(s.MinWorkers)) // each adds nine tenths of the first
				if k := len(s.Watts); k > 0 {
					s.Watts = append(s.Watts, s.Watts[k-1]+s.Watts[0]/float64(s.MinWorkers))
				}
			}
			s.MaxWorkers = wider * n
			t.Scaling = &s
			return true
		}},
	}
}

func later(d time.Duration) otherwise {
	return otherwise{fmt.Sprintf("it had %.0f hours more", d.Hours()), func(t *decide.Task) bool {
		t.Deadline = t.Deadline.Add(d)
		return true
	}}
}

// whatIf plans the workload alone, as it is and otherwise. Without rows the note says why there are none.
func (x *explanation) whatIf(ctx context.Context, now time.Time) (rows []whatIfRow, note string, err error) {
	tl, err := kube.ZoneTimeline(&x.zone)
	if err != nil {
		return nil, "", err
	}
	places, err := x.places()
	if err != nil {
		return nil, "", err
	}
	series, err := forecastSeries(x.zone.Status.Forecast, x.zone.Spec.Zone, x.zone.Status.Source)
	if err != nil {
		return nil, "", fmt.Errorf("forecast of GridZone %s: %w", x.zone.Name, err)
	}
	view, err := kube.Observe(kube.Input{
		Now: now, Timeline: tl, Policy: &x.policy, Longest: kube.LongestDelay(&x.policy), Carbon: carbon.Outlook{Expected: series}, Workloads: []*kube.Workload{x.w}, Profiles: x.profiles, Clusters: places,
	})
	if err != nil {
		return nil, "", err
	}
	if len(view.Invalid) > 0 {
		return nil, fmt.Sprintf("not governed: %v", view.Invalid[0].Err), nil
	}
	if len(view.Excluded) > 0 {
		return nil, "not governed: " + view.Excluded[0].Why, nil
	}
	if len(view.Snapshot.Tasks) == 0 || view.Snapshot.Tasks[0].Deadline.IsZero() {
		note = "nothing would change it: it may not wait (critical, paused, or held by its user)"
		if len(view.Progress) > 0 && view.Progress[0].Note != "" {
			note += "; " + view.Progress[0].Note
		}
		return nil, note, nil
	}
	if t := &view.Snapshot.Tasks[0]; t.State == decide.Running && t.Kind == workload.Rigid {
		return nil, "it runs in one piece: nothing will change that now", nil
	}
	planner, err := NewPlanner(x.policy.Spec.Planner.Name, x.policy.Spec.Planner.Parameters, nil)
	if err != nil {
		return nil, "", err
	}
	for _, c := range x.changes() {
		r, err := x.row(ctx, view.Snapshot, c, planner)
		if err != nil {
			return nil, "", err
		}
		if r != nil {
			rows = append(rows, *r)
		}
	}
	return rows, "", nil
}

// row plans one change, nil if it does not apply.
func (x *explanation) row(ctx context.Context, s decide.Snapshot, c otherwise, planner plan.Planner) (*whatIfRow, error) {
	t := s.Tasks[0]
	t.Request = map[string]float64{}
	for r, q := range s.Tasks[0].Request {
		t.Request[r] = q
	}
	if t.State == decide.Running && t.Kind == workload.Rigid {
		t.State = decide.Waiting // as if it had not begun
	}
	if !c.apply(&t) {
		return nil, nil
	}
	s.Tasks = []decide.Task{t}
	room := map[string]float64{}
	for r, q := range t.Request {
		workers := 1
		if t.Scaling != nil {
			workers = t.Scaling.MaxWorkers
		}
		room[r] = 2 * float64(workers) * math.Max(q, 1)
	}
	s.Clusters = slices.Clone(s.Clusters)
	for i := range s.Clusters {
		s.Clusters[i].Capacity, s.Clusters[i].Load = room, nil
	}
	d, err := decide.Decide(ctx, s, planner)
	if err != nil {
		return nil, err
	}
	a := &d.Actions[0]
	phases := a.Phases
	if len(phases) == 0 {
		return &whatIfRow{If: c.what, Message: a.Reason.Message()}, nil
	}
	from, to, saving := metav1.NewTime(phases[0].From), metav1.NewTime(phases[len(phases)-1].To), a.Reason.Saving()
	expected := float64(a.Reason.ExpectedG)
	return &whatIfRow{If: c.what, Starts: &from, Ends: &to, ExpectedG: &expected, Saving: &saving, Cluster: phases[0].Cluster}, nil
}
