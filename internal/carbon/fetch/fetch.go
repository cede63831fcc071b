// Package fetch gets documents from providers over HTTP and is a good citizen
// about it: quotas and Retry-After are honoured, answers are kept on disk and
// asked for again conditionally, equal requests in flight become one, every
// answer is bounded in time and size, and no secret is ever part of a cache key
// or an error.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// Errors that callers branch on.
var (
	// ErrRefused: the provider does not let us (401, 403): a credential is wrong,
	// has expired, or the plan does not include what was asked for.
	ErrRefused = errors.New("refused")
	// ErrQuota: the provider's quota, or ours for it, is used up for now.
	ErrQuota = errors.New("quota exhausted")
	// ErrTooLarge: the answer is larger than accepted.
	ErrTooLarge = errors.New("answer too large")
)

const (
	// attempts is how often a request is tried before it counts as failed.
	attempts = 3
	// firstPause and longestPause bound the pause before another try; it doubles,
	// and a random part of it is waited, so that many clients do not come at once.
	firstPause, longestPause = 200 * time.Millisecond, 5 * time.Second
	// defaultTimeout bounds one try, defaultMaxBytes its answer.
	defaultTimeout  = 15 * time.Second
	defaultMaxBytes = 16 << 20
	// smallBytes of an answer are read at any time, more of at most largeReads answers at a time: many hostile addresses together take no more memory
	// than a few.
	smallBytes = 1 << 20
	largeReads = 4
	// refusalBytes are read of an answer that is none.
	refusalBytes = 64 << 10
)

// Quota is how many requests a provider allows, e.g. 400 a minute.
type Quota struct {
	Requests int
	Per      time.Duration
}

// Request is what to get.
type Request struct {
	// URL without secrets: it names the answer in the cache and in errors.
	URL string
	// Secret are query parameters that are sent but never kept or shown.
	Secret url.Values
	// Header is sent; it may carry secrets and is never kept or shown.
	Header http.Header
	// Fresh is how old a kept answer may be to be returned without asking.
	Fresh time.Duration
	// Quota of the provider; zero means none is known.
	Quota Quota
	// Private answers are neither kept nor shared between callers: tokens.
	Private bool
	// MaxBytes bounds the answer; 0 means 16 MiB.
	MaxBytes int64
}

// Response is an answer.
type Response struct {
	Body []byte
	// At is when the provider last confirmed the answer.
	At time.Time
	// Kept says that no bytes came over the network: the answer was fresh enough,
	// or the provider said that it has not changed.
	Kept bool
}

// Client gets documents. The zero value works, without a cache on disk; it is
// safe for concurrent use.
type Client struct {
	// HTTP sends requests; nil means one that verifies TLS, bounds each try to 15
	// seconds, follows redirects within one host only, and reaches no link-local address.
	HTTP *http.Client
	// Transport is that of the client which takes the place of a nil HTTP; nil means the default one.
	Transport http.RoundTripper
	// Quote puts the beginning of an answer that refuses into the error, for people at a terminal. Without it whoever names an address
	// cannot read, in a status, what is served there.
	Quote bool
	// Cache keeps answers; nil means in memory for as long as the client lives.
	Cache *Cache
	// Now and Sleep are the clock; nil means the real one.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Jitter is the random part, 0 to 1, of the pause after a try (the first is 1) of a URL that failed; nil means a random
	// number.
	Jitter func(url string, try int) float64
	// Observe is told of every request that went out: the host, the status (or
	// "error"), and how long it took. It may be nil.
	Observe func(host, status string, took time.Duration)

	once    sync.Once
	large   chan struct{} // holds a token for each large answer that is being read
	flights singleflight.Group
	mu      sync.Mutex
	hosts   map[string]*host
}

// host is what is known of a server.
type host struct {
	limiter *rate.Limiter
	quota   Quota
	// closedUntil is until when it asked to be left alone.
	closedUntil time.Time
}

func (c *Client) init() {
	c.once.Do(func() {
		c.hosts = map[string]*host{}
		c.large = make(chan struct{}, largeReads)
		if c.HTTP == nil {
			transport := c.Transport
			if transport == nil {
				transport = outward()
			}
			c.HTTP = &http.Client{Transport: transport, Timeout: defaultTimeout, CheckRedirect: sameHost}
		}
		if c.Cache == nil {
			c.Cache = NewCache("")
		}
		if c.Now == nil {
			c.Now = time.Now
		}
		if c.Sleep == nil {
			c.Sleep = sleep
		}
		if c.Jitter == nil {
			c.Jitter = func(string, int) float64 { return rand.Float64() }
		}
	})
}

