package source

import (
	"fmt"
	"time"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Defaults of a feed.
const (
	DefaultRefresh    = 5 * time.Minute
	DefaultStaleAfter = 2 * time.Hour
	DefaultHorizon    = 96 * time.Hour
)

// Constant is the intensity that is declared for when nothing else is known.
type Constant struct {
	Value, Low, High float64 // gCO2eq/kWh
}

// Config says what a feed is about. Feeds of one Key share what they fetch.
type Config struct {
	// Key identifies the feed: source, zone, signal, and the replay if there is one.
	Key string
	// Provider is asked; nil for a series that is read by other means (SetSeries).
	Provider provider.Provider
	// Zone is the grid zone: for its clock and its climatology.
	Zone   string
	Signal carbon.Signal
	Factor carbon.Factor
	// Weather of a place that drives the intensity, or nil.
	Weather *provider.OpenMeteo
	// Constant is the last resort, or nil.
	Constant *Constant
	// Refresh is how often the provider is asked, StaleAfter how old the newest
	// information may be, Horizon how far ahead the outlook reaches; grid time.
	// Constant, StaleAfter and Horizon may differ between zones of one Key.
	Refresh, StaleAfter, Horizon time.Duration
	// Timeline is the clock of the zone.
	Timeline timegrid.Timeline
}

func (c Config) withDefaults() Config {
	if c.Refresh <= 0 {
		c.Refresh = DefaultRefresh
	}
	if c.StaleAfter <= 0 {
		c.StaleAfter = DefaultStaleAfter
	}
	if c.Horizon <= 0 {
		c.Horizon = DefaultHorizon
	}
	return c
}

// check refuses a provider that publishes another signal than the zone states:
// average and marginal intensities never mix.
func (c Config) check() error {
	if c.Provider == nil {
		return nil
	}
	if p := c.Provider.Provenance(); p.Signal != c.Signal {
		return fmt.Errorf("%w: signal: %s publishes %s intensities, the zone states %s", ErrSource, c.Provider.Name(), p.Signal, c.Signal)
	}
	return nil
}
