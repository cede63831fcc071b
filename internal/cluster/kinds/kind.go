// Package kinds knows kinds of workloads by facts that are data: where an object is
// suspended, where its number of workers stands, how its end is recognised. It reads
// objects of any kind into Facts and says which changes hold, release and scale them; it
// writes nothing itself.
//
// The built-in kinds are the files of builtin; a WorkloadKind resource adds one, or
// replaces a built-in one of the same group and kind.
package kinds

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
	"lull.dev/lull/pkg/units"
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
	k := &Kind{Name: nameOf(spec), From: name, Spec: *spec.DeepCopy()}
	var first error
	compile := func(field string, p v1alpha1.Path) path {
		if p == "" {
			return nil
		}
		c, err := parsePath(string(p))
		if err != nil && first == nil {
			first = fmt.Errorf("%w %q: spec.%s: %w", ErrKind, name, field, err)
		}
		return c
	}
	single := func(field string, p v1alpha1.Path) path {
		c := compile(field, p)
		for _, s := range c {
			if s.all && first == nil {
				first = fmt.Errorf("%w %q: spec.%s: %q; accepted: a path without [*]", ErrKind, name, field, p)
			}
		}
		return c
	}
	if spec.Version == "" || spec.Kind == "" || spec.Resource == "" {
		return nil, fmt.Errorf("%w %q: spec.version, kind, resource: %q, %q, %q; accepted: all three set", ErrKind, name, spec.Version, spec.Kind, spec.Resource)
	}
	ways := 0
	for _, is := range []bool{spec.Hold.Suspend != "", spec.Hold.Gate, spec.Hold.Zero} {
		if is {
			ways++
		}
	}
	switch {
	case ways != 1:
		return nil, fmt.Errorf("%w %q: spec.hold: %d ways; accepted: exactly one of suspend, gate and zero", ErrKind, name, ways)
	case spec.Hold.Gate && (spec.Kind != "Pod" || spec.Group != ""):
		return nil, fmt.Errorf("%w %q: spec.hold.gate: kind %s; accepted: Pod only", ErrKind, name, spec.Kind)
	case spec.Hold.Zero && (spec.Workers == nil || spec.Workers.Fixed):
		return nil, fmt.Errorf("%w %q: spec.hold.zero; accepted: with workers that scale", ErrKind, name)
	}
	k.suspend = single("hold.suspend", spec.Hold.Suspend)
	if w := spec.Workers; w != nil {
		if w.Replicas == "" {
			return nil, fmt.Errorf("%w %q: spec.workers.replicas: not set", ErrKind, name)
		}
		k.replicas, k.worker, k.resources = single("workers.replicas", w.Replicas), single("workers.template", w.Template), single("workers.resources", w.Resources)
		for i, t := range w.Tandem {
			k.tandem = append(k.tandem, single(fmt.Sprintf("workers.tandem[%d]", i), t))
		}
	}
	for i := range spec.Pods {
		p := &spec.Pods[i]
		g := podsOf{each: compile(fmt.Sprintf("pods[%d].each", i), p.Each), template: single(fmt.Sprintf("pods[%d].template", i), p.Template)}
		for j, c := range p.Counts {
			g.counts = append(g.counts, single(fmt.Sprintf("pods[%d].counts[%d]", i, j), c))
		}
		g.completions = single(fmt.Sprintf("pods[%d].completions", i), p.Completions)
		if p.Completions != "" && len(p.Counts) == 0 && first == nil {
			first = fmt.Errorf("%w %q: spec.pods[%d].completions: %q; accepted: with counts, of which it bounds the first", ErrKind, name, i, p.Completions)
		}
		k.pods = append(k.pods, g)
	}
	k.podLabels = map[string]path{}
	for label, p := range spec.PodLabels {
		k.podLabels[label] = single(fmt.Sprintf("podLabels[%s]", label), p)
	}
	k.priorityClass = single("priorityClass", spec.PriorityClass)
	if m := spec.ManagedBy; m != nil {
		k.who = single("managedBy.path", m.Path)
	}
	k.started, k.ended = single("started", spec.Started), single("ended", spec.Ended)
	k.limit = single("activeDeadline", spec.ActiveDeadline)
	if c := spec.Completions; c != nil {
		k.done, k.of = single("completions.done", c.Done), single("completions.of", c.Of)
	}
	matches := func(field string, of []v1alpha1.StatusMatch) (out []match) {
		for i := range of {
			if (of[i].Condition == "") == (of[i].Path == "") && first == nil {
				first = fmt.Errorf("%w %q: spec.%s[%d]; accepted: either condition or path", ErrKind, name, field, i)
			}
			out = append(out, match{of[i].Condition, single(fmt.Sprintf("%s[%d].path", field, i), of[i].Path), of[i].Values})
		}
		return out
	}
	if spec.Idle != nil {
		if err := json.Unmarshal(spec.Idle.Raw, &k.idle); err != nil {
			return nil, fmt.Errorf("%w %q: spec.idle: %s; accepted: fields of the status and their values", ErrKind, name, spec.Idle.Raw)
		}
	}
	k.active, k.finished = matches("active", spec.Active), matches("finished", spec.Finished)
	if first != nil {
		return nil, first
	}
	if err := k.readable(); err != nil {
		return nil, err
	}
	return k, nil
}

