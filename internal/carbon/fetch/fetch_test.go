package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// server answers with f and counts requests.
func server(t *testing.T, f http.HandlerFunc) (string, *atomic.Int64) {
	t.Helper()
	n := &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, n
}

// clock is a clock that only moves when told to.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(1_700_000_000+c.at.Load(), 0) }
func (c *clock) sleep(_ context.Context, d time.Duration) error {
	c.at.Add(int64(d/time.Second) + 1)
	return nil
}

// limit is how long a request may take on a busy machine.
const limit = 5 * time.Minute

func newClient(c *clock, dir string) *Client {
	client := &Client{Now: c.now, Sleep: c.sleep, Cache: NewCache(dir)}
	client.init()
	client.HTTP.Timeout = limit
	return client
}

// answers answers requests without a network.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answered(text string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}
}

// expiring is a context whose deadline passes when expire is closed.
type expiring struct {
	context.Context //nolint:containedctx // that of the test, with another end
	expire          chan struct{}
}

func (c expiring) Deadline() (time.Time, bool) { return time.Now().Add(limit), true }
func (c expiring) Done() <-chan struct{}       { return c.expire }
func (c expiring) Err() error {
	select {
	case <-c.expire:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestFreshAnswerCostsNoRequest: a fresh answer costs no request, a stale one a conditional
// request without a body, also after a restart.
func TestFreshAnswerCostsNoRequest(t *testing.T) {
	var conditional atomic.Int64
	url, n := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Wed, 10 May 2023 12:00:00 GMT")
		if r.Header.Get("If-None-Match") == `"v1"` && r.Header.Get("If-Modified-Since") != "" {
			conditional.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, "body")
	})
	c, dir := &clock{}, t.TempDir()
	client := newClient(c, dir)
	get := func(fresh time.Duration) Response {
		t.Helper()
		res, err := client.Get(context.Background(), Request{URL: url + "/x?zone=DE", Fresh: fresh})
		if err != nil || string(res.Body) != "body" {
			t.Fatalf("%q, %v", res.Body, err)
		}
		return res
	}
	if res := get(time.Minute); res.Kept {
		t.Error("the first answer cannot have been kept")
	}
	get(time.Minute)
	if n.Load() != 1 {
		t.Errorf("%d requests while the answer is fresh", n.Load())
	}
	client = newClient(c, dir) // a restart
	if res := get(time.Minute); !res.Kept || n.Load() != 1 {
		t.Errorf("%d requests after a restart", n.Load())
	}
	c.at.Add(120)
	if res := get(time.Minute); !res.Kept || !res.At.Equal(c.now()) || conditional.Load() != 1 {
		t.Errorf("kept %v at %v, %d conditional requests", res.Kept, res.At, conditional.Load())
	}
	get(time.Minute)
	if n.Load() != 2 {
		t.Errorf("%d requests: a confirmed answer is fresh again", n.Load())
	}
	// A broken file in the cache is asked for again.
	files, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	if err := os.WriteFile(files[0], []byte(`{"URL": "half`), 0o600); err != nil {
		t.Fatal(err)
	}
	if res := get(time.Minute); res.Kept {
		t.Error("an answer from a broken file")
	}
}

// TestSecretsStayInside: neither the cache nor an error shows them.
func TestSecretsStayInside(t *testing.T) {
	target, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("token") != "hush" || r.Header.Get("Authorization") != "Bearer hush" {
			w.WriteHeader(http.StatusBadRequest)
		}
		if r.URL.Query().Get("fail") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, "ok")
	})
	dir := t.TempDir()
	client := newClient(&clock{}, dir)
	r := Request{URL: target + "/a?zone=DE", Secret: url.Values{"token": {"hush"}}, Header: http.Header{"Authorization": {"Bearer hush"}}}
	if _, err := client.Get(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		if strings.Contains(string(text), "hush") {
			t.Errorf("%s shows the secret", f)
		}
		if info, _ := os.Stat(f); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f, info.Mode())
		}
	}
	for _, bad := range []string{target + "/a?fail=1", "http://127.0.0.1:1/a", "https://" + strings.TrimPrefix(target, "http://") + "/a"} {
		r.URL = bad
		_, err := client.Get(context.Background(), r)
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), bad) {
			t.Errorf("error %v; want one that names %s and no secret", err, bad)
		}
	}
	r = Request{URL: target + "/login?a=1", Private: true, Secret: r.Secret, Header: r.Header}
	if _, err := client.Get(context.Background(), r); err != nil {
		t.Fatal(err)
	}
	if again, _ := filepath.Glob(filepath.Join(dir, "*")); len(again) != len(files) {
		t.Error("a private answer was kept")
	}
}

