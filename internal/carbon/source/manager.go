package source

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"sync"

	"lull.dev/lull/internal/carbon/provider"
)

// Feeds are the feeds of all zones, by key. Zones of one source share one feed.
type Feeds struct {
	// Get asks providers; *fetch.Client in production.
	Get provider.Getter
	// Dir is where feeds are kept; empty keeps them in memory only.
	Dir string

	mu    sync.Mutex
	feeds map[string]*Feed
	users map[string]string // feed key by zone
}

// Feed returns the feed of a zone as configured now. A configuration that differs
// in anything but the key (credentials, refresh) replaces the one in use.
func (m *Feeds) Feed(zone string, cfg Config) (*Feed, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	f, isNew := m.use(zone, cfg)
	if isNew {
		return f, nil
	}
	f.mu.Lock() // not under m.mu: an outlook may hold it for seconds
	defer f.mu.Unlock()
	if renewed, ok := cfg.Provider.(provider.Inheritor); ok {
		renewed.Inherit(f.cfg.Provider)
	}
	reach := f.cfg.Horizon
	f.cfg = cfg.withDefaults()
	f.cfg.Horizon = max(f.cfg.Horizon, reach) // of the zone that looks furthest
	return f, nil
}

// use returns the feed of a configuration, made anew if there is none, and notes that a zone uses it.
func (m *Feeds) use(zone string, cfg Config) (f *Feed, isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.feeds == nil {
		m.feeds, m.users = map[string]*Feed{}, map[string]string{}
	}
	if old := m.users[zone]; old != cfg.Key {
		m.leave(zone)
	}
	m.users[zone] = cfg.Key
	if f, ok := m.feeds[cfg.Key]; ok {
		return f, false
	}
	path := ""
	if m.Dir != "" {
		sum := sha256.Sum256([]byte(cfg.Key))
		path = filepath.Join(m.Dir, hex.EncodeToString(sum[:16])+".feed.json")
	}
	f = newFeed(cfg, m.Get, path)
	m.feeds[cfg.Key] = f
	return f, true
}

// Current returns the feed that a zone uses.
func (m *Feeds) Current(zone string) (*Feed, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.feeds[m.users[zone]]
	return f, ok
}

// Forget drops a zone, and its feed if no other zone uses it.
func (m *Feeds) Forget(zone string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave(zone)
}

func (m *Feeds) leave(zone string) {
	key, ok := m.users[zone]
	if !ok {
		return
	}
	delete(m.users, zone)
	for _, other := range m.users {
		if other == key {
			return
		}
	}
	delete(m.feeds, key)
}
