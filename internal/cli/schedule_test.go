package cli

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// TestMain is lull itself where the test binary has its name, as the examples for other schedulers install it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "lull" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// lullServer serves the binary of lull, and returns its address and its checksum.
func lullServer(t *testing.T) (url, sum string) {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("the examples need it:", err)
		}
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/lull" {
			http.ServeFile(w, r, binary)
		} // else nothing, which has another checksum
	}))
	t.Cleanup(server.Close)
	return server.URL + "/lull", fmt.Sprintf("%x", h.Sum(nil))
}

// example reads an example for another scheduler.
func example(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, "examples/schedule", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// shell runs a script as the service does, in a folder, with an environment of its own.
func shell(t *testing.T, dir string, env map[string]string, script string, options ...string) string {
	t.Helper()
	cmd := exec.Command("bash", append(options, "-c", script)...)
	cmd.Dir = dir
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, script, out)
	}
	return string(out)
}

// startIn reads when.json of a folder and returns its start, false if lull did not write it.
func startIn(t *testing.T, dir string) (time.Time, bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "when.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got whenJSON
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return got.Start, got.Reason != ""
}

// scheduled are the conditions under which the examples are run.
var scheduled = map[string]struct {
	ends     time.Duration // from now
	download string        // in place of the binary
	works    bool          // lull says a time
}{
	"installed":           {12 * time.Hour, "", true},
	"nothing to wait for": {time.Hour + time.Minute, "", true},
	"not installed":       {12 * time.Hour, "/another", false},
}

// TestGitHubExample runs the steps of the example as GitHub does: "work" starts if the best start is within the hour, and if
// lull cannot say.
func TestGitHubExample(t *testing.T) {
	url, sum := lullServer(t)
	type step struct {
		ID, Run string
		Env     map[string]string
	}
	var w struct {
		Env  map[string]string
		Jobs map[string]struct {
			Outputs map[string]string
			Steps   []step
			If      string
		}
	}
	example(t, "github-actions.yml", &w)
	if got := w.Jobs["decide"].Outputs; got["start"] != "${{ steps.when.outputs.start }}" || w.Jobs["work"].If != "needs.decide.outputs.start == 'true'" {
		t.Fatalf("%+v", w)
	}
	variable := regexp.MustCompile(`\$\{\{ vars\.(\w+) \}\}`)
	for name, tc := range scheduled {
		dir := t.TempDir()
		output, path := filepath.Join(dir, "output"), filepath.Join(dir, "path")
		vars := map[string]string{"LULL_URL": url + tc.download, "LULL_SHA256": sum}
		env := map[string]string{"HOME": dir, "PATH": "/usr/local/bin:/usr/bin:/bin", "GITHUB_OUTPUT": output, "GITHUB_PATH": path}
		for name, value := range w.Env {
			env[name] = value
		}
		env["END_BY"] = time.Now().Add(tc.ends).UTC().Format(time.RFC3339)
		before := time.Now()
		for _, s := range w.Jobs["decide"].Steps {
			for name, value := range s.Env {
				env[name] = variable.ReplaceAllStringFunc(value, func(v string) string { return vars[variable.FindStringSubmatch(v)[1]] })
			}
			out := shell(t, dir, env, s.Run, "-e")
			if warned := strings.Contains(out, "::warning::lull cannot be installed"); s.ID == "" && warned == tc.works {
				t.Errorf("%s: %s", name, out)
			}
			if added, err := os.ReadFile(path); err == nil {
				env["PATH"] = strings.TrimSpace(string(added)) + ":/usr/local/bin:/usr/bin:/bin"
			}
		}
		outputs := map[string]string{}
		text, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			outputs[key] = value
		}
		start, said := startIn(t, dir)
		// The example compares with its own clock, between these two times.
		early, late := start.Before(before.Add(time.Hour)), start.Before(time.Now().Add(time.Hour))
		if got := outputs["start"]; said != tc.works || got != strconv.FormatBool(early) && got != strconv.FormatBool(late) || tc.ends <= 2*time.Hour && got != "true" {
			t.Errorf("%s: start is %q, with the best start at %v (by lull: %v)", name, got, start, said)
		}
		if _, err := time.Parse(time.DateOnly, outputs["night"]); err != nil {
			t.Errorf("%s: night: %v", name, err)
		}
		for _, s := range w.Jobs["work"].Steps {
			if out := shell(t, dir, env, s.Run, "-e"); s.Run != "" && !strings.Contains(out, "the work") {
				t.Errorf("%s: %s", name, out)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); err != nil {
			t.Errorf("%s: what says that it ran: %v", name, err)
		}
	}
}

// TestGitLabExample runs the script of the example as GitLab does: it writes a pipeline that is delayed until the best start, or
// that starts at once if lull cannot say.
func TestGitLabExample(t *testing.T) {
	url, sum := lullServer(t)
	var w struct {
		Decide struct{ Script []string }
		Start  struct {
			Trigger struct {
				Include []struct{ Artifact, Job string }
			}
		}
	}
	example(t, "gitlab-ci.yml", &w)
	if in := w.Start.Trigger.Include; len(in) != 1 || in[0].Artifact != "work.yml" || in[0].Job != "decide" {
		t.Fatalf("%+v", w)
	}
	var script []string
	for _, line := range w.Decide.Script {
		if !strings.HasPrefix(line, "apt-get ") { // this machine stays as it is
			script = append(script, line)
		}
	}
	if len(script) != len(w.Decide.Script)-1 {
		t.Fatalf("%q", w.Decide.Script)
	}
	for name, tc := range scheduled {
		if tc.ends < 12*time.Hour { // the example has ends of its own
			continue
		}
		dir := t.TempDir()
		env := map[string]string{"HOME": dir, "PATH": "/usr/local/bin:/usr/bin:/bin", "LULL_ZONE": "DE", "LULL_URL": url + tc.download, "LULL_SHA256": sum}
		before := time.Now()
		out := shell(t, dir, env, strings.Join(script, "\n"), "-e", "-o", "pipefail")
		text, err := os.ReadFile(filepath.Join(dir, "work.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var child struct {
			Work struct {
				Image   string
				Script  []string
				When    string
				StartIn string `json:"start_in"`
			}
		}
		if err := yaml.UnmarshalStrict(text, &child); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		start, said := startIn(t, dir)
		work, least, most := child.Work, time.Until(start), start.Sub(before)
		if said != tc.works || work.Image == "" || len(work.Script) != 1 || strings.Contains(out, "cannot be installed") == tc.works {
			t.Errorf("%s: %s\n%s", name, text, out)
		}
		switch work.When {
		case "on_success":
			if least >= time.Second || work.StartIn != "" {
				t.Errorf("%s: starts at once, and the best start is in %v", name, least)
			}
		case "delayed":
			n, ok := strings.CutSuffix(work.StartIn, " seconds")
			seconds, err := strconv.Atoi(n)
			if wait := time.Duration(seconds) * time.Second; err != nil || !ok || seconds < 1 || wait < least-2*time.Second || wait > most+time.Second {
				t.Errorf("%s: starts in %q, and the best start is in %v to %v", name, work.StartIn, least, most)
			}
		default:
			t.Errorf("%s: when: %q", name, work.When)
		}
	}
}
