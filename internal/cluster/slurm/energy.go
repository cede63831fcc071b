package slurm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Used is the energy of a run of a job, as Slurm measured it on its nodes (acct_gather_energy).
type Used struct {
	// ID is that of Job.
	ID string
	// Ended is zero as long as more may become known of the run.
	Started, Ended time.Time
	CPUs           int
	// Joules is what its nodes used. It is 0 if that is not known, or may be the energy of other jobs too; Why says why.
	Joules float64
	Why    NotMeasured
}

// NotMeasured is why the energy of a run is not known.
type NotMeasured string

// The reasons.
const (
	NoReading    NotMeasured = "Slurm has no reading of its nodes"
	Implausible  NotMeasured = "the reading of its nodes is less than 1 W or more than 50 kW for each node"
	SharedNodes  NotMeasured = "it had not all CPUs of its nodes, or their partitions let jobs share CPUs (OverSubscribe)"
	NotOnAll     NotMeasured = "it had several nodes, and without PrologFlags=Contain Slurm has no reading of all of them"
	UnknownNodes NotMeasured = "sinfo does not list its nodes any more"
)

// leastWatts and mostWatts bound the mean power of a node that is believed.
const leastWatts, mostWatts = 1, 50_000

// Energy implements Client by sacct, which needs slurmdbd, and by sinfo, which says whether a job had its nodes to itself: Slurm measures nodes, and counts the
// energy of a node as that of each job on it.
//
// The energy of a run is that of its extern step, which is there with PrologFlags=Contain: it is on all nodes from the beginning to the end. Without it, the energy of the
// batch step counts if the job had one node. The energy that sacct states of the job itself is the sum of all steps then, in which a srun in the batch script counts
// twice.
func (c Commands) Energy(ctx context.Context, ids []string) ([]Used, error) {
	text, err := c.run(ctx, "sinfo", "--noheader", "--all", "--Node", "--Format=NodeList:256,CPUs:12,OverSubscribe:16")
	if err != nil {
		return nil, err
	}
	nodes := readWhole(text)
	var runs runsOfSacct
	if err := c.sacct(ctx, ids, []string{"JobID", "Start", "End", "AllocCPUS", "NNodes", "NodeList", "ConsumedEnergyRaw"}, nil, runs.read); err != nil {
		return nil, err
	}
	out := make([]Used, len(runs))
	for i := range runs {
		out[i] = runs[i].used(nodes)
	}
	return out, nil
}

// wholeNodes are nodes by name: how many CPUs a job has that has the node to itself, and whether jobs may share its CPUs.
type wholeNodes map[string]struct {
	cpus   int
	shared bool
}

// readWhole reads the answer of sinfo: a line for each node and partition. Lines that cannot be read are left out.
func readWhole(text string) wholeNodes {
	out := wholeNodes{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		n, err := strconv.Atoi(f[1])
		if err != nil || n < 1 || n > mostCount {
			continue
		}
		of := out[f[0]]
		of.cpus, of.shared = n, of.shared || f[2] != "NO" && f[2] != "EXCLUSIVE"
		out[f[0]] = of
	}
	return out
}

// runOfSacct is a run of a job, with the steps that count.
type runOfSacct struct {
	id             string
	started, ended time.Time
	cpus, nodes    int
	list           string
	batch, extern  *stepOfSacct
}

type stepOfSacct struct {
	over   bool
	joules uint64
}

type runsOfSacct []runOfSacct

// read reads a line. sacct lists the steps of a run right after it.
func (r *runsOfSacct) read(f []string) {
	id, step, of := strings.Cut(f[0], ".")
	started, err1 := parseSacctTime(f[1])
	ended, err2 := parseSacctTime(f[2])
	if err1 != nil || err2 != nil {
		return
	}
	if !of {
		x := runOfSacct{id: id, started: started, ended: ended, list: f[5]}
		var err error
		if x.cpus, err = parseCount(f[3]); err != nil {
			x.cpus = 0
		}
		if x.nodes, err = parseCount(f[4]); err != nil {
			x.nodes = 0
		}
		*r = append(*r, x)
		return
	}
	if len(*r) == 0 || (*r)[len(*r)-1].id != id {
		return
	}
	x := &(*r)[len(*r)-1]
	switch s := (&stepOfSacct{!ended.IsZero(), joules(f[6])}); step {
	case "batch":
		x.batch = s
	case "extern":
		x.extern = s
	}
}

func parseSacctTime(text string) (time.Time, error) {
	switch text {
	case "", "Unknown", "None":
		return time.Time{}, nil
	}
	t, err := time.ParseInLocation(timeLayout, text, time.UTC)
	return t, err
}

