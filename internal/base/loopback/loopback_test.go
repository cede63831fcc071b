package loopback

import (
	"net"
	"testing"
)

func TestFreeAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; seen[address] || port < firstPort || port > lastPort {
			t.Errorf("address %s: want another port from %d to %d each time", address, firstPort, lastPort)
		}
		seen[address] = true
	}
}
