package controlplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// echoes listens and answers each connection with what it reads first, after a word of its own.
func echoes(t *testing.T, network, address, word string) net.Addr {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				line, _ := bufio.NewReader(c).ReadString('\n')
				_, _ = io.WriteString(c, word+" "+line)
			}()
		}
	}()
	return l.Addr()
}

// TestTunnel: the API server reaches the kubelet at its socket, and a pod of the node at the socket of pods, to which it sends the address first. It dials all else itself.
func TestTunnel(t *testing.T) {
	dir := t.TempDir()
	kubelet, pods := filepath.Join(dir, "kubelet"), filepath.Join(dir, "pods")
	echoes(t, "unix", kubelet, "kubelet")
	echoes(t, "unix", pods, "pods")
	other := echoes(t, "tcp", "127.0.0.1:0", "other").String()
	server := httptest.NewServer(tunnel(kubelet, pods))
	t.Cleanup(server.Close)
	for address, want := range map[string]string{
		net.JoinHostPort(nodeIP, fmt.Sprint(kubeletPort)): "kubelet hello\n",
		"10.89.0.7:9443": "pods 10.89.0.7:9443\n",
		other:            "other hello\n",
	} {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", address, address)
		r := bufio.NewReader(c)
		if res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect}); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", address, res, err)
		}
		_, _ = io.WriteString(c, "hello\n")
		if got, err := r.ReadString('\n'); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", address, got, err, want)
		}
		_ = c.Close()
	}
}

// TestForwardToPods: a connection goes to the address in its first line, with what comes after it; one that names none is closed.
func TestForwardToPods(t *testing.T) {
	pod := echoes(t, "tcp", "127.0.0.1:0", "pod").String()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "pods"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go forwardToPods(l)
	for first, want := range map[string]string{pod + "\nhello\n": "pod hello\n", "nowhere\nhello\n": "", strings.Repeat("x", 100): ""} {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, first)
		if got, _ := bufio.NewReader(c).ReadString('\n'); got != want {
			t.Errorf("%q: %q, want %q", first, got, want)
		}
		_ = c.Close()
	}
}