// ErrLinkLocal marks an address that is not reached, as it is one at which clouds serve the metadata of instances, with their credentials.
var ErrLinkLocal = errors.New("link-local addresses are not reached")

// outward is the default transport, except that it reaches no link-local address, whatever name leads there.
func outward() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // it is one
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: notLinkLocal}
	transport.DialContext = dialer.DialContext
	return transport
}

// metadataOfAWS is at no link-local address.
var metadataOfAWS = netip.MustParseAddr("fd00:ec2::254")

// notLinkLocal is the Control of a net.Dialer: it sees the address to which a name has been resolved.
func notLinkLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := to.Addr().Unmap().WithZone(""); ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip == metadataOfAWS {
		return fmt.Errorf("%w: %s", ErrLinkLocal, ip)
	}
	return nil
}

// sameHost follows redirects within the host alone: headers may carry secrets.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("redirect to %s://%s is not followed", req.URL.Scheme, req.URL.Host)
	}
	if len(via) > 3 {
		return errors.New("more than three redirects")
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Get returns the answer to r. Equal requests that run at the same time are one;
// the first caller's deadline holds for it. Errors name the URL without secrets
// and wrap ErrRefused, ErrQuota or ErrTooLarge where they apply.
func (c *Client) Get(ctx context.Context, r Request) (Response, error) {
	c.init()
	target, err := url.Parse(r.URL)
	if err != nil || target.Host == "" || (target.Scheme != "https" && target.Scheme != "http") {
		return Response{}, fmt.Errorf("get %q: accepted: an absolute http or https URL", r.URL)
	}
	if r.Private {
		res, err := c.retry(ctx, target, r, entry{})
		if err != nil {
			return res, fmt.Errorf("get %s: %w", r.URL, err)
		}
		return res, nil
	}
	kept, have := c.Cache.get(r.URL)
	if have && c.Now().Sub(kept.At) < r.Fresh && !c.Now().Before(kept.At) {
		return Response{Body: kept.Body, At: kept.At, Kept: true}, nil
	}
	done := c.flights.DoChan(r.URL, func() (any, error) {
		res, err := c.retry(ctx, target, r, kept)
		if err != nil {
			return res, fmt.Errorf("get %s: %w", r.URL, err)
		}
		return res, nil
	})
	select {
	case <-ctx.Done():
		return Response{}, fmt.Errorf("get %s: %w", r.URL, ctx.Err())
	case res := <-done:
		return res.Val.(Response), res.Err
	}
}

// retry tries until an answer comes or trying again is pointless.
func (c *Client) retry(ctx context.Context, target *url.URL, r Request, kept entry) (Response, error) {
	pause := firstPause
	for n := 1; ; n++ {
		if err := c.admit(ctx, target.Host, r.Quota); err != nil {
			return Response{}, err
		}
		res, again, err := c.try(ctx, target, r, kept)
		if err == nil || !again || n == attempts {
			return res, err
		}
		if sleepErr := c.Sleep(ctx, time.Duration(c.Jitter(r.URL, n)*float64(pause))+pause/2); sleepErr != nil {
			return Response{}, errors.Join(err, sleepErr)
		}
		pause = min(2*pause, longestPause)
	}
}

// admit waits for the quota, or fails when the host wants no requests now.
func (c *Client) admit(ctx context.Context, name string, q Quota) error {
	c.mu.Lock()
	h := c.host(name, q)
	closed, limiter := h.closedUntil, h.limiter
	c.mu.Unlock()
	if wait := closed.Sub(c.Now()); wait > 0 {
		return fmt.Errorf("%w: the provider accepts no requests until %s", ErrQuota, closed.UTC().Format(time.RFC3339))
	}
	if limiter == nil {
		return nil
	}
	now := c.Now()
	turn := limiter.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		turn.CancelAt(now)
		return fmt.Errorf("%w: %d requests in %v; the next one may go in %v", ErrQuota, q.Requests, q.Per, wait.Round(time.Millisecond))
	}
	return c.Sleep(ctx, wait)
}

// host returns what is known of a server; c.mu is held.
func (c *Client) host(name string, q Quota) *host {
	h := c.hosts[name]
	if h == nil {
		h = &host{}
		c.hosts[name] = h
	}
	if q.Requests > 0 && h.quota != q {
		h.quota, h.limiter = q, rate.NewLimiter(rate.Limit(float64(q.Requests)/q.Per.Seconds()), max(1, q.Requests/10))
	}
	return h
}

