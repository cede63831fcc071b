package extender

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/units"
)

// ErrRequest marks a body that is not that of an extender's call.
var ErrRequest = errors.New("invalid request")

// call is what kube-scheduler asks (extender/v1.ExtenderArgs): a Pod and nodes. With
// nodeCacheCapable: true nodes are named; without it whole nodes come, which are passed on as they
// are.
type call struct {
	pod      Pod
	names    Names
	list     []byte // NodeNames, of the body
	nodeList []byte // Nodes, of the body
}

// Names are names of nodes, as places in a text: thousands of them come with each call, and the
// garbage collector has nothing to follow.
type Names struct {
	text []byte
	at   []place
}

type place struct{ from, to int32 }

// Len is the number of names.
func (n *Names) Len() int { return len(n.at) }

func (n *Names) get(i int) []byte { return n.text[n.at[i].from:n.at[i].to] }

func (n *Names) add(name string) {
	from := int32(len(n.text))
	n.text = append(n.text, name...)
	n.at = append(n.at, place{from, int32(len(n.text))})
}

// pod mirrors the fields of a Pod that are read.
type pod struct {
	Metadata struct {
		UID               types.UID         `json:"uid"`
		Namespace         string            `json:"namespace"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		CreationTimestamp time.Time         `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		PriorityClassName string                       `json:"priorityClassName"`
		Containers        []container                  `json:"containers"`
		InitContainers    []container                  `json:"initContainers"`
		Overhead          corev1.ResourceList          `json:"overhead"`
		Resources         *corev1.ResourceRequirements `json:"resources"`
	} `json:"spec"`
}

type container struct {
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Resources     corev1.ResourceRequirements    `json:"resources"`
}

// containers are containers with nothing but what they ask for.
func containers(of []container) []corev1.Container {
	out := make([]corev1.Container, len(of))
	for i := range of {
		out[i] = corev1.Container{RestartPolicy: of[i].RestartPolicy, Resources: of[i].Resources}
	}
	return out
}

// read reads a call; names is memory for those of its nodes. What it returns refers to the body.
// Errors wrap ErrRequest and say what is wrong with it.
//
// Of the body only the names are many, so they are read here; all else is the library's.
func read(body []byte, names []place) (*call, error) {
	c := &call{names: Names{text: body, at: names[:0]}}
	in := scanner{body: body}
	if !in.take('{') {
		return nil, fmt.Errorf("%w: not a JSON object", ErrRequest)
	}
	seen := map[string]bool{}
	for done := in.take('}'); !done; done = in.take('}') {
		if len(seen) > 0 && !in.take(',') {
			return nil, fmt.Errorf("%w: at byte %d; accepted: a comma or the end of the object", ErrRequest, in.at)
		}
		text, err := in.value()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		var field string
		if err := json.Unmarshal(text, &field); err != nil || !in.take(':') || seen[strings.ToLower(field)] {
			return nil, fmt.Errorf("%w: at byte %d; accepted: fields of an object, each once", ErrRequest, in.at)
		}
		seen[strings.ToLower(field)] = true
		if err := c.readField(field, &in); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrRequest, field, err)
		}
	}
	switch {
	case !in.end():
		return nil, fmt.Errorf("%w: at byte %d; accepted: nothing after the object", ErrRequest, in.at)
	case !seen["pod"]:
		return nil, fmt.Errorf("%w: Pod: not set", ErrRequest)
	case c.list == nil && c.nodeList == nil:
		return nil, fmt.Errorf("%w: NodeNames: not set; accepted: NodeNames (nodeCacheCapable: true) or Nodes", ErrRequest)
	case c.list == nil:
		if err := c.readNodes(); err != nil {
			return nil, fmt.Errorf("%w: Nodes: %w", ErrRequest, err)
		}
	}
	return c, nil
}

func (c *call) readField(field string, in *scanner) error {
	if (field == "NodeNames" || field == "nodenames") && in.peek() == '[' {
		from := in.at
		err := in.names(&c.names)
		c.list = in.body[from:in.at]
		return err
	}
	value, err := in.value()
	if err != nil {
		return err
	}
	switch field {
	case "Pod", "pod":
		if value.Kind() == 'n' {
			return errors.New("not set")
		}
		return c.pod.read(value)
	case "NodeNames", "nodenames":
		if value.Kind() != 'n' {
			return errors.New("not a list")
		}
	case "Nodes", "nodes":
		if value.Kind() != 'n' {
			c.nodeList = value
		}
	}
	return nil
}

// scanner goes through a body.
type scanner struct {
	body []byte
	at   int
}