// builtinGroups are the groups of the kinds whose names policies and CarbonPlans use without a group. A
// PodGroup is a group of Pods.
var builtinGroups = map[string]string{
	"AppWrapper": "workload.codeflare.dev", "Deployment": "apps", "Job": "batch", "JobSet": "jobset.x-k8s.io", "MPIJob": "kubeflow.org",
	"Pod": "", "PodGroup": "", "PyTorchJob": "kubeflow.org", "RayCluster": "ray.io", "RayJob": "ray.io", "TrainJob": "trainer.kubeflow.org",
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

// readable refuses a kind of which a path leads into the part of a pod template that Prune takes out: such
// a field reads as absent, and a patch of it would replace what the user wrote there.
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
				return fmt.Errorf("%w %q: spec.%s: %s lies in the pod template %s, of which Lull keeps only what planning reads; accepted: a path outside of it", ErrKind, k.From, field, fields[field], t)
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

//go:embed builtin/*.yaml
var files embed.FS

// Builtin returns the built-in kinds by name.
func Builtin() []*Kind { return slices.Clone(builtin()) }

var builtin = sync.OnceValue(func() []*Kind {
	entries, err := fs.ReadDir(files, "builtin")
	if err != nil {
		panic(err) // part of the binary
	}
	var out []*Kind
	for _, e := range entries {
		text, err := fs.ReadFile(files, "builtin/"+e.Name())
		if err != nil {
			panic(err)
		}
		k, err := Parse(text)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", e.Name(), err)) // a test reads them all
		}
		out = append(out, k)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Name < out[b].Name })
	return out
})

// GroupKind is what a kind is known by.
func (k *Kind) GroupKind() schema.GroupKind { return k.GVK().GroupKind() }

// With returns the built-in kinds and those of WorkloadKinds, which replace built-in ones of the same group
// and kind. Of several WorkloadKinds that policies cannot tell apart the first counts; refused has, by the
// name of the WorkloadKind, an error that names both for each of the others.
func With(further []*Kind) (all []*Kind, refused map[string]error) {
	all, refused = Builtin(), map[string]error{}
	for _, k := range further {
		i := slices.IndexFunc(all, func(x *Kind) bool { return x.Name == k.Name })
		switch {
		case i < 0:
			all = append(all, k)
		case slices.Contains(builtin(), all[i]): // of the same group, as names are
			all[i] = k
		default:
			refused[k.From] = fmt.Errorf("%w %q: spec.kind: %s is %s of WorkloadKind %q already; accepted: one WorkloadKind for each name that policies use", ErrKind, k.From, k.Name, all[i].GroupKind(), all[i].From)
		}
	}
	return all, refused
}