// TestEqualRequestsAreSentOnce: equal requests at the same time are one.
func TestEqualRequestsAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, requests := make(chan struct{}), 0
		client := newClient(&clock{}, "")
		client.HTTP.Transport = answers(func(*http.Request) (*http.Response, error) {
			requests++
			<-release
			return answered("ok"), nil
		})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := client.Get(t.Context(), Request{URL: "http://host/", Fresh: time.Minute}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // all 20 wait for an answer
		close(release)
		wg.Wait()
		if requests != 1 {
			t.Errorf("%d requests", requests)
		}
	})
}

// TestOnlyServerErrorsAreTriedAgain: server errors are tried three times with pauses, client errors
// once; a caller that has given up is not made to wait.
func TestOnlyServerErrorsAreTriedAgain(t *testing.T) {
	for status, want := range map[int]int64{500: 3, 502: 3, 408: 3, 404: 1, 400: 1, 401: 1, 403: 1} {
		url, n := server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		c := &clock{}
		_, err := newClient(c, "").Get(context.Background(), Request{URL: url})
		if err == nil || n.Load() != want || errors.Is(err, ErrRefused) != (status == 401 || status == 403) {
			t.Errorf("%d: %d requests, %v; want %d", status, n.Load(), err, want)
		}
		if want == 3 && c.at.Load() < 2 {
			t.Errorf("%d: no pause between the tries", status)
		}
	}
	for _, private := range []bool{false, true} {
		ctx := expiring{context.Background(), make(chan struct{})}
		url, n := server(t, func(_ http.ResponseWriter, r *http.Request) {
			close(ctx.expire) // while the request is under way
			<-r.Context().Done()
		})
		c := &clock{}
		if _, err := newClient(c, "").Get(ctx, Request{URL: url, Private: private}); !errors.Is(err, context.DeadlineExceeded) || n.Load() != 1 || c.at.Load() != 0 {
			t.Errorf("private %v: %d requests, a pause of %d s, %v", private, n.Load(), c.at.Load(), err)
		}
	}
}

