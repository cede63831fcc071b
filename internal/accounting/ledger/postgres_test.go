package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// postgres runs a PostgreSQL of Debian's package and returns the URL of an empty database.
func postgres(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Skip("PostgreSQL is not installed (Debian: postgresql)")
	}
	bin := filepath.Dir(found[len(found)-1])
	// Not in TMPDIR: the path of a socket has at most 107 bytes, and the user postgres must be able to enter the folder.
	dir, err := os.MkdirTemp("/tmp", "lull-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// It does not run as root.
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); errors.Is(err, syscall.EPERM) {
			t.Skip("root without CAP_CHOWN cannot give a folder to the user postgres")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := run("initdb", "-D", data, "-U", "lull", "--auth", "trust", "--no-sync").CombinedOutput(); errors.Is(err, syscall.EPERM) {
		t.Skip("root without CAP_SETUID and CAP_SETGID cannot become the user postgres")
	} else if err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := run("postgres", "-D", data, "-h", "", "-k", dir) // a socket in dir: no port that another could take
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	})
	url := "postgres://lull@/postgres?sslmode=disable&host=" + dir
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); db.Ping() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL did not come up: %v", db.Ping())
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return url
}

// TestPostgresLedgerMatchesTheFile: a ledger in a PostgreSQL is the same as one in a file.
func TestPostgresLedgerMatchesTheFile(t *testing.T) {
	ctx := context.Background()
	url := postgres(t)
	l := open(t, url)
	file := fresh(t)
	at := time.Date(2026, 11, 1, 0, 0, 0, 123, time.UTC)
	for _, l := range []*Ledger{l, file} {
		l.clock = func() time.Time { return at }
		if n := appendTo(t, l, numbered(0, 20)...); n != 20 {
			t.Errorf("%d written", n)
		}
		if n := appendTo(t, l, numbered(10, 30)...); n != 10 {
			t.Errorf("%d written, want 10", n)
		}
		at = at.Add(time.Hour)
		if n, err := l.Drop(ctx, at); err != nil || n != 29 {
			t.Errorf("%d dropped, %v", n, err)
		}
		appendTo(t, l, numbered(50, 60)...)
		at = at.Add(-time.Hour)
		if n := appendTo(t, l, New{Kind: KindEnergy, Key: "", Body: 1}); n != 1 || len(quarantined(t, l)) != 1 {
			t.Errorf("an entry without a key: %d written, %v", n, quarantined(t, l))
		}
	}
	a, err := Verify(l.Read(ctx, Query{}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Verify(file.Read(ctx, Query{}))
	if err != nil {
		t.Fatal(err)
	}
	if a.Head != b.Head || a.Entries != b.Entries || a.First != 31 {
		t.Errorf("%+v, in a file %+v", a, b)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, url)
	if seq, head, err := again.Head(ctx); err != nil || seq != a.Last || head != a.Head {
		t.Errorf("opened again: %d %s, %v", seq, head, err)
	}
	// Two writers by mistake: one of them is refused, or both are in one chain.
	other := open(t, url)
	results := make(chan error, 2)
	for w, l := range []*Ledger{again, other} {
		go func() {
			var err error
			for i := range 20 {
				if _, e := l.Append(ctx, New{Kind: KindEnergy, Key: fmt.Sprint(w, "/", i), Body: map[string]int{"i": i}}); e != nil {
					err = e
				}
			}
			results <- err
		}()
	}
	for range 2 {
		if err := <-results; err != nil && !errors.Is(err, ErrDatabase) {
			t.Error(err)
		}
	}
	if _, err := Verify(again.Read(ctx, Query{})); err != nil {
		t.Error(err)
	}
	b1 := book{t, again}
	s := NewSettler(again)
	b1.offer(0, 1)
	b1.submit("a", 0)
	b1.ran("a", "a-1", 1, 2)
	b1.finished("a", 2)
	b1.hours(0, 500, 100)
	n, err := s.Settle(ctx, func(string) time.Time { return day.Add(3 * time.Hour) })
	if err != nil || n != 1 || !near(b1.settled()["a"].SavedGrams, 40) {
		t.Errorf("%d settled, %v: %+v", n, err, b1.settled())
	}
}

// TestPostgresTakeover: leaders write to one PostgreSQL one after the other, and each is killed. No entry that was reported as written is
// lost, none is there twice, and the chain holds.
func TestPostgresTakeover(t *testing.T) {
	killWriters(t, postgres(t), 12)
}

// TestHungLeaderStopsNoOther: a leader hangs between two statements of a transaction, as on a machine that is suspended. Another one writes on. The
// transaction of the first is refused when it goes on, and the chain holds.
func TestHungLeaderStopsNoOther(t *testing.T) {
	url, ctx := postgres(t), t.Context()
	first, second := open(t, url), open(t, url)
	first.hung = time.Second
	appendTo(t, first, numbered(0, 3)...)
	list := make([]Entry, 0, 3)
	for _, n := range numbered(3, 6) {
		list = append(list, n.entry())
	}
	hangs, goesOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- first.within(ctx, func(tx *sql.Tx) error {
			_, err := first.write(ctx, tx, list)
			close(hangs)
			<-goesOn
			return err
		})
	}()
	<-hangs
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := second.Append(limit, numbered(6, 9)...); err != nil {
		t.Errorf("the other leader: %v", err)
	}
	close(goesOn)
	if err := <-ended; !errors.Is(err, ErrDatabase) {
		t.Errorf("the leader that hung has written: %v", err)
	}
	if n := appendTo(t, first, numbered(0, 9)...); n != 3 {
		t.Errorf("%d written after that, want 3", n)
	}
	v, err := Verify(second.Read(ctx, Query{}))
	if err != nil || v.Entries != 9 {
		t.Errorf("%d entries, %v", v.Entries, err)
	}
}