// DefaultNames are the kinds that a policy governs where it names none: batch work with an
// end of its own.
var DefaultNames = []string{"Job", "JobSet", "MPIJob", "PyTorchJob", "TrainJob", "RayJob", "AppWrapper"}

// Named returns built-in kinds by name. The error wraps ErrKind and lists those there are.
func Named(names []string) ([]*Kind, error) {
	byName := map[string]*Kind{}
	var all []string
	for _, k := range Builtin() {
		byName[k.Name] = k
		all = append(all, k.Name)
	}
	var out []*Kind
	for _, name := range names {
		k := byName[name]
		if k == nil {
			return nil, fmt.Errorf("%w: %q; accepted: %s", ErrKind, name, strings.Join(all, ", "))
		}
		out = append(out, k)
	}
	return out, nil
}

// Parse reads a WorkloadKind from YAML, strictly.
func Parse(text []byte) (*Kind, error) {
	var w v1alpha1.WorkloadKind
	if err := yaml.UnmarshalStrict(text, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKind, units.ReadError(err))
	}
	if w.APIVersion != v1alpha1.GroupVersion.String() || w.Kind != "WorkloadKind" || w.Name == "" {
		return nil, fmt.Errorf("%w: %s %s %q; accepted: a %s WorkloadKind with a name", ErrKind, w.APIVersion, w.Kind, w.Name, v1alpha1.GroupVersion)
	}
	return New(w.Name, &w.Spec)
}

// maxLimit is the longest limit of a run, in seconds, that counts: a century.
const maxLimit = 100 * 366 * 24 * 3600

// TellsActive says whether objects of the kind tell that pods of them run or are about to.
func (k *Kind) TellsActive() bool { return len(k.active) > 0 }

// Facts is what Lull knows of an object.
type Facts struct {
	// Suspended says that the object is kept from running, by whomever.
	Suspended bool
	// Active says that pods of it run or are about to; Failed that it has finished without success.
	Active, Finished, Failed bool
	// Started is when the present run began; zero where that is not known.
	Started time.Time
	// Ended is when it finished; zero where that is not known.
	Ended time.Time
	// Limit is how long a run may take (wall time) before it is ended by force; 0 where none is stated.
	Limit time.Duration
	// Workers is the number the object asks for; 0 for kinds without.
	Workers int
	// Request is what one worker asks for (of an object without workers, all its pods),
	// Fixed what its other pods do.
	Request, Fixed map[string]float64
	// Pods is how many pods of the object do not scale.
	Pods          int
	PriorityClass string
	// Done of Of parts are finished; Of is 0 where the work has no parts.
	Done, Of int
	// Tandem says that there is one part for each worker; Done and Of are 0 then.
	Tandem bool
	// Managed says that somebody else runs the object.
	Managed bool
	// Queue is the queue of Kueue that it waits in. It is Suspended then while Lull's gate
	// keeps it out of that queue; what Kueue keeps waiting is on its way.
	Queue string
}

