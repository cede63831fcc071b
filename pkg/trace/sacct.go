package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/units"
)

// The columns of sacct that count. ReadSacct takes them in any order and letter case, and ignores others.
const (
	saJobID     = "JobID"
	saCluster   = "Cluster"
	saUser      = "User"
	saAccount   = "Account"
	saPartition = "Partition"
	saSubmit    = "Submit"
	saEligible  = "Eligible"
	saEnd       = "End"
	saLimit     = "TimelimitRaw" // minutes
	saElapsed   = "ElapsedRaw"   // seconds, without the time that the job was suspended
	saCPUs      = "NCPUS"
	saAllocCPUs = "AllocCPUS" // another name of NCPUS
	saAllocTRES = "AllocTRES"
	saReqTRES   = "ReqTRES"
	saState     = "State"
)

var (
	saColumns = []string{saJobID, saCluster, saUser, saAccount, saPartition, saSubmit, saEligible, saEnd, saLimit, saElapsed, saCPUs, saAllocCPUs, saAllocTRES, saReqTRES, saState}
	saNeeded  = []string{saJobID, saSubmit, saElapsed, saState}
	// saSizes are the columns of which at least one says how many CPUs a job had.
	saSizes = []string{saCPUs, saAllocCPUs, saAllocTRES, saReqTRES}
	// saFree are columns that may hold the separator.
	saFree = []string{"JobName", "Comment", "AdminComment", "SystemComment", "WorkDir", "SubmitLine"}
	// saUnended are the states of jobs that have not ended.
	saUnended = []string{"PENDING", "RUNNING", "SUSPENDED", "REQUEUE_HOLD", "REQUEUE_FED", "CONFIGURING", "COMPLETING", "STOPPED", "STAGE_OUT", "SIGNALING", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
	// saEnded are the states of jobs that ended, with what a note says of them; none needs no note.
	saEnded = map[string]string{
		"COMPLETED": "", "CANCELLED": "was cancelled", "FAILED": "failed", "OUT_OF_MEMORY": "failed", "NODE_FAIL": "failed", "BOOT_FAIL": "failed", "LAUNCH_FAILED": "failed",
		"TIMEOUT": "ran into its time limit", "DEADLINE": "ran into its deadline", "PREEMPTED": "was preempted or requeued", "REQUEUED": "was preempted or requeued",
		"RESIZING": "changed its size", "REVOKED": "was revoked",
	}
)

const saSeparator = "|"

// SacctCommand is the command whose output ReadSacct reads: all columns that count.
const SacctCommand = "sacct -a -X -P -o JobID,User,Submit,Eligible,End,TimelimitRaw,ElapsedRaw,NCPUS,AllocTRES,State"

// ReadSacct reads what sacct of Slurm writes with --parsable2 (-P): a header, and fields separated by "|". The columns
// JobID, Submit, ElapsedRaw and State are needed, and one of NCPUS, AllocCPUS, AllocTRES and ReqTRES. Eligible, End,
// TimelimitRaw, User (else Account or Partition) and Cluster are read if they are there, in any order; others are ignored.
//
//	arrival  = Eligible if it is later than Submit (--begin, a dependency, a hold), else Submit
//	length   = ElapsedRaw
//	estimate = TimelimitRaw
//	request  = cpu, gres/gpu and mem of AllocTRES, else of ReqTRES; NCPUS outranks its cpu
//
// Steps (4711.batch, 4711.0) are counted in Skipped, as are jobs that have not ended or never ran. The tasks of an array
// and the parts of a heterogeneous job are a job each. Rows of equal cluster, JobID and Submit are one run, of which the
// longest counts, so that files which overlap may be put together. The runs of a job that was requeued (sacct --duplicates)
// differ in Submit, and each counts with the time that it ran. Notes say how many jobs did not end well.
//
// sacct writes local times. A time with an offset (SLURM_TIME_FORMAT=%FT%T%z) or in seconds since 1970
// (SLURM_TIME_FORMAT=%s) is read as it is. Another is read by clock, or as UTC if clock is nil; a note says so.
//
// Errors wrap ErrTrace and name line, column, value and what is accepted. Complexity: O(n log n) for n rows, which need
// not ascend.
func ReadSacct(r io.Reader, clock *time.Location) (*Trace, error) {
	in, err := units.PlainText(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20)
	sr := saReader{t: &Trace{}, clock: clock, row: csvRow{shared: requests{}, words: map[string]string{}}}
	for line := 1; scanner.Scan(); line++ {
		text := strings.TrimSuffix(scanner.Text(), "\r")
		if strings.TrimSpace(text) == "" {
			continue
		}
		sr.row.line = line
		if err := sr.take(strings.Split(text, saSeparator)); err != nil {
			return nil, err
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	if sr.header == nil {
		return nil, fmt.Errorf("%w: no header; accepted: the output of %s", ErrTrace, SacctCommand)
	}
	return sr.t, sr.end()
}

// saReader reads the rows of sacct.
type saReader struct {
	t      *Trace
	clock  *time.Location
	header []string
	free   int // the only column that may hold the separator, or -1
	row    csvRow
	runs   []saRun // of jobs that ran and ended
}

// saRun is a row that is a run of a job.
type saRun struct {
	ran             Job
	at              int // number of the line
	submit, arrival time.Time
	cluster, state  string
	// bare says that the times have no offset.
	bare bool
}

// isSacct reports whether fields are a header of sacct: they have the column JobID and another one that is needed. A job may be named like a column.
func isSacct(fields []string) bool {
	has := func(column string) bool {
		return slices.ContainsFunc(fields, func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), column) })
	}
	return has(saJobID) && (has(saSubmit) || has(saElapsed) || has(saState))
}

