package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lull.dev/lull/pkg/trace"
)

// The objects of TestHistoriesSayWhatRan: times are hours of a day.
func hour(h float64) string {
	return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h * float64(time.Hour))).Format(time.RFC3339)
}

func jobText(metadata, spec, status string) string {
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: b, creationTimestamp: '%s', %s}\nspec: {template: %s, %s}\nstatus: {%s}\n", hour(0), metadata, podOf("4"), spec, status)
}

func complete(from, to float64) string {
	return fmt.Sprintf("startTime: '%s', completionTime: '%s', succeeded: 1, conditions: [{type: Complete, status: 'True', lastTransitionTime: '%s'}", hour(from), hour(to), hour(to))
}

func resumed(at float64) string {
	return fmt.Sprintf(", {type: Suspended, status: 'False', reason: JobResumed, lastTransitionTime: '%s'}]", hour(at))
}

func podText(name, owner string, from, to float64, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: b, uid: %s, creationTimestamp: '%s', %s}\nspec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}\nstatus: {startTime: '%s', containerStatuses: [{name: c, state: {terminated: {startedAt: '%s', finishedAt: '%s'}}}], %s}\n",
		name, name, hour(0), owner, hour(0), hour(from), hour(to), more)
}

func queuedText(metadata, sets, status string) string {
	return fmt.Sprintf("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: q, namespace: b, creationTimestamp: '%s', %s}\nspec: {queueName: q, podSets: [%s]}\nstatus: {%s}\n", hour(0), metadata, sets, status)
}

func admitted(from, to float64, more string) string {
	return fmt.Sprintf("conditions: [{type: Admitted, status: 'True', lastTransitionTime: '%s'}, {type: Finished, status: 'True', reason: Succeeded, lastTransitionTime: '%s'}%s]", hour(from), hour(to), more)
}

