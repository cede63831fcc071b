// Package extender is Lull inside kube-scheduler: Algorithm 1 of Piontek et al. as a scheduler
// extender. Its filter lets a Pod pass, or refuses it all nodes for now; its prioritize ranks nodes
// by the emissions that the Pod would add. It answers from memory alone and holds nothing: without
// it (ignorable: true) Pods are scheduled as ever.
//
// Source: Piontek, Haghshenas, Aiello: Carbon emission-aware job scheduling for Kubernetes
// deployments, J. Supercomputing 80, 2024, Algorithm 1 and Section 4.1.
package extender

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/pkg/plan/window"
	"lull.dev/lull/pkg/units"
)

// ErrConfig marks a configuration or a policy that makes no sense.
var ErrConfig = errors.New("invalid configuration of the extender")

// Kind of the configuration file; its apiVersion is that of Lull's resources.
const Kind = "ExtenderConfiguration"

// Configuration is the file of the extender. All of it is optional.
type Configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Default governs the Pods of namespaces without a CarbonPolicy for the extender; without it
	// they pass.
	Default *RuleSpec `json:"default,omitempty"`
	// Nodes say where nodes stand and what power they take; the first that selects a node counts.
	Nodes []NodeSpec `json:"nodes,omitempty"`
}

// RuleSpec says which Pods wait, and how: Algorithm 1 and its parameters.
type RuleSpec struct {
	// Namespaces it governs; none names all but kube-system and Lull's own. Selector picks Pods by their labels.
	Namespaces []string             `json:"namespaces,omitempty"`
	Selector   metav1.LabelSelector `json:"selector,omitempty"`
	// Zone is the GridZone whose intensity counts.
	Zone string `json:"zone"`
	// CriticalPriorityClasses never wait.
	CriticalPriorityClasses []string `json:"criticalPriorityClasses,omitempty"`
	// Parameters are those of planner window: time-frame, window-frame, max-stale, expected-load.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// NodeSpec describes nodes.
type NodeSpec struct {
	Selector metav1.LabelSelector `json:"selector,omitempty"`
	// Zone is the GridZone where they stand.
	Zone string `json:"zone,omitempty"`
	// IdleWatts and MaxWatts are the power of a node without and with all its CPUs at work
	// (Equation 9). WattsPerUnit is the power of one unit of further resources, and of a CPU where
	// MaxWatts is not stated (3.5 W).
	IdleWatts    float64            `json:"idleWatts,omitempty"`
	MaxWatts     float64            `json:"maxWatts,omitempty"`
	WattsPerUnit map[string]float64 `json:"wattsPerUnit,omitempty"`
	// PUE of the site; 0 stands for 1.
	PUE float64 `json:"pue,omitempty"`
}

// maxConfig bounds the size of a configuration file.
const maxConfig = 1 << 20

// ReadConfiguration reads a file in YAML or JSON. Errors wrap ErrConfig and name the field.
func ReadConfiguration(r io.Reader) (Configuration, error) {
	var c Configuration
	text, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return c, err
	}
	if len(text) > maxConfig {
		return c, fmt.Errorf("%w: more than %d bytes", ErrConfig, maxConfig)
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, units.ReadError(err))
	}
	if want := v1alpha1.GroupVersion.String(); c.APIVersion != want || c.Kind != Kind {
		return c, fmt.Errorf("%w: apiVersion, kind: %q, %q; accepted: %q, %q", ErrConfig, c.APIVersion, c.Kind, want, Kind)
	}
	if c.Default != nil {
		if _, err := c.Default.rule(); err != nil {
			return c, fmt.Errorf("default: %w", err)
		}
	}
	for i := range c.Nodes {
		if _, err := c.Nodes[i].class(); err != nil {
			return c, fmt.Errorf("nodes[%d]: %w", i, err)
		}
	}
	return c, nil
}

// rule is a RuleSpec made ready to be asked.
type rule struct {
	name                 string // of its policy
	selector             labels.Selector
	namespaces           []string
	zone                 string
	critical             []string
	frame, window, stale time.Duration
	// load is the expected share of capacity in use; negative where it is to be forecast.
	load           float64
	paused, shadow bool
}

