// Package controller holds Lull's reconcilers. They are thin: they observe, call
// decide.Decide and apply; all state is in the API objects and the clock.
package controller

import (
	"sync"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Zone is what is known of a grid zone now.
type Zone struct {
	// Outlook is the last one; without series while nothing is known.
	Outlook  carbon.Outlook
	Timeline timegrid.Timeline
	// Paused says that policies of the zone hold nothing.
	Paused bool
	// Beside is the GridZone by whose intensities the ledger states emissions too; may be empty.
	Beside string
}

// Zones keeps the zones in memory, so that no decision waits for a source. It
// is filled again from the API after a restart.
type Zones struct {
	mu    sync.RWMutex
	zones map[string]Zone
}

// NewZones returns an empty store.
func NewZones() *Zones { return &Zones{zones: map[string]Zone{}} }

// Get returns a zone; false when it has not been looked at yet.
func (z *Zones) Get(name string) (Zone, bool) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	zone, ok := z.zones[name]
	return zone, ok
}

// Set replaces a zone.
func (z *Zones) Set(name string, zone Zone) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.zones[name] = zone
}

// Delete forgets a zone.
func (z *Zones) Delete(name string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.zones, name)
}
