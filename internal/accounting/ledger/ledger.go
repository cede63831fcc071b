// Package ledger keeps what was observed of governed workloads in a table that only grows, chained by
// hash, and what was settled from it.
package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	_ "github.com/jackc/pgx/v5/stdlib" // database/sql driver "pgx"
	_ "modernc.org/sqlite"             // database/sql driver "sqlite"
)

var (
	// ErrInvalid marks what is not accepted.
	ErrInvalid = errors.New("invalid entry")
	// ErrBroken marks a ledger whose chain does not hold.
	ErrBroken = errors.New("the chain is broken")
	// ErrDatabase marks a database that cannot be used.
	ErrDatabase = errors.New("ledger's database")
)

// Entry is one line of the ledger.
type Entry struct {
	// Seq counts from 1 without gaps.
	Seq int64 `json:"seq"`
	// At is when it was written (wall time, UTC).
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`
	// Key says what it is about; no two entries have the same.
	Key string `json:"key"`
	// Workload is the UID of the workload that it is about, "" where it is about none.
	Workload string          `json:"workload,omitempty"`
	Body     json.RawMessage `json:"body"`
	// Hash is the SHA-256 over the hash before and the fields above.
	Hash Hash `json:"hash"`
}

// Hash is a SHA-256, in hex as text.
type Hash [sha256.Size]byte

// String writes it in hex.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes it in hex.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads hex.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("%w: hash of %d characters; accepted: %d of hex", ErrInvalid, len(text), hex.EncodedLen(len(h)))
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("%w: hash: %w", ErrInvalid, err)
	}
	return nil
}

// timeFormat has nine decimals, so that text sorts as time does.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

// chain is the hash of an entry after the one with the hash before: SHA-256 of seven lines, which are
// the hash before, seq, at, kind, key, workload and body.
func (e *Entry) chain(before Hash) Hash {
	lines := []string{before.String(), strconv.FormatInt(e.Seq, 10), e.At.UTC().Format(timeFormat), string(e.Kind), e.Key, e.Workload, string(e.Body)}
	return sha256.Sum256([]byte(strings.Join(lines, "\n")))
}

// New is an entry to be written.
type New struct {
	Kind     Kind
	Key      string
	Workload string
	// Body is written as JSON.
	Body any
}

const (
	// mostKey and mostBody bound an entry, in bytes.
	mostKey  = 1024
	mostBody = 1 << 20
)

// encode checks what is to be written.
func (n *New) encode() (Entry, error) {
	body, err := json.Marshal(n.Body)
	names := string(n.Kind) + n.Key + n.Workload
	switch {
	case err != nil:
		return Entry{}, fmt.Errorf("%w: body: %w", ErrInvalid, err)
	case n.Kind == "" || n.Key == "" || len(n.Key) > mostKey || len(n.Workload) > mostKey || strings.ContainsAny(names, "\n\x00") || !utf8.ValidString(names):
		return Entry{}, fmt.Errorf("%w: kind %q, key %q, workload %q; accepted: kind and key, up to %d bytes of UTF-8 without line breaks", ErrInvalid, n.Kind, clip(n.Key), clip(n.Workload), mostKey)
	case len(body) > mostBody:
		return Entry{}, fmt.Errorf("%w: body of %d bytes; accepted: up to %d", ErrInvalid, len(body), mostBody)
	}
	return Entry{Kind: n.Kind, Key: n.Key, Workload: n.Workload, Body: body}, nil
}

func clip(text string) string { return text[:min(len(text), 80)] }

// entry is what is written: the entry itself, or one in quarantine that says why it cannot be.
func (n *New) entry() Entry {
	e, err := n.encode()
	if err == nil {
		return e
	}
	return aside(n.Kind, n.Key, n.Workload, fmt.Sprintf("%+v", n.Body), err)
}

// Ledger is an open ledger. It is safe for use by several goroutines; one process writes at a time.
type Ledger struct {
	db  *sql.DB
	url string // without password, for messages
	// rewrite makes of a query with $1 one of the database.
	rewrite func(string) string
	clock   func() time.Time
	// hung is for how long PostgreSQL waits for the next statement of a transaction before it ends the transaction: a leader that hangs
	// must not keep the next one from writing. It is 0 for SQLite.
	hung time.Duration

	// rows counts what was read.
	rows atomic.Int64

	opening sync.Mutex
	made    bool // the tables

	catching sync.Mutex
	caughtUp bool // ledger_open

	mu sync.Mutex
	// quarantine is what was put aside since the ledger was opened.
	quarantine Quarantine
	untold     []Quarantined
}

const schema = `CREATE TABLE IF NOT EXISTS ledger (
	seq BIGINT PRIMARY KEY,
	at TEXT NOT NULL,
	kind TEXT NOT NULL,
	key TEXT NOT NULL UNIQUE,
	workload TEXT NOT NULL,
	body TEXT NOT NULL,
	hash TEXT NOT NULL
)`

var indexes = []string{
	`CREATE INDEX IF NOT EXISTS ledger_workload ON ledger (workload, seq)`,
	`CREATE INDEX IF NOT EXISTS ledger_kind ON ledger (kind, seq)`,
}

// ready makes the table where it is not there.
func (l *Ledger) ready(ctx context.Context) error {
	l.opening.Lock()
	defer l.opening.Unlock()
	if l.made {
		return nil
	}
	for _, statement := range append([]string{schema, openSchema}, indexes...) {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return l.failed("make the table", err)
		}
	}
	l.made = true
	return nil
}

// Close closes it.
func (l *Ledger) Close() error { return l.db.Close() }

func (l *Ledger) failed(what string, err error) error {
	return fmt.Errorf("%w %s: %s: %w", ErrDatabase, l.url, what, err)
}

// Append writes entries in their order, all or none of them; one whose key is there already is left
// out, and one that cannot be written as it is goes into quarantine. It returns how many were written,
// those in quarantine included. When it has returned without an error they survive a crash of the
// machine.
//
// Errors wrap ErrDatabase. Complexity: O(entries) with one transaction, and one more for each entry
// that the database refuses.
func (l *Ledger) Append(ctx context.Context, list ...New) (written int, err error) {
	entries := make([]Entry, len(list))
	for i := range list {
		entries[i] = list[i].entry()
	}
	return l.append(ctx, entries)
}

// append is Append of entries that have been encoded.
func (l *Ledger) append(ctx context.Context, entries []Entry) (written int, err error) {
	if len(entries) == 0 {
		return 0, nil
	}
	if err := l.catchUp(ctx); err != nil {
		return 0, err
	}
	for {
		var put []*Entry
		err := l.within(ctx, func(tx *sql.Tx) error {
			put, err = l.write(ctx, tx, entries)
			return err
		})
		var refused *refusal
		if errors.As(err, &refused) && entries[refused.index].Kind != KindQuarantined {
			e := &entries[refused.index]
			*e = aside(e.Kind, e.Key, e.Workload, string(e.Body), refused.cause)
			continue
		}
		if err != nil {
			return 0, err
		}
		l.count(put)
		return len(put), nil
	}
}

// count counts what was written in quarantine.
func (l *Ledger) count(put []*Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range put {
		if e.Kind == KindQuarantined {
			l.quarantine.Entries++
			l.quarantine.Last, _ = bodyOf[Quarantined](e) // as it was encoded
			if len(l.untold) < mostTold {
				l.untold = append(l.untold, l.quarantine.Last)
			}
		}
	}
}

// write appends entries whose keys are not there, and returns those.
func (l *Ledger) write(ctx context.Context, tx *sql.Tx, entries []Entry) (put []*Entry, err error) {
	seq, before, err := l.head(ctx, tx)
	if err != nil {
		return nil, err
	}
	known, err := tx.PrepareContext(ctx, l.rewrite(`SELECT count(*) FROM ledger WHERE key = $1`))
	if err != nil {
		return nil, l.failed("prepare", err)
	}
	defer known.Close()
	insert, err := tx.PrepareContext(ctx, l.rewrite(`INSERT INTO ledger (seq, at, kind, key, workload, body, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)`))
	if err != nil {
		return nil, l.failed("prepare", err)
	}
	defer insert.Close()
	now := l.clock().UTC()
	for i := range entries {
		e := &entries[i]
		var n int
		if err := known.QueryRowContext(ctx, e.Key).Scan(&n); err != nil {
			return nil, l.failed("look for "+e.Key, err)
		}
		if n > 0 {
			continue
		}
		seq++
		e.Seq, e.At = seq, now
		e.Hash = e.chain(before)
		before = e.Hash
		if _, err := insert.ExecContext(ctx, e.Seq, e.At.Format(timeFormat), string(e.Kind), e.Key, e.Workload, string(e.Body), e.Hash.String()); err != nil {
			if refuses(err) {
				err = &refusal{i, err}
			}
			return nil, l.failed("write "+e.Key, err)
		}
		if err := l.note(ctx, tx, e); err != nil {
			return nil, err
		}
		put = append(put, e)
	}
	return put, l.noted(ctx, tx, seq)
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (l *Ledger) head(ctx context.Context, q querier) (seq int64, hash Hash, err error) {
	var text string
	switch err := q.QueryRowContext(ctx, `SELECT seq, hash FROM ledger ORDER BY seq DESC LIMIT 1`).Scan(&seq, &text); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, Hash{}, nil
	case err != nil:
		return 0, Hash{}, l.failed("read the head", err)
	}
	return seq, hash, hash.UnmarshalText([]byte(text))
}

// Head is the number and the hash of the last entry; 0 and zeros where there is none.
func (l *Ledger) Head(ctx context.Context) (seq int64, hash Hash, err error) {
	if err := l.ready(ctx); err != nil {
		return 0, Hash{}, err
	}
	return l.head(ctx, l.db)
}

// Query says which entries are read; its zero value is all.
type Query struct {
	Workload string
	Kind     Kind
	// After is the number of the last entry that is not read.
	After int64
	// Since leaves out entries that were written earlier.
	Since time.Time
}

// Of yields those of some entries that are asked for.
func (q Query) Of(entries iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range entries {
			asked := e.Seq > q.After && !e.At.Before(q.Since) && (q.Workload == "" || e.Workload == q.Workload) && (q.Kind == "" || e.Kind == q.Kind)
			if (err != nil || asked) && !yield(e, err) {
				return
			}
		}
	}
}

// The kind is compared as an expression, so that no planner of a database takes the index of kinds, by which it
// would read most of the ledger.
const unfinished = `SELECT seq, at, kind, key, workload, body, hash FROM ledger
	WHERE workload IN (SELECT workload FROM ledger_open WHERE finished = 0 AND workload != '') AND kind || '' IN ('submitted', 'started', 'ended')
	ORDER BY CASE kind WHEN 'submitted' THEN 0 WHEN 'started' THEN 1 ELSE 2 END, seq`

// unfinished yields what was submitted, started and ended of workloads that are not over, in this order:
// after a drop what came first may stand last. Complexity: O(entries of those workloads).
func (l *Ledger) unfinished(ctx context.Context) iter.Seq2[Entry, error] {
	if err := l.catchUp(ctx); err != nil {
		return func(yield func(Entry, error) bool) { yield(Entry{}, err) }
	}
	return l.query(ctx, unfinished)
}

// next is the first entry from a number on: its number, and when it, or the first one after it that can be decoded, was written; zeros where there is none.
func (l *Ledger) next(ctx context.Context, from int64) (seq int64, at time.Time, err error) {
	const some = 100
	for read := some; read == some; {
		read = 0
		for e, err := range l.query(ctx, `SELECT seq, at, kind, key, workload, body, hash FROM ledger WHERE seq >= $1 ORDER BY seq LIMIT 100`, from) {
			if read++; seq == 0 {
				seq = e.Seq
			}
			if !IsUnreadable(err) {
				return seq, e.At, err
			}
			from = e.Seq + 1
		}
	}
	return seq, time.Time{}, nil
}

// before is the number of the last entry that was written before a time; one less than the first where
// there is none. It takes times to rise from entry to entry, as they do but for steps of the clock.
//
// Complexity: O(log entries) statements of one entry each.
func (l *Ledger) before(ctx context.Context, at time.Time) (int64, error) {
	first, _, err := l.next(ctx, 0)
	if err != nil || first == 0 {
		return 0, err
	}
	last, _, err := l.head(ctx, l.db)
	if err != nil {
		return 0, err
	}
	for low, high := first, last+1; ; {
		if low >= high {
			return low - 1, nil
		}
		middle := low + (high-low)/2
		_, written, err := l.next(ctx, middle)
		if err != nil {
			return 0, err
		}
		if written.Before(at) {
			low = middle + 1
		} else {
			high = middle
		}
	}
}

// Read yields entries in their order. An entry that cannot be decoded comes with an error that wraps ErrBroken, and others may follow; after any other
// error there is none.
func (l *Ledger) Read(ctx context.Context, q Query) iter.Seq2[Entry, error] {
	if !q.Since.IsZero() {
		before, err := l.before(ctx, q.Since)
		if err != nil {
			return func(yield func(Entry, error) bool) { yield(Entry{}, err) }
		}
		q.After = max(q.After, before)
	}
	where, args := []string{"seq > $1"}, []any{q.After}
	add := func(column, value string) {
		if value != "" {
			args = append(args, value)
			where = append(where, fmt.Sprintf("%s = $%d", column, len(args)))
		}
	}
	add("workload", q.Workload)
	add("kind", string(q.Kind))
	return l.query(ctx, "SELECT seq, at, kind, key, workload, body, hash FROM ledger WHERE "+strings.Join(where, " AND ")+" ORDER BY seq", args...)
}

func (l *Ledger) query(ctx context.Context, query string, args ...any) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := l.ready(ctx); err != nil {
			yield(Entry{}, err)
			return
		}
		rows, err := l.db.QueryContext(ctx, l.rewrite(query), args...)
		if err != nil {
			yield(Entry{}, l.failed("read", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			l.rows.Add(1)
			e, err := scan(rows)
			if err != nil && !IsUnreadable(err) {
				yield(Entry{}, l.failed("read", err))
				return
			}
			if !yield(e, err) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Entry{}, l.failed("read", err))
		}
	}
}

func scan(rows *sql.Rows) (e Entry, err error) {
	var at, body, hash string
	if err := rows.Scan(&e.Seq, &at, &e.Kind, &e.Key, &e.Workload, &body, &hash); err != nil {
		return e, err
	}
	e.Body = json.RawMessage(body)
	if e.At, err = time.Parse(timeFormat, at); err != nil {
		return e, &unreadable{e.Seq, fmt.Errorf("at: %w", err)}
	}
	if err := e.Hash.UnmarshalText([]byte(hash)); err != nil {
		return e, &unreadable{e.Seq, err}
	}
	return e, nil
}