// Read reads an object. Fields that are absent or of another type count as not set, as
// the API server has validated what there is.
func (k *Kind) Read(obj map[string]any) Facts {
	f := Facts{Finished: matchesAny(k.finished, obj), Active: matchesAny(k.active, obj), PriorityClass: k.priorityClass.text(obj), Managed: k.managed(obj)}
	if at, err := time.Parse(time.RFC3339, k.started.text(obj)); err == nil {
		f.Started = at
	}
	if f.Finished {
		f.Ended, f.Failed = k.EndOf(obj), k.failed(obj)
	}
	if seconds := k.limit.number(obj, 0); seconds > 0 && seconds <= maxLimit {
		f.Limit = time.Duration(seconds) * time.Second
	}
	if len(k.replicas) > 0 {
		f.Workers = k.replicas.number(obj, 1)
		f.Request = k.requestOfWorker(obj)
	}
	if len(k.of) > 0 {
		f.Done, f.Of = k.done.number(obj, 0), k.of.number(obj, 0)
	}
	for _, t := range k.tandem {
		if inTandem(obj) && t.number(obj, -1) == f.Workers {
			f.Tandem, f.Done, f.Of = true, 0, 0
		}
	}
	f.Fixed = map[string]float64{}
	for i := range k.pods {
		f.Pods += k.pods[i].add(f.Fixed, obj)
	}
	workers := len(k.replicas) > 0
	if _, there := k.worker.get(obj); len(k.worker) > 0 && !there && f.Pods > 0 {
		f.Workers, workers = 0, false // as of a PyTorchJob that is a master alone
	}
	switch {
	case k.Spec.Hold.Gate:
		f.Suspended = gateOf(obj) >= 0
		f.Request = requests(obj)
	case k.Spec.Hold.Zero:
		f.Suspended = f.Workers == 0
	default:
		v, _ := k.suspend.get(obj)
		f.Suspended, _ = v.(bool)
	}
	if !workers && !k.Spec.Hold.Gate {
		f.Request, f.Fixed = f.Fixed, nil
	}
	if q := queueOf(obj); q != "" && k.Queues() {
		f.Queue, f.Suspended = q, slices.Contains(kueue.Gates(annotation(obj, kueue.AnnotationGates)), v1alpha1.Gate)
	}
	return f
}

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

// Queues reports whether objects of the kind can wait in a queue of Kueue.
func (k *Kind) Queues() bool { return k.Spec.Hold.Suspend != "" }

func queueOf(obj map[string]any) string {
	metadata, _ := obj["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	name, _ := labels[kueue.LabelQueue].(string)
	return name
}

// managed reports whether somebody else than the usual controller runs the object.
func (k *Kind) managed(obj map[string]any) bool {
	who := k.who.text(obj)
	if who == kueue.ManagedByMultiKueue && queueOf(obj) != "" {
		return false // it goes to another cluster by way of its queue
	}
	return who != "" && !slices.Contains(k.Spec.ManagedBy.Own, who)
}

// PodLabels returns the labels of the object's pods; nil where they are not known (yet).
func (k *Kind) PodLabels(obj map[string]any) map[string]string {
	out := make(map[string]string, len(k.podLabels))
	for label, p := range k.podLabels {
		v := p.text(obj)
		if v == "" {
			return nil
		}
		out[label] = v
	}
	return out
}

// failed reports whether what says that an object has finished says that it failed.
func (k *Kind) failed(obj map[string]any) bool {
	for i := range k.finished {
		m := &k.finished[i]
		if !m.holds(obj) {
			continue
		}
		text := m.condition
		if text == "" {
			v, _ := m.path.get(obj)
			text = fmt.Sprint(v)
		}
		if strings.Contains(strings.ToLower(text), "fail") {
			return true
		}
	}
	return false
}

// EndOf is when a finished object ended; zero where it does not say.
func (k *Kind) EndOf(obj map[string]any) time.Time {
	if at, err := time.Parse(time.RFC3339, k.ended.text(obj)); err == nil {
		return at
	}
	for i := range k.finished {
		if c := k.finished[i].find(obj); c != nil {
			text, _ := c["lastTransitionTime"].(string)
			at, err := time.Parse(time.RFC3339, text)
			if err == nil {
				return at
			}
		}
	}
	return time.Time{}
}

func matchesAny(of []match, obj map[string]any) bool {
	for i := range of {
		if of[i].holds(obj) {
			return true
		}
	}
	return false
}

func (m *match) holds(obj map[string]any) bool {
	if m.condition != "" {
		return m.find(obj) != nil
	}
	v, ok := m.path.get(obj)
	if !ok {
		return false
	}
	if len(m.values) == 0 {
		return v != "" && v != false && v != int64(0) && v != float64(0)
	}
	text := fmt.Sprint(v)
	for _, x := range m.values {
		if x == text {
			return true
		}
	}
	return false
}

// find returns the condition that is looked for, where it is True.
func (m *match) find(obj map[string]any) map[string]any {
	status, _ := obj["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && m.condition != "" && c["type"] == m.condition && c["status"] == "True" {
			return c
		}
	}
	return nil
}
