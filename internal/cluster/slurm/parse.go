package slurm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrLine marks a line of squeue or sinfo that cannot be read.
var ErrLine = errors.New("invalid line")

// column is one column of squeue -O, as wide as asked for.
type column struct {
	name  string
	width int
}

// jobColumns are the columns of a look, 1.1 KB a job. A comment may hold any character: fixed widths need no separator, and a line
// ends with a word that no user knows (see rows).
var jobColumns = []column{
	{"JobID", 12}, {"ArrayJobID", 12}, {"ArrayTaskID", 80}, {"State", 16}, {"Reason", 32},
	{"SubmitTime", 20}, {"EligibleTime", 20}, {"StartTime", 20}, {"TimeLimit", 16}, {"Deadline", 20},
	{"NumCPUs", 10}, {"RestartCnt", 6}, {"Requeue", 4}, {"Partition", maxName + 1}, {"QOS", maxName + 1}, {"Account", maxName + 1}, {"HetJobID", 12}, {"BatchFlag", 4},
	{"EndTime", 20}, {"UserName", 33},
	{"NumNodes", 16}, {"NumTasks", 12}, {"tres-alloc", tresWidth}, {"tres-per-job", gresWidth}, {"tres-per-node", gresWidth}, {"tres-per-task", gresWidth},
	{"Licenses", tresWidth}, {"NodeList", nodeWidth}, {"OverSubscribe", 8},
	{adminComment, adminWidth}, {"Comment", commentWidth},
}

// adminWidth and commentWidth are how much is read of what others write. adminComment is a column that squeue knows, though its manual does not list it.
const (
	nodeWidth    = 65
	adminComment = "admin_comment"
	adminWidth   = 320
	commentWidth = 200
)

// nodeColumns are those of sinfo -O.
var nodeColumns = []column{
	{"NodeHost", 64}, {"CPUsState", 40}, {"PartitionName", maxName + 1}, {"Memory", 16}, {"AllocMem", 16}, {"Gres", 160}, {"GresUsed", 240}, {"StateLong", 24},
}

// format is the argument of -O. After the last column comes the word that ends a line.
func format(columns []column, end string) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = fmt.Sprintf("%s:%d", c.name, c.width)
	}
	return strings.Join(parts, ",") + end
}

// rows splits an answer into lines, each of fixed columns and ended by a word that was chosen for this answer. So a comment with line
// breaks cannot pass for the line of another job: it makes its own line longer, and that is bad.
func rows(text, end string, columns []column, each func(fields []string) error) (bad []Bad) {
	width := 0
	for _, c := range columns {
		width += c.width
	}
	for text != "" {
		line, rest, ended := strings.Cut(text, end+"\n")
		text = rest
		var err error
		switch {
		case !ended:
			err = fmt.Errorf("%w: it does not end", ErrLine)
		case strings.Contains(line, "\n"):
			err = fmt.Errorf("%w: a comment or a name has a line break", ErrLine)
		case len(line) != width:
			err = fmt.Errorf("%w: %d characters; accepted: %d", ErrLine, len(line), width)
		default:
			err = each(split(line, columns))
		}
		if err != nil {
			bad = append(bad, Bad{text: line, Line: strings.TrimSpace(strings.ToValidUTF8(line[:min(len(line), 12)], "?")), Err: err})
		}
	}
	return bad
}

func split(line string, columns []column) []string {
	fields := make([]string, len(columns))
	for i, c := range columns {
		fields[i] = strings.TrimRight(line[:c.width], " ")
		line = line[c.width:]
	}
	return fields
}

// parseJobs reads the answer of squeue.
func parseJobs(text, end string) (jobs []Job, bad []Bad) {
	bad = rows(text, end, jobColumns, func(f []string) error {
		j, err := parseJob(f)
		if err == nil {
			jobs = append(jobs, j)
		}
		return err
	})
	for i := range bad {
		bad[i].Job = partly(bad[i].text)
		bad[i].text = ""
	}
	return jobs, bad
}

// partly reads what comes before the comments, which may have any character; nil if that cannot be read.
func partly(line string) *Job {
	width := 0
	for _, c := range jobColumns[:len(jobColumns)-2] {
		width += c.width
	}
	if len(line) < width || strings.Contains(line[:width], "\n") {
		return nil
	}
	j, err := parseJob(append(split(line[:width], jobColumns[:len(jobColumns)-2]), "", ""))
	if err != nil {
		return nil
	}
	return &j
}

