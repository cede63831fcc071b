package slurm

import (
	"strings"
	"testing"
)

// TestWhatIsWrongWithACommentIsNoted in the AdminComment, which Slurm keeps after the end of the job, once. A job that Lull holds is released too.
func TestWhatIsWrongWithACommentIsNoted(t *testing.T) {
	const why = `left to Slurm: invalid comment: max-delay: "8x" is not a duration; accepted: as 8h, 1d12h or 90s [phase=released]`
	for name, tc := range map[string]struct {
		change func(*Job)
		want   string
		now    bool
	}{
		"is held":                  {func(*Job) {}, `released at 2026-06-01T09:00Z: left to Slurm (BadComment): invalid comment: max-delay: "8x" is not a duration`, true},
		"waits in the queue":       {func(j *Job) { j.Begin, j.AdminComment = j.Submitted, "" }, why, false},
		"waits by --begin":         {func(j *Job) { j.AdminComment = "" }, why, false},
		"runs":                     {func(j *Job) { j.State, j.Started, j.AdminComment = stateRunning, at("08:30:00"), "" }, why, false},
		"what others have written": {func(j *Job) { j.Begin, j.AdminComment = j.Submitted, "ticket 7" }, "ticket 7 lull: " + why, false},
		"its AdminComment is long": {func(j *Job) { j.Begin, j.AdminComment = j.Submitted, strings.Repeat("x", 200) }, "", false},
		"a task of an array runs":  {func(j *Job) { j.ID, j.State, j.Started, j.AdminComment = "12_3", stateRunning, at("08:30:00"), "" }, "", false},
		"an array waits":           {func(j *Job) { j.ID, j.Tasks, j.Begin, j.AdminComment = "12_[3-4]", 2, j.Submitted, "" }, why, false},
		"is over":                  {func(j *Job) { j.State, j.AdminComment = stateCompleted, "" }, "", false},
		"the reason is a long list": {func(j *Job) {
			j.Comment, j.Begin, j.AdminComment = "lull:"+strings.Repeat("z", 90), j.Submitted, strings.Repeat("y", 100)
		}, "accepted: max-delay=DURATION, runtime=DURATION", false},
	} {
		j := waiting()
		j.Comment = "lull:max-delay=8x"
		tc.change(&j)
		in := inputAt(t, j)
		got := decided(t, in)
		if tc.want == "" {
			if !got.Empty() {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got.Updates) != 1 || !strings.Contains(got.Updates[0].Comment, tc.want) || got.Updates[0].Now != tc.now || !got.Updates[0].Begin.IsZero() || len(got.Updates[0].Comment) >= adminWidth {
			t.Errorf("%s: %+v; want %q", name, got, tc.want)
			continue
		}
		if j.AdminComment = got.Updates[0].Comment; tc.now {
			j.Begin = in.Now
		}
		if got := decided(t, inputAt(t, j)); !got.Empty() {
			t.Errorf("%s: noted again: %+v", name, got)
		}
	}
}

// TestAMendedCommentHasNoNote: the job runs, and Lull decides on it from then on.
func TestAMendedCommentHasNoNote(t *testing.T) {
	j := waiting()
	j.State, j.Started, j.AdminComment = stateRunning, at("08:30:00"), "lull: left to Slurm: invalid comment [phase=released]"
	got := decided(t, inputAt(t, j))
	if len(got.Updates) != 1 || strings.Contains(got.Updates[0].Comment, textLeft) {
		t.Fatalf("%+v", got)
	}
	j.AdminComment = got.Updates[0].Comment
	if got := decided(t, inputAt(t, j)); !got.Empty() {
		t.Errorf("changed again: %+v", got)
	}
}
