package slurm

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/decide"
)

// ErrComment marks a comment of a job whose part for Lull cannot be read.
var ErrComment = errors.New("invalid comment")

// Options are what a job states for Lull, or what the administrator states for its partition, QOS or account.
type Options struct {
	// MaxDelay is how long after its submission the job starts at the latest. With 0 it waits only if it has a deadline.
	MaxDelay time.Duration
	// Runtime is the run time expected; 0 takes the time limit.
	Runtime time.Duration
	// Interruptible jobs may be paused by a requeue. Checkpoint is how often such a job saves what it has done; 0 if it saves
	// when it gets SIGTERM.
	Interruptible bool
	Checkpoint    time.Duration
	// MinTasks is how many tasks of an array Lull lets run at a time at least, where the plan wants fewer than its throttle lets; 0 leaves the throttle alone. Of a
	// job that is no array and is Interruptible, it is how many tasks (--ntasks) the job may have at least, and Restart how long it then takes to start again; 0
	// for DefaultRestart.
	MinTasks int
	Restart  time.Duration
	// Parallel is the share of the work of such a job that its tasks do side by side (Amdahl's law): with fewer tasks, the rest takes no longer. 0 for all of it.
	Parallel float64
	// Off says that the job may not wait, whatever the administrator states.
	Off bool
}

// prefix begins the part of a comment that is for Lull.
const prefix = "lull:"

// The keys of a comment.
const (
	keyMaxDelay      = "max-delay"
	keyRuntime       = "runtime"
	keyInterruptible = "interruptible"
	keyCheckpoint    = "checkpoint"
	keyMinTasks      = "min-tasks"
	keyRestart       = "restart"
	keyParallel      = "parallel"
	keyOff           = "off"
)

const acceptedKeys = "max-delay=DURATION, runtime=DURATION, interruptible, checkpoint=DURATION, min-tasks=NUMBER, restart=DURATION, parallel=SHARE or off"

// ReadComment reads the part of a comment that is for Lull, such as lull:max-delay=8h,interruptible, over what stands
// otherwise. The part begins with "lull:" at the beginning of a word, and ends before a space or a semicolon.
//
// array says that it is the comment of an array, which is either interruptible or has min-tasks.
//
// stated reports whether the comment has such a part. The error wraps ErrComment and names what cannot be read.
func ReadComment(comment string, otherwise Options, array bool) (o Options, stated bool, err error) {
	if array && otherwise.Interruptible {
		otherwise.MinTasks = 0
	}
	part := ""
	for _, word := range strings.FieldsFunc(comment, func(r rune) bool { return r == ';' || r <= ' ' }) {
		if rest, ours := strings.CutPrefix(word, prefix); ours {
			if stated {
				return otherwise, true, fmt.Errorf("%w: two parts begin with %s; accepted: one", ErrComment, prefix)
			}
			part, stated = rest, true
		}
	}
	if !stated {
		return otherwise, false, nil
	}
	o = otherwise
	seen := map[string]bool{}
	for _, entry := range strings.Split(part, ",") {
		if entry == "" {
			continue
		}
		key, value, hasValue := strings.Cut(entry, "=")
		if seen[key] {
			return otherwise, true, fmt.Errorf("%w: %s is stated twice", ErrComment, key)
		}
		seen[key] = true
		if err := o.set(key, value, hasValue); err != nil {
			return otherwise, true, err
		}
	}
	if array && o.MinTasks > 0 && o.Interruptible { // what the user states stands over a default that excludes it
		switch {
		case !seen[keyMinTasks]:
			o.MinTasks = 0
		case !seen[keyInterruptible] && !seen[keyCheckpoint]:
			o.Interruptible, o.Checkpoint = false, 0
		}
	}
	if o.Checkpoint > 0 && !o.Interruptible {
		return otherwise, true, fmt.Errorf("%w: checkpoint without interruptible", ErrComment)
	}
	switch {
	case array && o.MinTasks > 0 && o.Interruptible:
		return otherwise, true, fmt.Errorf("%w: min-tasks with interruptible; accepted: one of them for an array", ErrComment)
	case (seen[keyRestart] || seen[keyParallel]) && (o.MinTasks == 0 || !o.Interruptible):
		return otherwise, true, fmt.Errorf("%w: restart or parallel; accepted: with interruptible and min-tasks", ErrComment)
	}
	return o, true, nil
}

// set takes over one entry of a comment.
func (o *Options) set(key, value string, hasValue bool) error {
	to := map[string]*time.Duration{keyMaxDelay: &o.MaxDelay, keyRuntime: &o.Runtime, keyCheckpoint: &o.Checkpoint, keyRestart: &o.Restart}[key]
	switch {
	case to != nil:
		d, err := ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrComment, key, err)
		}
		if *to = d; key == keyRestart && d > decide.MaxRestart {
			return fmt.Errorf("%w: %s: %q; accepted: up to %v", ErrComment, key, clipped(value), decide.MaxRestart)
		}
	case key == keyMinTasks:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > mostTasks {
			return fmt.Errorf("%w: %s: %q; accepted: 1 to %d", ErrComment, key, clipped(value), mostTasks)
		}
		o.MinTasks = n
	case key == keyParallel:
		share, err := strconv.ParseFloat(value, 64)
		if err != nil || !validShare(share) {
			return fmt.Errorf("%w: %s: %q; accepted: above 0, up to 1", ErrComment, key, clipped(value))
		}
		o.Parallel = share
	case hasValue || key != keyInterruptible && key != keyOff:
		return fmt.Errorf("%w: %q; accepted: %s", ErrComment, clipped(key), acceptedKeys)
	case key == keyInterruptible:
		o.Interruptible = true
	default:
		o.Off = true
	}
	return nil
}

// validShare reports whether a share can be Options.Parallel.
func validShare(v float64) bool { return v > 0 && v <= 1 }

// longest bounds durations: what waits longer than a year is a mistake.
const longest = 366 * 24 * time.Hour

var durationPart = regexp.MustCompile(`^(\d{1,9})(d|h|m|s)`)

// ParseDuration reads a duration such as 8h, 1d12h or 90s: whole numbers with d, h, m or s. The script of job_submit reads the same.
func ParseDuration(text string) (time.Duration, error) {
	units := map[string]time.Duration{"d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second}
	total, rest := time.Duration(0), text
	for rest != "" || text == "" {
		part := durationPart.FindStringSubmatch(rest)
		if part == nil {
			return 0, fmt.Errorf("%q is not a duration; accepted: as 8h, 1d12h or 90s", clipped(text))
		}
		n, _ := strconv.ParseInt(part[1], 10, 64) // at most nine digits
		if time.Duration(n) > longest/units[part[2]] {
			total = longest + 1
		} else if total <= longest {
			total += time.Duration(n) * units[part[2]]
		}
		rest = rest[len(part[0]):]
	}
	if total > longest {
		return 0, fmt.Errorf("%q is too long; accepted: up to 366d", clipped(text))
	}
	return total, nil
}

// clipped is a text of a user as messages show it.
func clipped(text string) string {
	const most = 40
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "?") + "..."
	}
	return text
}
