package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// Bounds of the cache; the oldest entries go first.
const (
	maxEntries     = 2000
	maxDiskBytes   = 256 << 20
	maxMemoryBytes = 64 << 20
	// trimEntries and trimBytes are how much is written to the disk until the cache looks at its bounds again.
	trimEntries = 64
	trimBytes   = 32 << 20
)

// Cache keeps answers in a folder, where they survive restarts. A broken or
// foreign file in it is no error: the answer is asked for again. It is safe for
// concurrent use, also by several processes.
type Cache struct {
	dir string

	mu     sync.Mutex
	memory map[string]entry // without a folder
	bytes  int              // of the bodies in memory
	// written and writtenBytes are what the disk got since the last trim.
	written, writtenBytes int
}

// entry is a kept answer.
type entry struct {
	URL          string
	At           time.Time
	ETag         string `json:",omitempty"`
	LastModified string `json:",omitempty"`
	Body         []byte
}

// NewCache keeps answers in dir, which is made when needed; in memory if dir is
// empty. The first answer trims what an earlier process left.
func NewCache(dir string) *Cache {
	return &Cache{dir: dir, memory: map[string]entry{}, writtenBytes: trimBytes}
}

const suffix = ".answer.json"

func (c *Cache) path(url string) string {
	sum := sha256.Sum256([]byte(url))
	return filepath.Join(c.dir, hex.EncodeToString(sum[:16])+suffix)
}

func (c *Cache) get(url string) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == "" {
		e, ok := c.memory[url]
		return e, ok
	}
	text, err := os.ReadFile(c.path(url))
	if err != nil {
		return entry{}, false
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.URL != url {
		return entry{}, false
	}
	return e, true
}

// put keeps an answer. What cannot be written is only not kept: the answer
// itself has arrived.
func (c *Cache) put(url string, e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.URL = url
	if c.dir == "" {
		c.bytes += len(e.Body) - len(c.memory[url].Body)
		c.memory[url] = e
		c.shrink()
		return
	}
	text, err := json.Marshal(e)
	if err != nil {
		return
	}
	if WriteFile(c.path(url), text) != nil {
		return
	}
	c.written++
	c.writtenBytes += len(text)
	if c.written >= trimEntries || c.writtenBytes > trimBytes {
		c.written, c.writtenBytes = 0, 0
		c.trim()
	}
}

// shrink removes the oldest answers in memory beyond the bounds. O(n log n), and rare: it then removes a quarter more than it has to.
func (c *Cache) shrink() {
	if len(c.memory) <= maxEntries && c.bytes <= maxMemoryBytes {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(c.memory), func(a, b string) int { return c.memory[a].At.Compare(c.memory[b].At) })
	for _, url := range oldest {
		if len(c.memory) <= maxEntries*3/4 && c.bytes <= maxMemoryBytes*3/4 {
			return
		}
		c.bytes -= len(c.memory[url].Body)
		delete(c.memory, url)
	}
}

// trim removes the oldest answers on disk beyond the bounds.
func (c *Cache) trim() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var kept []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), suffix) {
			kept = append(kept, info)
		}
	}
	sort.Slice(kept, func(a, b int) bool { return kept[a].ModTime().After(kept[b].ModTime()) })
	bytes := int64(0)
	for i, info := range kept {
		if bytes += info.Size(); i >= maxEntries || bytes > maxDiskBytes {
			_ = os.Remove(filepath.Join(c.dir, info.Name()))
		}
	}
}

// WriteFile writes a file in one step: readers, and a restart, see the old text
// or the new one, never a part. Missing folders are made, for the owner alone.
func WriteFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
