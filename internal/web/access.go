package web

import (
	"net"
	"net/http"
	"strings"
)

// Access decides who may read the page.
type Access interface {
	// Allowed returns 200 for a request that may read; else 401 or 403, or 503 if that cannot be decided, and why.
	Allowed(r *http.Request) (status int, why string)
}

// Loopback allows requests to a loopback address by a loopback name. So no page of another site can read through a name of its own
// that leads to this address.
type Loopback struct{}

// Allowed implements Access.
func (Loopback) Allowed(r *http.Request) (int, string) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); host == "localhost" || ip != nil && ip.IsLoopback() {
		return http.StatusOK, ""
	}
	return http.StatusForbidden, "the request names the host " + r.Host + "; accepted: localhost, 127.0.0.1"
}
