package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// raced are messages of jobs that have started or ended since the look: the next look sees them as they are.
var raced = []string{"Job is no longer pending execution", "Invalid job id specified", "Job/step already completing or completed", "Job is pending execution", "Job has already finished"}

// acceptedAccounts says who may do what Lull does.
const acceptedAccounts = "accepted: SlurmUser, root, or, with slurmdbd, an account with AdminLevel=Administrator (an operator may not set an AdminComment)"

// run runs a command and returns what it prints. Times are in UTC, and the environment of Lull changes no column.
func (c Commands) run(ctx context.Context, name string, args ...string) (string, error) {
	out, _, err := c.runWith(ctx, outputTime, name, args...)
	return out, err
}

// runWith is run that waits as long for output. It returns what the command complains of too: without an error, at most that jobs have started or ended.
func (c Commands) runWith(ctx context.Context, output time.Duration, name string, args ...string) (out, complaints string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	path := name
	if c.Dir != "" {
		path = c.Dir + "/" + name
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment(os.Environ())
	cmd.WaitDelay = output
	stdout, stderr := &bounded{most: mostOutput}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	switch {
	case stdout.over:
		return "", "", fmt.Errorf("%w: %s: more than %d MiB of output", ErrCommand, name, mostOutput>>20)
	case ctx.Err() != nil:
		return "", "", fmt.Errorf("%w: %s: %w", ErrCommand, name, context.Cause(ctx))
	case err != nil && strings.Contains(stderr.String(), "ermission denied"):
		return "", "", fmt.Errorf("%w: %s %s: %w: %s; %s", ErrCommand, name, args[0], err, firstLine(stderr.String()), acceptedAccounts)
	case err != nil && !onlyRaced(stderr.String()):
		return "", "", fmt.Errorf("%w: %s %s: %w: %s", ErrCommand, name, args[0], err, firstLine(unraced(stderr.String())))
	case strings.Contains(stderr.String(), "Invalid job format specification"): // squeue succeeds nevertheless
		return "", "", fmt.Errorf("%w: %s: %s", ErrVersion, name, firstLine(stderr.String()))
	}
	return stdout.String(), stderr.String(), nil
}

// onlyRaced reports whether all that a command complains of is jobs that have started or ended.
func onlyRaced(stderr string) bool {
	return strings.TrimSpace(stderr) != "" && unraced(stderr) == ""
}

// unraced are the other lines of what a command complains of.
func unraced(stderr string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(stderr), "\n"), isRaced)
	return strings.Join(lines, "\n")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const most = 300
	return strings.ToValidUTF8(line[:min(len(line), most)], "?")
}

// environment is one in which the commands answer as they are parsed: users may set defaults for them by variables.
func environment(of []string) []string {
	out := make([]string, 0, len(of)+4)
	for _, v := range of {
		name, _, _ := strings.Cut(v, "=")
		if name == "TZ" || name == "LC_ALL" || name == "SLURM_TIME_FORMAT" || name == "SLURM_BITSTR_LEN" || name == "SLURM_CLUSTERS" ||
			strings.HasPrefix(name, "SQUEUE_") || strings.HasPrefix(name, "SINFO_") || strings.HasPrefix(name, "SCONTROL_") || strings.HasPrefix(name, "SACCT_") {
			continue
		}
		out = append(out, v)
	}
	return append(out, "TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard", "SLURM_BITSTR_LEN=64")
}

// bounded keeps the beginning of what is written. The buffer is no embedded field: its ReadFrom would have no bound.
type bounded struct {
	kept bytes.Buffer
	most int
	over bool
}

var _ io.Writer = (*bounded)(nil)

// Write takes all, and keeps what fits.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.kept.Len()
	b.over = b.over || len(p) > room
	b.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

func (b *bounded) String() string { return b.kept.String() }

// RacedError says that jobs have started or ended since they were observed. The update has not changed them, except that Slurm still sets the AdminComment of a job
// that has started.
type RacedError struct {
	// IDs are those of the update, as far as Slurm names them.
	IDs []string
}

// Error implements error.
func (e *RacedError) Error() string {
	return "started or ended meanwhile: " + strings.Join(e.IDs, ",")
}

// racedError is the error of an update: that of jobs that have started or ended only if nothing else failed.
func racedError(raced []string, errs []error) error {
	if err := errors.Join(errs...); err != nil || len(raced) == 0 {
		return err
	}
	return &RacedError{raced}
}

// racedOf are the jobs of a command that it complains of as started or ended: it ends such a line with "for job 12", or begins it with
// "12_3: ". If it was asked for one job, it is that. A line of a part of an array that was named says nothing of the other parts.
func racedOf(complaints string, ids []string) (out []string) {
	for line := range strings.Lines(complaints) {
		line = strings.TrimSpace(line)
		if line == "" || !isRaced(line) {
			continue
		}
		_, id, named := strings.Cut(line, " for job ")
		if first, _, is := strings.Cut(line, ": "); is && slices.Contains(ids, first) {
			id, named = first, true
		}
		if !named && len(ids) == 1 && !strings.Contains(ids[0], "_") {
			id = ids[0]
		}
		if slices.Contains(ids, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// isRaced reports whether a line is of a job that has started or ended since the look.
func isRaced(line string) bool {
	return slices.ContainsFunc(raced, func(message string) bool { return strings.Contains(line, message) })
}
