package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// restJob is a job of slurmrestd. Numbers are null, or 0, if there are none.
type restJob struct {
	ID           int64  `json:"job_id"`
	Array        int64  `json:"array_job_id"`
	Task         *int64 `json:"array_task_id"`
	Tasks        string `json:"array_task_string"`
	State        string `json:"job_state"`
	Reason       string `json:"state_reason"`
	Description  string `json:"state_description"` // what squeue prints in the place of the reason, if there is one
	Submitted    int64  `json:"submit_time"`
	Eligible     int64  `json:"eligible_time"`
	Start        int64  `json:"start_time"`
	End          int64  `json:"end_time"`
	Deadline     int64  `json:"deadline"`
	Limit        *int64 `json:"time_limit"`
	CPUs         *int64 `json:"cpus"`
	Nodes        *int64 `json:"node_count"`
	NodeList     string `json:"nodes"`
	Count        *int64 `json:"tasks"`
	Restarts     int64  `json:"restart_cnt"`
	Requeue      bool   `json:"requeue"`
	Batch        bool   `json:"batch_flag"`
	Partition    string `json:"partition"`
	QOS          string `json:"qos"`
	Account      string `json:"account"`
	Het          int64  `json:"het_job_id"`
	User         string `json:"user_name"`
	Allocated    string `json:"tres_alloc_str"`
	Requested    string `json:"tres_req_str"`
	PerJob       string `json:"tres_per_job"`
	PerNode      string `json:"tres_per_node"`
	PerTask      string `json:"tres_per_task"`
	Licences     string `json:"licenses"`
	Shared       string `json:"shared"`
	AdminComment string `json:"admin_comment"`
	Comment      string `json:"comment"`
}

// fields are the columns of squeue, in the order of jobColumns: so one parser decides what a job is, whoever says it.
func (j *restJob) fields() []string {
	flag := func(is bool) string {
		if is {
			return "1"
		}
		return "0"
	}
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	array, tasks, het := j.Array, j.Tasks, ""
	if array == 0 {
		array = j.ID
	}
	if tasks == "" {
		tasks = number(j.Task)
	}
	if j.Het != 0 {
		het = strconv.FormatInt(j.Het, 10)
	}
	limit := "UNLIMITED"
	if j.Limit != nil {
		limit = fmt.Sprintf("%d-%02d:%02d:00", *j.Limit/(24*60), *j.Limit/60%24, *j.Limit%60)
	}
	return []string{
		strconv.FormatInt(j.ID, 10), strconv.FormatInt(array, 10), tasks, j.State, cmp.Or(j.Description, j.Reason),
		restTime(j.Submitted), restTime(j.Eligible), restTime(j.Start), limit, restTime(j.Deadline),
		cmp.Or(number(j.CPUs), j.cpus()), strconv.FormatInt(j.Restarts, 10), flag(j.Requeue), j.Partition, j.QOS, j.Account, het, flag(j.Batch),
		restTime(j.End), j.User,
		number(j.Nodes), number(j.Count), cmp.Or(j.Allocated, j.Requested), j.PerJob, j.PerNode, j.PerTask,
		j.Licences, j.NodeList, j.overSubscribe(), j.AdminComment, j.Comment,
	}
}

// overSubscribe is the column of squeue, as far as it matters.
func (j *restJob) overSubscribe() string {
	if j.Shared == "none" {
		return "NO"
	}
	return ""
}

// cpus are those that a job without a number of CPUs requests, such as one that was cancelled before it started.
func (j *restJob) cpus() string {
	for part := range strings.SplitSeq(j.Requested, ",") {
		if n, is := strings.CutPrefix(part, "cpu="); is {
			return n
		}
	}
	return ""
}

// restNode is a node of slurmrestd. Memory is in MiB.
type restNode struct {
	Name       string   `json:"hostname"`
	State      string   `json:"state"`
	Flags      []string `json:"state_flags"`
	CPUs       int      `json:"cpus"`
	Used       int      `json:"alloc_cpus"`
	Memory     int64    `json:"real_memory"`
	UsedMemory int64    `json:"alloc_memory"`
	Gres       string   `json:"gres"`
	UsedGres   string   `json:"gres_used"`
	Partitions []string `json:"partitions"`
}

// fields are the columns of sinfo, in the order of nodeColumns. slurmrestd counts the CPUs of a node that is down or drained as idle, sinfo does not.
func (n *restNode) fields() []string {
	idle, other, state := max(0, n.CPUs-n.Used), 0, n.State
	if slices.Contains([]string{"down", "error", "unknown", "future", "invalid"}, n.State) || slices.Contains(n.Flags, "DRAIN") || slices.Contains(n.Flags, "FAIL") {
		idle, other = 0, idle
	}
	for _, flag := range n.Flags {
		if strings.HasPrefix(flag, "POWER") { // POWER_DOWN, POWERED_DOWN, POWERING_DOWN, POWER_UP, POWERING_UP
			state += "~"
		}
	}
	return []string{
		n.Name, fmt.Sprintf("%d/%d/%d/%d", n.Used, idle, other, n.CPUs), "",
		strconv.FormatInt(n.Memory, 10), strconv.FormatInt(n.UsedMemory, 10), cmp.Or(n.Gres, "(null)"), n.UsedGres, state,
	}
}
