package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// restd answers as slurmrestd 22.05.8 did (testdata/rest), on a socket, and notes the calls.
type restd struct {
	calls   []string
	headers []http.Header
	// answers replace what is recorded, by the path of the call.
	answers map[string]func(w http.ResponseWriter)
}

func (r *restd) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	path := strings.TrimPrefix(req.URL.Path, restPath)
	r.calls, r.headers = append(r.calls, strings.TrimSpace(req.Method+" "+path+" "+string(body))), append(r.headers, req.Header)
	if answer := r.answers[path]; answer != nil {
		answer(w)
		return
	}
	if req.Method == http.MethodPost {
		_, _ = io.WriteString(w, `{"meta": {}, "errors": []}`)
		return
	}
	text, err := os.ReadFile("testdata/rest" + path + ".json")
	if err != nil {
		http.Error(w, "Unable find requested URL.", http.StatusNotFound)
		return
	}
	_, _ = w.Write(text)
}

// on serves it on a socket.
func (r *restd) on(t *testing.T, commands Commands) *REST {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(r)
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	c, err := NewREST(commands, "unix:"+socket, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// says is an answer with an error.
func says(description, problem string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]any{{"description": description, "error_number": 2010, "error": problem, "source": "_parse_job_list"}}})
	}
}

// TestTheQueueOfSlurmrestd is that of squeue and sinfo. A comment with a line break is no odd line here.
func TestTheQueueOfSlurmrestd(t *testing.T) {
	q, err := (&restd{}).on(t, Commands{}).Observe(t.Context())
	if err != nil || len(q.Bad) > 0 || len(q.Ended) > 0 {
		t.Fatalf("%+v, %v", q, err)
	}
	unix := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	by := map[int]Job{}
	for _, j := range q.Jobs {
		by[j.Number] = j
	}
	array, held, runs := by[arrayOfRest], by[heldOfRest], by[runsOfRest]
	if array.ID != "17_[1,3,5,7,9]" || array.Tasks != 5 || array.Throttle != 4 || array.Comment != "lull:max-delay=8h" || array.Begin.Sub(array.Submitted) != 1000*time.Second {
		t.Errorf("%+v", array)
	}
	want := Job{ID: "18", Number: heldOfRest, Tasks: 1, State: "PENDING", Reason: "JobHeldUser", Submitted: unix(1795876536), Begin: unix(1795876544), Started: unix(1795876544), Deadline: unix(1796049336), CPUs: 2, Size: 2, Nodes: 2, Memory: 200 << 20, GPUs: 4, Licences: "power:2,superpower", Requeue: true, Partition: "green,batch", QOS: "normal", Account: "lab", User: "root", Comment: "lull:max-delay=8h\nforged", AdminComment: "lull: waits"}
	if !reflect.DeepEqual(held, want) {
		t.Errorf("%+v; want %+v", held, want)
	}
	if runs.State != "RUNNING" || runs.CPUs != 3 || runs.Memory != 300<<20 || runs.Limit != 26*time.Hour+4*time.Minute || runs.Started.IsZero() || !runs.Ended.IsZero() {
		t.Errorf("%+v", runs)
	}
	if runs.Begin.After(runs.Started) {
		t.Errorf("%+v", runs)
	}
	nodes := []Node{{Name: "n1", CPUs: 16, Memory: 16000 << 20, UsedCPUs: 3, UsedMemory: 300 << 20, Partitions: []string{"batch", "green"}}, {Name: "n2", CPUs: 0, Partitions: []string{"batch", "green", "narrow"}}}
	if !reflect.DeepEqual(q.Nodes, nodes) {
		t.Errorf("%+v; want %+v", q.Nodes, nodes)
	}
}

// The jobs of testdata/rest/jobs.json.
const arrayOfRest, heldOfRest, runsOfRest = 17, 18, 16

