package slurm

import (
	"strings"
	"testing"
	"time"
)

// TestWhatIsWrongWithACommentIsNoted in the AdminComment, which Slurm keeps after the end of the job, once. A job that Lull holds is released too.
func TestWhatIsWrongWithACommentIsNoted(t *testing.T) {
	const why = `left to Slurm: invalid comment: max-delay: "8x" is not a duration; accepted: as 8h, 1d12h or 90s [phase=noted]`
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

// TestAMendedCommentIsThatOfANewJob: Lull has done nothing to a job but to note what is wrong with its comment. Once that is mended, the job is treated as one
// without a note: the begin time of its user stands, also when it has come, and a job in the queue waits for clean power.
func TestAMendedCommentIsThatOfANewJob(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Job)
		why    Why
		begin  time.Time // that Lull sets
	}{
		"waits by --begin":                   {func(*Job) {}, OwnBegin, time.Time{}},
		"waited by --begin":                  {func(j *Job) { j.Begin, j.Reason = at("08:30:00"), "Resources" }, OwnBegin, time.Time{}},
		"an array waits by --begin":          {func(j *Job) { j.ID, j.Tasks = "12_[3-4]", 2 }, OwnBegin, time.Time{}},
		"waits in the queue":                 {func(j *Job) { j.Begin, j.Reason = j.Submitted, "Resources" }, "", at("14:00:00")},
		"others have written of it too":      {func(j *Job) { j.AdminComment = "ticket 7" }, OwnBegin, time.Time{}},
		"others have written, and it queues": {func(j *Job) { j.Begin, j.AdminComment = j.Submitted, "ticket 7" }, "", at("14:00:00")},
	} {
		j := waiting()
		j.AdminComment = ""
		tc.change(&j)
		fresh := Observe(inputAt(t, j))
		j.Comment = "lull:max-delay=8x"
		noted := decided(t, inputAt(t, j))
		if len(noted.Updates) != 1 {
			t.Fatalf("%s: %+v; want a note", name, noted)
		}
		j.AdminComment, j.Comment = noted.Updates[0].Comment, "lull:max-delay=8h"
		in, note := inputAt(t, j), ReadMark(j.AdminComment)
		v, got := Observe(in), decided(t, in)
		why := Why("")
		if len(v.Left) == 1 {
			why = v.Left[0].Why
		}
		if why != tc.why || len(v.Left) != len(fresh.Left) || len(v.Left) == 1 && fresh.Left[0].Why != why {
			t.Errorf("%s: left for %q; want %q, as a new job: %+v", name, why, tc.why, fresh.Left)
		}
		if x := v.Explain("12", in.Now); len(x) != 1 || strings.Contains(x[0].Message, "invalid comment") {
			t.Errorf("%s: explain: %+v", name, x)
		}
		switch begin := tc.begin; {
		case begin.IsZero() && (len(got.Updates) != 1 || got.Updates[0].Now || !got.Updates[0].Begin.IsZero() || !strings.HasPrefix(got.Updates[0].Comment, note.Before) ||
			!strings.Contains(got.Updates[0].Comment, "left to Slurm: it was submitted with a begin time of its own [phase=noted]")):
			t.Errorf("%s: %+v; want another note, and no other change", name, got)
		case !begin.IsZero() && (len(got.Updates) != 1 || !got.Updates[0].Begin.Equal(begin) || !strings.HasPrefix(got.Updates[0].Comment, note.Before) || strings.Contains(got.Updates[0].Comment, textLeft)):
			t.Errorf("%s: %+v; want the begin time %v, and no note", name, got, begin)
		}
		if len(got.Updates) != 1 {
			continue
		}
		if j.AdminComment = got.Updates[0].Comment; tc.why != "" {
			if again := decided(t, inputAt(t, j)); !again.Empty() {
				t.Errorf("%s: noted again: %+v", name, again)
			}
		}
		ended := j
		ended.State, ended.Started, ended.Ended = stateCompleted, at("10:00:00"), at("11:00:00")
		if _, governed := Ran(&in, &ended); governed != (tc.why == "") {
			t.Errorf("%s: the ledger has it as a job of Lull: %v", name, governed)
		}
	}
}

