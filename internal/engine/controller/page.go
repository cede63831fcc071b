package controller

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/web"
)

// pageAgain is how long a page that could not be served waits for the next try.
const pageAgain = 10 * time.Second

// page serves the web page beside a controller, by every replica. That it cannot be served, because
// its certificate is not there, say, neither ends the controller nor keeps it from being ready.
type page struct {
	config  *rest.Config
	scheme  *runtime.Scheme
	options web.Options
	// tried is set once the page is served, or could not be.
	tried atomic.Bool
}

// check is a healthz.Checker: a replica is ready when its page can be asked for, else a Service would
// send readers to a port where nothing listens yet.
func (p *page) check(*http.Request) error {
	if !p.tried.Load() {
		return errors.New("the web page is not served yet")
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*page) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (p *page) Start(ctx context.Context) error {
	p.options.Ready = func(net.Addr) { p.tried.Store(true) }
	for {
		if err := web.Run(ctx, p.config, p.scheme, p.options); err != nil && ctx.Err() == nil {
			p.tried.Store(true)
			log.FromContext(ctx).Error(err, "Failed to serve the web page", "again", pageAgain.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pageAgain):
		}
	}
}
