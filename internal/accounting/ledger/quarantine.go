package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// Quarantined is the body of an entry in quarantine: one that could not be written as it is, or that
// stands in the table and cannot be decoded. The others go on without it, and the figures of its workload are withheld.
type Quarantined struct {
	Kind   Kind   `json:"kind"`
	Key    string `json:"key"`
	Reason string `json:"reason"`
	// Body is what it said, as text, shortened.
	Body string `json:"body"`
}

const (
	// mostQuarantined bounds what is kept of a body in quarantine, in bytes.
	mostQuarantined = 4096
	// mostReason bounds the reason.
	mostReason = 512
)

// aside is an entry in quarantine in the place of another.
func aside(kind Kind, key, workload, body string, reason error) Entry {
	n := quarantine(kind, key, workload, body, reason)
	e, err := n.encode()
	if err != nil {
		panic(err) // short texts of ASCII
	}
	return e
}

// quarantine is what is written of an entry in quarantine. Its texts are of ASCII, so that no
// database refuses them as well.
func quarantine(kind Kind, key, workload, body string, reason error) New {
	short := func(text string, most int) string {
		text = strconv.QuoteToASCII(text[:min(len(text), most)])
		return text[1 : len(text)-1]
	}
	digest := sha256.Sum256([]byte(string(kind) + "\n" + key + "\n" + workload))
	n := New{Kind: KindQuarantined, Key: fmt.Sprintf("quarantined/%x", digest[:16]), Workload: short(workload, mostReason)}
	n.Body = Quarantined{Kind: Kind(short(string(kind), mostReason)), Key: short(key, mostReason), Reason: short(reason.Error(), mostReason), Body: short(body, mostQuarantined)}
	return n
}

// Quarantine says what is in quarantine.
type Quarantine struct {
	// Entries counts those written since the ledger was opened; Last is the newest of them.
	Entries int
	Last    Quarantined
}

// Quarantine returns what was put aside since the ledger was opened.
func (l *Ledger) Quarantine() Quarantine {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quarantine
}

// mostTold bounds how many entries in quarantine wait to be told of.
const mostTold = 100

// TakeQuarantined returns, once each, the entries that were put aside since it was called last; of more than a hundred the first.
func (l *Ledger) TakeQuarantined() []Quarantined {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.untold
	l.untold = nil
	return out
}

// refusal says that the database works, and refuses an entry.
type refusal struct {
	index int
	cause error
}

func (r *refusal) Error() string { return fmt.Sprintf("the database refuses the entry: %v", r.cause) }
func (r *refusal) Unwrap() error { return r.cause }

// refuses says whether an error of a statement is about the values of its row, so that another row may
// be written: PostgreSQL's classes 22 (data exception) and 54 (limit exceeded), and a check that the
// database's owner has added.
func refuses(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return len(pg.Code) == 5 && (pg.Code[:2] == "22" || pg.Code[:2] == "54" || pg.Code == "23514")
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() {
		case sqlitelib.SQLITE_TOOBIG, sqlitelib.SQLITE_CONSTRAINT_CHECK, sqlitelib.SQLITE_CONSTRAINT_TRIGGER:
			return true
		}
	}
	return false
}
