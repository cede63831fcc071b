package simkube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is the body of a watch: a line of JSON for each event, each some time after it happened.
type stream struct {
	store   *Store
	call    *call
	matches func(*unstructured.Unstructured) bool
	ctx     context.Context //nolint:containedctx // that of the request, as in net/http
	version int64           // up to which changes were read
	// lag is how long after a change it is told; end is when the stream breaks off.
	lag  func(*Event) time.Duration
	end  time.Time
	rest bytes.Buffer
	done chan struct{}
	// cut is closed when the API server ends.
	cut <-chan struct{}
}

// Read implements io.Reader. It waits for the next event.
func (w *stream) Read(p []byte) (int, error) {
	for w.rest.Len() == 0 {
		changed := w.store.Changed(w.call.resource)
		told := false
		for _, e := range w.store.Since(w.version) {
			if e.Resource != w.call.resource {
				w.version = e.Version
				continue
			}
			if wait := time.Until(e.At.Add(w.lag(&e))); wait > 0 {
				if err := w.sleep(wait, nil); err != nil {
					return 0, err
				}
			}
			w.version = e.Version
			if w.tell(&e) {
				told = true
				break
			}
		}
		if told {
			break
		}
		if err := w.sleep(time.Until(w.end), changed); err != nil {
			return 0, err
		}
	}
	return w.rest.Read(p)
}

// sleep waits until the time has passed or something has changed. It returns io.EOF if the stream ends.
func (w *stream) sleep(d time.Duration, changed <-chan struct{}) error {
	if !time.Now().Add(d).Before(w.end) {
		d = time.Until(w.end)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.ctx.Done():
		return io.EOF // another error would leave watch.Filter of client-go blocked
	case <-w.done:
		return io.EOF
	case <-w.cut:
		return io.EOF
	case <-changed:
		return nil
	case <-timer.C:
		if !time.Now().Before(w.end) {
			return io.EOF
		}
		return nil
	}
}

// tell writes an event, if it is one that the watch asks for.
func (w *stream) tell(e *Event) bool {
	was := e.Before != nil && w.matches(e.Before)
	is := e.Type != watch.Deleted && w.matches(e.Object)
	kind := watch.Modified
	switch {
	case was && !is:
		kind = watch.Deleted
	case is && !was:
		kind = watch.Added
	case !is:
		return false
	}
	line, err := json.Marshal(map[string]any{"type": kind, "object": w.call.shown(e.Object)})
	if err != nil {
		panic(err)
	}
	w.rest.Write(append(line, '\n'))
	return true
}

// Close implements io.Closer.
func (w *stream) Close() error {
	select {
	case <-w.done:
	default:
		close(w.done)
	}
	return nil
}