// take reads a row. A further header, as files have that were put together, holds for the rows below it.
func (r *saReader) take(fields []string) error {
	fields[0] = strings.TrimPrefix(fields[0], byteOrderMark) // of the file that begins here
	if isSacct(fields) {
		return r.head(fields)
	}
	if r.header == nil {
		return fmt.Errorf("%w: line %d: %.80q: column %s is missing; accepted: a header with the columns of %s, without -n", ErrTrace, r.row.line, strings.Join(fields, saSeparator), saJobID, SacctCommand)
	}
	if more := len(fields) - len(r.header); more > 0 && r.free >= 0 {
		fields = append(fields[:r.free:r.free], fields[r.free+more:]...)
	}
	if len(fields) != len(r.header) {
		return fmt.Errorf("%w: line %d: %d fields; accepted: %d, those of the header. If a job name or comment has line breaks or |, leave that column out", ErrTrace, r.row.line, len(fields), len(r.header))
	}
	x := r.row
	x.record, x.err = fields, nil
	return r.run(&x)
}

// head takes a header.
func (r *saReader) head(fields []string) error {
	r.free, r.header = -1, make([]string, len(fields))
	free := 0
	for i, name := range fields {
		name = strings.TrimSpace(name)
		if k := slices.IndexFunc(saColumns, func(c string) bool { return strings.EqualFold(c, name) }); k >= 0 {
			name = saColumns[k]
		}
		if slices.ContainsFunc(saFree, func(c string) bool { return strings.EqualFold(c, name) }) {
			r.free = i
			free++
		}
		r.header[i] = name
	}
	if free > 1 {
		r.free = -1
	}
	at, err := columnsOf(r.header, r.row.line)
	if err != nil {
		return err
	}
	r.row.at = at
	for _, name := range saNeeded {
		if _, ok := at[name]; !ok {
			return fmt.Errorf("%w: line %d: column %s is missing; accepted: at least %s and one of %s, as of %s", ErrTrace, r.row.line, name, strings.Join(saNeeded, ","), strings.Join(saSizes, ","), SacctCommand)
		}
	}
	if !slices.ContainsFunc(saSizes, func(name string) bool { _, ok := at[name]; return ok }) {
		return fmt.Errorf("%w: line %d: no column says how many CPUs a job had; accepted: one of %s", ErrTrace, r.row.line, strings.Join(saSizes, ","))
	}
	return nil
}

