package slurm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"
)

// Client is a Slurm cluster, as far as Lull reads and changes it.
type Client interface {
	// Check says which version there is, and whether Lull can work with it.
	Check(ctx context.Context) (About, error)
	// Observe reads the queue and the nodes.
	Observe(ctx context.Context) (Queue, error)
	// Throttles says how many tasks of some arrays, by number, Slurm lets run at a time now; 0 for all. Of an array with fewer than two tasks that wait
	// alike it may say nothing.
	Throttles(ctx context.Context, arrays []int) (map[int]int, error)
	// Update sets begin times, throttles and AdminComments. If all that fails is jobs that have started or ended meanwhile, the error is a *RacedError.
	Update(ctx context.Context, u Update) error
	// Requeue ends jobs that run and puts them back into the queue. A job that has ended meanwhile is not an error, and does not run again.
	Requeue(ctx context.Context, ids []string) error
	// Ends returns the jobs of some names that Slurm has forgotten, as far as its accounting knows how they ended. The same job may come more than once.
	// The error wraps ErrNoAccounting if there is none.
	Ends(ctx context.Context, ids []string) ([]Job, error)
	// Energy returns what Slurm has measured of the runs of some jobs, by their names, as far as its accounting knows. Runs that are not over may be missing.
	// The error wraps ErrNoAccounting if there is none.
	Energy(ctx context.Context, ids []string) ([]Used, error)
	// Licences says how many there are of a licence. One that Slurm does not know is an error.
	Licences(ctx context.Context, licence string) (int, error)
	// LicencesOf says which licences some jobs that wait ask for now, by name. A job that is not there, or whose list cannot be read whole, is left out.
	LicencesOf(ctx context.Context, ids []string) (map[string]string, error)
	// Reserved says what the reservation of Reserve keeps now of a licence, and whether there is one.
	Reserved(ctx context.Context, licence string) (r Reservation, there bool, err error)
	// Reserve keeps so many of a licence from being given out until a time, instead of those it kept before; 0 gives all back. Slurm gives them back by
	// itself when that time has come. No job is ended.
	Reserve(ctx context.Context, licence string, count int, until time.Time) error
}

// Reservation keeps licences from being given out.
type Reservation struct {
	// Count is how many.
	Count int
	// Ends is when Slurm gives them back.
	Ends time.Time
}

// About is what Check tells.
type About struct {
	// Version is that of the commands, such as 22.05.8.
	Version string
	// REST is that of slurmrestd; empty if it is not used.
	REST string
	// Lua reports whether slurmctld runs job_submit.lua. Without it a job that may wait starts at once if it finds room before Lull sees it.
	Lua bool
	// Tested reports whether the version is one that Lull's tests run on.
	Tested bool
	// Memory reports whether Slurm shares out memory: SelectTypeParameters has a value such as CR_Core_Memory.
	Memory bool
	// Cluster is the name of the cluster, MinJobAge how long it knows a job that is over; 0 if it does not say.
	Cluster   string
	MinJobAge time.Duration
	// ResumeTimeout is how long a node may take to start that Slurm has switched off to save power; 0 if it switches none off.
	ResumeTimeout time.Duration
	// Hidden says why Slurm may hide the jobs of others from the account of Lull (PrivateData), so that an empty queue says nothing; empty if it hides none.
	Hidden string

	// Energy is how the energy of nodes is measured, such as rapl or ipmi; empty if it is not (AcctGatherEnergyType).
	Energy string
	// NoEnergy says why no energy of jobs is kept all the same; empty if it is.
	NoEnergy string

	private   bool
	slurmUser string
}

// ErrCommand marks a command of Slurm that failed.
var ErrCommand = errors.New("command failed")

// ErrVersion marks a version of Slurm that Lull cannot work with.
var ErrVersion = errors.New("unsupported version of Slurm")

const (
	// commandTime bounds a command.
	commandTime = 30 * time.Second
	// outputTime bounds what is still read of a command that has ended or was killed: its output may come late on a busy machine, and what it has
	// started may keep the pipe open.
	outputTime = 20 * time.Second
	// endsTime is the same of sacct, whose answer may also come at the next look.
	endsTime = 2 * time.Second
	// mostOutput bounds what is read of a command: 100,000 jobs and more.
	mostOutput = 128 << 20
	// atOnce is how many jobs one command changes: their names stay far below the limit of the length of a command.
	atOnce = 500
	// oldest is the first version, as year and month, that has all columns; tested is that on which the tests run.
	oldest, tested = 2011, 2205
)

// Commands is a Client that runs squeue, sinfo and scontrol.
type Commands struct {
	// Dir is where they are; empty for PATH.
	Dir string
	// Ended says that Observe lists jobs that are over too.
	Ended bool
	// Completions is a file of jobcomp/filetxt that Ends reads instead of calling sacct; empty for none.
	Completions string
}

