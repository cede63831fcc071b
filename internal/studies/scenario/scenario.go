// Package scenario describes simulations in a file, runs planners side by side on them
// and writes what came out.
package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/sim"
	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// ErrScenario marks a scenario that makes no sense.
var ErrScenario = errors.New("invalid scenario")

// Duration is a duration as text: 90m, 6h, 2d.
type Duration struct{ time.Duration }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s; accepted: %s", text, AcceptedDurations)
	}
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	d.Duration = v
	return nil
}

// AcceptedDurations says in words what ParseDuration takes.
const AcceptedDurations = `a duration such as "90m", "1h30m", "7d" or "1d12h", or in ISO 8601 such as "PT1H30M"`

// ParseDuration reads a duration that may begin with days: 7d, 1d12h, 90m. The error wraps units.ErrDuration.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	n, d := 0.0, time.Duration(0)
	var err error
	if ok {
		if n, err = strconv.ParseFloat(days, 64); err == nil && !(n >= 0 && n < 36600) {
			err = units.ErrDuration
		}
	} else {
		rest = text
	}
	if err == nil && (!ok || rest != "") {
		d, err = units.ParseDuration(rest)
	}
	if err != nil {
		const most = 64
		return 0, fmt.Errorf("%w: %.*q; accepted: %s", units.ErrDuration, most, text, AcceptedDurations)
	}
	return time.Duration(n*float64(24*time.Hour)) + d, nil
}

// ShortDuration returns a duration without parts that are zero: 6h, not 6h0m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// The slot and the margin of a scenario that states none: those of a CarbonPolicy that states none.
const (
	DefaultSlot   = 15 * time.Minute
	DefaultMargin = 5 * time.Minute
	// DefaultMinSaving is a share.
	DefaultMinSaving = 0.01
)

// Scenario is a simulation as a user writes it down. Zero values are the defaults that
// the comments name.
type Scenario struct {
	// Slot is the resolution of planning (DefaultSlot), Margin what is kept before deadlines (DefaultMargin).
	Slot   Duration  `json:"slot"`
	Margin *Duration `json:"margin"`
	// Start is when the whole trace begins, before Jobs.From is cut off (that of the trace,
	// else of the first carbon series).
	Start time.Time `json:"start"`
	// Uncertain says that planners know as much as in production: lengths as learned from the jobs that have ended, and
	// the days to come from a model alone, which forecasts each hour (blend). Estimate and Forecast, where they
	// state a kind, count instead. A cluster without recorded intensities keeps its forecast.
	Uncertain bool `json:"uncertain"`
	// Seed of all that is random (1).
	Seed uint64 `json:"seed"`
	// Objective is carbon (hard deadlines) or mosp (Caspian's, soft ones), with its
	// weights; Horizon is how far ahead is planned (to the last deadline).
	Objective string     `json:"objective"`
	Weights   [3]float64 `json:"weights"`
	Horizon   Duration   `json:"horizon"`
	// Overhead is the time lost with each resumption and change of scale (0).
	Overhead Duration `json:"overhead"`
	// MinRun and MinPause are the least times from a start or change of scale to the next change, and from a pause to the
	// next start, as of a CarbonPolicy (0; a CarbonPolicy has 5m by default).
	MinRun   Duration `json:"minRun"`
	MinPause Duration `json:"minPause"`
	// MinSaving is the share that a job must save by waiting, a pause or a move, as of a CarbonPolicy (0.01, as there).
	MinSaving *float64 `json:"minSaving"`
	// SavingConfidence is the share of the cases that the forecast leaves open in which a wait, a pause or a move must emit no more than a
	// start now, as of a CarbonPolicy. It has an effect only with forecasts that say how far they err: those of model blend.
	SavingConfidence float64   `json:"savingConfidence"`
	Jobs             Jobs      `json:"jobs"`
	Clusters         []Cluster `json:"clusters"`
	Faults           Faults    `json:"faults"`
	Planners         []Planner `json:"planners"`

	reading trace.Reading
	past    []sim.Job // of Jobs.Learn
}

