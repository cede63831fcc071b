package curve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/outfile"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/plan/carbonflex"
)

// Local is a curve that is no object of an API server, such as that of a Slurm cluster. It decides as the Reconciler does. What was learned is in a file.
// It is used by one goroutine.
type Local struct {
	curve   v1alpha1.CapacityCurve
	memory  memory
	learner Reconciler
	file    string
	log     *slog.Logger
}

// NewLocal returns the curve of a specification. Its Zone, Target, Policies, Mode and Evict have no effect. The file, if one is named, keeps what
// methods carbonFlex and vcc learn; without one they learn anew after a restart. The error names the field and what is accepted.
func NewLocal(name string, spec v1alpha1.CapacityCurveSpec, file string, logger *slog.Logger) (*Local, error) {
	l := &Local{file: file, log: logger}
	l.curve.Name, l.curve.Spec = name, spec
	if _, err := boundsOf(&spec); err != nil {
		return nil, err
	}
	if err := checkLocal(&spec); err != nil {
		return nil, err
	}
	l.curve.Generation = 1
	return l, l.load()
}

// checkLocal checks what the API server checks of a CapacityCurve.
func checkLocal(spec *v1alpha1.CapacityCurveSpec) error {
	m := &spec.Method
	methods := 0
	for _, is := range []bool{m.CarbonFlex != nil, m.VCC != nil, m.Planned != nil, len(m.Schedule) > 0} {
		if is {
			methods++
		}
	}
	within := func(field string, v *metav1.Duration, least, most time.Duration) error {
		if v != nil && (v.Duration < least || v.Duration > most) {
			return fmt.Errorf("%s: %v; accepted: %v to %v", field, v.Duration, least, most)
		}
		return nil
	}
	share := func(field string, v *float64, most float64) error {
		if v != nil && !(*v >= 0 && *v <= most) {
			return fmt.Errorf("%s: %v; accepted: 0 to %v", field, *v, most)
		}
		return nil
	}
	errs := []error{within("slot", spec.Slot, time.Minute, 24*time.Hour)}
	if methods != 1 {
		errs = append(errs, fmt.Errorf("method: %d methods; accepted: one of carbonFlex, vcc, planned, schedule", methods))
	}
	if f := m.CarbonFlex; f != nil {
		errs = append(errs, within("method.carbonFlex.history", f.History, 24*time.Hour, 56*24*time.Hour), within("method.carbonFlex.every", f.Every, time.Hour, 7*24*time.Hour),
			share("method.carbonFlex.tolerance", f.Tolerance, 1), share("method.carbonFlex.distance", f.Distance, 1000))
		if f.Neighbours < 0 || f.Neighbours > 100 {
			errs = append(errs, fmt.Errorf("method.carbonFlex.neighbours: %d; accepted: 1 to 100", f.Neighbours))
		}
	}
	if v := m.VCC; v != nil {
		errs = append(errs, share("method.vcc.quantile", v.Quantile, 1))
		if v.Days < 0 || v.Days > 56 {
			errs = append(errs, fmt.Errorf("method.vcc.days: %d; accepted: 1 to 56", v.Days))
		}
	}
	if p := m.Planned; p != nil {
		errs = append(errs, share("method.planned.reserve", p.Reserve, 1))
	}
	for i, w := range m.Schedule {
		for _, clock := range []string{w.From, w.To} {
			if _, err := time.Parse("15:04", clock); err != nil && clock != "24:00" {
				errs = append(errs, fmt.Errorf("method.schedule[%d]: %q; accepted: a time of the day (UTC), as 06:00", i, clock))
			}
		}
	}
	return errors.Join(errs...)
}

// Look decides the capacity of this moment, in units of the resource of the specification, and what may be planned with. Method planned lets all of the
// maximum be planned with, as it follows the plans.
func (l *Local) Look(ctx context.Context, now time.Time, outlook carbon.Outlook, d Demand) (value float64, told Now) {
	ctx = log.IntoContext(ctx, logr.FromSlogHandler(l.log.Handler()))
	c, m := &l.curve, &l.memory
	bounds, _ := boundsOf(&c.Spec) // NewLocal has checked it
	at := moment{
		spec: &c.Spec, now: now, slot: kube.DurationOf(c.Spec.Slot, time.Hour), maximum: bounds.Maximum, minimum: bounds.Minimum, outlook: outlook,
		demands: []Demand{d}, history: &m.history,
	}
	for j := range d.Tasks {
		m.history.see(&d.Tasks[j], d.Runtime[j])
	}
	m.mu.Lock()
	at.flex = m.knowledge
	m.mu.Unlock()
	start := at.start()
	m.wishFor(c, &at, start)
	value = at.decide(c, m, bounds, start)
	c.Status.ObservedGeneration = c.Generation
	m.totals = map[string]float64{c.Spec.Resource: bounds.Maximum}
	told = *at.tell(c, m, value)
	l.learner.learn(ctx, c, m, &at)
	if err := l.keep(now); err != nil {
		l.log.Error("What was learned cannot be kept", "error", err.Error())
	}
	return value, told
}

// ReadOnly has the curve keep nothing in its file.
func (l *Local) ReadOnly() { l.file = "" }

// Status says what the capacity of the last look rests on.
func (l *Local) Status() v1alpha1.CapacityCurveStatus { return l.curve.Status }

func (l *Local) load() error {
	if l.file == "" {
		return nil
	}
	text, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	v, err := unpack(text)
	if err != nil {
		return fmt.Errorf("state: %s: %w; accepted: a file that lull has written, or none", l.file, err)
	}
	m := &l.memory
	m.history.past = v.Past
	m.history.forget(time.Time{})
	m.history.changed = false
	if len(v.Cases) > 0 {
		k := carbonflex.NewKnowledge(0)
		if err := k.Add(v.Cases...); err != nil {
			return fmt.Errorf("state: %s: %w", l.file, err)
		}
		m.knowledge, m.learnedAt, m.jobs = k, v.LearnedAt, v.Jobs
	}
	return nil
}

// keep stores what has come and what was learned, now and then.
func (l *Local) keep(now time.Time) error {
	m := &l.memory
	if l.file == "" || l.curve.Spec.Method.CarbonFlex == nil && l.curve.Spec.Method.VCC == nil {
		return nil
	}
	m.mu.Lock()
	v := stored{Past: m.history.past, LearnedAt: m.learnedAt, Jobs: m.jobs}
	if m.knowledge != nil {
		v.Cases = m.knowledge.Cases()
	}
	due := m.fresh || m.history.changed && now.Sub(m.storedAt) >= storeAgain
	m.fresh = m.fresh && !due
	m.mu.Unlock()
	if !due {
		return nil
	}
	m.storedAt = now
	text, err := pack(v)
	if err != nil {
		return err
	}
	m.history.changed = false
	return outfile.WriteFile(l.file, text)
}

// SeedFile writes what a Local finds when it first looks as if it had seen these workloads come.
func SeedFile(file string, past []Past) error {
	text, err := pack(stored{Past: past})
	if err != nil {
		return err
	}
	return outfile.WriteFile(file, text)
}