// TestJobsThatAreOver come from slurmrestd too, if they are asked for. A task that was cancelled has no number of CPUs.
func TestJobsThatAreOver(t *testing.T) {
	q, err := (&restd{}).on(t, Commands{Ended: true}).Observe(t.Context())
	if err != nil || len(q.Ended) != 1 || q.Ended[0].CPUs != 1 || q.Ended[0].State != stateCancelled || q.Ended[0].Ended.IsZero() || len(q.Jobs) != 3 {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestSlurmrestdSaysItsVersion, and the commands theirs.
func TestSlurmrestdSaysItsVersion(t *testing.T) {
	c := commands(t, map[string]string{"squeue": "echo slurm 22.05.8", "scontrol": "echo 'JobSubmitPlugins = lua'"})
	a, err := (&restd{}).on(t, c).Check(t.Context())
	if err != nil || a.Version != "22.05.8" || a.REST != "22.05.8" || !a.Tested || !a.Lua {
		t.Errorf("%+v, %v", a, err)
	}
	newer := &restd{answers: map[string]func(http.ResponseWriter){"/ping": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"meta": {"Slurm": {"release": "23.02.1"}}, "errors": []}`)
	}}}
	if a, err := newer.on(t, c).Check(t.Context()); err != nil || a.REST != "23.02.1" || a.Tested {
		t.Errorf("%+v, %v", a, err)
	}
	none := &restd{answers: map[string]func(http.ResponseWriter){"/ping": func(w http.ResponseWriter) { http.Error(w, "Unable find requested URL.", http.StatusNotFound) }}}
	if _, err := none.on(t, c).Check(t.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "v0.0.38") {
		t.Error(err)
	}
}

// TestWhatSlurmrestdChanges: begin times and licences. All that has an AdminComment, a throttle or an array is a command.
func TestWhatSlurmrestdChanges(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	c := commands(t, map[string]string{"scontrol": `echo "$@" >>` + log})
	begin := time.Date(2026, 6, 1, 13, 0, 0, 0, time.UTC)
	two := 2
	for name, tc := range map[string]struct {
		u       Update
		calls   []string
		command string
	}{
		"begin":         {Update{IDs: []string{"6", "7"}, Begin: begin}, []string{`POST /job/6 {"begin_time":"uts1780318800"}`, `POST /job/7 {"begin_time":"uts1780318800"}`}, ""},
		"now":           {Update{IDs: []string{"6"}, Now: true}, []string{`POST /job/6 {"begin_time":"now"}`}, ""},
		"licences":      {Update{IDs: []string{"6"}, Licences: "power:8"}, []string{`POST /job/6 {"licenses":"power:8"}`}, ""},
		"admin comment": {Update{IDs: []string{"6"}, Now: true, Comment: "lull: x"}, nil, "update JobId=6 AdminComment=lull: x StartTime=now\n"},
		"throttle":      {Update{IDs: []string{"6_[1-3]"}, Throttle: &two}, nil, "update JobId=6_[1-3] ArrayTaskThrottle=2\n"},
		"array":         {Update{IDs: []string{"6_[1-3]"}, Now: true}, nil, "update JobId=6_[1-3] StartTime=now\n"},
	} {
		_ = os.Remove(log)
		r := &restd{}
		err := r.on(t, c).Update(t.Context(), tc.u)
		ran, _ := os.ReadFile(log)
		if err != nil || !slices.Equal(r.calls, tc.calls) || string(ran) != tc.command {
			t.Errorf("%s: %q, %q, %v", name, r.calls, ran, err)
		}
	}
}

// TestErrorsOfSlurmrestd name the call. A job that has started or ended meanwhile is a RacedError.
func TestErrorsOfSlurmrestd(t *testing.T) {
	recorded, err := os.ReadFile("testdata/rest/unknown.json")
	if err != nil {
		t.Fatal(err)
	}
	const raced = "meanwhile: 6"
	failed := "job update from /run/slurmrestd.sock->fd:8 failed"
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"started": {says(failed, "Job is no longer pending execution"), raced},
		"ended":   {says(failed, "Job has already finished"), raced},
		"gone":    {says(failed, "Invalid job id specified"), raced},
		"rights":  {says(failed, "Invalid user id"), "AdminLevel=Administrator"},
		"both": {func(w http.ResponseWriter) {
			w.WriteHeader(500)
			_, _ = io.WriteString(w, `{"errors": [{"error": "Job has already finished"}, {"error": "Socket timed out"}]}`)
		}, "Socket timed out"},
		"an error":     {func(w http.ResponseWriter) { w.WriteHeader(500); _, _ = w.Write(recorded) }, `Unknown key "admin_comment"`},
		"a stranger":   {func(w http.ResponseWriter) { w.WriteHeader(401); _, _ = io.WriteString(w, "Authentication failure") }, "scontrol token"},
		"no JSON":      {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") }, "invalid character"},
		"nothing":      {func(http.ResponseWriter) {}, "EOF"},
		"a bad status": {func(w http.ResponseWriter) { w.WriteHeader(503); _, _ = io.WriteString(w, `{"errors": []}`) }, "503"},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/other")
			w.WriteHeader(302)
			_, _ = io.WriteString(w, `{}`)
		}, "302"},
	} {
		r := &restd{answers: map[string]func(http.ResponseWriter){"/job/6": tc.answer}}
		err := r.on(t, Commands{}).Update(t.Context(), Update{IDs: []string{"6"}, Now: true})
		var of *RacedError
		if errors.As(err, &of) != (tc.want == raced) || err == nil || tc.want != raced && (!errors.Is(err, ErrREST) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "POST /slurm/v0.0.38/job/6")) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&restd{}).on(t, Commands{}).Observe(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "GET /slurm/v0.0.38/jobs") {
		t.Error(err)
	}
}

// TestLicencesOfSlurmrestd: the sum is that of one licence.
func TestLicencesOfSlurmrestd(t *testing.T) {
	c := (&restd{}).on(t, Commands{})
	if n, err := c.Licences(t.Context(), "power"); n != 32 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if r, there, err := c.Reserved(t.Context(), "power"); r.Count != 3 || !r.Ends.Equal(time.Unix(1795876660, 0)) || !there || err != nil {
		t.Errorf("%v, %v, %v", r, there, err)
	}
	if _, there, err := c.Reserved(t.Context(), "superpower"); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	if _, err := c.Licences(t.Context(), "powe"); !errors.Is(err, ErrREST) {
		t.Error(err)
	}
}

// TestATokenIsReadForEachCall: it may be renewed.
func TestATokenIsReadForEachCall(t *testing.T) {
	r := &restd{}
	server := httptest.NewServer(r)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	c, err := NewREST(Commands{}, server.URL, "lull", file)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"SLURM_JWT=a.b.c\n": "a.b.c", "d.e.f": "d.e.f", "": "", "a b": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.headers = nil
		_, err := c.Licences(t.Context(), "power")
		switch {
		case want == "" && (err == nil || len(r.headers) > 0 || !strings.Contains(err.Error(), "scontrol token")):
			t.Errorf("%q: %v", text, err)
		case want != "" && (err != nil || r.headers[0].Get("X-SLURM-USER-NAME") != "lull" || r.headers[0].Get("X-SLURM-USER-TOKEN") != want):
			t.Errorf("%q: %v, %v", text, r.headers, err)
		}
	}
}

// TestAddressesOfSlurmrestd: a token never goes over a network in the clear.
func TestAddressesOfSlurmrestd(t *testing.T) {
	for at, good := range map[string]bool{
		"unix:/run/s": true, "unix:s": false, "unix:": false, "http://127.0.0.1:6820": true, "http://[::1]:6820/": true, "http://localhost:6820": true, "https://slurm.example:6820": true,
		"http://slurm.example:6820": false, "http://127.0.0.1.example:6820": false, "slurm.example:6820": false, "ftp://127.0.0.1": false, "http://127.0.0.1:6820/slurm": false, "http://u:p@127.0.0.1:6820": false, "": false, "http://127.0.0.1?x": false,
	} {
		if _, err := NewREST(Commands{}, at, "", ""); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "unix:/path/of/socket") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
