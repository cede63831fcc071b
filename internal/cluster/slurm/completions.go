package slurm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// mostCompletions bounds how much is read of the end of a file of completions: hundreds of thousands of jobs.
	mostCompletions = 256 << 20
	// longestCompletion bounds a line. A longer one counts as incomplete.
	longestCompletion = 64 << 10
)

// ofSlurm is what Slurm writes of a job before the folder that its user chooses, and after the name that its user chooses.
var ofSlurm = regexp.MustCompile(` JobState=(\S+) Partition=\S* TimeLimit=\S* StartTime=(\S*) EndTime=(\S*) NodeList=\S* NodeCnt=\d+ ProcCnt=(\d+) WorkDir=`)

// ofCluster is what Slurm writes at the end of a line, after all that users choose.
var ofCluster = regexp.MustCompile(` Cluster=\S* SubmitTime=(\S+) EligibleTime=\S+(?: [A-Za-z]+=\S*)* ExitCode=\S+ ?$`)

// completions reads the records of jobs from a file of jobcomp/filetxt, whose times are in the time zone of this machine.
//
// Slurm writes the name and the folder of a job as its user states them, with line breaks: a user can write lines that look like those of other jobs. So a
// job counts only if all lines that begin with its number are complete, and the same: of one with lines that differ, as after a requeue, nothing is known.
func completions(ctx context.Context, name string, ids []string) ([]Job, error) {
	found := map[string]string{}
	wanted, doubtful := map[string]bool{}, map[string]bool{}
	for _, id := range ids {
		wanted[id] = !strings.Contains(id, "_") // Slurm writes no such number: a user has
	}
	err := eachCompletion(ctx, name, func(line string, whole bool) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "JobId="), " ")
		if !wanted[id] || !strings.HasPrefix(line, "JobId=") {
			return
		}
		before, seen := found[id]
		doubtful[id] = doubtful[id] || !whole || seen && line != before
		found[id] = line
	})
	if err != nil {
		return nil, err
	}
	var out []Job
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if doubtful[id] {
			continue
		}
		if j, ok := completion(id, found[id]); ok {
			out = append(out, j)
		}
	}
	return out, nil
}

// completion reads a line.
func completion(id, line string) (Job, bool) {
	job, submitted := ofSlurm.FindAllStringSubmatch(line, 2), ofCluster.FindStringSubmatch(line)
	if len(job) != 1 || submitted == nil { // two: one is in the name or the folder
		return Job{}, false
	}
	is := job[0]
	return record(id, is[1], submitted[1], is[2], is[3], is[4], time.Local)
}

// eachCompletion calls a function for the last lines of a file. whole is false if a line has no end, or if this is only the beginning of a longer one.
func eachCompletion(ctx context.Context, name string, each func(line string, whole bool)) error {
	about, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !about.Mode().IsRegular() {
		return fmt.Errorf("--completions: %s: %v; accepted: a file", name, about.Mode().Type())
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(io.LimitReader(file, mostCompletions), longestCompletion)
	if skip := about.Size() - mostCompletions; skip > 0 {
		if _, err := file.Seek(skip, io.SeekStart); err != nil {
			return err
		}
		if _, _, err := nextLine(lines); err != nil { // a part of one
			return err
		}
	}
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return fmt.Errorf("--completions: %s: %w", name, context.Cause(ctx))
		}
		line, whole, err := nextLine(lines)
		if len(line) > 0 {
			each(line, whole)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// nextLine is a line, or the beginning of a longer one.
func nextLine(from *bufio.Reader) (line string, whole bool, err error) {
	text, err := from.ReadSlice('\n')
	line, whole = strings.CutSuffix(string(text), "\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = from.ReadSlice('\n')
	}
	return line, whole, err
}
