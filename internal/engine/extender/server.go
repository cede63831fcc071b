package extender

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/base/metrics"
)

// The paths of the verbs, as named in KubeSchedulerConfiguration.
const (
	FilterPath     = "/filter"
	PrioritizePath = "/prioritize"
)

// maxBody bounds a request: a Pod and whole nodes, 5,000 of them of 4 KB.
const maxBody = 32 << 20

// Handler answers kube-scheduler.
type Handler struct {
	State   *State
	buffers sync.Pool
}

// buffer is what a request is read into and answered from.
type buffer struct {
	in     bytes.Buffer
	out    []byte
	names  []place
	scores []int8
	grams  []float64
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	verb, status := "other", http.StatusNotFound
	switch r.URL.Path {
	case FilterPath:
		verb, status = "filter", h.answer(w, r, h.filter)
	case PrioritizePath:
		verb, status = "prioritize", h.answer(w, r, h.prioritize)
	default:
		http.Error(w, "accepted: "+FilterPath+", "+PrioritizePath, status)
	}
	metrics.ExtenderRequests.WithLabelValues(verb, fmt.Sprint(status)).Inc()
	metrics.ExtenderSeconds.WithLabelValues(verb).Observe(time.Since(begin).Seconds())
}

// answer reads a call, has it answered and writes what came of it. A body that makes no sense is
// refused with 400: kube-scheduler goes on without the extender then (ignorable: true).
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, verb func(*call, *buffer)) int {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "accepted: POST", http.StatusMethodNotAllowed)
		return http.StatusMethodNotAllowed
	}
	b, _ := h.buffers.Get().(*buffer)
	if b == nil {
		b = &buffer{}
	}
	defer h.buffers.Put(b)
	b.in.Reset()
	if _, err := b.in.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var large *http.MaxBytesError
		status := http.StatusBadRequest
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return status
	}
	c, err := read(b.in.Bytes(), b.names)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return http.StatusBadRequest
	}
	b.names, b.out = c.names.at, b.out[:0]
	verb(c, b)
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(b.out); err != nil {
		log.FromContext(r.Context()).V(1).Info("Answer kube-scheduler", "error", err.Error())
	}
	return http.StatusOK
}

func (h *Handler) filter(c *call, b *buffer) {
	a := h.State.Admit(&c.pod)
	metrics.ExtenderDecisions.WithLabelValues(string(a.Code)).Inc()
	b.out = c.writeFilter(b.out, a)
}

func (h *Handler) prioritize(c *call, b *buffer) {
	n := c.names.Len()
	b.scores, b.grams = slices.Grow(b.scores[:0], n)[:n], slices.Grow(b.grams[:0], n)[:n]
	h.State.Rank(&c.pod, &c.names, b.scores, b.grams)
	b.out = c.writeRank(b.out, b.scores)
}