var _ Client = Commands{}

// Check implements Client.
func (c Commands) Check(ctx context.Context) (About, error) {
	a, err := c.about(ctx)
	if err != nil {
		return a, err
	}
	return a, readable(ctx, c, &a)
}

// about is what the commands say of themselves and of the configuration.
func (c Commands) about(ctx context.Context) (About, error) {
	var a About
	out, err := c.run(ctx, "squeue", "--version")
	if err != nil {
		return a, err
	}
	release, err := a.read(out)
	if err != nil {
		return a, err
	}
	if a.Tested = release == tested; release < oldest {
		return a, fmt.Errorf("%w: %s; accepted: 20.11 and later", ErrVersion, a.Version)
	}
	out, err = c.run(ctx, "scontrol", "show", "config")
	if err != nil {
		return a, err
	}
	a.configured(out)
	if a.private {
		me, err := user.Current()
		if err != nil {
			return a, fmt.Errorf("the user of this process: %w", err)
		}
		a.Hidden = c.hidden(ctx, a.slurmUser, me)
	}
	return a, nil
}

// hidden says why PrivateData=jobs hides jobs from a user: Slurm shows all to root, SlurmUser, operators and administrators.
func (c Commands) hidden(ctx context.Context, slurmUser string, me *user.User) string {
	if me.Uid == "0" || strings.HasSuffix(slurmUser, "("+me.Uid+")") {
		return ""
	}
	out, err := c.run(ctx, "sacctmgr", "--noheader", "--parsable2", "show", "user", me.Username, "format=AdminLevel")
	switch level := strings.TrimSpace(out); {
	case err != nil:
		return fmt.Sprintf("the AdminLevel of user %s cannot be read: %v", me.Username, err)
	case level == "Operator", level == "Administrator":
		return ""
	case level == "":
		return fmt.Sprintf("slurmdbd does not know user %s", me.Username)
	default:
		return fmt.Sprintf("user %s has AdminLevel=%s", me.Username, clipped(level))
	}
}

// readable looks at the queue once.
func readable(ctx context.Context, c Client, a *About) error {
	q, err := c.Observe(ctx)
	if err != nil { // a column is missing
		return err
	}
	if err := q.Readable(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrVersion, a.Version, err)
	}
	return nil
}

// configured reads the answer of scontrol show config.
func (a *About) configured(text string) {
	for _, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "JobSubmitPlugins":
			for _, plugin := range strings.Split(value, ",") {
				a.Lua = a.Lua || strings.TrimSpace(plugin) == "lua"
			}
		case "SelectTypeParameters":
			a.Memory = strings.Contains(strings.ToUpper(value), "MEMORY")
			if strings.EqualFold(value, "CR_MEMORY") {
				a.NoEnergy = "SelectTypeParameters=" + value + ", so jobs share CPUs"
			}
		case "PrivateData":
			for _, kind := range strings.Split(value, ",") {
				a.private = a.private || kind == "jobs" || kind == "all"
			}
		case "SlurmUser":
			a.slurmUser = value
		case "AcctGatherEnergyType", "JobAcctGatherType", "AccountingStorageType":
			a.accounted(strings.TrimSpace(key), value)
		case "ClusterName":
			a.Cluster = value
		case "MinJobAge":
			a.MinJobAge = configuredSeconds(value)
		case "ResumeTimeout":
			a.ResumeTimeout = min(configuredSeconds(value), longest)
		}
	}
}

// accounted reads what an energy of jobs needs.
func (a *About) accounted(key, value string) {
	_, plugin, _ := strings.Cut(value, "/")
	switch plugin = strings.ToLower(none(plugin)); {
	case key == "AcctGatherEnergyType":
		if a.Energy = plugin; plugin == "none" {
			a.Energy = ""
		}
	case key == "JobAcctGatherType" && (plugin == "none" || plugin == ""), key == "AccountingStorageType" && plugin != "slurmdbd":
		a.NoEnergy = key + "=" + clipped(value)
	}
}

// configuredSeconds reads a value such as "300 sec"; 0 if it is none.
func configuredSeconds(value string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSuffix(value, " sec"))
	if err != nil || n < 0 {
		return 0
	}
	return seconds(int64(n))
}

// read reads "slurm 22.05.8" or "slurm-wlm 22.05.8", and returns 2205 for it.
func (a *About) read(text string) (release int, err error) {
	words := strings.Fields(text)
	if len(words) == 2 && strings.HasPrefix(words[0], "slurm") {
		a.Version = words[1]
		if release, err := releaseOf(a.Version); err == nil {
			return release, nil
		}
	}
	return 0, fmt.Errorf("%w: squeue --version says %q; accepted: as \"slurm 22.05.8\"", ErrVersion, clipped(strings.TrimSpace(text)))
}