// joules reads ConsumedEnergyRaw. It is 0 if nothing was measured: Slurm says so by nothing, by 0, and by the largest numbers of 32 and 64 bits.
func joules(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= math.MaxUint64-1 || n == math.MaxUint32 || n == math.MaxUint32-1 {
		return 0
	}
	return n
}

// used is what a run used.
func (x *runOfSacct) used(nodes wholeNodes) Used {
	u := Used{ID: x.id, Started: x.started, CPUs: x.cpus}
	step := x.extern
	if step == nil {
		step = x.batch
	}
	if x.ended.IsZero() || step != nil && !step.over {
		return u
	}
	u.Ended = x.ended
	watts := 0.0
	if step != nil && x.nodes > 0 {
		watts = float64(step.joules) / x.ended.Sub(x.started).Seconds() / float64(x.nodes)
	}
	switch {
	case step == nil || step.joules == 0 || x.started.IsZero() || !x.ended.After(x.started):
		u.Why = NoReading
	case x.extern == nil && x.nodes != 1:
		u.Why = NotOnAll
	default:
		u.Why = nodes.alone(x)
	}
	switch {
	case u.Why != "":
	case watts < leastWatts || watts > mostWatts:
		u.Why = Implausible
	default:
		u.Joules = float64(step.joules)
	}
	return u
}

// alone says why a run may have shared its nodes; empty if it has not.
func (w wholeNodes) alone(x *runOfSacct) NotMeasured {
	names, err := hosts(x.list)
	if err != nil || len(names) != x.nodes {
		return UnknownNodes
	}
	cpus := 0
	for _, name := range names {
		of, known := w[name]
		switch {
		case !known:
			return UnknownNodes
		case of.shared:
			return SharedNodes
		}
		cpus += of.cpus
	}
	if x.cpus != cpus {
		return SharedNodes
	}
	return ""
}

const (
	// mostHosts bounds how many nodes a list names, mostName the length of a name.
	mostHosts, mostName = 100_000, 256
	// mostWidth bounds the digits of a number in a name, mostRanges how many of them a name has.
	mostWidth, mostRanges = 20, 8
)

// hosts are the names of a list of nodes, as n[1-3,07],m. Errors wrap ErrLine.
func hosts(list string) ([]string, error) {
	var out []string
	for list != "" {
		end, depth := 0, 0
		for ; end < len(list) && (list[end] != ',' || depth > 0); end++ {
			switch list[end] {
			case '[':
				depth++
			case ']':
				depth--
			}
		}
		entry := list[:end]
		if strings.Count(entry, "[") > mostRanges {
			return nil, fmt.Errorf("%w: list of nodes: %q has more than %d ranges", ErrLine, clipped(entry), mostRanges)
		}
		names, err := expanded(entry, mostHosts-len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
		list = strings.TrimPrefix(list[end:], ",")
	}
	slices.Sort(out)
	if len(slices.Compact(out)) != len(out) {
		return nil, fmt.Errorf("%w: a list of nodes names one twice", ErrLine)
	}
	return out, nil
}

// expanded are the names of an entry of a list of nodes, such as rack[1-2]n[01-16].
func expanded(entry string, most int) ([]string, error) {
	bad := fmt.Errorf("%w: list of nodes: %q; accepted: as n[1-3,07]", ErrLine, clipped(entry))
	prefix, rest, ranges := strings.Cut(entry, "[")
	if !ranges {
		if entry == "" || strings.ContainsAny(entry, "]( )") || most < 1 || len(entry) > mostName {
			return nil, bad
		}
		return []string{entry}, nil
	}
	inside, suffix, closed := strings.Cut(rest, "]")
	if !closed || len(prefix) > mostName || strings.ContainsAny(prefix, "]( )") {
		return nil, bad
	}
	ends := []string{""}
	if suffix != "" {
		var err error
		if ends, err = expanded(suffix, most); err != nil {
			return nil, err
		}
	}
	longest := len(prefix)
	for _, end := range ends {
		longest = max(longest, len(prefix)+len(end))
	}
	if longest+mostWidth > mostName {
		return nil, bad
	}
	var out []string
	for part := range strings.SplitSeq(inside, ",") {
		low, high, is := strings.Cut(part, "-")
		if !is {
			high = low
		}
		from, err1 := strconv.ParseUint(low, 10, 32)
		to, err2 := strconv.ParseUint(high, 10, 32)
		if len(low) > mostWidth || err1 != nil || err2 != nil || to < from || (to-from+1)*uint64(len(ends)) > uint64(max(0, most-len(out))) {
			return nil, bad
		}
		for n := from; n <= to; n++ {
			for _, end := range ends {
				out = append(out, fmt.Sprintf("%s%0*d%s", prefix, len(low), n, end))
			}
		}
	}
	return out, nil
}
