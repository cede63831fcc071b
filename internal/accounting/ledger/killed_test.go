package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// big returns batch entries that do not fit SQLite's cache together: it writes the first ones to the disk before the
// transaction ends.
func big(from int) (out []New) {
	for i := from; i < from+batch; i++ {
		out = append(out, New{Kind: KindEnergy, Key: fmt.Sprint("energy/", i), Body: strings.Repeat(strconv.Itoa(i%10), 1<<20)})
	}
	return out
}

// dieVariable tells a child of TestKilledAtEachPoint the point at which it kills itself.
const dieVariable = "LULL_LEDGER_DIE"

// die writes a batch, and kills its own process after so many entries of a second one, within the transaction; after it
// if there are more than the batch has.
func die(file string, after int) error {
	ctx := context.Background()
	l, err := Open(ctx, file)
	if err != nil {
		return err
	}
	if _, err := l.Append(ctx, big(0)...); err != nil {
		return err
	}
	kill := func() error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		time.Sleep(writerLimit)
		return errors.New("was not killed")
	}
	if after > batch {
		if _, err := l.Append(ctx, big(batch)...); err != nil {
			return err
		}
		return kill()
	}
	var entries []Entry
	for _, n := range big(batch)[:after] {
		entries = append(entries, n.entry())
	}
	return l.within(ctx, func(tx *sql.Tx) error {
		if _, err := l.write(ctx, tx, entries); err != nil {
			return err
		}
		return kill()
	})
}

// TestKilledAtEachPoint kills a writer after each entry of a transaction, and after the transaction. The ledger has all
// entries of a transaction or none, and the next writer completes it.
func TestKilledAtEachPoint(t *testing.T) {
	if file := os.Getenv("LULL_LEDGER_WRITER"); file != "" {
		after, err := strconv.Atoi(os.Getenv(dieVariable))
		fmt.Println("not killed:", errors.Join(err, die(file, after)))
		return
	}
	for after := range batch + 2 {
		t.Run(fmt.Sprint("after=", after), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ledger.db")
			ctx, cancel := context.WithTimeout(t.Context(), writerLimit)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestKilledAtEachPoint$")
			cmd.Env = append(os.Environ(), "LULL_LEDGER_WRITER="+file, dieVariable+"="+strconv.Itoa(after))
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			err := cmd.Run()
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ctx.Err() != nil || status.Signal() != syscall.SIGKILL || said.Len() > 0 {
				t.Fatalf("the writer did not kill itself: %v, %v\n%s", err, ctx.Err(), &said)
			}
			want := batch
			if after > batch {
				want = 2 * batch
			}
			l := open(t, file)
			holds(t, l, want)
			if n := appendTo(t, l, big(batch)...); n != 2*batch-want {
				t.Errorf("%d entries were missing, want %d", n, 2*batch-want)
			}
			holds(t, l, 2*batch)
		})
	}
}

// holds checks that a ledger has so many entries, and that the chain of their hashes holds.
func holds(t *testing.T, l *Ledger, want int) {
	t.Helper()
	if v, err := Verify(l.Read(t.Context(), Query{})); err != nil || v.Entries != int64(want) {
		t.Errorf("%d entries, want %d: %v", v.Entries, want, err)
	}
}

// TestTornWriteLosesNoOtherEntry cuts the file that SQLite writes entries to first (its write-ahead log) at each boundary of its frames and
// within them, as a computer that stops leaves it. The ledger has the transactions that are there as a whole.
func TestTornWriteLosesNoOtherEntry(t *testing.T) {
	const header, frame = 32, 24 + 4096 // of the write-ahead log
	file := filepath.Join(t.TempDir(), "ledger.db")
	l := open(t, file)
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var ends []int // of the log, after each transaction
	for i := range 3 {
		appendTo(t, l, numbered(batch*i, batch*(i+1))...)
		ends = append(ends, len(read(file+"-wal")))
	}
	database, log := read(file), read(file+"-wal")
	if (len(log)-header)%frame != 0 || len(log) <= header {
		t.Fatalf("the write-ahead log has %d bytes, not whole frames", len(log))
	}
	opened := func(log []byte) *Ledger {
		t.Helper()
		cut := filepath.Join(t.TempDir(), "ledger.db")
		for name, text := range map[string][]byte{cut: database, cut + "-wal": log} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return open(t, cut)
	}
	for begin := header; begin <= len(log); begin += frame {
		for _, cut := range []int{begin, begin + 1, begin + 24, begin + frame/2, begin + frame - 1} {
			if cut > len(log) {
				continue
			}
			want := 0
			for _, end := range ends {
				if end <= cut {
					want += batch
				}
			}
			l := opened(log[:cut])
			holds(t, l, want)
			if n := appendTo(t, l, numbered(0, 3*batch)...); n != 3*batch-want {
				t.Errorf("cut at %d: %d entries were missing, want %d", cut, n, 3*batch-want)
			}
			holds(t, l, 3*batch)
		}
	}
	// What is written in another order than that of the file may leave a gap in it.
	torn := bytes.Clone(log)
	clear(torn[ends[1]+24+100 : ends[1]+24+200])
	copy(torn[ends[1]+24:], bytes.Repeat([]byte{0xff}, 50))
	holds(t, opened(torn), 2*batch)
}