// Jobs is where jobs come from, and what the trace does not say.
type Jobs struct {
	// File is the trace; its Format (csv, swf, gwf, sacct or kubernetes) follows from its name
	// where it is not stated. TimeZone is that of sacct's times without an offset (UTC).
	File     string `json:"file"`
	Format   string `json:"format"`
	TimeZone string `json:"timeZone"`
	// From and To cut the trace, counted from its start; the jobs that are left keep their
	// time. Least leaves shorter jobs out.
	From  Duration `json:"from"`
	To    Duration `json:"to"`
	Least Duration `json:"least"`
	// Learn is the first part of the trace that is not simulated, but is the history that
	// planner carbonflex learns from (0).
	Learn Duration `json:"learn"`
	// Generate draws jobs where there is no file.
	Generate *Generate `json:"generate"`
	// Kind of jobs: rigid, interruptible or elastic (rigid).
	Kind string `json:"kind"`
	// MaxDelay of jobs: the first entry that a job is not too long for counts (24h).
	MaxDelay []Delay `json:"maxDelay"`
	// Elastic says how elastic jobs scale.
	Elastic *Elastic `json:"elastic"`
	// Estimate is what planners know of run times.
	Estimate Estimate `json:"estimate"`
	// RestartKWh and TransferKWh of each job (0).
	RestartKWh  float64 `json:"restartKWh"`
	TransferKWh float64 `json:"transferKWh"`
}

// Generate draws jobs.
type Generate struct {
	PerHour float64  `json:"perHour"`
	Swing   float64  `json:"swing"`
	Peak    float64  `json:"peak"`
	Span    Duration `json:"span"`
	// Hours and CPUs of jobs.
	Hours Distribution `json:"hours"`
	CPUs  Distribution `json:"cpus"`
	Whole Duration     `json:"whole"`
}

