package web

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// Tokens lets in bearer tokens that the API server knows and that may list CarbonPlans in all
// namespaces.
type Tokens struct {
	// Client creates TokenReviews and SubjectAccessReviews.
	Client client.Client
	Now    func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]verdict
}

type verdict struct {
	status int
	why    string
	until  time.Time
}

const (
	// verdictFor is how long an answer of the API server counts.
	verdictFor = 10 * time.Second
	// mostVerdicts bounds how many are kept, mostToken a token, in bytes.
	mostVerdicts = 10_000
	mostToken    = 16 << 10
)

// Allowed implements Access.
func (t *Tokens) Allowed(r *http.Request) (int, string) {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || token == "" || len(token) > mostToken {
		return http.StatusUnauthorized, "a bearer token is needed"
	}
	key, now := sha256.Sum256([]byte(token)), t.Now()
	t.mu.Lock()
	v, known := t.known[key]
	t.mu.Unlock()
	if known && now.Before(v.until) {
		return v.status, v.why
	}
	v = t.ask(r.Context(), token)
	if v.status == http.StatusServiceUnavailable {
		return v.status, v.why // asked again at once
	}
	v.until = now.Add(verdictFor)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= mostVerdicts {
		t.known = map[[sha256.Size]byte]verdict{}
	}
	t.known[key] = v
	return v.status, v.why
}

func (t *Tokens) ask(ctx context.Context, token string) verdict {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := t.Client.Create(ctx, review); err != nil {
		return verdict{status: http.StatusServiceUnavailable, why: "the API server could not be asked who this is"}
	}
	if !review.Status.Authenticated {
		return verdict{status: http.StatusUnauthorized, why: "the API server does not know this token"}
	}
	user := &review.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: "lull.dev", Resource: "carbonplans"},
	}}
	if err := t.Client.Create(ctx, access); err != nil {
		return verdict{status: http.StatusServiceUnavailable, why: "the API server could not be asked what this user may"}
	}
	if !access.Status.Allowed {
		return verdict{status: http.StatusForbidden, why: user.Username + " may not list carbonplans.lull.dev in all namespaces"}
	}
	return verdict{status: http.StatusOK}
}