// parseJob reads the fields of a line, in the order of jobColumns.
func parseJob(f []string) (Job, error) {
	j := Job{State: f[3], Reason: f[4], Requeue: f[12] == "1", Partition: f[13], QOS: none(f[14]), Account: none(f[15]), Het: none(f[16]) != "", Interactive: f[17] == "0", User: none(f[19]), Licences: strings.Join(whole(f[26], tresWidth), ","), Node: none(f[27]), WholeNodes: f[28] == "NO", AdminComment: none(f[29]), Comment: none(f[30])}
	j.LicencesCut = len(f[26]) >= tresWidth
	var err error
	fail := func(name, text string, cause error) {
		if cause != nil && err == nil {
			err = fmt.Errorf("%w: %s: %q", ErrLine, name, clipped(text))
		}
	}
	number := func(i int) int {
		n, cause := strconv.Atoi(f[i])
		if cause == nil && n < 0 {
			cause = strconv.ErrRange
		}
		fail(jobColumns[i].name, f[i], cause)
		return n
	}
	at := func(i int) time.Time {
		t, cause := parseTime(f[i])
		fail(jobColumns[i].name, f[i], cause)
		return t
	}
	id, array := number(0), number(1)
	j.Submitted, j.Begin, j.Started, j.Deadline = at(5), at(6), at(7), at(9)
	j.CPUs, j.Restarts = number(10), number(11)
	if j.Over() {
		j.Ended = at(18) // of others, squeue states when the time limit ends
	}
	limit, cause := parseLimit(f[8])
	fail("TimeLimit", f[8], cause)
	j.Limit = limit
	memory, has, cause := asked(f[20], f[21], f[22:26])
	j.Memory, j.GPUs, j.GPUTypes = memory, has.all, has.types
	j.Size, j.Nodes = multiplier(f[21]), multiplier(f[20])
	fail("tres-alloc", f[22], cause)
	if j.Submitted.IsZero() {
		fail("SubmitTime", f[5], ErrLine)
	}
	j.Number, j.Tasks, j.ID = id, 1, strconv.Itoa(id)
	if tasks := none(f[2]); tasks != "" {
		if cause := j.array(array, tasks); cause != nil {
			fail("ArrayTaskID", tasks, cause)
		}
	}
	return j, err
}

// mostTasks bounds the tasks of an array.
const mostTasks = 4 << 20

// array reads the tasks of an array that a line stands for, such as 3, 4-9%2, 1,5-7 or 1-9:4. squeue ends a long list with "...".
func (j *Job) array(array int, tasks string) error {
	j.Number = array
	list, throttle, limited := strings.Cut(tasks, "%")
	if limited {
		n, err := strconv.Atoi(throttle)
		if err != nil || n < 0 {
			return ErrLine
		}
		j.Throttle = n
	}
	if before, cut := strings.CutSuffix(list, "..."); cut {
		j.Cut, list = true, strings.TrimSuffix(before, ",")
		if i := strings.LastIndexByte(list, ','); i >= 0 {
			list = list[:i] // the last one may be a part of a number
		}
	}
	j.Tasks = 0
	for _, part := range strings.Split(list, ",") {
		n, err := countTasks(part)
		if err != nil || j.Tasks+n > mostTasks {
			return ErrLine
		}
		j.Tasks += n
	}
	switch {
	case j.Cut:
		j.ID = strconv.Itoa(array)
	case j.Pending() && (j.Tasks > 1 || strings.ContainsAny(list, ",-")):
		j.ID = fmt.Sprintf("%d_[%s]", array, list)
	default:
		j.ID = fmt.Sprintf("%d_%s", array, list)
	}
	return nil
}

// countTasks counts the tasks of 3, 4-9 or 1-9:4.
func countTasks(part string) (int, error) {
	span, stride, strided := strings.Cut(part, ":")
	step := 1
	if strided {
		n, err := strconv.Atoi(stride)
		if err != nil || n < 1 {
			return 0, ErrLine
		}
		step = n
	}
	from, to, isSpan := strings.Cut(span, "-")
	a, err := strconv.Atoi(from)
	if err != nil || a < 0 {
		return 0, ErrLine
	}
	if !isSpan {
		return 1, nil
	}
	b, err := strconv.Atoi(to)
	if err != nil || b < a {
		return 0, ErrLine
	}
	return (b-a)/step + 1, nil
}

// none is a text without what squeue prints for nothing.
func none(text string) string {
	if text == "(null)" || text == "N/A" {
		return ""
	}
	return text
}

// timeLayout is how Slurm states times with SLURM_TIME_FORMAT=standard and TZ=UTC, and takes them.
const timeLayout = "2006-01-02T15:04:05"

func parseTime(text string) (time.Time, error) {
	switch none(text) {
	case "", "Unknown", "NONE":
		return time.Time{}, nil
	}
	return time.Parse(timeLayout, text)
}

// parseLimit reads a time limit such as 30:00, 1:00:00 or 1-02:03:04; 0 for none.
func parseLimit(text string) (time.Duration, error) {
	switch text {
	case "UNLIMITED", "INFINITE", "NOT_SET", "INVALID":
		return 0, nil
	}
	days, clock, dated := strings.Cut(text, "-")
	if !dated {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, ErrLine
	}
	rest := 0
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 1e6 {
			return 0, ErrLine
		}
		rest = rest*60 + n
	}
	d, err := strconv.Atoi(days)
	if err != nil || d < 0 || d > 1e5 {
		return 0, ErrLine
	}
	return time.Duration(d)*24*time.Hour + time.Duration(rest)*time.Second, nil
}