// peek is the next character that is no space; 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.body); s.at++ {
		if c := s.body[s.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// take goes past a character, if it is the next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.end() {
		return false
	}
	s.at++
	return true
}

func (s *scanner) end() bool { return s.peek() == 0 && s.at == len(s.body) }

// value goes past any value, and returns it.
func (s *scanner) value() (jsontext.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(s.body[s.at:]), jsontext.AllowDuplicateNames(false))
	value, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	s.at += int(dec.InputOffset())
	return value, nil
}

// errNames: names of nodes stand in answers as they are, and need no escapes.
var errNames = errors.New("not names of nodes")

// names goes past a list of names.
func (s *scanner) names(into *Names) error {
	s.take('[')
	if s.take(']') {
		return nil
	}
	for {
		if !s.take('"') {
			return errNames
		}
		from := s.at
		for s.at < len(s.body) && inName[s.body[s.at]] {
			s.at++
		}
		into.at = append(into.at, place{int32(from), int32(s.at)})
		if s.at == len(s.body) || s.body[s.at] != '"' {
			return errNames
		}
		s.at++
		switch {
		case s.take(','):
		case s.take(']'):
			return nil
		default:
			return errNames
		}
	}
}

// inName are the characters that names of nodes have: ASCII that JSON does not escape.
var inName = func() (is [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// readNodes names the nodes of a call that brings whole nodes along.
func (c *call) readNodes() error {
	var list struct {
		Items []jsontext.Value `json:"items"`
	}
	if err := json.Unmarshal(c.nodeList, &list); err != nil {
		return err
	}
	c.names.text = nil
	for _, item := range list.Items {
		var n struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(item, &n); err != nil {
			return err
		}
		if strings.ContainsFunc(n.Metadata.Name, func(r rune) bool { return r >= 0x80 || !inName[r] }) {
			return errNames
		}
		c.names.add(n.Metadata.Name)
	}
	return nil
}

func (p *Pod) read(value []byte) error {
	var in pod
	if err := json.Unmarshal(value, &in); err != nil {
		return err
	}
	*p = Pod{
		UID: in.Metadata.UID, Namespace: in.Metadata.Namespace, Labels: in.Metadata.Labels,
		PriorityClassName: in.Spec.PriorityClassName, Created: in.Metadata.CreationTimestamp,
		Request: kube.Requests(&corev1.Pod{Spec: corev1.PodSpec{
			Containers: containers(in.Spec.Containers), InitContainers: containers(in.Spec.InitContainers), Overhead: in.Spec.Overhead, Resources: in.Spec.Resources,
		}}),
	}
	if text := in.Metadata.Annotations[v1alpha1.AnnotationRuntime]; text != "" {
		// One that cannot be read is taken as not stated: scheduling does not fail for it.
		p.Runtime, _ = units.ParseDuration(text)
	}
	return nil
}

// writeFilter appends the result of a filter (extender/v1.ExtenderFilterResult): all nodes, or
// none, and then why in the words of one node: a node without a word cannot be resolved by
// preemption either.
func (c *call) writeFilter(out []byte, a Answer) []byte {
	switch {
	case a.Pass && c.list != nil:
		out = append(out, `{"NodeNames":`...)
		out = append(out, c.list...)
	case a.Pass:
		out = append(out, `{"Nodes":`...)
		out = append(out, c.nodeList...)
	case c.list != nil:
		out = append(out, `{"NodeNames":[]`...)
	default:
		out = append(out, `{"Nodes":{"items":[]}`...)
	}
	if !a.Pass && c.names.Len() > 0 {
		out = append(out, `,"FailedAndUnresolvableNodes":{"`...)
		out = append(out, c.names.get(0)...)
		out = append(out, `":`...)
		out, _ = jsontext.AppendQuote(out, a.Message) // the error is of invalid UTF-8, which it mends
		out = append(out, '}')
	}
	return append(out, '}')
}

// writeRank appends the result of a prioritize (extender/v1.HostPriorityList). kube-scheduler adds
// scores and takes a node that is not listed for one of 0, so the worst are left out and the others
// say how much better they are: where nothing tells nodes apart the list is empty.
func (c *call) writeRank(out []byte, scores []int8) []byte {
	if len(scores) == 0 {
		return append(out, "[]"...)
	}
	worst := slices.Min(scores)
	out = append(out, '[')
	for i, score := range scores {
		if score == worst {
			continue
		}
		if out[len(out)-1] != '[' {
			out = append(out, ',')
		}
		out = append(out, `{"Host":"`...)
		out = append(out, c.names.get(i)...)
		out = append(out, `","Score":`...)
		out = strconv.AppendInt(out, int64(score-worst), 10)
		out = append(out, '}')
	}
	return append(out, ']')
}