// try sends the request once; again says whether another try may help.
func (c *Client) try(ctx context.Context, target *url.URL, r Request, kept entry) (_ Response, again bool, _ error) {
	full := *target
	if len(r.Secret) > 0 {
		query := full.Query()
		for name, values := range r.Secret {
			query[name] = values
		}
		full.RawQuery = query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, full.String(), nil)
	if err != nil {
		return Response{}, false, redact(err)
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "lull")
	if kept.ETag != "" {
		req.Header.Set("If-None-Match", kept.ETag)
	}
	if kept.LastModified != "" {
		req.Header.Set("If-Modified-Since", kept.LastModified)
	}
	begin := c.Now()
	res, err := c.HTTP.Do(req)
	if err != nil {
		c.observe(target.Host, "error", begin)
		return Response{}, ctx.Err() == nil, redact(err)
	}
	defer res.Body.Close()
	c.observe(target.Host, strconv.Itoa(res.StatusCode), begin)
	if res.StatusCode == http.StatusNotModified && kept.Body != nil {
		kept.At = c.Now()
		c.Cache.put(r.URL, kept)
		return Response{Body: kept.Body, At: kept.At, Kept: true}, false, nil
	}
	limit := r.MaxBytes
	if limit == 0 {
		limit = defaultMaxBytes
	}
	body, err := c.read(ctx, res, limit)
	if err != nil {
		return Response{}, ctx.Err() == nil, redact(err)
	}
	if again, err := c.judge(target.Host, res, body); err != nil {
		return Response{}, again, err
	}
	if int64(len(body)) > limit {
		return Response{}, false, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	now := c.Now()
	if r.Private {
		return Response{Body: body, At: now}, false, nil
	}
	c.Cache.put(r.URL, entry{At: now, ETag: res.Header.Get("ETag"), LastModified: res.Header.Get("Last-Modified"), Body: body})
	return Response{Body: body, At: now}, false, nil
}

// read returns the body of an answer: one byte more than the limit if it is longer, and only the beginning of one that refuses. It waits for its turn before
// it reads more than smallBytes. Until then the rest stays with the server, and the timeout of the request goes on.
func (c *Client) read(ctx context.Context, res *http.Response, limit int64) ([]byte, error) {
	if res.StatusCode >= http.StatusBadRequest {
		return io.ReadAll(io.LimitReader(res.Body, min(limit, refusalBytes)))
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(res.Body, min(limit+1, smallBytes))); err != nil || body.Len() < smallBytes {
		return body.Bytes(), err
	}
	select {
	case c.large <- struct{}{}:
		defer func() { <-c.large }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	_, err := body.ReadFrom(io.LimitReader(res.Body, limit+1-smallBytes))
	return body.Bytes(), err
}

// judge turns a status into an error.
func (c *Client) judge(name string, res *http.Response, body []byte) (again bool, _ error) {
	said := ""
	if text := strings.TrimSpace(string(body[:min(len(body), 200)])); text != "" && c.Quote {
		said = fmt.Sprintf(": %q", text)
	}
	switch code := res.StatusCode; {
	case code == http.StatusOK || code == http.StatusNoContent:
		return false, nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return false, fmt.Errorf("%w: %s%s", ErrRefused, res.Status, said)
	case code == http.StatusTooManyRequests || (code == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != ""):
		until := c.retryAfter(res.Header.Get("Retry-After"))
		c.mu.Lock()
		c.host(name, Quota{}).closedUntil = until
		c.mu.Unlock()
		return false, fmt.Errorf("%w: %s, no requests until %s", ErrQuota, res.Status, until.UTC().Format(time.RFC3339))
	case code >= 500 || code == http.StatusRequestTimeout:
		return true, fmt.Errorf("%s%s", res.Status, said)
	default:
		return false, &StatusError{Body: body, text: res.Status + said}
	}
}

// StatusError is an answer with a status that neither asking again nor waiting changes, as 400. Its body may say why.
type StatusError struct {
	Body []byte
	text string
}

// Error is the status, and with Quote the beginning of the body.
func (e *StatusError) Error() string { return e.text }

// retryAfter reads the header in its two forms; a minute where it says nothing,
// at most an hour.
func (c *Client) retryAfter(text string) time.Time {
	now, wait := c.Now(), time.Minute
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		wait = time.Duration(min(seconds, 3600)) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return now.Add(min(max(wait, 0), time.Hour))
}

func (c *Client) observe(host, status string, begin time.Time) {
	if c.Observe != nil {
		c.Observe(host, status, c.Now().Sub(begin))
	}
}

// redact removes the URL, which may carry secrets, from an error of net/http.
func redact(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
