package simkube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Faults are the shares of calls that go wrong, and what else does.
type Faults struct {
	// Fail, Lose and Conflict are shares of writes: those that fail without an effect, those that take effect though
	// the answer is lost, and those that are refused for a conflict.
	Fail, Lose, Conflict float64
	// Refuse is the share of all calls but watches that are refused for their number, to be tried again after a second.
	Refuse float64
	// Kill is the share of writes at which the process is killed, half of them before the write and half after it.
	Kill float64
	// Lag is the longest time after which a watch tells a change. Break is how long a watch lasts at most.
	Lag, Break time.Duration
	// Latency is the longest time that a call takes; the shortest is a hundredth of it. Each call takes a time of its own,
	// so that no two calls arrive at the same moment: what happens depends on the seed, and not on the order of goroutines.
	Latency time.Duration
}

// Process is the connection of one process to the API server, with the faults of that connection. It implements
// http.RoundTripper. Which calls go wrong depends on the seed, on what they ask for and on how often it was asked for.
type Process struct {
	Name   string
	Store  *Store
	Faults Faults
	Seed   uint64
	// Account is the service account of Lull's namespace whose rights the process has; empty for all rights.
	Account string
	// Forbidden is called with what Account may not do, and in which namespace; nil for nothing.
	Forbidden func(what, namespace string)
	// Killed is called once, when a write kills the process. From then on no call of it has an effect.
	Killed func()
	// Down reports whether the API server cannot be reached; nil if it always can.
	Down func() bool
	// Hangs reports whether the API server takes calls and answers none; nil if it always answers.
	Hangs func() bool
	// Webhooks are how long admission webhooks take for each write in a namespace; nil for none.
	Webhooks map[string]time.Duration
	// Second is a second API server that serves some of the calls; nil for none.
	Second *Second
	// Calm reports whether writes go wrong no more; nil if they always may.
	Calm func() bool

	mu    sync.Mutex
	count map[string]uint64
	dead  bool
	// Calls counts the calls by verb, Injected the faults.
	Calls, Injected map[string]int
}

var (
	errDown = errors.New("connection refused (a fault of the model)")
	errDead = errors.New("the process was killed (a fault of the model)")
	errLost = errors.New("the answer was lost (a fault of the model)")
)