// TestRetryAfterIsHonoured: the host is left alone for as long as it asks, in both forms
// of the header; other hosts are not concerned.
func TestRetryAfterIsHonoured(t *testing.T) {
	c := &clock{}
	for header, wait := range map[string]int64{"30": 30, c.now().Add(45 * time.Second).UTC().Format(http.TimeFormat): 45, "": 60, "soon": 60, "999999": 3600, "-5": 60} {
		c.at.Store(0)
		open := atomic.Bool{}
		url, n := server(t, func(w http.ResponseWriter, _ *http.Request) {
			if open.Load() {
				fmt.Fprint(w, "ok")
				return
			}
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		client := newClient(c, "")
		get := func() error {
			_, err := client.Get(context.Background(), Request{URL: url})
			return err
		}
		if err := get(); !errors.Is(err, ErrQuota) || n.Load() != 1 {
			t.Errorf("%q: %v after %d requests", header, err, n.Load())
		}
		open.Store(true)
		c.at.Store(wait - 1)
		if err := get(); !errors.Is(err, ErrQuota) || n.Load() != 1 {
			t.Errorf("%q: asked again too early: %v", header, err)
		}
		c.at.Store(wait)
		if err := get(); err != nil {
			t.Errorf("%q: after the wait: %v", header, err)
		}
	}
}

// TestQuotaDelaysRequests: more requests than the quota allows wait, or fail with the caller.
func TestQuotaDelaysRequests(t *testing.T) {
	url, n := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	patient := &clock{}
	client := newClient(patient, "")
	for i := range 40 {
		if _, err := client.Get(context.Background(), Request{URL: fmt.Sprintf("%s/%d", url, i), Quota: Quota{Requests: 100, Per: time.Minute}}); err != nil {
			t.Fatal(err)
		}
	}
	// A tenth of the quota at once, then one in 0.6 s.
	if waited := patient.at.Load(); n.Load() != 40 || waited < 17 {
		t.Errorf("%d requests in %d s", n.Load(), waited)
	}
	// In virtual time, which does not pass: a burst of a tenth of the quota goes out, the rest cannot within 0.5 s.
	synctest.Test(t, func(t *testing.T) {
		sent, refused := 0, 0
		client := newClient(&clock{}, "")
		client.HTTP.Transport = answers(func(*http.Request) (*http.Response, error) {
			sent++
			return answered("ok"), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for i := range 40 {
			_, err := client.Get(ctx, Request{URL: fmt.Sprintf("http://host/%d", i), Quota: Quota{Requests: 100, Per: time.Minute}})
			if err != nil {
				if !errors.Is(err, ErrQuota) {
					t.Fatal(err)
				}
				refused++
			}
		}
		if sent != 10 || refused != 30 {
			t.Errorf("%d requests went out of a burst of 40, %d were refused; want a tenth of the quota", sent, refused)
		}
	})
}

// TestFetchRefusesWhatIsOutOfBounds: size, redirects, TLS and malformed URLs.
func TestFetchRefusesWhatIsOutOfBounds(t *testing.T) {
	big, _ := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1001)) })
	client := newClient(&clock{}, "")
	if _, err := client.Get(context.Background(), Request{URL: big, MaxBytes: 1000}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("size: %v", err)
	}
	elsewhere, seen := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "stolen") })
	from, _ := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
	if _, err := client.Get(context.Background(), Request{URL: from, Header: http.Header{"auth-token": {"x"}}}); err == nil || seen.Load() != 0 {
		t.Errorf("a redirect to another host was followed: %v", err)
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	if _, err := client.Get(context.Background(), Request{URL: secure.URL}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate was accepted: %v", err)
	}
	for _, bad := range []string{"", "x", "ftp://h/x", "http://", "://"} {
		if _, err := client.Get(context.Background(), Request{URL: bad}); err == nil || !strings.Contains(err.Error(), "accepted") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// endless is the body of an answer that never ends. It says so when more than smallBytes of it are read, and then waits.
type endless struct {
	given       int
	large, wait chan struct{}
}

func (e *endless) Read(p []byte) (int, error) {
	if e.given == smallBytes {
		e.large <- struct{}{}
		<-e.wait
	}
	n := len(p)
	if e.given < smallBytes {
		n = min(n, smallBytes-e.given)
	}
	e.given += n
	return n, nil
}

func (e *endless) Close() error { return nil }

// TestManyEndlessAnswersTakeTheMemoryOfAFew: of 20 endless answers, four at a time are read beyond 1 MiB. Each is refused in the end, and small answers arrive meanwhile.
func TestManyEndlessAnswersTakeTheMemoryOfAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait, large := make(chan struct{}), make(chan struct{}, 100)
		client := &Client{HTTP: &http.Client{Transport: answers(func(r *http.Request) (*http.Response, error) {
			res := answered("small")
			if r.URL.Path != "/small" {
				res.Body = &endless{large: large, wait: wait}
			}
			return res, nil
		})}}
		refused := make(chan error)
		for n := range 20 {
			go func() {
				_, err := client.Get(t.Context(), Request{URL: fmt.Sprint("https://example.org/", n)})
				refused <- err
			}()
		}
		synctest.Wait() // all that may be read is
		if len(large) != largeReads {
			t.Errorf("%d answers are read beyond %d bytes, want %d", len(large), smallBytes, largeReads)
		}
		if res, err := client.Get(t.Context(), Request{URL: "https://example.org/small"}); err != nil || string(res.Body) != "small" {
			t.Errorf("a small answer: %q, %v", res.Body, err)
		}
		close(wait)
		for range 20 {
			if err := <-refused; !errors.Is(err, ErrTooLarge) {
				t.Errorf("an endless answer: %v", err)
			}
		}
		if len(large) != 20 {
			t.Errorf("%d answers were read beyond %d bytes in all, want 20", len(large), smallBytes)
		}
	})
}

