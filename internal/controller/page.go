package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"lull.dev/lull/internal/web"
)

// pageAgain is how long a page that could not be served waits for the next try.
const pageAgain = 10 * time.Second

// page serves the web page beside a controller, by every replica. That it cannot be served, because
// its certificate is not there, say, never ends the controller.
type page struct {
	config  *rest.Config
	scheme  *runtime.Scheme
	options web.Options
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*page) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (p *page) Start(ctx context.Context) error {
	for {
		if err := web.Run(ctx, p.config, p.scheme, p.options); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Serve the web page", "again", pageAgain.String())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pageAgain):
		}
	}
}