// Config returns the configuration with which clients connect.
func (p *Process) Config() *rest.Config {
	return &rest.Config{
		Host: "http://model.invalid", Transport: p, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Kill ends the process: no call of it has an effect from now on.
func (p *Process) Kill() {
	p.mu.Lock()
	was := p.dead
	p.dead = true
	p.mu.Unlock()
	if !was && p.Killed != nil {
		p.Killed()
	}
}

// Dead reports whether the process was killed.
func (p *Process) Dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// versions matches the resource versions in the body of a call. Versions count all changes, Events too. The number of Events depends on
// the order of goroutines, because client-go joins Events that are alike.
var versions = regexp.MustCompile(`resourceVersion","value":"[0-9]*"|"resourceVersion":"[0-9]*"`)

// draw returns random numbers for a call that depend on nothing but the seed and the number of such calls before.
func (p *Process) draw(c *call) *rand.Rand {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil {
		p.count, p.Calls = map[string]uint64{}, map[string]int{}
	}
	p.Calls[c.verb]++
	what := c.String() + strconv.FormatBool(c.status) + string(versions.ReplaceAll(c.body, nil))
	if c.verb == "create" && c.resource.Name == "events" {
		what = c.String() // their names hold the time, so that each would be counted by itself
	}
	p.count[what]++
	h := fnv.New64a()
	_, _ = io.WriteString(h, p.Name+what)
	return rand.New(rand.NewPCG(p.Seed^h.Sum64(), p.count[what]))
}

// RoundTrip implements http.RoundTripper.
func (p *Process) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	if p.Dead() {
		return nil, errDead
	}
	if p.Down != nil && p.Down() {
		return nil, errDown
	}
	c, a := p.Store.parse(p.Name, req, body)
	if c == nil {
		return a.response(req), nil // at once: clients ask for what is served while they hold a lock, and time would stand still
	}
	if p.Account != "" && !p.Store.rights.allow(p.Account, c) {
		if p.Forbidden != nil {
			p.Forbidden(c.String(), c.key.Namespace)
		}
		return failed(apierrors.NewForbidden(c.resource.gr(), c.key.Name, fmt.Errorf("%s may not %s", p.Account, c.verb))).response(req), nil
	}
	for p.Hangs != nil && p.Hangs() {
		if err := sleep(req.Context(), time.Second); err != nil {
			return nil, err
		}
	}
	rng := p.draw(c)
	if err := sleep(req.Context(), time.Duration((0.01+0.99*rng.Float64())*float64(p.Faults.Latency))); err != nil {
		return nil, err
	}
	if p.Second != nil && rng.Float64() < p.Second.Share {
		if out := p.Second.serve(p, c, req); out != nil {
			return out, nil
		}
	}
	if c.verb == "watch" {
		return p.watch(req, c, rng)
	}
	f := p.Faults
	if p.Calm != nil && p.Calm() {
		f = Faults{}
	}
	if f.Refuse > 0 && rng.Float64() < f.Refuse {
		p.injects("refuse")
		out := failed(apierrors.NewTooManyRequests("too many requests (a fault of the model)", 1)).response(req)
		out.Header.Set("Retry-After", "1")
		return out, nil
	}
	if !c.writes() {
		return p.Store.serve(c).response(req), nil
	}
	if err := sleep(req.Context(), p.Webhooks[c.key.Namespace]); err != nil {
		return nil, err
	}
	switch dice := rng.Float64(); {
	case dice < f.Kill/2:
		p.Kill()
		return nil, errDead
	case dice < f.Kill:
		p.serveAlive(c)
		p.Kill()
		return nil, errDead
	case dice < f.Kill+f.Fail:
		p.injects("fail")
		return failed(apierrors.NewInternalError(errDown)).response(req), nil
	case dice < f.Kill+f.Fail+f.Lose:
		p.injects("lose")
		p.serveAlive(c)
		return nil, errLost
	case dice < f.Kill+f.Fail+f.Lose+f.Conflict && c.verb != "create":
		p.injects("conflict")
		return failed(apierrors.NewConflict(c.resource.gr(), c.key.Name, errDown)).response(req), nil
	}
	return p.serveAlive(c).response(req), nil
}

// injects counts a fault.
func (p *Process) injects(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Injected == nil {
		p.Injected = map[string]int{}
	}
	p.Injected[fault]++
}

// serveAlive serves a call unless the process was killed meanwhile.
func (p *Process) serveAlive(c *call) answer {
	if p.Dead() {
		return failed(apierrors.NewInternalError(errDead))
	}
	return p.Store.serve(c)
}

func (p *Process) watch(req *http.Request, c *call, rng *rand.Rand) (*http.Response, error) {
	matches, err := p.Store.matches(c)
	if err != nil {
		return failed(err).response(req), nil
	}
	if c.query.Get("sendInitialEvents") == "true" {
		return failed(apierrors.NewBadRequest("sendInitialEvents: not served by this model")).response(req), nil
	}
	version, malformed := strconv.ParseInt(c.query.Get("resourceVersion"), 10, 64)
	if malformed != nil {
		return failed(apierrors.NewBadRequest("resourceVersion: " + malformed.Error())).response(req), nil //nolint:nilerr // the answer says it
	}
	if rng.Float64() < 0.1 && p.Faults.Break > 0 {
		return failed(apierrors.NewResourceExpired("too old (a fault of the model)")).response(req), nil
	}
	lasts := 24 * time.Hour
	if p.Faults.Break > 0 {
		p.injects("break")
		lasts = time.Second + time.Duration(rng.Float64()*float64(p.Faults.Break))
	}
	seed := rng.Uint64()
	p.Store.mu.Lock()
	cut, compacted := p.Store.cut, p.Store.compacted
	p.Store.mu.Unlock()
	if version < compacted {
		return failed(apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, compacted))).response(req), nil
	}
	w := &stream{
		store: p.Store, call: c, matches: matches, ctx: req.Context(), version: version, end: time.Now().Add(lasts), done: make(chan struct{}), cut: cut,
		lag: func(e *Event) time.Duration {
			r := rand.New(rand.NewPCG(seed, e.Nth))
			return time.Duration(r.Float64() * r.Float64() * r.Float64() * float64(p.Faults.Lag))
		},
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: w, ContentLength: -1,
	}, nil
}

// response is an answer as HTTP.
func (a answer) response(req *http.Request) *http.Response {
	text, err := json.Marshal(a.value)
	if err != nil {
		panic(err) // values of the store are JSON
	}
	return &http.Response{
		StatusCode: a.code, Status: strconv.Itoa(a.code) + " " + http.StatusText(a.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}
}

// sleep waits; it returns the error of the context if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
