package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"lull.dev/lull/pkg/units"
)

// Verified is what a check of the chain has found.
type Verified struct {
	// First and Last are the numbers of the first and last entry, Entries how many there are.
	First   int64 `json:"first"`
	Last    int64 `json:"last"`
	Entries int64 `json:"entries"`
	// Head is the hash of the last one.
	Head Hash `json:"head"`
	// Kinds counts entries.
	Kinds map[Kind]int64 `json:"kinds"`
}

// Checker checks a chain entry by entry. The zero value is ready for the first entry.
type Checker struct {
	Verified
	first   Entry
	dropped bool // a checkpoint accounts for what lies before the first one
	keys    map[string]int64
}

// Add checks the next entry: that numbers follow each other, that hashes hold, that bodies are JSON with finite
// numbers, and that no key is there twice. Errors wrap ErrBroken and name the entry.
func (v *Checker) Add(e Entry) error {
	if v.keys == nil {
		v.keys, v.Kinds = map[string]int64{}, map[Kind]int64{}
	}
	if v.Entries == 0 {
		v.first, v.First = e, e.Seq
	} else if e.Seq != v.Last+1 {
		return fmt.Errorf("%w: entry %d follows %d", ErrBroken, e.Seq, v.Last)
	}
	if (v.Entries > 0 || e.Seq == 1) && e.chain(v.Head) != e.Hash {
		return fmt.Errorf("%w: entry %d (%s %s): its hash does not match its content and the previous entry", ErrBroken, e.Seq, e.Kind, e.Key)
	}
	if err := finite(e.Body); err != nil {
		return fmt.Errorf("%w: entry %d (%s %s): %w", ErrBroken, e.Seq, e.Kind, e.Key, err)
	}
	if at, twice := v.keys[e.Key]; twice {
		return fmt.Errorf("%w: entries %d and %d have the key %s", ErrBroken, at, e.Seq, e.Key)
	}
	v.keys[e.Key] = e.Seq
	if e.Kind == KindCheckpoint {
		var c Checkpoint
		if err := json.Unmarshal(e.Body, &c); err != nil {
			return fmt.Errorf("%w: entry %d: %w", ErrBroken, e.Seq, err)
		}
		if c.Through == v.first.Seq-1 {
			if v.first.chain(c.Hash) != v.first.Hash {
				return fmt.Errorf("%w: entry %d does not follow the checkpoint of entry %d", ErrBroken, v.first.Seq, e.Seq)
			}
			v.dropped = true
		}
	}
	v.Last, v.Head = e.Seq, e.Hash
	v.Entries++
	v.Kinds[e.Kind]++
	return nil
}

// End checks, after the last entry, that what lies before the first one was dropped by a checkpoint. The error
// wraps ErrBroken.
func (v *Checker) End() error {
	if v.First > 1 && !v.dropped {
		return fmt.Errorf("%w: what lies before entry %d is missing, and no checkpoint says that it was dropped", ErrBroken, v.First)
	}
	return nil
}

// Through yields entries as they are checked. The last pair has the error, if any; a caller that stops before it
// knows nothing of the chain.
func (v *Checker) Through(entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				err = v.Add(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := v.End(); err != nil {
			yield(Entry{}, err)
		}
	}
}

// Verify checks the chain of entries, as Checker does. Errors wrap ErrBroken and name
// the first entry that is wrong.
//
// Complexity: O(entries) time, and memory for their keys.
func Verify(entries iter.Seq2[Entry, error]) (Verified, error) {
	v := Checker{Verified: Verified{Kinds: map[Kind]int64{}}, keys: map[string]int64{}}
	for _, err := range v.Through(entries) {
		if err != nil {
			return v.Verified, err
		}
	}
	return v.Verified, nil
}

// finite checks that a body is JSON whose numbers are all finite as floating-point numbers.
func finite(body json.RawMessage) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("body: %w; accepted: JSON with finite numbers", err)
	}
	return nil
}

// mostLine bounds a line of an export, in bytes.
const mostLine = mostBody + 4*mostKey + 1024

// WriteEntries writes entries as lines of JSON: the raw export. It returns how many.
func WriteEntries(w io.Writer, entries iter.Seq2[Entry, error]) (n int64, err error) {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false) // a body is written as it is
	for e, err := range entries {
		if err != nil {
			return n, err
		}
		if err := enc.Encode(&e); err != nil {
			return n, err
		}
		n++
	}
	return n, out.Flush()
}

// ReadEntries yields the entries of a raw export. Errors wrap ErrBroken and name the line.
func ReadEntries(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, mostLine)
		n := 0
		for lines.Scan() {
			n++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			var e Entry
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				yield(e, fmt.Errorf("%w: line %d: %w", ErrBroken, n, units.ReadError(err)))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Entry{}, fmt.Errorf("%w: line %d: %w", ErrBroken, n+1, err))
		}
	}
}
