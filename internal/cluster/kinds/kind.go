// Package kinds knows kinds of workloads by facts that are data: where an object is
// suspended, where its number of workers stands, how its end is recognised. It reads
// objects of any kind into Facts and says which changes hold, release and scale them; it
// writes nothing itself.
//
// The built-in kinds are the files of builtin; a WorkloadKind resource adds one, or
// replaces a built-in one of the same group and kind.
package kinds

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lull.dev/lull/api/v1alpha1"
)

// ErrKind marks a kind that cannot be used.
var ErrKind = errors.New("invalid workload kind")

// Kind is a kind of workload, ready for use. It is immutable.
type Kind struct {
	// Name is how policies call it: the kind of its objects, followed by a dot and the group where a
	// built-in kind of another group has that name: Job.batch.volcano.sh.
	Name string
	// From is the WorkloadKind that states it.
	From string
	Spec v1alpha1.WorkloadKindSpec

	suspend                                      path
	replicas, worker, resources                  path
	tandem                                       []path
	pods                                         []podsOf
	podLabels                                    map[string]path
	priorityClass, started, ended, done, of, who path
	limit                                        path
	active, finished                             []match
	idle                                         map[string]any
}

type podsOf struct {
	each, template, completions path
	counts                      []path
}

// whole is the path to the templates from the object.
func (g *podsOf) whole() path { return slices.Concat(g.each, g.template) }

type match struct {
	condition string
	path      path
	values    []string
}

// New compiles a kind; name is that of the WorkloadKind, for errors. The error wraps ErrKind and names the field, its value and what is
// accepted.
func New(name string, spec *v1alpha1.WorkloadKindSpec) (*Kind, error) {
	k := &Kind{Name: nameOf(spec), From: name, Spec: *spec.DeepCopy(), podLabels: map[string]path{}}
	if err := checkHold(name, spec); err != nil {
		return nil, err
	}
	c := compiler{kind: name}
	k.suspend = c.single("hold.suspend", spec.Hold.Suspend)
	if w := spec.Workers; w != nil {
		k.replicas, k.worker, k.resources = c.single("workers.replicas", w.Replicas), c.single("workers.template", w.Template), c.single("workers.resources", w.Resources)
		for i, t := range w.Tandem {
			k.tandem = append(k.tandem, c.single(fmt.Sprintf("workers.tandem[%d]", i), t))
		}
	}
	for i := range spec.Pods {
		k.pods = append(k.pods, c.pods(i, &spec.Pods[i]))
	}
	for label, p := range spec.PodLabels {
		k.podLabels[label] = c.single(fmt.Sprintf("podLabels[%s]", label), p)
	}
	k.priorityClass = c.single("priorityClass", spec.PriorityClass)
	if m := spec.ManagedBy; m != nil {
		k.who = c.single("managedBy.path", m.Path)
	}
	k.started, k.ended = c.single("started", spec.Started), c.single("ended", spec.Ended)
	k.limit = c.single("activeDeadline", spec.ActiveDeadline)
	if x := spec.Completions; x != nil {
		k.done, k.of = c.single("completions.done", x.Done), c.single("completions.of", x.Of)
	}
	if spec.Idle != nil {
		if err := json.Unmarshal(spec.Idle.Raw, &k.idle); err != nil {
			return nil, fmt.Errorf("%w %q: spec.idle: %s; accepted: fields of the status and their values", ErrKind, name, spec.Idle.Raw)
		}
	}
	k.active, k.finished = c.matches("active", spec.Active), c.matches("finished", spec.Finished)
	if c.err != nil {
		return nil, c.err
	}
	if err := k.readable(); err != nil {
		return nil, err
	}
	return k, nil
}

// checkHold checks what is read of objects of a kind and how they are held.
func checkHold(name string, spec *v1alpha1.WorkloadKindSpec) error {
	ways := 0
	for _, is := range []bool{spec.Hold.Suspend != "", spec.Hold.Gate, spec.Hold.Zero} {
		if is {
			ways++
		}
	}
	switch {
	case spec.Version == "" || spec.Kind == "" || spec.Resource == "":
		return fmt.Errorf("%w %q: spec.version, kind, resource: %q, %q, %q; accepted: all three set", ErrKind, name, spec.Version, spec.Kind, spec.Resource)
	case ways != 1:
		return fmt.Errorf("%w %q: spec.hold: %d ways; accepted: exactly one of suspend, gate and zero", ErrKind, name, ways)
	case spec.Hold.Gate && (spec.Kind != "Pod" || spec.Group != ""):
		return fmt.Errorf("%w %q: spec.hold.gate: kind %s; accepted: Pod only", ErrKind, name, spec.Kind)
	case spec.Hold.Zero && (spec.Workers == nil || spec.Workers.Fixed):
		return fmt.Errorf("%w %q: spec.hold.zero; accepted: with workers that scale", ErrKind, name)
	case spec.Workers != nil && spec.Workers.Replicas == "":
		return fmt.Errorf("%w %q: spec.workers.replicas: not set", ErrKind, name)
	}
	return nil
}

// compiler compiles the paths of a kind and keeps the first error.
type compiler struct {
	kind string
	err  error
}

// refuse keeps an error of a field of the specification.
func (c *compiler) refuse(field, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w %q: spec.%s"+format, append([]any{ErrKind, c.kind, field}, args...)...)
	}
}

// path compiles a path that may lead to several fields; nil if none is stated.
func (c *compiler) path(field string, p v1alpha1.Path) path {
	if p == "" {
		return nil
	}
	out, err := parsePath(string(p))
	if err != nil {
		c.refuse(field, ": %w", err)
	}
	return out
}