// releaseOf returns 2205 for 22.05.8.
func releaseOf(version string) (int, error) {
	if parts := strings.SplitN(version, ".", 3); len(parts) >= 2 {
		year, bad := strconv.Atoi(parts[0])
		month, alsoBad := strconv.Atoi(parts[1])
		if bad == nil && alsoBad == nil && year >= 0 && year < 100 && month >= 0 && month < 100 {
			return 100*year + month, nil
		}
	}
	return 0, ErrVersion
}

// Observe implements Client by one call of squeue and one of sinfo. Without --array-unique one line would stand for all pending tasks of an
// array, also for those that somebody has held or given another begin time, and for those that Lull has paused.
func (c Commands) Observe(ctx context.Context) (Queue, error) {
	var q Queue
	end := newWord()
	args := []string{"--noheader", "--all", "--array-unique", "--Format=" + format(jobColumns, end)}
	if c.Ended {
		args = append(args, "--states=all")
	}
	out, err := c.run(ctx, "squeue", args...)
	if err != nil {
		return q, err
	}
	jobs, bad := parseJobs(out, end)
	q.Bad = bad
	for i := range jobs {
		if jobs[i].Over() {
			q.Ended = append(q.Ended, jobs[i])
		} else {
			q.Jobs = append(q.Jobs, jobs[i])
		}
	}
	out, err = c.run(ctx, "sinfo", "--noheader", "--all", "--Node", "--Format="+format(nodeColumns, end))
	if err != nil {
		return q, err
	}
	q.Nodes, bad = parseNodes(out, end)
	for _, b := range bad {
		b.Node = true
		q.Bad = append(q.Bad, b)
	}
	return q, nil
}

// Throttles implements Client by squeue of these arrays, in one call.
func (c Commands) Throttles(ctx context.Context, arrays []int) (map[int]int, error) {
	names := make([]string, len(arrays))
	for i, n := range arrays {
		names[i] = strconv.Itoa(n)
	}
	out, err := c.run(ctx, "squeue", "--noheader", "--all", "--array-unique", "--states=PENDING", "--jobs="+strings.Join(names, ","), "--Format=ArrayJobID:12,ArrayTaskID:80")
	if err != nil {
		return nil, err
	}
	found := map[int]int{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 2 || none(f[1]) == "" {
			continue // no array
		}
		number, cause := strconv.Atoi(f[0])
		j := Job{State: statePending}
		if err := errors.Join(cause, j.array(number, f[1])); err != nil {
			return nil, fmt.Errorf("%w: squeue: %q", ErrLine, clipped(strings.TrimSpace(line)))
		}
		if j.Tasks > 1 || j.Throttle > 0 {
			found[number] = j.Throttle
		}
	}
	return found, nil
}

// newWord is a word that nobody can know.
func newWord() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return "e" + hex.EncodeToString(b)
}

// Update implements Client by scontrol update.
func (c Commands) Update(ctx context.Context, u Update) error {
	var args []string
	if u.Comment != "" {
		args = append(args, "AdminComment="+u.Comment)
	}
	if u.Licences != "" {
		args = append(args, "Licenses="+u.Licences)
	}
	switch {
	case u.Now:
		args = append(args, "StartTime=now")
	case !u.Begin.IsZero():
		args = append(args, "StartTime="+u.Begin.UTC().Format(timeLayout))
	}
	if u.Size > 0 {
		args = append(args, fmt.Sprintf("NumTasks=%d", u.Size), fmt.Sprintf("NumCPUs=%d", u.CPUs))
	}
	if u.Throttle != nil {
		args = append(args, "ArrayTaskThrottle="+strconv.Itoa(*u.Throttle))
	}
	var errs []error
	var raced []string
	for ids := u.IDs; len(ids) > 0; ids = ids[min(atOnce, len(ids)):] {
		part := ids[:min(atOnce, len(ids))]
		_, complaints, err := c.runWith(ctx, outputTime, "scontrol", append([]string{"update", "JobId=" + strings.Join(part, ",")}, args...)...)
		if errs = append(errs, err); err == nil {
			raced = append(raced, racedOf(complaints, part)...)
		}
	}
	return racedError(raced, errs)
}

// Requeue implements Client by scontrol requeue Incomplete. Without that word Slurm runs a job anew that has ended since it was observed, as
// long as it knows the job (MinJobAge). The manual of 22.05 has the word;
// a scontrol without it takes it for the number of a job, and fails.
func (c Commands) Requeue(ctx context.Context, ids []string) error {
	var errs []error
	for ; len(ids) > 0; ids = ids[min(atOnce, len(ids)):] {
		_, err := c.run(ctx, "scontrol", "requeue", "Incomplete", strings.Join(ids[:min(atOnce, len(ids))], ","))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
