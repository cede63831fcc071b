//go:build slurm

package slurm

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/slurm"
	"lull.dev/lull/internal/studies/slurmlab"
)

// restd runs a slurmrestd, and returns how to reach it: by the flags of Lull, and as a client.
func restd(t *testing.T) (flags []string, client *slurm.REST) {
	t.Helper()
	at, err := loopback.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	stop, err := lab.StartREST(lullUID, at)
	if errors.Is(err, slurmlab.ErrNoREST) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	token, err := lab.Token("root")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("SLURM_JWT="+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err = slurm.NewREST(slurm.Commands{Dir: lab.root + "/usr/bin", Ended: true}, "http://"+at, "root", file)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--slurm-api", "rest", "--slurm-rest", "http://" + at, "--slurm-rest-user", "root", "--slurm-token-file", file}, client
}

// TestSlurmrestdAndTheCommandsSayTheSame of jobs of all kinds, and of nodes.
func TestSlurmrestdAndTheCommandsSayTheSame(t *testing.T) {
	empty(t)
	t.Cleanup(func() { empty(t) })
	_, rest := restd(t)
	about, err := rest.Check(t.Context())
	if err != nil || about.REST != about.Version || !about.Tested {
		t.Fatalf("%+v, %v", about, err)
	}
	until(t, submit(t, "sleep 600", "-n3", "--time=1-02:03:04"), "running", running)
	until(t, submit(t, "sleep 600", "-N2", "--time=UNLIMITED", "-L", "power:2,superpower:1"), "running", running)
	until(t, submit(t, "true"), "completed", completed)
	submit(t, "true", "--hold", "--partition=green,batch", "--comment=lull:max-delay=8h and more")
	submit(t, "true", "--begin=now+1000", "--deadline=now+2days", "--time=10", "--no-requeue", "-N2", "-n4")
	submit(t, "true", "--exclusive", "--begin=now+1000")
	array := submit(t, "true", "--array=1-9:2%4", "--begin=now+1000")
	submit(t, "true", "--array=0-200", "--begin=now+1000")
	until(t, submit(t, "sleep 600", "--array=1-2"), "running", running)
	requeued := submit(t, "sleep 600")
	until(t, requeued, "running", running)
	must(t, "scontrol", "requeuehold", requeued)
	must(t, "scontrol", "update", "JobId="+array+"_3", "StartTime=now+2000", "AdminComment=x y")
	must(t, "scancel", array+"_5")
	must(t, "scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
	t.Cleanup(func() { must(t, "scontrol", "update", "NodeName=n2", "State=RESUME") })
	var by, of slurm.Queue
	if err := wait("the same answers", func() bool { // jobs may change between both
		if by, err = rest.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if of, err = rest.Commands.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, q := range []*slurm.Queue{&by, &of} {
			for _, list := range [][]slurm.Job{q.Jobs, q.Ended} {
				slices.SortFunc(list, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
			}
			slices.SortFunc(q.Nodes, func(a, b slurm.Node) int { return cmp.Compare(a.Name, b.Name) })
			for i := range q.Nodes {
				slices.Sort(q.Nodes[i].Partitions)
			}
		}
		return reflect.DeepEqual(by, of)
	}); err != nil {
		t.Errorf("%v: slurmrestd:\n%+v\nthe commands:\n%+v", err, by, of)
	}
	if len(by.Jobs) < 9 || len(by.Ended) == 0 || len(by.Nodes) != 2 {
		t.Errorf("%+v", by)
	}
}

// TestWhatSlurmrestdCarries is the table of docs/slurm.md: what Lull changes through it is as the commands change it, and what it lacks goes by them.
func TestWhatSlurmrestdCarries(t *testing.T) {
	empty(t)
	t.Cleanup(func() { empty(t) })
	_, rest := restd(t)
	ctx := t.Context()
	id := submit(t, "true", "--begin=now+1000", "-L", "superpower:1")
	begin := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Second)
	if err := rest.Update(ctx, slurm.Update{IDs: []string{id}, Begin: begin}); err != nil {
		t.Error(err)
	}
	if err := rest.Update(ctx, slurm.Update{IDs: []string{id}, Licences: "superpower:2"}); err != nil {
		t.Error(err)
	}
	if j := show(t, id); !j.at(t, "StartTime").Equal(begin) || j["Licenses"] != "superpower:2" {
		t.Errorf("%v", j)
	}
	array := submit(t, "true", "--begin=now+1000", "--array=1-9%4")
	two := 2
	if err := rest.Update(ctx, slurm.Update{IDs: []string{array + "_[1-9]"}, Throttle: &two, Comment: "lull: x"}); err != nil {
		t.Error(err)
	}
	number := slurm.Job{}
	if q, err := rest.Observe(ctx); err != nil {
		t.Error(err)
	} else {
		for _, j := range q.Jobs {
			if j.ID == array+"_[1-9]" {
				number = j
			}
		}
	}
	if number.Throttle != 2 || number.AdminComment != "lull: x" {
		t.Errorf("%+v", number)
	}
	if n, err := rest.Licences(ctx, "power"); n != 32 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := rest.Update(ctx, slurm.Update{IDs: []string{id}, Now: true}); err != nil { // released
		t.Error(err)
	}
	until(t, id, "completed", completed)
	var raced *slurm.RacedError
	if err := rest.Update(ctx, slurm.Update{IDs: []string{id, "999999"}, Now: true}); !errors.As(err, &raced) || strings.Join(raced.IDs, " ") != id+" 999999" {
		t.Errorf("%v; want that both are over", err)
	}
	if err := rest.Update(ctx, slurm.Update{IDs: []string{submit(t, "true", "--begin=now+1000")}, Licences: "nosuch:1"}); !errors.Is(err, slurm.ErrREST) {
		t.Errorf("%v", err)
	}
}

// TestASocketOfSlurmrestd: on its socket, slurmrestd answers root and its own user, and nobody else.
func TestASocketOfSlurmrestd(t *testing.T) {
	accounted(t)
	setLevel(t, "Administrator")
	socket := lab.dir + "/out/slurmrestd"
	stop, err := lab.StartREST(lullUID, "unix:"+socket)
	if errors.Is(err, slurmlab.ErrNoREST) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l := controllerOf(t, lullUID, curve(t, [2]time.Duration{0, 10 * time.Minute}), "--slurm-api", "rest", "--slurm-rest", "unix:"+socket)
	id := asNobody(t, "sbatch", "--parsable", "--output=/dev/null", "--account="+slurmlab.Account, "--comment=lull:max-delay=10m,runtime=4s", "--wrap", "true")
	if j := until(t, id, "completed", completed); !strings.Contains(j["AdminComment"], "phase=released") {
		t.Errorf("%v: %s", j, l.log)
	}
	l.kill()
	out, err := asNobodyLull("slurm", "controller", "--slurm-bin", lab.root+"/usr/bin", "--zone", "DE", "--dry-run", "--slurm-api", "rest", "--slurm-rest", "unix:"+socket)
	if err == nil || !strings.Contains(out, "GET /slurm/v0.0.38/ping") || !strings.Contains(out, "scontrol token") {
		t.Errorf("%v: %s", err, out)
	}
}

// asNobodyLull runs lull as an ordinary user.
func asNobodyLull(args ...string) (string, error) {
	cmd := exec.Command(os.Getenv("LULL_BIN"), args...)
	cmd.Dir = lab.dir + "/out"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTheControllerUsesSlurmrestd: a job is planned, released and completes, and the log says what is used. Where slurmrestd does not answer, auto takes the commands.
func TestTheControllerUsesSlurmrestd(t *testing.T) {
	empty(t)
	flags, _ := restd(t)
	l := controller(t, curve(t, [2]time.Duration{9 * time.Minute, 15 * time.Minute}), flags...)
	if text := l.log.String(); !strings.Contains(text, `"slurmrestd":"22.05.8"`) {
		t.Errorf("%s", text)
	}
	id := submit(t, "sleep 1", "--comment=lull:max-delay=10m,runtime=4s")
	array := submit(t, "sleep 1", "--array=1-4%2", "--comment=lull:max-delay=10m,runtime=4s")
	until(t, id, "planned", planned)
	l.kill()
	before := l.log
	l = controller(t, curve(t, [2]time.Duration{0, 15 * time.Minute}), flags...) // power is clean now
	for _, id := range []string{id, array + "_1", array + "_4"} {
		// On a busy machine a job may end before Lull has seen it run: its mark still says held then.
		if j := until(t, id, "completed", completed); !strings.Contains(j["AdminComment"], "phase=released") && !strings.Contains(j["AdminComment"], "phase=held") {
			t.Errorf("%v", j)
		}
	}
	if text := before.String() + l.log.String(); strings.Contains(text, "slurmrestd failed") {
		t.Errorf("%s", text)
	}
	l.kill()
	l = controller(t, curve(t, [2]time.Duration{0, 10 * time.Minute}), "--slurm-rest", "unix:"+lab.dir+"/out/nowhere")
	if text := l.log.String(); !strings.Contains(text, "slurmrestd cannot be used") || !strings.Contains(text, `"slurmrestd":"not used"`) {
		t.Errorf("%s", text)
	}
	until(t, submit(t, "sleep 1", "--comment=lull:max-delay=5m,runtime=4s"), "completed", completed)
}
