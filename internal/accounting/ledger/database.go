package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Open opens a ledger, and makes it where it is not there: a file of SQLite by its path, PostgreSQL by
// its URL (postgres://...). Errors wrap ErrDatabase and never tell a password.
func Open(ctx context.Context, database string) (*Ledger, error) {
	l, err := Later(database)
	if err != nil {
		return nil, err
	}
	if err := l.ready(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Later is Open for a database that may not be there yet: it is opened when it is used, and each use
// fails until that works. Only what can never be a database is an error here.
func Later(database string) (*Ledger, error) {
	l := &Ledger{url: database, clock: time.Now, rewrite: func(q string) string { return strings.ReplaceAll(q, "$", "?") }}
	driver, dsn := "sqlite", "file:"+(&url.URL{Path: database}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	if strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://") {
		u, err := url.Parse(database)
		if err != nil {
			return nil, fmt.Errorf("%w: its URL cannot be read; accepted: postgres://USER@HOST/NAME", ErrDatabase) // the cause repeats the password
		}
		if _, stated := u.User.Password(); stated {
			return nil, fmt.Errorf("%w %s: accepted: no password in its URL, but in $PGPASSWORD or a passfile", ErrDatabase, u.Redacted())
		}
		l.url, l.rewrite = u.Redacted(), func(q string) string { return q }
		driver, dsn, l.hung = "pgx", database, hungTransaction
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, l.failed("open", err)
	}
	l.db = db
	return l, nil
}

// hungTransaction is longer than the pauses of a leader that works.
const hungTransaction = 30 * time.Second

// within runs a transaction.
func (l *Ledger) within(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return l.failed("begin", err)
	}
	if l.hung > 0 {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", l.hung.Milliseconds())); err != nil {
			_ = tx.Rollback()
			return l.failed("begin", err)
		}
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error counts
		return err
	}
	if err := tx.Commit(); err != nil {
		return l.failed("commit", err)
	}
	return nil
}
