package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/base/loopback"
)

const (
	// liveHistory is how much of the past the fake grid serves.
	liveHistory = 60 * 24 * time.Hour
	// outageFrom is when in the replay the provider goes down.
	outageFrom = 8 * time.Hour
	secretName = "demo-grid"
	liveToken  = "demo"
)

// liveGrid is a fake grid that the demo's zone asks instead of a ConfigMap.
type liveGrid struct {
	*child
	url   string
	epoch time.Time
}

// startGrid starts `lull fakegrid` on the series, standing at from at the epoch
// that it returns, a moment from now.
func startGrid(ctx context.Context, dir, self string, o Options, series string, from time.Time) (*liveGrid, error) {
	trace, token := filepath.Join(dir, "grid.csv"), filepath.Join(dir, "grid-token")
	if err := os.WriteFile(trace, []byte(series), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(token, []byte(liveToken), 0o600); err != nil {
		return nil, err
	}
	epoch := time.Now().Truncate(time.Second).Add(2 * time.Second)
	return runGrid(ctx, dir, self, o, from, epoch, "--trace", o.Zone+"="+trace, "--token-file", token)
}

// runGrid runs `lull fakegrid` with further arguments and waits until it answers.
func runGrid(ctx context.Context, dir, self string, o Options, from, epoch time.Time, args ...string) (*liveGrid, error) {
	address, err := loopback.FreeAddress()
	if err != nil {
		return nil, err
	}
	g := &liveGrid{url: "http://" + address, epoch: epoch}
	g.child, err = startChild(dir, "fakegrid", self, append([]string{"fakegrid", "--bind-address", address,
		"--start", from.Format(time.RFC3339), "--epoch", g.epoch.Format(time.RFC3339), "--factor", strconv.FormatInt(o.Factor, 10)}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := poll(ctx, "the fake grid", func() bool {
		res, err := http.Get(g.url + "/-/clock")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}); err != nil {
		g.stop()
		return nil, err
	}
	return g, nil
}

// fail makes the provider answer 500 in [from, to) of the replay.
func (g *liveGrid) fail(ctx context.Context, from, to time.Time) error {
	body, err := json.Marshal([]map[string]any{{"kind": "500", "from": from, "to": to}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, g.url+"/-/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return fmt.Errorf("inject the outage: %s: %s", res.Status, text)
	}
	return nil
}

// liveZone is the demo's zone with the fake grid as its provider.
func liveZone(ctx context.Context, c client.Client, o Options, g *liveGrid) (*v1alpha1.GridZone, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName, Namespace: "lull-system", Annotations: map[string]string{v1alpha1.AnnotationProviderHosts: strings.TrimPrefix(g.url, "http://")}},
		StringData: map[string]string{"token": liveToken},
	}
	if err := c.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("create the secret: %w", err)
	}
	return &v1alpha1.GridZone{
		ObjectMeta: metav1.ObjectMeta{Name: zoneName},
		Spec: v1alpha1.GridZoneSpec{
			Zone: o.Zone, Refresh: &metav1.Duration{Duration: 30 * time.Minute},
			Source: v1alpha1.GridZoneSource{ElectricityMaps: &v1alpha1.ElectricityMapsSource{
				Endpoint: v1alpha1.Endpoint(g.url), TokenSecret: v1alpha1.SecretKey{Name: secretName, Key: "token"},
			}},
		},
	}, nil
}

// seen is what the zone's status said from a moment on.
type seen struct {
	at    time.Time // of the replay
	state string
}

// look notes when the zone's status changes.
func (r *replay) look(ctx context.Context, now time.Time) {
	if r.Live == nil || now.Sub(r.looked) < 500*time.Millisecond {
		return
	}
	r.looked = now
	var zone v1alpha1.GridZone
	if r.client.Get(ctx, client.ObjectKey{Name: zoneName}, &zone) != nil {
		return // asked again in a moment
	}
	state := zone.Status.Basis
	if meta.IsStatusConditionTrue(zone.Status.Conditions, v1alpha1.ConditionStale) {
		state += ", stale"
	}
	if meta.IsStatusConditionTrue(zone.Status.Conditions, v1alpha1.ConditionDegraded) {
		state += ", degraded"
	}
	if n := len(r.states); n == 0 || r.states[n-1].state != state {
		r.states = append(r.states, seen{r.timeline.ToGrid(now), state})
	}
}

// statesText lists what the status said.
func (r *replay) statesText() []string {
	var out []string
	for _, s := range r.states {
		out = append(out, fmt.Sprintf("%s  %s", s.at.UTC().Format("Mon 15:04"), s.state))
	}
	return out
}