// run takes the run of a row, or counts it as skipped.
func (r *saReader) run(x *csvRow) error {
	id, state := x.text(saJobID), x.text(saState)
	if id == "" || strings.Trim(id, "0123456789_+[]-,%") != "" && !strings.Contains(id, ".") {
		x.fail(saJobID, id, "a number of a job, a task or a part, e.g. 4711, 4711_3 or 4711+1")
	}
	if strings.Contains(id, ".") {
		r.t.Skip(JobStep)
		return x.err
	}
	state, _, _ = strings.Cut(state, " ") // CANCELLED by 1000
	state = strings.TrimSuffix(strings.ToUpper(state), "+")
	if state == "" || strings.Trim(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		x.fail(saState, x.text(saState), "a state of Slurm, e.g. COMPLETED")
	}
	elapsed := x.duration(saElapsed, false)
	switch {
	case x.err != nil:
		return x.err
	case slices.Contains(saUnended, state) || unknownTime(x.text(saEnd)) && x.text(saEnd) != "":
		r.t.Skip(NotFinished)
		return nil
	case elapsed == 0:
		r.t.Skip(NoRunTime)
		return nil
	case unknownTime(x.text(saSubmit)):
		r.t.Skip(NoSubmitTime)
		return nil
	}
	amounts := r.amounts(x)
	out := saRun{at: x.line, cluster: x.word(saCluster), state: x.shares(state), ran: Job{ID: strings.Clone(id), Length: elapsed, Estimate: x.limit()}}
	for _, column := range []string{saUser, saAccount, saPartition} {
		if out.ran.Class = x.word(column); out.ran.Class != "" {
			break
		}
	}
	out.submit, out.bare = r.time(x, saSubmit)
	out.arrival = out.submit
	if !unknownTime(x.text(saEligible)) {
		if at, _ := r.time(x, saEligible); at.After(out.arrival) {
			out.arrival = at
		}
	}
	switch {
	case x.err != nil:
		return x.err
	case amounts[0] == 0:
		r.t.Skip(NoProcessors)
		return nil
	case len(r.runs) == MaxJobs:
		return fmt.Errorf("%w: line %d: accepted: at most %d jobs", ErrTrace, x.line, MaxJobs)
	}
	out.ran.Request = x.shared.of(amounts)
	r.runs = append(r.runs, out)
	return nil
}

// shares returns a text that many rows share.
func (r *csvRow) shares(text string) string {
	w, ok := r.words[text]
	if !ok {
		w = strings.Clone(text)
		r.words[w] = w
	}
	return w
}

