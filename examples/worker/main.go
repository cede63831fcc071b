// Command worker is a small elastic workload: one part of an Indexed Job, a chain of hashes
// that keeps a processor busy. It saves where it is when it is told to end, and every few
// seconds, and goes on from there when it starts again; it prints its progress and
// throughput. Its result does not depend on how often it was interrupted.
//
//	worker --steps 200000000 --checkpoints /checkpoints
//
// The part is $JOB_COMPLETION_INDEX.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// interrupted is the exit status of a part that is not done: to exit with 0 would tell the
// Job that it is.
const interrupted = 143

func main() { os.Exit(run()) }

func run() int {
	w := worker{out: os.Stdout}
	flag.IntVar(&w.steps, "steps", 50_000_000, "hashes of a part")
	flag.StringVar(&w.dir, "checkpoints", "", "folder for checkpoints (none: starts anew after each interruption)")
	flag.DurationVar(&w.every, "every", 5*time.Second, "time between two checkpoints")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var err error
	if w.part, err = strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX")); err != nil {
		fmt.Fprintf(os.Stderr, "worker: JOB_COMPLETION_INDEX: %q; accepted: the index of an Indexed Job\n", os.Getenv("JOB_COMPLETION_INDEX"))
		return 2
	}
	switch err := w.run(ctx); {
	case errors.Is(err, context.Canceled):
		return interrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

type worker struct {
	part, steps int
	dir         string
	every       time.Duration
	out         io.Writer
}

// state is a checkpoint.
type state struct {
	Step   int    `json:"step"`
	Digest string `json:"digest"`
}

func (w *worker) file() string { return filepath.Join(w.dir, fmt.Sprintf("part-%d.json", w.part)) }

// load returns the checkpoint, or the beginning where there is none.
func (w *worker) load() (state, error) {
	seed := sha256.Sum256([]byte(strconv.Itoa(w.part)))
	begin := state{Digest: hex.EncodeToString(seed[:])}
	if w.dir == "" {
		return begin, nil
	}
	text, err := os.ReadFile(w.file())
	if errors.Is(err, os.ErrNotExist) {
		return begin, nil
	}
	var s state
	if err != nil || json.Unmarshal(text, &s) != nil || s.Step < 0 || len(s.Digest) != 2*sha256.Size {
		return begin, err // a broken checkpoint costs the work, not the result
	}
	return s, nil
}

// save replaces the checkpoint as a whole.
func (w *worker) save(s state) error {
	if w.dir == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.file()+".tmp", text, 0o600); err != nil {
		return err
	}
	return os.Rename(w.file()+".tmp", w.file())
}

// batch is how many hashes lie between two looks at the clock.
const batch = 100_000

func (w *worker) run(ctx context.Context) error {
	s, err := w.load()
	if err != nil {
		return err
	}
	digest, err := hex.DecodeString(s.Digest)
	if err != nil {
		return err
	}
	sum := [sha256.Size]byte(digest)
	begun, first, saved := time.Now(), s.Step, time.Now()
	tell := func(what string) {
		fmt.Fprintf(w.out, `{"part":%d,"event":%q,"progress":%.4f,"hashesPerSecond":%.0f,"digest":%q}`+"\n",
			w.part, what, float64(s.Step)/float64(w.steps), float64(s.Step-first)/time.Since(begun).Seconds(), s.Digest)
	}
	tell("start")
	for s.Step < w.steps {
		n := min(batch, w.steps-s.Step)
		for range n {
			sum = sha256.Sum256(sum[:])
		}
		s = state{Step: s.Step + n, Digest: hex.EncodeToString(sum[:])}
		if ctx.Err() != nil {
			tell("interrupted")
			return errors.Join(w.save(s), ctx.Err())
		}
		if time.Since(saved) >= w.every {
			saved = time.Now()
			tell("checkpoint")
			if err := w.save(s); err != nil {
				return err
			}
		}
	}
	tell("done")
	return w.save(s)
}
