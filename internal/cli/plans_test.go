package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
)

func TestPlansAreDrawnHourByHour(t *testing.T) {
	at := func(hour float64) metav1.Time {
		return metav1.NewTime(time.Date(2026, 10, 3, 4, 0, 0, 0, time.UTC).Add(time.Duration(hour * float64(time.Hour))))
	}
	plan := func(name string, state v1alpha1.PlanState, deadline float64, phases ...v1alpha1.PlanPhase) v1alpha1.CarbonPlan {
		p := v1alpha1.CarbonPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "batch"}, Spec: v1alpha1.CarbonPlanSpec{Workload: v1alpha1.WorkloadReference{Kind: "Job", Name: name}}}
		p.Status.State, p.Status.Phases = state, phases
		if deadline > 0 {
			d := at(deadline)
			p.Status.Deadline = &d
		}
		return p
	}
	var out bytes.Buffer
	if err := showPlans(&out, []v1alpha1.CarbonPlan{
		plan("late", v1alpha1.PlanWaiting, 20, v1alpha1.PlanPhase{From: at(3), To: at(5), Workers: 2}, v1alpha1.PlanPhase{From: at(5), To: at(6), Workers: 12}),
		plan("soon", v1alpha1.PlanWaiting, 8.5, v1alpha1.PlanPhase{From: at(7), To: at(8.25), Workers: 1}),
		plan("urgent", v1alpha1.PlanRunning, 0, v1alpha1.PlanPhase{From: at(0.5), To: at(1.5)}),
		plan("over", v1alpha1.PlanFinished, 3),
	}, 12, formatTable); err != nil {
		t.Fatal(err)
	}
	want := `WORKLOAD          STATE    DEADLINE        06    12   (UTC, from 2026-10-03 04:00)
batch/job/urgent  Running  may not wait  11..........
batch/job/soon    Waiting  10-03 12:30   .......11...
batch/job/late    Waiting  10-04 00:00   ...22+......
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	want = "WORKLOAD       STATE    DEADLINE      (no hours are planned yet)\nbatch/job/new  Waiting  10-04 00:00  -\n"
	if err := showPlans(&out, []v1alpha1.CarbonPlan{plan("new", v1alpha1.PlanWaiting, 20)}, 12, formatTable); err != nil || out.String() != want {
		t.Errorf("without phases: %v\n%q, want\n%q", err, out.String(), want)
	}
	out.Reset()
	if err := showPlans(&out, nil, 12, formatTable); err != nil || out.String() != "No workload waits or runs.\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	var errs bytes.Buffer
	if status := Main([]string{"plans", "--hours", "0"}, nil, &out, &errs); status == 0 || !strings.Contains(errs.String(), "--hours: 0; accepted: a whole number from 1 to 168") {
		t.Errorf("%d %s", status, errs.String())
	}
}
