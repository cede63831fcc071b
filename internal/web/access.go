package web

import (
	"net"
	"net/http"
	"strings"
)

// Access decides who may look.
type Access interface {
	// Allowed says whether a request may look; else status is 401 or 403, or 503 where nobody can tell.
	Allowed(r *http.Request) (status int, why string)
}

// Loopback lets in what comes to a loopback address by a loopback name: no page of another site can read
// through a name of its own that leads here.
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
	return http.StatusForbidden, "the page is asked for by the name " + r.Host + "; accepted: localhost, 127.0.0.1"
}