// TestRefusalIsNotReadToItsEnd: of an answer with the status of an error, Lull reads the beginning.
func TestRefusalIsNotReadToItsEnd(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusBadGateway} {
		body := &endless{large: make(chan struct{}, 100), wait: make(chan struct{})}
		close(body.wait)
		client := newClient(&clock{}, "")
		client.HTTP.Transport = answers(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: body}, nil
		})
		if _, err := client.Get(t.Context(), Request{URL: "https://example.org/"}); err == nil || errors.Is(err, ErrTooLarge) {
			t.Errorf("status %d: %v", status, err)
		}
		if body.given > 256<<10 {
			t.Errorf("status %d: %d bytes were read", status, body.given)
		}
	}
}

// TestCacheStaysWithinItsBounds: on disk and in memory, for many answers and for large ones.
func TestCacheStaysWithinItsBounds(t *testing.T) {
	large := make([]byte, 8<<20)
	dir := t.TempDir()
	disk, memory := NewCache(dir), NewCache("")
	kept := func() (files int, bytes int64) {
		all, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, name := range all {
			if info, err := os.Stat(name); err == nil {
				bytes += info.Size()
			}
		}
		return len(all), bytes
	}
	at := time.Unix(1_700_000_000, 0)
	for i := range maxEntries + 130 {
		e := entry{At: at.Add(time.Duration(i) * time.Second), Body: []byte("x")}
		disk.put(fmt.Sprint("http://x/", i), e)
		memory.put(fmt.Sprint("http://x/", i), e)
	}
	if files, _ := kept(); files > maxEntries+trimEntries || files < maxEntries {
		t.Errorf("%d files", files)
	}
	if len(memory.memory) > maxEntries || len(memory.memory) < maxEntries/2 {
		t.Errorf("%d answers in memory", len(memory.memory))
	}
	for i := range 50 {
		e := entry{At: at.Add(time.Duration(maxEntries+200+i) * time.Second), Body: large}
		disk.put(fmt.Sprint("http://large/", i), e)
		memory.put(fmt.Sprint("http://large/", i%40), e)
		if _, bytes := kept(); bytes > maxDiskBytes+trimBytes+2*int64(len(large)) {
			t.Fatalf("%d bytes on disk after %d large answers", bytes, i+1)
		}
		sum := 0
		for _, e := range memory.memory {
			sum += len(e.Body)
		}
		if sum > maxMemoryBytes || sum != memory.bytes {
			t.Fatalf("%d bytes in memory, counted as %d", sum, memory.bytes)
		}
		if _, ok := memory.get(fmt.Sprint("http://large/", i%40)); !ok {
			t.Errorf("the newest answer was removed")
		}
	}
}

// TestRetryPauseIsWithinItsJitter: the pause before another try is half of a pause that doubles, and the part of it that Jitter says.
func TestRetryPauseIsWithinItsJitter(t *testing.T) {
	var pauses []time.Duration
	client := &Client{
		Transport: answers(func(*http.Request) (*http.Response, error) { return nil, errors.New("down") }),
		Jitter:    func(url string, try int) float64 { return float64(len(url)) * float64(try) / 100 },
		Sleep:     func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil },
	}
	_, err := client.Get(t.Context(), Request{URL: "http://a.invalid/x"}) // 18 bytes
	want := []time.Duration{firstPause/2 + 36*time.Millisecond, firstPause + 144*time.Millisecond}
	if err == nil || !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v; %v", pauses, want, err)
	}
}
