package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
)

// The table ledger_open holds the workloads that are not settled, so that a start reads no more than
// theirs: the number of their submission, and whether they are over. Its row without a name has the
// number of the last entry that it knows. It is derived from the entries: where it is missing, or behind
// them as an older version of Lull has written, it is brought up to them.
const openSchema = `CREATE TABLE IF NOT EXISTS ledger_open (
	workload TEXT PRIMARY KEY,
	seq BIGINT NOT NULL,
	finished BIGINT NOT NULL
)`

const (
	openSubmitted = `INSERT INTO ledger_open (workload, seq, finished) VALUES ($1, $2, 0) ON CONFLICT (workload) DO UPDATE SET seq = excluded.seq`
	openFinished  = `UPDATE ledger_open SET finished = 1 WHERE workload = $1`
	openSettled   = `DELETE FROM ledger_open WHERE workload = $1`
)

// openBatch is how many entries a transaction takes into ledger_open.
const openBatch = 50_000

// note takes an entry into ledger_open.
func (l *Ledger) note(ctx context.Context, tx *sql.Tx, e *Entry) error {
	if e.Workload == "" {
		return nil
	}
	var err error
	switch e.Kind {
	case KindSubmitted:
		_, err = tx.ExecContext(ctx, l.rewrite(openSubmitted), e.Workload, e.Seq)
	case KindFinished:
		_, err = tx.ExecContext(ctx, l.rewrite(openFinished), e.Workload)
	case KindSettled:
		_, err = tx.ExecContext(ctx, l.rewrite(openSettled), e.Workload)
	case KindQuarantined:
		if submission(e) { // nobody can settle it
			_, err = tx.ExecContext(ctx, l.rewrite(openSettled), e.Workload)
		}
	}
	if err != nil {
		return l.failed("note that a workload is open", err)
	}
	return nil
}

// noted says that ledger_open knows the entries up to a number.
func (l *Ledger) noted(ctx context.Context, tx *sql.Tx, through int64) error {
	if _, err := tx.ExecContext(ctx, l.rewrite(openSubmitted), "", through); err != nil {
		return l.failed("note what is open", err)
	}
	return nil
}

// catchUp brings ledger_open up to the last entry. Complexity: O(1) where it is, else O(entries behind).
func (l *Ledger) catchUp(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	l.catching.Lock()
	defer l.catching.Unlock()
	for !l.caughtUp {
		done := false
		err := l.within(ctx, func(tx *sql.Tx) error {
			var known int64
			err := tx.QueryRowContext(ctx, `SELECT seq FROM ledger_open WHERE workload = ''`).Scan(&known)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return l.failed("read what is open", err)
			}
			last, _, err := l.head(ctx, tx)
			if err != nil || known >= last {
				done = true
				return err
			}
			behind, err := l.behind(ctx, tx, known)
			if err != nil {
				return err
			}
			for i := range behind {
				if err := l.note(ctx, tx, &behind[i]); err != nil {
					return err
				}
			}
			if len(behind) == openBatch {
				last = behind[len(behind)-1].Seq
			}
			return l.noted(ctx, tx, last)
		})
		if err != nil {
			return err
		}
		l.caughtUp = done
	}
	return nil
}

// behind returns the next entries that ledger_open is made of, without what they say, except of those in quarantine.
func (l *Ledger) behind(ctx context.Context, tx *sql.Tx, after int64) (list []Entry, err error) {
	rows, err := tx.QueryContext(ctx, l.rewrite(`SELECT seq, kind, key, workload, CASE kind WHEN 'quarantined' THEN body ELSE '{}' END FROM ledger
		WHERE seq > $1 AND kind IN ('submitted', 'finished', 'settled', 'quarantined') ORDER BY seq LIMIT $2`), after, openBatch)
	if err != nil {
		return nil, l.failed("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		var body string
		if err := rows.Scan(&e.Seq, &e.Kind, &e.Key, &e.Workload, &body); err != nil {
			return nil, l.failed("read", err)
		}
		e.Body = json.RawMessage(body)
		l.rows.Add(1)
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, l.failed("read", err)
	}
	return list, nil
}

// firstOpen is the number of the first submission of a workload that is not settled; 0 where there is none.
func (l *Ledger) firstOpen(ctx context.Context) (seq int64, err error) {
	if err := l.catchUp(ctx); err != nil {
		return 0, err
	}
	if err := l.db.QueryRowContext(ctx, `SELECT COALESCE(min(seq), 0) FROM ledger_open WHERE workload != ''`).Scan(&seq); err != nil {
		return 0, l.failed("read what is open", err)
	}
	return seq, nil
}