func (r *RuleSpec) rule() (*rule, error) {
	out := &rule{
		namespaces: r.Namespaces, zone: r.Zone, critical: r.CriticalPriorityClasses, load: -1,
		frame: window.DefaultTimeFrame, window: window.DefaultWindowFrame, stale: window.DefaultMaxStale,
	}
	var err error
	if out.selector, err = metav1.LabelSelectorAsSelector(&r.Selector); err != nil {
		return nil, fmt.Errorf("%w: selector: %w", ErrConfig, err)
	}
	if r.Zone == "" {
		return nil, fmt.Errorf("%w: zone: not set; accepted: the name of a GridZone", ErrConfig)
	}
	into := map[string]*time.Duration{"time-frame": &out.frame, "window-frame": &out.window, "max-stale": &out.stale}
	for name, value := range r.Parameters {
		if name == "expected-load" {
			out.load, err = strconv.ParseFloat(value, 64)
			if err != nil || !(out.load >= 0 && out.load <= 1) {
				return nil, fmt.Errorf("%w: parameters.%s: %q; accepted: 0 to 1", ErrConfig, name, value)
			}
			continue
		}
		d, known := into[name]
		if !known {
			return nil, fmt.Errorf("%w: parameters.%s; accepted: expected-load, max-stale, time-frame, window-frame", ErrConfig, name)
		}
		if *d, err = units.ParseDuration(value); err != nil || *d <= 0 {
			return nil, fmt.Errorf("%w: parameters.%s: %q; accepted: a duration above 0, e.g. 6h", ErrConfig, name, value)
		}
	}
	if out.window > out.frame {
		return nil, fmt.Errorf("%w: parameters.window-frame: %v; accepted: at most time-frame (%v)", ErrConfig, out.window, out.frame)
	}
	return out, nil
}

// planner is the one whose method the extender is.
const planner = "window"

// ruleOf is the rule of a CarbonPolicy for the extender.
func ruleOf(p *v1alpha1.CarbonPolicy) (*rule, error) {
	if p.Spec.Planner.Name != planner {
		return nil, fmt.Errorf("%w: spec.planner.name: %q; accepted with via: Extender: %q", ErrConfig, p.Spec.Planner.Name, planner)
	}
	spec := RuleSpec{Selector: p.Spec.Selector, Zone: p.Spec.Zone, CriticalPriorityClasses: p.Spec.CriticalPriorityClasses, Parameters: p.Spec.Planner.Parameters}
	out, err := spec.rule()
	if err != nil {
		return nil, err
	}
	out.name, out.namespaces = p.Name, []string{p.Namespace}
	out.paused, out.shadow = p.Spec.Paused, p.Spec.Mode == v1alpha1.ModeShadow
	return out, nil
}

// governs reports whether the rule holds for a Pod. In kube-system, and in Lull's own namespace system, only a rule
// of the file does, and only if it names them: kube-scheduler does not tell whether a Pod asks for a policy.
func (r *rule) governs(system, namespace string, of labels.Set) bool {
	byName := slices.Contains(r.namespaces, namespace)
	if len(r.namespaces) > 0 && !byName || !r.selector.Matches(of) {
		return false
	}
	return byName && r.name == "" || kinds.Excluded(system, namespace, r.name, nil) == ""
}

// idle reports whether the rule has no Pod wait.
func (r *rule) idle() bool { return r.paused || r.shadow }

// spares reports whether a Pod is of a critical priority class, which never waits.
func (r *rule) spares(p *Pod) bool {
	return p.PriorityClassName != "" && slices.Contains(r.critical, p.PriorityClassName)
}

// class is a NodeSpec made ready.
type class struct {
	NodeSpec
	selector labels.Selector
}

// wattsPerCPU is taken where nothing is stated, as in CarbonPolicies.
const wattsPerCPU = 3.5

func (n NodeSpec) class() (class, error) {
	selector, err := metav1.LabelSelectorAsSelector(&n.Selector)
	if err != nil {
		return class{}, fmt.Errorf("%w: selector: %w", ErrConfig, err)
	}
	for field, v := range map[string]float64{"idleWatts": n.IdleWatts, "maxWatts": n.MaxWatts, "pue": n.PUE} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return class{}, fmt.Errorf("%w: %s: %v; accepted: finite and at least 0", ErrConfig, field, v)
		}
	}
	switch {
	case n.MaxWatts > 0 && n.MaxWatts < n.IdleWatts:
		return class{}, fmt.Errorf("%w: maxWatts: %v; accepted: at least idleWatts (%v)", ErrConfig, n.MaxWatts, n.IdleWatts)
	case n.PUE != 0 && n.PUE < 1:
		return class{}, fmt.Errorf("%w: pue: %v; accepted: at least 1", ErrConfig, n.PUE)
	}
	for r, v := range n.WattsPerUnit {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return class{}, fmt.Errorf("%w: wattsPerUnit.%s: %v; accepted: finite and at least 0", ErrConfig, r, v)
		}
	}
	if n.PUE == 0 {
		n.PUE = 1
	}
	return class{n, selector}, nil
}
