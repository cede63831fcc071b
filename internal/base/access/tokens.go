// Package access decides by bearer token who may read what a program serves.
package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tokens lets in bearer tokens that the API server knows, and whose users may do what is asked of them: one of List and Get.
type Tokens struct {
	// Client creates TokenReviews and SubjectAccessReviews.
	Client client.Client
	Now    func() time.Time
	// List is a resource of the group lull.dev that users must be allowed to list in all namespaces.
	List string
	// Get is a path that is no resource, e.g. /metrics, which users must be allowed to get.
	Get string

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

// Allowed says whether a request may read; else status is 401 or 403, or 503 if the API server cannot be asked.
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
		return verdict{status: http.StatusServiceUnavailable, why: "the token could not be checked with the API server"}
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
	}}
	may := "get " + t.Get
	if t.List != "" {
		may = fmt.Sprintf("list %s.lull.dev in all namespaces", t.List)
		access.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "list", Group: "lull.dev", Resource: t.List}
	} else {
		access.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: "get", Path: t.Get}
	}
	if err := t.Client.Create(ctx, access); err != nil {
		return verdict{status: http.StatusServiceUnavailable, why: "the rights of the user could not be checked with the API server"}
	}
	if !access.Status.Allowed {
		return verdict{status: http.StatusForbidden, why: user.Username + " may not " + may}
	}
	return verdict{status: http.StatusOK}
}
