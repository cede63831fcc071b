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
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/internal/accounting/ledger"
)

//go:embed static
var static embed.FS

// Ledger is what the page reads of a ledger; *ledger.Ledger implements it.
type Ledger interface {
	Read(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Entry, error]
	Intensities(ctx context.Context, zone string, from, to time.Time) ([]ledger.Intensity, error)
}

// Server answers the requests of the page. It is safe for concurrent use.
type Server struct {
	// Reader reads objects, from a cache.
	Reader client.Reader
	Access Access
	// Ledger is nil if there is none.
	Ledger Ledger
	// Programs says how the controller and the watchdog are, and is empty if that cannot be read; nil is as one that is empty.
	Programs func(context.Context) []Program

	mu        sync.Mutex
	listeners map[chan struct{}]bool // browsers that hear of changes

	savingsMu sync.Mutex
	savings   Savings
	counted   int64 // the last entry in it
	settled   map[string]settlement
	months    months // of the workloads that settled has no more
	unsummed  bool   // something was settled that is not in the sum
}

// Changed tells the browsers to read again.
func (s *Server) Changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.listeners {
		select {
		case c <- struct{}{}:
		default: // it has not read since the last time
		}
	}
}

// Handler answers requests. Each answer states its complexity.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	mux.Handle("GET /", http.FileServerFS(files))
	answer := func(path string, read func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { reply(w, r, read) })
	}
	answer("/api/overview", func(r *http.Request) (any, error) { return s.overview(r.Context()) })
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

// guarded answers requests that Access allows, and tells browsers to fetch nothing from elsewhere.
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

// errQuery marks a query with a value that is not accepted.
var errQuery = errors.New("invalid query")

// errAbsent marks what does not exist.
var errAbsent = errors.New("not found")

func reply(w http.ResponseWriter, r *http.Request, read func(*http.Request) (any, error)) {
	body, err := read(r)
	status := http.StatusOK
	switch {
	case errors.Is(err, errQuery):
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
			err = fmt.Errorf("%w: %s: %q; accepted: 0 to %d", errQuery, name, text, most)
		}
		return n
	}
	f = filter{
		namespace: q.Get("namespace"), state: q.Get("state"), reason: q.Get("reason"), text: q.Get("text"),
		offset: number("offset", 0, 10_000_000), limit: number("limit", 100, maxPlans),
	}
	return f, err
}

const (
	// changesEvery is the least time between two events.
	changesEvery = time.Second
	// aliveEvery keeps proxies from closing a quiet connection.
	aliveEvery = 20 * time.Second
)

// changes sends a browser an event when something has changed, for as long as it listens.
func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	if s.listeners == nil {
		s.listeners = map[chan struct{}]bool{}
	}
	s.listeners[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, c)
		s.mu.Unlock()
	}()
	flush := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) bool {
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return flush.Flush() == nil
	}
	if !send(": hello\n\n") {
		return
	}
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			if !send(": alive\n\n") {
				return
			}
		case <-c:
			if !send("event: changed\ndata: \n\n") {
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