// limit is the time limit of a row; 0 without one.
func (r *csvRow) limit() time.Duration {
	text := r.text(saLimit)
	if text == "" || strings.EqualFold(text, "UNLIMITED") || strings.EqualFold(text, "Partition_Limit") {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	d, ok := seconds(v * 60)
	if err != nil || !ok {
		r.fail(saLimit, text, "minutes, at least 0, UNLIMITED or Partition_Limit")
	}
	return d
}

// amounts are what a job had, in the order of resourceNames.
func (r *saReader) amounts(x *csvRow) (out [4]float64) {
	for _, column := range []string{saAllocTRES, saReqTRES} {
		if text := x.text(column); text != "" {
			out = x.tres(column, text)
			break
		}
	}
	for _, column := range []string{saCPUs, saAllocCPUs} {
		if v := x.amount(column); v > 0 {
			out[0] = v
			break
		}
	}
	return out
}

// tres reads a list of trackable resources, as billing=8,cpu=8,gres/gpu=2,mem=64G,node=1.
func (r *csvRow) tres(column, text string) (out [4]float64) {
	typed := 0.0 // GPUs by type, which count if there is no sum
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		unit := 1.0
		switch {
		case name == "cpu" || name == "gres/gpu" || strings.HasPrefix(name, "gres/gpu:"):
		case name == "mem":
			unit = 1.0 / 1024 // sacct writes MB if there is no suffix
			if i := strings.IndexAny(value, "KMGTP"); i >= 0 && i == len(value)-1 {
				unit = map[byte]float64{'K': 1.0 / 1024 / 1024, 'M': 1.0 / 1024, 'G': 1, 'T': 1024, 'P': 1024 * 1024}[value[i]]
				value = value[:i]
			}
		default:
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !(v >= 0 && v < 1e12) {
			r.fail(column, text, "resources such as cpu=8,gres/gpu=2,mem=64G with amounts of at least 0")
			return out
		}
		switch name {
		case "cpu":
			out[0] = v
		case "gres/gpu":
			out[1] = v
		case "mem":
			out[2] = v * unit
		default:
			typed += v
		}
	}
	if out[1] == 0 {
		out[1] = typed
	}
	return out
}

// unknownTime reports whether a field is what sacct writes for no time.
func unknownTime(text string) bool {
	return text == "" || strings.EqualFold(text, "Unknown") || strings.EqualFold(text, "None")
}

// The layouts of a time: the standard one of Slurm, without an offset, and those with one.
const saStandard = "2006-01-02T15:04:05"

var saOffsets = []string{"2006-01-02T15:04:05-0700", time.RFC3339}

// time reads a time; bare says that it has no offset.
func (r *saReader) time(x *csvRow, column string) (at time.Time, bare bool) {
	text := x.text(column)
	clock := r.clock
	if clock == nil {
		clock = time.UTC
	}
	at, err := time.ParseInLocation(saStandard, text, clock)
	bare = err == nil
	for i := 0; err != nil && i < len(saOffsets); i++ {
		at, err = time.Parse(saOffsets[i], text)
	}
	if err != nil {
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil && n >= 1e8 && n < 1e10 {
			at = time.Unix(n, 0)
		}
	}
	if at = at.UTC(); err != nil || at.Year() < ccFirstYear || at.Year() > ccLastYear {
		x.fail(column, text, fmt.Sprintf("a time of the years %d to %d such as 2026-05-31T10:39:13, 2026-05-31T10:39:13+0200 or 1780216753 (seconds since 1970)", ccFirstYear, ccLastYear))
		return time.Unix(0, 0).UTC(), bare
	}
	return at, bare
}

// end makes the trace of the runs.
func (r *saReader) end() error {
	slices.SortStableFunc(r.runs, func(a, b saRun) int {
		return cmp.Or(strings.Compare(a.ran.ID, b.ran.ID), strings.Compare(a.cluster, b.cluster), a.submit.Compare(b.submit), cmp.Compare(b.ran.Length, a.ran.Length))
	})
	kept := slices.CompactFunc(r.runs, func(a, b saRun) bool {
		return a.ran.ID == b.ran.ID && a.cluster == b.cluster && a.submit.Equal(b.submit)
	})
	r.t.skip(EarlierRow, len(r.runs)-len(kept))
	last := ""
	for i := range kept {
		x := &kept[i]
		if id := x.ran.ID; i > 0 && id == last {
			x.ran.ID = fmt.Sprintf("%s (line %d)", id, x.at)
		} else {
			last = id
		}
	}
	slices.SortStableFunc(kept, func(a, b saRun) int { return cmp.Or(a.arrival.Compare(b.arrival), cmp.Compare(a.at, b.at)) })
	for i := range kept {
		x := &kept[i]
		if i == 0 {
			r.t.Start = x.arrival
		}
		x.ran.Arrival = x.arrival.Sub(r.t.Start)
		if err := r.t.add(x.ran, x.at, saSubmit); err != nil {
			return err
		}
	}
	r.notes(kept)
	return nil
}

// notes says what the jobs rest on.
func (r *saReader) notes(kept []saRun) {
	counts := map[string]int{}
	for i := range kept {
		x := &kept[i]
		what, known := saEnded[x.state]
		if !known {
			what = "ended in state " + x.state
		}
		if what != "" {
			counts["%s "+what+"; the time that it ran counts"]++
		}
		if x.arrival.After(x.submit) {
			counts["%s became eligible after its submission (--begin, a dependency, a hold) and counts from then"]++
		}
		switch {
		case x.bare && r.clock == nil:
			counts["%s has times without an offset, which are read as UTC"]++
		case x.bare:
			counts["%s has times without an offset, which are read by the clock of "+r.clock.String()]++
		}
	}
	for _, format := range slices.Sorted(maps.Keys(counts)) {
		count := "1 job"
		if n := counts[format]; n > 1 {
			count = fmt.Sprintf("%d jobs", n)
			format = plural.Replace(format)
		}
		r.t.Notes = append(r.t.Notes, fmt.Sprintf(format, count))
	}
}

// plural makes a note on one job one on more.
var plural = strings.NewReplacer("%s was", "%s were", "it ran", "they ran", "its", "their", "%s has", "%s have", "and counts", "and count")
