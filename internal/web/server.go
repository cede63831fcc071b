// Package web serves a page that shows zones, plans, capacities, savings and the story of each workload. It
// only reads.
package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/accounting/ledger"
)

//go:embed static
var static embed.FS

// Entries reads a ledger.
type Entries func(context.Context, ledger.Query) iter.Seq2[ledger.Entry, error]

// Server is what the page asks. It is safe for concurrent use.
type Server struct {
	// Reader reads objects, from a cache.
	Reader client.Reader
	Access Access
	// Ledger is nil where there is none.
	Ledger Entries

	mu      sync.Mutex
	waiting map[chan struct{}]bool // browsers that are told of changes

	savingsMu sync.Mutex
	savings   Savings
	counted   int64 // the last entry in it
	settled   map[string]settlement
	unsummed  bool // something was settled that is not in the sum
}

// Changed tells browsers to look again.
func (s *Server) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.waiting {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

// Handler answers requests. Complexity is stated at what is asked.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	mux.Handle("GET /", http.FileServerFS(files))
	answer := func(path string, of func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { reply(w, r, of) })
	}
	answer("/api/overview", func(r *http.Request) (any, error) { return overview(r.Context(), s.Reader) })
	answer("/api/plans", func(r *http.Request) (any, error) {
		f, err := filterOf(r)
		if err != nil {
			return nil, err
		}
		return plansOf(r.Context(), s.Reader, f)
	})
	answer("/api/workloads/{namespace}/{plan}", s.workload)
	answer("/api/savings", s.saved)
	mux.HandleFunc("GET /api/changes", s.changes)
	return s.guarded(mux)
}

// guarded lets in whom Access allows, and tells browsers to fetch nothing from elsewhere.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if status, why := s.Access.Allowed(r); status != http.StatusOK {
			if status == http.StatusUnauthorized {
				h.Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, why, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errAsked marks a question that makes no sense.
var errAsked = errors.New("not a question")

// errAbsent marks what is not there.
var errAbsent = errors.New("not there")

func reply(w http.ResponseWriter, r *http.Request, of func(*http.Request) (any, error)) {
	body, err := of(r)
	status := http.StatusOK
	switch {
	case errors.Is(err, errAsked):
		status = http.StatusBadRequest
	case errors.Is(err, errAbsent) || apierrors.IsNotFound(err):
		status = http.StatusNotFound
	case err != nil:
		status = http.StatusInternalServerError
	}
	if err != nil {
		body = map[string]string{"error": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the browser has gone
}

func filterOf(r *http.Request) (f filter, err error) {
	q := r.URL.Query()
	number := func(name string, otherwise, most int) int {
		text := q.Get(name)
		if text == "" {
			return otherwise
		}
		n, e := strconv.Atoi(text)
		if e != nil || n < 0 || n > most {
			err = fmt.Errorf("%w: %s: %q; accepted: 0 to %d", errAsked, name, text, most)
		}
		return n
	}
	f = filter{namespace: q.Get("namespace"), state: q.Get("state"), text: q.Get("text"), offset: number("offset", 0, 10_000_000), limit: number("limit", 100, mostPlans)}
	return f, err
}

// Story is a workload with all that is known of it.
type Story struct {
	Plan Plan `json:"plan"`
	// Entries are those of the ledger.
	Entries []ledger.Entry `json:"entries"`
}

// mostStory bounds the entries of a story: the last ones are told.
const mostStory = 2000

func (s *Server) workload(r *http.Request) (any, error) {
	var p v1alpha1.CarbonPlan
	if err := s.Reader.Get(r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("plan")}, &p); err != nil {
		return nil, err
	}
	out := Story{Plan: planOf(&p), Entries: []ledger.Entry{}}
	if s.Ledger == nil {
		return out, nil
	}
	for e, err := range s.Ledger(r.Context(), ledger.Query{Workload: out.Plan.UID}) {
		if err != nil {
			return nil, err
		}
		if out.Entries = append(out.Entries, e); len(out.Entries) > 2*mostStory {
			out.Entries = slices.Delete(out.Entries, 0, mostStory)
		}
	}
	if over := len(out.Entries) - mostStory; over > 0 {
		out.Entries = out.Entries[over:]
	}
	return out, nil
}

const (
	// changesEvery is the least time between two tellings.
	changesEvery = time.Second
	// aliveEvery keeps proxies from taking a quiet connection for a dead one.
	aliveEvery = 20 * time.Second
)

// changes tells a browser, for as long as it listens, that something has changed.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	if s.waiting == nil {
		s.waiting = map[chan struct{}]bool{}
	}
	s.waiting[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, c)
		s.mu.Unlock()
	}()
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	tell := func(text string) bool {
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return flush.Flush() == nil
	}
	if !tell(": hello\n\n") {
		return
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			if !tell(": alive\n\n") {
				return
			}
		case <-c:
			if !tell("event: changed\ndata: \n\n") {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(changesEvery):
			}
		}
	}
}
