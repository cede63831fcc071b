package kinds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kueue"
)

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