// Distribution is one of: constant (value), uniform (whole numbers low..high),
// exponential (mean, most), lognormal (median, sigma, most).
type Distribution struct {
	Kind   string  `json:"kind"`
	Value  float64 `json:"value"`
	Low    int     `json:"low"`
	High   int     `json:"high"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Sigma  float64 `json:"sigma"`
	Most   float64 `json:"most"`
}

// Delay is the allowed delay of jobs up to a length (0: of any).
type Delay struct {
	UpTo  Duration `json:"upTo"`
	Delay Duration `json:"delay"`
}

// Elastic is how elastic jobs scale: from Min to Max workers along one of the capacity
// curves in Profiles (files workers,throughput[,power_w]; drawn by the seed where the
// trace names none), with the measured power where Watts is set.
type Elastic struct {
	Min      int      `json:"min"`
	Max      int      `json:"max"`
	Profiles []string `json:"profiles"`
	Watts    bool     `json:"watts"`
	// Error of the curves that planners see, as a share.
	Error float64 `json:"error"`
}

// Estimate is what planners know of run times: exact (the default), requested (what the
// trace says was asked for), mean (of the class of allowed delay), learned (from what
// has run so far), or exact with a uniform Error.
type Estimate struct {
	Kind  string  `json:"kind"`
	Error float64 `json:"error"`
}

// Cluster is a place to run.
type Cluster struct {
	Name string `json:"name"`
	Zone string `json:"zone"`
	// AnyZone says that the user states no zone: it is the one in which most energy of the trace was used, else DE.
	AnyZone bool `json:"-"`
	// Carbon are files of the intensity, as source.ReadFiles joins them; none takes what came after recorded
	// forecasts, else the climatology of Zone. Forecasts and intensity must be of one kind:
	// direct and life-cycle factors differ.
	Carbon   []string `json:"carbon"`
	Forecast Forecast `json:"forecast"`
	// Outages are times in which the provider of forecasts does not answer.
	Outages []Outage `json:"outages"`
	// Capacity by resource; none is room for everything.
	Capacity map[string]float64 `json:"capacity"`
	Changes  []Change           `json:"changes"`
	// Announced says that planners know the changes beforehand, as those of a CapacityCurve, and that what runs beyond
	// the capacity runs on.
	Announced bool `json:"announced"`
	// Load is what others use of the capacity for a time.
	Load []Load `json:"load"`
	// Watts of a used unit of each resource (cpu: 3.5); EtaNet those of 1 Gbit/s (0);
	// PUE (1).
	Watts  map[string]float64 `json:"watts"`
	EtaNet float64            `json:"etaNet"`
	PUE    float64            `json:"pue"`
	// Nodes replaces the watts of their resource by those of machines.
	Nodes *Nodes `json:"nodes"`
}

// Forecast is what planners are told: perfect (the default), noise (Error), recorded
// (File of issued,time,forecast,actual), or model (Model, every Every, Ahead far).
type Forecast struct {
	Kind  string   `json:"kind"`
	Error float64  `json:"error"`
	File  string   `json:"file"`
	Model string   `json:"model"`
	Every Duration `json:"every"`
	Ahead Duration `json:"ahead"`
}

// Outage is an interval.
type Outage struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Change is the capacity from a time on.
type Change struct {
	At       time.Time          `json:"at"`
	Capacity map[string]float64 `json:"capacity"`
}

// Load is what others use for a time. Planners see it once it is there, or know of it beforehand if it is Announced.
type Load struct {
	From      time.Time          `json:"from"`
	To        time.Time          `json:"to"`
	Amount    map[string]float64 `json:"amount"`
	Announced bool               `json:"announced"`
}

// Nodes are machines: Count of them with Each of a resource (cpu), Idle and Peak power.
// PowerOff turns those without work off.
type Nodes struct {
	Count    int     `json:"count"`
	Resource string  `json:"resource"`
	Each     float64 `json:"each"`
	Idle     float64 `json:"idle"`
	Peak     float64 `json:"peak"`
	PowerOff bool    `json:"powerOff"`
}

// Faults are what goes wrong beside forecasts, profiles and run times.
type Faults struct {
	Deny   float64  `json:"deny"`
	Retry  Duration `json:"retry"`
	Losses []Loss   `json:"losses"`
}

// Loss is capacity that fails for a time.
type Loss struct {
	Cluster  string             `json:"cluster"`
	From     time.Time          `json:"from"`
	To       time.Time          `json:"to"`
	Capacity map[string]float64 `json:"capacity"`
}

// Planner is a planner and how often it plans.
type Planner struct {
	// Label in tables (the name).
	Label      string            `json:"label"`
	Name       string            `json:"name"`
	Parameters map[string]string `json:"parameters"`
	// Revise is slots (all jobs at each slot) or changes (a plan stands until something
	// changes); by default changes for planners that treat each job by itself on
	// clusters with room for everything, else slots.
	Revise string `json:"revise"`
}

// maxFile bounds a scenario file.
const maxFile = 1 << 20

// Read reads a scenario (YAML or JSON). Unknown fields are errors.
func Read(r io.Reader) (*Scenario, error) {
	in, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: accepted: at most %d bytes", ErrScenario, maxFile)
	}
	var s Scenario
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrScenario, units.ReadError(err))
	}
	return &s, nil
}

// defaults fills in what is not stated.
func (s *Scenario) defaults() {
	if s.Slot.Duration == 0 {
		s.Slot.Duration = DefaultSlot
	}
	if s.Margin == nil {
		s.Margin = &Duration{DefaultMargin}
	}
	if s.MinSaving == nil {
		s.MinSaving = new(DefaultMinSaving)
	}
	if s.Seed == 0 {
		s.Seed = 1
	}
	if s.Objective == "" {
		s.Objective = string(plan.Carbon)
	}
	if len(s.Jobs.MaxDelay) == 0 {
		s.Jobs.MaxDelay = []Delay{{Delay: Duration{24 * time.Hour}}}
	}
	if s.Jobs.File == "" && s.Jobs.Generate == nil {
		s.Jobs.Generate = &Generate{PerHour: 8, Swing: 0.6, Peak: 15, Span: Duration{7 * 24 * time.Hour}}
	}
	if g := s.Jobs.Generate; g != nil {
		if g.Hours.Kind == "" {
			g.Hours = Distribution{Kind: "lognormal", Median: 1, Sigma: 1.2, Most: 48}
		}
		if g.CPUs.Kind == "" {
			g.CPUs = Distribution{Kind: "uniform", Low: 1, High: 8}
		}
	}
	if len(s.Clusters) == 0 {
		s.Clusters = []Cluster{{AnyZone: true}}
	}
	for i := range s.Clusters {
		if c := &s.Clusters[i]; c.Name == "" && (c.Zone != "" || !c.AnyZone) {
			c.Name = c.Zone
			if c.Name == "" {
				c.Name = fmt.Sprintf("cluster-%d", i+1)
			}
		}
	}
	for i := range s.Planners {
		if p := &s.Planners[i]; p.Label == "" {
			p.Label = p.Name
		}
	}
}

func fault(field string, value any, accepted string) error {
	return fmt.Errorf("%w: %s: %v; accepted: %s", ErrScenario, field, value, accepted)
}
