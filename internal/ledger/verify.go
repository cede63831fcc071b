package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// Verified is what a check of the chain has found.
type Verified struct {
	// First and Last are the numbers of the first and last entry, Entries how many there are.
	First, Last, Entries int64
	// Head is the hash of the last one.
	Head Hash
	// Kinds counts entries.
	Kinds map[Kind]int64
}

// Verify checks the chain of entries: that numbers follow each other, that hashes hold, that no key is there
// twice, and that what lies before the first one was dropped by a checkpoint. Errors wrap ErrBroken and name
// the first entry that is wrong.
//
// Complexity: O(entries) time, and memory for their keys.
func Verify(entries iter.Seq2[Entry, error]) (Verified, error) {
	v := Verified{Kinds: map[Kind]int64{}}
	var first Entry
	var before Hash
	dropped := false // a checkpoint accounts for what lies before the first one
	keys := map[string]int64{}
	for e, err := range entries {
		if err != nil {
			return v, err
		}
		if v.Entries == 0 {
			first, v.First = e, e.Seq
		} else if e.Seq != v.Last+1 {
			return v, fmt.Errorf("%w: entry %d follows %d", ErrBroken, e.Seq, v.Last)
		}
		if (v.Entries > 0 || e.Seq == 1) && e.chain(before) != e.Hash {
			return v, fmt.Errorf("%w: entry %d (%s %s): its hash is not that of what it says and of the entry before", ErrBroken, e.Seq, e.Kind, e.Key)
		}
		if at, twice := keys[e.Key]; twice {
			return v, fmt.Errorf("%w: entries %d and %d have the key %s", ErrBroken, at, e.Seq, e.Key)
		}
		keys[e.Key] = e.Seq
		if e.Kind == KindCheckpoint {
			var c Checkpoint
			if err := json.Unmarshal(e.Body, &c); err != nil {
				return v, fmt.Errorf("%w: entry %d: %w", ErrBroken, e.Seq, err)
			}
			if c.Through == first.Seq-1 {
				if first.chain(c.Hash) != first.Hash {
					return v, fmt.Errorf("%w: entry %d does not follow the checkpoint of entry %d", ErrBroken, first.Seq, e.Seq)
				}
				dropped = true
			}
		}
		before = e.Hash
		v.Last, v.Head = e.Seq, e.Hash
		v.Entries++
		v.Kinds[e.Kind]++
	}
	if v.First > 1 && !dropped {
		return v, fmt.Errorf("%w: what lies before entry %d is missing, and no checkpoint says that it was dropped", ErrBroken, v.First)
	}
	return v, nil
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
				yield(e, fmt.Errorf("%w: line %d: %w", ErrBroken, n, err))
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