// TestAMendedCommentMayHaveFewerTasks: a note is no plan of Lull, whether the job waits or runs. A job that Lull had planned without min-tasks keeps its tasks.
func TestAMendedCommentMayHaveFewerTasks(t *testing.T) {
	queued := func(j *Job) { j.AdminComment, j.Begin, j.Reason = "", j.Submitted, "Resources" }
	for name, tc := range map[string]struct {
		change func(*Job)
		sized  bool
	}{
		"waits in the queue": {queued, true},
		"runs": {func(j *Job) {
			j.State, j.Reason, j.Node, j.Started, j.Begin, j.AdminComment = stateRunning, "None", "n1", at("08:02:00"), j.Submitted, ""
		}, true},
		"others have written of it too": {func(j *Job) {
			queued(j)
			j.AdminComment = "ticket 7"
		}, true},
		"Lull had released it": {func(j *Job) {
			queued(j)
			j.AdminComment = Mark{Phase: Released, Begin: j.Begin, Text: "released at X: waits in the queue of Slurm"}.String()
		}, false},
		"Lull had planned it": {func(j *Job) {
			j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Text: textWaits + " X for cleaner power"}.String()
		}, false},
	} {
		j := sizing()
		good := j.Comment
		tc.change(&j)
		j.Comment = "lull:max-delay=8x"
		in := inputAt(t, j)
		in.Queue.Nodes[0].CPUs = 64 // a job with all CPUs of a node may have got more than its user asked for
		noted := decided(t, in)
		if len(noted.Updates) != 1 {
			t.Fatalf("%s: %+v; want a note", name, noted)
		}
		if j.AdminComment, j.Comment = noted.Updates[0].Comment, good; noted.Updates[0].Now {
			j.Begin = in.Now
		}
		in = inputAt(t, j)
		in.Queue.Nodes[0].CPUs = 64
		v := Observe(in)
		if len(v.Jobs) != 1 || (v.Jobs[0].Size != nil) != tc.sized {
			t.Errorf("%s: %+v %+v; want its number of tasks to be set: %v", name, v.Jobs, v.Left, tc.sized)
		}
	}
}

// TestANoteFollowsTheComment of a job that waits: it says what is wrong with the present one, or why the job is left to Slurm all the same. No look writes the
// same note again.
func TestANoteFollowsTheComment(t *testing.T) {
	const good, own = "lull:max-delay=8h", "it was submitted with a begin time of its own"
	queued := func(j *Job) { j.Begin, j.Reason = j.Submitted, reasonResources }
	type look struct {
		comment, reason string // a reason of "" is that of before
		want            string // in the AdminComment
	}
	for name, tc := range map[string]struct {
		change func(*Job)
		looks  []look
	}{
		"waits by --begin": {func(*Job) {}, []look{{"lull:max-delay=8x", "", `"8x"`}, {good, "", own}, {"lull:runtime=7y", "", `"7y"`}, {"lull:runtime=6y", "", `"6y"`}, {good, "", own}, {"", "", "neither its comment"}}},
		"in the queue":     {queued, []look{{"lull:max-delay=8x", "", `"8x"`}, {"lull:runtime=7y", "", `"7y"`}, {good, "JobHeldUser", "operator holds it"}, {"lull:runtime=6y", "", `"6y"`}, {good, reasonResources, "waits until"}, {"lull:runtime=5y", "", `"5y"`}}},
		"an array":         {func(j *Job) { queued(j); j.ID, j.Tasks = "12_[3-4]", 2 }, []look{{"lull:max-delay=8x", "", `"8x"`}, {"lull:runtime=7y", "", `"7y"`}, {good, "", "waits until"}}},
		"Lull holds it": {func(j *Job) { j.AdminComment = Mark{Phase: Held, Begin: j.Begin, Text: textScript}.String() },
			[]look{{"lull:max-delay=8x", "", `released at 2026-06-01T09:00Z: left to Slurm (BadComment): invalid comment: max-delay: "8x"`}, {"lull:runtime=7y", "", `"7y"`}}},
		"its begin time was changed": {func(j *Job) { j.AdminComment = Mark{Phase: Held, Begin: at("11:00:00"), Text: textScript}.String() },
			[]look{{good, "", "somebody else has changed"}, {"lull:max-delay=8x", "", `"8x"`}, {good, "", "somebody else has changed"}}},
		"others have written of it":   {func(j *Job) { j.AdminComment = strings.Repeat("y", 60) }, []look{{"lull:max-delay=8x", "", `"8x"`}, {"lull:runtime=7y", "", `"7y"`}, {good, "", own}}},
		"waits for others then":       {queued, []look{{"lull:max-delay=8x", "", `"8x"`}, {good, reasonDepends, textDepends}, {good, reasonResources, "waits until"}}},
		"waits for others in the end": {func(*Job) {}, []look{{"lull:max-delay=8x", reasonDepends, `"8x"`}, {good, "", "it waits for other jobs"}}},
	} {
		j := waiting()
		j.AdminComment = ""
		tc.change(&j)
		for i, l := range tc.looks {
			if j.Comment = l.comment; l.reason != "" {
				j.Reason = l.reason
			}
			in := inputAt(t, j)
			for k := range 3 {
				got := decided(t, in)
				if len(got.Updates) > 1 || k > 0 && !got.Empty() || len(got.Pauses) > 0 {
					t.Fatalf("%s: look %d.%d: %+v", name, i+1, k+1, got)
				}
				for _, u := range got.Updates {
					if j.AdminComment = u.Comment; u.Now {
						j.Begin = in.Now
					} else if !u.Begin.IsZero() {
						j.Begin = u.Begin
					}
				}
				in = inputAt(t, j)
			}
			if !strings.Contains(j.AdminComment, l.want) || len(j.AdminComment) >= adminWidth {
				t.Errorf("%s: look %d: %q; want %q", name, i+1, j.AdminComment, l.want)
			}
		}
	}
}
