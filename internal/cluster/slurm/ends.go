package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrNoAccounting says that Slurm keeps no account of jobs that it has forgotten.
var ErrNoAccounting = errors.New("no accounting of jobs that are over")

// Ends implements Client: by the job completion records of a file, if one is named (JobCompType=jobcomp/filetxt), else by sacct, which needs slurmdbd.
// Records that cannot be read are left out, and of the file those that users may have made: see completions. The file names tasks of arrays by numbers of
// their own: they are not found there.
func (c Commands) Ends(ctx context.Context, ids []string) ([]Job, error) {
	if c.Completions != "" {
		return completions(ctx, c.Completions, ids)
	}
	var out []Job
	err := c.sacct(ctx, ids, []string{"JobID", "State", "Submit", "Start", "End", "AllocCPUS"}, []string{"--allocations"}, func(f []string) {
		if j, ok := record(f[0], f[1], f[2], f[3], f[4], f[5], time.UTC); ok {
			out = append(out, j)
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// sacct calls a function for each record of some jobs. Records with another number of fields are left out.
func (c Commands) sacct(ctx context.Context, ids, fields, more []string, each func(fields []string)) error {
	for ; len(ids) > 0; ids = ids[min(atOnce, len(ids)):] {
		args := append([]string{"--noheader", "--parsable2", "--duplicates", "--format=" + strings.Join(fields, ","), "--jobs=" + strings.Join(ids[:min(atOnce, len(ids))], ",")}, more...)
		text, _, err := c.runWith(ctx, endsTime, "sacct", args...)
		switch {
		case err != nil && strings.Contains(err.Error(), "accounting storage is disabled"):
			return fmt.Errorf("%w: %w", ErrNoAccounting, err)
		case err != nil:
			return err
		}
		for line := range strings.Lines(text) {
			if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == len(fields) {
				each(f)
			}
		}
	}
	return nil
}

// record is a job that is over.
func record(id, state, submitted, started, ended, cpus string, zone *time.Location) (Job, bool) {
	state, _, _ = strings.Cut(state, " ") // CANCELLED by 1000
	j := Job{ID: id, Tasks: 1, State: strings.TrimSuffix(state, "+")}
	number, _, _ := strings.Cut(id, "_")
	n, err := strconv.Atoi(number)
	if err != nil || !j.Over() {
		return j, false
	}
	j.Number = n
	for _, at := range []struct {
		to   *time.Time
		text string
	}{{&j.Submitted, submitted}, {&j.Started, started}, {&j.Ended, ended}} {
		switch at.text {
		case "", "Unknown", "None", "NONE":
			continue
		}
		t, err := time.ParseInLocation(timeLayout, at.text, zone)
		if err != nil {
			return j, false
		}
		*at.to = t.UTC()
	}
	if j.CPUs, err = parseCount(cpus); err != nil {
		return j, false
	}
	return j, !j.Ended.IsZero() && !j.Submitted.IsZero()
}
