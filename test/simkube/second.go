package simkube

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Second is a second API server behind the same address. It learns of what changes later than the first.
type Second struct {
	// Share of the calls that it serves, 0 to 1.
	Share float64
	// Learns is when it learns of the rights that programs have in a namespace. Until then it forbids all calls there.
	Learns map[string]time.Time
	// Only are the resources (plural names) of which it learns late; none for all. Each RoleBinding is an object of its own.
	Only []string
	// Behind is how old the lists are that it answers from its watch cache: those that ask for any version.
	Behind time.Duration
}

// forbids reports whether the second API server does not know of the rights to make a call.
func (x *Second) forbids(c *call) bool {
	at, set := x.Learns[c.key.Namespace]
	return set && c.resource.Namespaced && (len(x.Only) == 0 || slices.Contains(x.Only, c.resource.Name)) && time.Now().Before(at)
}

// serve answers a call by the second API server; nil if the call is answered as the first would do it.
func (x *Second) serve(p *Process, c *call, req *http.Request) *http.Response {
	if x.forbids(c) {
		p.injects("second")
		return failed(apierrors.NewForbidden(c.resource.gr(), c.key.Name, fmt.Errorf("%s may not %s, as far as this API server knows", p.Account, c.verb))).response(req)
	}
	if c.verb == "list" && c.query.Get("resourceVersion") == "0" && x.Behind > 0 {
		p.injects("behind")
		return p.Store.listAt(c, time.Now().Add(-x.Behind)).response(req)
	}
	return nil
}

// listAt answers a list as of an earlier time.
func (s *Store) listAt(c *call, at time.Time) answer {
	now := s.list(c)
	matches, err := s.matches(c)
	if err != nil || now.code != http.StatusOK {
		return now
	}
	s.mu.Lock()
	events, version := s.log, s.compacted
	s.mu.Unlock()
	objects := map[types.NamespacedName]*unstructured.Unstructured{}
	list, _ := s.List(c.resource, c.key.Namespace)
	for _, o := range list {
		objects[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		if !e.At.After(at) {
			version = e.Version
			break
		}
		key := types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}
		if e.Resource != c.resource || c.key.Namespace != "" && key.Namespace != c.key.Namespace {
			continue
		}
		if delete(objects, key); e.Before != nil {
			objects[key] = e.Before
		}
	}
	items := []any{}
	for _, key := range slices.SortedFunc(maps.Keys(objects), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		if o := objects[key]; matches(o) {
			items = append(items, c.shown(o))
		}
	}
	out := now.value.(map[string]any)
	out["metadata"], out["items"] = map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}, items
	return answer{http.StatusOK, out}
}