// TestHistoriesSayWhatRan: what really ran, by what objects tell.
func TestHistoriesSayWhatRan(t *testing.T) {
	const owner = "ownerReferences: [{kind: Job, uid: u, controller: true}], labels: {batch.kubernetes.io/job-name: j}"
	const evicted = "phase: Failed, conditions: [{type: DisruptionTarget, status: 'True'}]"
	set := "{name: main, count: 10, template: " + podOf("4") + "}"
	type job struct {
		id    string
		hours float64
		cpus  float64
	}
	for name, tc := range map[string]struct {
		docs    []string
		want    []job
		skipped string
		notes   []string // parts of them
	}{
		"fewer parts than workers": {[]string{jobText("", "parallelism: 10, completions: 3", complete(0, 2)+"]")}, []job{{"b/j", 2, 12}}, "", nil},
		"an Indexed Job":           {[]string{jobText("", "parallelism: 2, completions: 5, completionMode: Indexed", complete(0, 3)+"]")}, []job{{"b/j", 3, 8}}, "", nil},
		"paused by Lull":           {[]string{jobText("annotations: {lull.dev/ran: 4h0m0s}", "completions: 1", complete(8, 9)+resumed(8))}, []job{{"b/j", 5, 4}}, "", nil},
		"scaled by Lull while it ran": {
			// Two hours at one worker by 4:00; from then on at two workers.
			[]string{jobText("annotations: {lull.dev/ran: 2h0m0s, lull.dev/changed: '"+hour(4)+"', lull.dev/max-workers: '2'}", "parallelism: 2", complete(2, 5)+"]")}, []job{{"b/j", 1 + 2*1.05/2, 8}}, "", nil},
		"released by Lull":       {[]string{jobText("annotations: {lull.dev/ran: 0s, lull.dev/changed: '"+hour(8)+"'}", "", complete(8, 9)+resumed(8))}, []job{{"b/j", 1, 4}}, "", nil},
		"suspended by others":    {[]string{jobText("", "", complete(8, 9)+resumed(8))}, []job{{"b/j", 1, 4}}, "", []string{"1 job was suspended and resumed", "lower bound"}},
		"resumed as it was made": {[]string{jobText("", "", complete(0, 1)+resumed(0))}, []job{{"b/j", 1, 4}}, "", nil},
		"failed":                 {[]string{jobText("", "", "startTime: '"+hour(0)+"', failed: 7, conditions: [{type: Failed, status: 'True', lastTransitionTime: '"+hour(3)+"'}]")}, nil, "1 with a failure", nil},
		"failed pods":            {[]string{jobText("", "", complete(0, 3)+"], failed: 2")}, []job{{"b/j", 3, 4}}, "", []string{"1 job had 2 pods that failed"}},
		"failed and evicted pods that are known": {
			[]string{jobText("uid: u", "", complete(0, 9)+"], failed: 2"), podText("p1", owner, 0, 1, "phase: Failed"), podText("p2", owner, 2, 4, evicted), podText("p3", owner, 5, 9, "phase: Succeeded")},
			[]job{{"b/j", 7, 4}}, "", []string{"1h0m0s of failed and 2h0m0s of evicted runs"}},
		"pods of which some are gone": {[]string{jobText("uid: u", "completions: 3", strings.Replace(complete(0, 9), "succeeded: 1", "succeeded: 3", 1)+"]"), podText("p3", owner, 5, 9, "phase: Succeeded")}, []job{{"b/j", 9, 4}}, "", nil},
		"a pod alone, and one of somebody else": {
			[]string{podText("p1", "", 1, 2, "phase: Succeeded"), podText("p2", "ownerReferences: [{kind: ReplicaSet, uid: r, controller: true}]", 1, 2, "phase: Succeeded"), podText("p3", "", 1, 2, "phase: Failed")},
			[]job{{"b/p1", 1, 4}}, "1 with a failure", nil},
		"a group of pods":  {[]string{podText("p1", "labels: {lull.dev/pod-group: g}", 1, 2, "phase: Succeeded"), podText("p2", "labels: {lull.dev/pod-group: g}", 1, 3, "phase: Succeeded")}, []job{{"b/g", 2, 8}}, "", nil},
		"admitted in part": {[]string{queuedText("", set, admitted(1, 2, "")+", admission: {podSetAssignments: [{name: main, count: 3}]}")}, []job{{"b/q", 1, 12}}, "", nil},
		"evicted and requeued": {
			[]string{queuedText("", set, admitted(5, 6, ", {type: Evicted, status: 'False', reason: QuotaReserved}")+", accumulatedPastExecutionTimeSeconds: 7200")},
			[]job{{"b/q", 3, 40}}, "", []string{"2h0m0s of evicted runs"}},
		"evicted, in v1beta1": {
			[]string{strings.Replace(queuedText("", set, admitted(5, 6, "")+", accumulatedPastExexcutionTimeSeconds: 7200"), "v1beta2", "v1beta1", 1)},
			[]job{{"b/q", 3, 40}}, "", []string{"2h0m0s of evicted runs"}},
		"evicted, nobody knows for how long": {
			[]string{queuedText("", set, admitted(5, 6, ", {type: Requeued, status: 'True', reason: BackoffFinished}"))}, []job{{"b/q", 1, 40}}, "", []string{"lower bound"}},
		"a Workload that failed": {[]string{queuedText("", set, strings.Replace(admitted(5, 6, ""), "Succeeded", "Failed", 1))}, nil, "1 with a failure", nil},
		"slices of one Job": {
			[]string{
				queuedText("labels: {kueue.x-k8s.io/job-uid: u}", set, strings.Replace(admitted(0, 2, ""), "Succeeded", "WorkloadSliceReplaced", 1)),
				strings.Replace(queuedText("labels: {kueue.x-k8s.io/job-uid: u}, annotations: {kueue.x-k8s.io/workload-slice-replacement-for: b/q}", strings.Replace(set, "10", "20", 1), admitted(2, 3, "")), hour(0), hour(2), 1),
			}, []job{{"b/q", 2, 80}}, "", nil},
		"a Job and its Workload": {
			[]string{
				jobText("uid: u, labels: {kueue.x-k8s.io/queue-name: q}", "parallelism: 3, completions: 20", complete(5, 6)+resumed(5)),
				queuedText("labels: {kueue.x-k8s.io/job-uid: u}", set, admitted(5, 6, "")+", accumulatedPastExecutionTimeSeconds: 3600, admission: {podSetAssignments: [{name: main, count: 2}]}"),
			}, []job{{"b/j", 2, 8}}, "1 with another entry that counts their work", []string{"1h0m0s of evicted runs"}},
		"a JobSet and its Jobs": {
			[]string{
				"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s, namespace: b, uid: s, creationTimestamp: '" + hour(0) + "'}\nspec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 7, completions: 1, template: " + podOf("4") + "}}}]}\nstatus: {conditions: [{type: Completed, status: 'True', lastTransitionTime: '" + hour(4) + "'}]}\n",
				jobText("uid: u, ownerReferences: [{kind: JobSet, uid: s, controller: true}]", "", complete(1, 4)+"]"), podText("p1", owner, 1, 4, "phase: Succeeded"),
			}, []job{{"b/s", 3, 8}}, "1 with another entry that counts their work", nil},
		"the same name, and the same object": {
			[]string{jobText("uid: u", "", complete(0, 1)+"]"), jobText("uid: u", "", complete(0, 1)+"]"), jobText("uid: v", "", complete(0, 2)+"]")},
			[]job{{"b/j", 1, 4}, {"b/j (Job 2)", 2, 4}}, "1 with another entry that counts their work", nil},
		"what has no end": {[]string{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: b}\nspec: {template: " + podOf("1") + "}\n"}, nil, "1 with no completion", nil},
	} {
		for form, text := range map[string]string{"YAML": strings.Join(tc.docs, "---\n"), "YAML list": listOf(tc.docs)} {
			tr, err := ReadExport(strings.NewReader(text))
			if err != nil {
				t.Errorf("%s, %s: %v", name, form, err)
				continue
			}
			var got []job
			for _, j := range tr.Jobs {
				got = append(got, job{j.ID, j.Length.Hours(), j.Request[trace.CPU]})
			}
			same := len(got) == len(tc.want)
			for i := range got {
				same = same && got[i].id == tc.want[i].id && got[i].cpus == tc.want[i].cpus && fmt.Sprintf("%.6f", got[i].hours) == fmt.Sprintf("%.6f", tc.want[i].hours)
			}
			notes := strings.Join(tr.Notes, "|")
			if !same || tr.Skipped.String() != tc.skipped || len(tc.notes) == 0 && notes != "" {
				t.Errorf("%s, %s: %+v, skipped %q, notes %q; want %+v, %q", name, form, got, tr.Skipped, notes, tc.want, tc.skipped)
			}
			for _, part := range tc.notes {
				if !strings.Contains(notes, part) {
					t.Errorf("%s, %s: notes %q lack %q", name, form, notes, part)
				}
			}
		}
	}
}

// listOf is a list of documents in YAML.
func listOf(docs []string) string {
	out := "# a comment\n---\napiVersion: v1\nkind: List\nitems:\n"
	for _, doc := range docs {
		out += "- " + strings.ReplaceAll(strings.TrimSpace(doc), "\n", "\n  ") + "\n"
	}
	return out
}

// TestExportReadsEachForm: one object, a list, several documents, a list of a kind whose items do not state it.
func TestExportReadsEachForm(t *testing.T) {
	one := strings.TrimSpace(export[strings.Index(export, `{"apiVersion": "batch/v1"`):strings.Index(export, ",\n {\"apiVersion\": \"batch/v1\", \"kind\": \"Job\",\n  \"metadata\": {\"name\": \"running\"")])
	bare := strings.Replace(one, `"apiVersion": "batch/v1", "kind": "Job",`, "", 1)
	for name, text := range map[string]string{
		"one object": one, "after white space": "\n\n \t" + one, "a byte order mark": "\ufeff" + one,
		"an array": "[" + one + "]", "JSON, one after the other": one + "\n" + `{"apiVersion": "v1", "kind": "List", "items": []}`,
		"a JobList": `{"apiVersion": "batch/v1", "kind": "JobList", "items": [` + bare + "]}", "a list in a list": `{"kind": "List", "items": [{"kind": "List", "items": [` + one + "]}]}",
	} {
		tr, err := ReadExport(strings.NewReader(text))
		if err != nil || len(tr.Jobs) != 1 || tr.Jobs[0].ID != "ml/late" || tr.Jobs[0].Length != 90*time.Minute {
			t.Errorf("%s: %+v, %v", name, tr, err)
		}
	}
	if tr, err := ReadExport(strings.NewReader(`{"apiVersion": "v1", "kind": "List", "items": []}`)); err != nil || len(tr.Jobs) != 0 {
		t.Errorf("an empty list: %+v, %v", tr, err)
	}
}
