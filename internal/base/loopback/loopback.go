// Package loopback chooses addresses for servers that another process starts: of demos and of tests.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports lie below those that the kernel gives to connections (net.ipv4.ip_local_port_range begins at 32768): between the choice of a port
// and the start of its server, no connection takes it.
const firstPort, lastPort = 20_000, 32_767

// FreeAddress returns an address of 127.0.0.1, with its port, on which nobody listens.
func FreeAddress() (string, error) {
	var failed error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort+1)))
		if err != nil {
			failed = err
			continue
		}
		return l.Addr().String(), l.Close()
	}
	return "", fmt.Errorf("find a free port: %w", failed)
}