// single compiles a path to one field; nil if none is stated.
func (c *compiler) single(field string, p v1alpha1.Path) path {
	out := c.path(field, p)
	if slices.ContainsFunc(out, func(s step) bool { return s.all }) {
		c.refuse(field, ": %q; accepted: a path without [*]", p)
	}
	return out
}

func (c *compiler) pods(i int, p *v1alpha1.PodsSpec) podsOf {
	g := podsOf{each: c.path(fmt.Sprintf("pods[%d].each", i), p.Each), template: c.single(fmt.Sprintf("pods[%d].template", i), p.Template)}
	for j, count := range p.Counts {
		g.counts = append(g.counts, c.single(fmt.Sprintf("pods[%d].counts[%d]", i, j), count))
	}
	g.completions = c.single(fmt.Sprintf("pods[%d].completions", i), p.Completions)
	if p.Completions != "" && len(p.Counts) == 0 {
		c.refuse(fmt.Sprintf("pods[%d].completions", i), ": %q; accepted: with counts, of which it bounds the first", p.Completions)
	}
	return g
}

func (c *compiler) matches(field string, of []v1alpha1.StatusMatch) (out []match) {
	for i := range of {
		if (of[i].Condition == "") == (of[i].Path == "") {
			c.refuse(fmt.Sprintf("%s[%d]", field, i), "; accepted: either condition or path")
		}
		out = append(out, match{of[i].Condition, c.single(fmt.Sprintf("%s[%d].path", field, i), of[i].Path), of[i].Values})
	}
	return out
}

// nameOf is how policies call a kind.
func nameOf(spec *v1alpha1.WorkloadKindSpec) string {
	if group, taken := builtinGroups[spec.Kind]; taken && group != spec.Group {
		return spec.Kind + "." + spec.Group
	}
	return spec.Kind
}

// paths are those to single fields of an object, by the fields that state them.
func (k *Kind) paths() map[string]path {
	out := map[string]path{
		"hold.suspend": k.suspend, "workers.replicas": k.replicas, "workers.resources": k.resources, "priorityClass": k.priorityClass,
		"started": k.started, "ended": k.ended, "activeDeadline": k.limit, "completions.done": k.done, "completions.of": k.of, "managedBy.path": k.who,
	}
	for i, p := range k.tandem {
		out[fmt.Sprintf("workers.tandem[%d]", i)] = p
	}
	for label, p := range k.podLabels {
		out[fmt.Sprintf("podLabels[%s]", label)] = p
	}
	for i := range k.active {
		out[fmt.Sprintf("active[%d].path", i)] = k.active[i].path
	}
	for i := range k.finished {
		out[fmt.Sprintf("finished[%d].path", i)] = k.finished[i].path
	}
	return out
}

// readable refuses a kind with a path into the part of a pod template that Prune removes. Lull would read such
// a field as absent, and a patch of it would replace what the user wrote there.
func (k *Kind) readable() error {
	var templates []path
	if len(k.worker) > 0 {
		templates = append(templates, k.worker)
	}
	for i := range k.pods {
		templates = append(templates, k.pods[i].whole())
	}
	fields := k.paths()
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		for _, t := range templates {
			if rest, inside := fields[field].below(t); inside && !keeps(rest) {
				return fmt.Errorf("%w %q: spec.%s: %s is in the pod template %s, and Lull keeps only the parts of a template that planning reads; accepted: a path outside of it", ErrKind, k.From, field, fields[field], t)
			}
		}
	}
	return nil
}

// GVK is the group, version and kind.
func (k *Kind) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Spec.Group, Version: k.Spec.Version, Kind: k.Spec.Kind}
}

// Elastic reports whether the number of workers can be changed.
func (k *Kind) Elastic() bool { return k.Spec.Workers != nil && !k.Spec.Workers.Fixed }

// Pausable reports whether what runs can be held again.
func (k *Kind) Pausable() bool { return !k.Spec.Hold.Gate }

// Ends reports whether the kind has an end.
func (k *Kind) Ends() bool { return len(k.finished) > 0 }

// GroupKind is what a kind is known by.
func (k *Kind) GroupKind() schema.GroupKind { return k.GVK().GroupKind() }

// maxLimit is the longest limit of a run, in seconds, that counts: a century.
const maxLimit = 100 * 366 * 24 * 3600

// TellsActive says whether objects of the kind tell that pods of them run or are about to.
func (k *Kind) TellsActive() bool { return len(k.active) > 0 }

// Quieten returns what is to be changed of an object's status for it to say that nothing of it runs,
// as a JSON merge patch of the status; nil where it says so, or the kind does not know how.
func (k *Kind) Quieten(obj map[string]any) map[string]any {
	status, _ := obj["status"].(map[string]any)
	var patch map[string]any
	for field, want := range k.idle {
		is, there := status[field]
		if !there && (want == nil || reflect.ValueOf(want).IsZero()) || there && want != nil && fmt.Sprint(is) == fmt.Sprint(want) {
			continue
		}
		if patch == nil {
			patch = map[string]any{}
		}
		patch[field] = want
	}
	return patch
}

// KeepsStart reports whether objects of the kind keep the time of their start while they are suspended, and may not change it when they are
// resumed: Jobs, in Kubernetes without https://github.com/kubernetes/kubernetes/pull/134769. The Job controller does not get further then.
func (k *Kind) KeepsStart() bool { return k.Spec.Group == "batch" && k.Spec.Resource == "jobs" }

// Queues reports whether objects of the kind can wait in a queue of Kueue.
func (k *Kind) Queues() bool { return k.Spec.Hold.Suspend != "" }
