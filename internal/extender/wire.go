package extender

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/kube"
	"lull.dev/lull/pkg/units"
)

// ErrRequest marks a body that is not that of an extender's call.
var ErrRequest = errors.New("invalid request")

// call is what kube-scheduler asks (extender/v1.ExtenderArgs): a Pod and nodes. With
// nodeCacheCapable: true nodes are named; without it whole nodes come, which are passed on as they
// are.
type call struct {
	pod      Pod
	names    [][]byte // of the nodes, as they stand in the body
	list     []byte   // NodeNames
	nodeList []byte   // Nodes
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

// read reads a call. Errors wrap ErrRequest and say what is wrong with it.
func read(body []byte) (*call, error) {
	c := &call{}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(false))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, fmt.Errorf("%w: not a JSON object", ErrRequest)
	}
	found := false
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		field := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrRequest, field, err)
		}
		if value.Kind() == 'n' {
			continue
		}
		switch field {
		case "Pod", "pod":
			found = true
			err = c.pod.read(value)
		case "NodeNames", "nodenames":
			c.list = bytes.Clone(value)
			c.names, err = split(c.list)
		case "Nodes", "nodes":
			c.nodeList = bytes.Clone(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrRequest, field, err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	switch {
	case !found:
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

// errNames: names of nodes stand in answers as they are, and need no escapes.
var errNames = errors.New("not names of nodes")

// split takes an array of names apart without copying.
func split(array []byte) ([][]byte, error) {
	if len(array) == 0 || array[0] != '[' {
		return nil, errors.New("not a list")
	}
	var out [][]byte
	for rest := array; ; {
		from := bytes.IndexByte(rest, '"')
		if from < 0 {
			return out, nil
		}
		rest = rest[from+1:]
		to := bytes.IndexByte(rest, '"')
		if to < 0 || bytes.IndexByte(rest[:to], '\\') >= 0 {
			return nil, errNames
		}
		out = append(out, rest[:to])
		rest = rest[to+1:]
	}
}

// readNodes names the nodes of a call that brings whole nodes along.
func (c *call) readNodes() error {
	var list struct {
		Items []jsontext.Value `json:"items"`
	}
	if err := json.Unmarshal(c.nodeList, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		var n struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(item, &n); err != nil {
			return err
		}
		name := []byte(n.Metadata.Name)
		if bytes.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			return errNames
		}
		c.names = append(c.names, name)
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
	if !a.Pass && len(c.names) > 0 {
		out = append(out, `,"FailedAndUnresolvableNodes":{"`...)
		out = append(out, c.names[0]...)
		out = append(out, `":`...)
		out, _ = jsontext.AppendQuote(out, a.Message) // the error is of invalid UTF-8, which it mends
		out = append(out, '}')
	}
	return append(out, '}')
}

// writeRank appends the result of a prioritize (extender/v1.HostPriorityList).
func (c *call) writeRank(out []byte, scores []int8) []byte {
	out = append(out, '[')
	for i, name := range c.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"Host":"`...)
		out = append(out, name...)
		out = append(out, `","Score":`...)
		out = strconv.AppendInt(out, int64(scores[i]), 10)
		out = append(out, '}')
	}
	return append(out, ']')
}
