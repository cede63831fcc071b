//go:build integration

package integration

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// balancer is a Service: it takes connections at an address and gives each to one of its backends, chosen at random. It tries no other one.
type balancer struct {
	l        net.Listener
	backends []string
	mu       sync.Mutex
	cut      map[string]bool
	open     map[net.Conn]string
}

// newBalancer serves until the end of the test.
func newBalancer(t *testing.T, backends ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &balancer{l: l, backends: backends, cut: map[string]bool{}, open: map[net.Conn]string{}}
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for c := range b.open {
			_ = c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(c)
		}
	}()
	return b
}

// partition has what is sent to a backend, and what it sends, dropped: connections stay open. Or no more.
func (b *balancer) partition(backend string, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut[backend] = cut
	if cut {
		return
	}
	for c, to := range b.open { // packets were lost: once others arrive again, the peers reset these connections
		if to == backend {
			_ = c.Close()
		}
	}
}

// connections is how many lead to each backend.
func (b *balancer) connections() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int{}
	for _, to := range b.open {
		out[to]++
	}
	return out
}

func (b *balancer) isCut(backend string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cut[backend]
}

func (b *balancer) serve(c net.Conn) {
	backend := b.backends[rand.IntN(len(b.backends))]
	b.mu.Lock()
	b.open[c] = backend
	b.mu.Unlock()
	defer func() {
		_ = c.Close()
		b.mu.Lock()
		delete(b.open, c)
		b.mu.Unlock()
	}()
	if b.isCut(backend) {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	to, err := net.Dial("tcp", backend)
	if err != nil {
		return // as if it was refused
	}
	defer to.Close()
	go func() {
		b.copy(c, to, backend)
		_ = c.Close()
	}()
	b.copy(to, c, backend)
}

// copy copies what comes, or drops it while the backend is cut off.
func (b *balancer) copy(to io.Writer, from io.Reader, backend string) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !b.isCut(backend) {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
