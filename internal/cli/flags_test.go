package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// goWords are words of Go and of its libraries that no user needs to know.
var goWords = []string{"strconv", "Go dur", ": json:", "unmarshal", "EOF", "arg(s)", "invalid syntax", "error converting", "parsing", "required flag", ": yaml:"}

func lacksGoWords(t *testing.T, what, text string) {
	t.Helper()
	for _, word := range goWords {
		if strings.Contains(text, word) {
			t.Errorf("%s: %q in %q", what, word, text)
		}
	}
}

// TestNumericFlagsHaveBounds: no numeric flag of any command accepts what is not a number, is not finite, or is
// beyond what it states; the error names the flag, the value and what is accepted.
func TestNumericFlagsHaveBounds(t *testing.T) {
	n := 0
	eachCommand(newRoot(), func(c *cobra.Command) {
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "string", "bool", "stringSlice", "stringArray", "stringToString":
				return
			}
			n++
			for _, text := range []string{"NaN", "Inf", "-Inf", "-1e9", "-1", "x", "", "1e999", "99999999999999999999999999"} {
				if text == "-1" && (f.Name == "latitude" || f.Name == "longitude") || text == "99999999999999999999999999" && math.IsInf(boundsOf(f).high, 1) && strings.HasPrefix(f.Value.Type(), "float64") {
					continue
				}
				args := append(strings.Fields(c.CommandPath())[1:], "--"+f.Name+"="+text)
				got := failure(t, args...)
				if want := fmt.Sprintf("--%s: %s; accepted: ", f.Name, quoted(text)); !strings.Contains(got, want) {
					t.Errorf("lull %s: %q; want %q", strings.Join(args, " "), got, want)
				}
				lacksGoWords(t, strings.Join(args, " "), got)
			}
		})
	})
	if n < 50 {
		t.Errorf("%d numeric flags: were they looked at?", n)
	}
}

func boundsOf(f *pflag.Flag) bounds {
	if v, ok := f.Value.(numberValue[float64]); ok {
		return v.bounds
	}
	return bounds{}
}

// TestZeroIsNoDefault: a zero, a repetition or a flag without effect that is stated is an error that names the
// flag, never taken as the default.
func TestZeroIsNoDefault(t *testing.T) {
	dir := files(t, map[string]string{
		"jobs.csv": "id,arrival_s,length_s,cpus\na,0,7200,4\n", "p.csv": "workers,throughput\n1,1\n4,3\n", "from.yaml": "jobs: {from: 1d}\n",
	})
	jobs, profile := " --jobs "+dir+"/jobs.csv", " --profile "+dir+"/p.csv"
	for args, want := range map[string]string{
		"simulate --from 1d":                 "--from: set without a trace; accepted: with --jobs FILE",
		"simulate --to 1d":                   "--to: set without a trace",
		"simulate --least 1h":                "--least: set without a trace",
		"simulate --format csv":              "--format: set without a trace",
		"simulate -f " + dir + "/from.yaml":  "jobs.from: 24h; accepted: with a trace",
		"simulate --to 0h" + jobs:            "--to: 0s; accepted: a time after --from, 0s",
		"simulate --to 1d --from 2d" + jobs:  "--to: 24h; accepted: a time after --from, 48h",
		"simulate --pue 0":                   "--pue: 0; accepted: a number from 1 to 10",
		"simulate --watts 0":                 "--watts: 0; accepted: a number above 0",
		"simulate --capacity 0":              "--capacity: 0; accepted: a number above 0",
		"simulate --seed 0":                  "--seed: 0; accepted: a whole number of at least 1",
		"simulate --slot 0s":                 "--slot: 0s; accepted: 1m to 24h",
		"simulate --max-workers 0" + profile: "--max-workers: 0; accepted: a whole number from 1",
		"simulate --max-workers 4":           "--max-workers: set without --profile",
		"simulate --min-workers 3 --max-workers 2" + jobs + profile: "--max-workers: 2; accepted: at least --min-workers, 3",
		"simulate --max-delay 0h:6h,24h":                            `--max-delay: "0h:6h"; accepted: LENGTH:DELAY with a length above 0`,
		"simulate --forecast noise:NaN":                             `--forecast: "noise:NaN"; accepted: noise:SHARE with a number from 0 to 1`,
		"simulate --forecast model:":                                `--forecast: "model:"; accepted: recorded:FILE or model:NAME`,
		"simulate --planner vcc,peak=0":                             "parameter peak of planner vcc: 0; accepted: above 0",
		"simulate --planner vcc,margin=0":                           "parameter margin of planner vcc: 0; accepted: above 0",
		"simulate --planner window,time-frame=0s":                   "parameter time-frame of planner window: 0s; accepted: above 0",
		"simulate --planner joint,effort=NaN":                       `parameter effort of planner joint: "NaN"; accepted: a finite number`,
		"plan generate --capacity 0":                                "--capacity: 0; accepted: a number above 0",
		"plan generate --load 0":                                    "--load: 0; accepted: a number above 0",
		"plan generate --max-scale 0":                               "--max-scale: 0; accepted: a whole number from 1",
		"plan generate --load 0.5 --capacity 8":                     "--capacity, --load: both are given",
		"plan generate --slack-low 3 --slack-high 2":                "--slack-high: 2; accepted: at least --slack-low, 3",
		"advise --price NaN":                                        "--price: NaN; accepted: a number of at least 0",
		"advise --pue 0":                                            "--pue: 0; accepted: a number from 1 to 10",
		"advise --watts 0":                                          "--watts: 0; accepted: a number above 0",
		"advise --error NaN":                                        "--error: NaN; accepted: a number from 0 to 1",
		"advise --slack 6h,6h":                                      `--slack: "6h" stands twice`,
		"advise --slack 6h,360m":                                    `--slack: "360m" stands twice`,
		"advise --slack 90m":                                        `--slack: "90m"; accepted: whole slots of 1h`,
		"advise --planner joint --planner joint":                    `--planner: "joint" stands twice`,
		"advise --max-workers 4,4" + profile:                        "--max-workers: 4 stands twice",
		"advise --max-workers 0" + jobs + profile:                   "--max-workers: 0; accepted: a whole number from 1",
		"advise --max-workers 4":                                    "--max-workers: set without --profile",
		"advise --length 3h" + jobs:                                 "--length: given with --jobs",
		"advise --format csv":                                       "--format: set without a trace",
		"report --export x --server-cpus 8":                         "--server-cpus: accepted with --embodied-kg",
		"fakegrid --factor 0":                                       "--factor: 0; accepted: a number above 0",
		"forecast --zone DE --fallback NaN":                         "--fallback: NaN; accepted: a number from 0 to",
		"forecast --zone DE --latitude 91 --longitude 13":           "--latitude: 91; accepted: a number from -90 to 90",
		"profile -f x --watts cpu=NaN":                              `--watts: cpu="NaN"; accepted: a number from 0`,
		"profile -f x --watts cpu=3abc":                             `--watts: cpu="3abc"; accepted: a number from 0`,
		"profile -f x --min 4 --max 2":                              "--max: 2; accepted: at least --min, 4",
		"demo --omega1 -1":                                          "--omega1: -1; accepted: a number from 0 to 1000 each",
	} {
		if got := failure(t, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("lull %s: %q; want %q", args, got, want)
		} else {
			lacksGoWords(t, args, got)
		}
	}
}

// TestErrorsAreInWordsOfUsers: errors of arguments, durations and files say what was given and what is accepted,
// without words of Go.
func TestErrorsAreInWordsOfUsers(t *testing.T) {
	const object = `{"version": 1, "start": "2023-01-01T00:00:00Z", "slot": "1h", "horizon": 3, "clusters": [], "jobs": "none"}`
	dir := files(t, map[string]string{
		"cut.json": `{"version": 1, "jo`, "empty.json": "", "type.json": object, "unknown.json": `{"colour": 1}`, "word.json": "hello", "ledger.jsonl": "{\"seq\": \"one\"}\n", "cut.jsonl": "{\"seq\": 1\n",
		"number.yaml": "slot: 5\n", "type.yaml": "jobs: {generate: {perHour: many}}\n", "unknown.yaml": "colour: 5\n", "bad.yaml": "jobs: [\n", "list.json": `{"items": "x"}`,
		"good.json": `{"version": 1, "start": "2023-01-01T00:00:00Z", "slot": "1h", "horizon": 1, "clusters": [{"name": "c", "capacity": {"cpu": 1}, "watts": {"cpu": 1}, "intensity": 1}], "jobs": []}`,
		"time.yaml": "start: soon\n", "kind.yaml": "apiVersion: 1\n", "recorded.csv": "issued,time,forecast_gco2eq_per_kwh,actual_gco2eq_per_kwh\n2023-01-01T00:00:00Z,y,1,2\n", "sun.csv": "time,irradiance_w_m2\nx,1\n", "nan.csv": "time,irradiance_w_m2\n2023-01-01T00:00:00Z,NaN\n",
		"cut.csv.gz": "\x1f\x8b\x08",
	})
	for args, want := range map[string]string{
		"plan -f " + dir + "/cut.json":                          "/cut.json: invalid file: it ends in the middle",
		"plan -f " + dir + "/empty.json":                        "/empty.json: invalid file: it is empty",
		"plan -f " + dir + "/type.json":                         "/type.json: invalid file: jobs: a text; accepted: a list",
		"plan -f " + dir + "/unknown.json":                      `/unknown.json: invalid file: unknown field "colour"`,
		"plan -f " + dir + "/word.json":                         "/word.json: invalid file: not JSON at character 1",
		"check -f " + dir + "/good.json " + dir + "/cut.json":   "it ends in the middle",
		"simulate -f " + dir + "/number.yaml":                   `5; accepted: a duration such as "90m"`,
		"simulate -f " + dir + "/type.yaml":                     "jobs.generate.perHour: a text; accepted: a number",
		"simulate -f " + dir + "/unknown.yaml":                  `unknown field "colour"`,
		"simulate -f " + dir + "/bad.yaml":                      "line 1",
		"simulate --jobs " + dir + "/list.json":                 "items: a text; accepted: a list",
		"simulate --jobs " + dir + "/cut.json":                  "it ends in the middle",
		"simulate --jobs " + dir + "/cut.csv.gz":                "ends in the middle",
		"ledger verify --export " + dir + "/ledger.jsonl":       "line 1: seq: a text; accepted: a whole number",
		"ledger verify --export " + dir + "/cut.jsonl":          "line 1: it ends in the middle",
		"simulate -f " + dir + "/time.yaml":                     `"soon"; accepted: a time in RFC 3339`,
		"simulate --forecast recorded:" + dir + "/recorded.csv": `line 2: time: "y"; accepted: RFC 3339`,
		"manifests --kind-file " + dir + "/kind.yaml":           "apiVersion: a number; accepted: a text",
		"fakegrid --weather 52:13:" + dir + "/sun.csv":          `row 2: time: "x"; accepted: RFC 3339`,
		"fakegrid --weather 52:13:" + dir + "/nan.csv":          `row 2: irradiance: "NaN"; accepted: a number of at least 0`,
		"fakegrid --weather NaN:13:" + dir + "/sun.csv":         "accepted: LATITUDE:LONGITUDE:FILE",
		"ledger verify --database " + dir + "/empty.json":       "/empty.json is empty; accepted: a file that a controller keeps",
		"check -f a b c":                                        `lull check: "b c"; accepted: one plan file, e.g. lull check -f instance.json plan.json`,
		"check a":                                               "--filename: not given",
		"explain":                                               "lull explain: nothing; accepted: KIND/NAME of a workload, e.g. lull explain job/train -n team-a",
		"report all":                                            `lull report: "all"; accepted: flags alone, e.g. lull report --database`,
		"ledger verfy":                                          `lull ledger: "verfy"; accepted: drop, export, show, verify`,
		"capacity explian":                                      `lull capacity: "explian"; accepted: explain`,
		"reproduce a b c":                                       `lull reproduce: "a b c"; accepted: nothing, all, or PAPER and maybe EXPERIMENT`,
		"progress":                                              "accepted: the share that is done, 0 to 1, e.g. lull progress 0.42",
		"release":                                               "release: nothing is named; accepted: KIND/NAME",
		"release --undo job/a":                                  "--undo: set without --all",
		"plan --time-limit soon":                                `--time-limit: "soon"; accepted: a duration such as "90m"`,
		"plan --param reserve":                                  `--param: "reserve"; accepted: NAME=VALUE`,
		"plan --plannr x":                                       "unknown flag: --plannr; lull plan --help lists all flags",
		"plan --planner":                                        "--planner: no value; accepted: --planner VALUE",
		"status --kubeconfig=":                                  "", // the default
		"controller --leader-elect=maybe":                       `--leader-elect: "maybe"; accepted: true or false`,
		"profile":                                               "--filename: not given",
	} {
		if args == "status --kubeconfig=" {
			continue
		}
		got := failure(t, strings.Fields(args)...)
		if !strings.Contains(got, want) {
			t.Errorf("lull %s: %q; want %q", args, got, want)
		}
		lacksGoWords(t, args, got)
	}
}

// TestErrorWithoutAClusterSaysWhatToDo: without a cluster the error says what to do.
func TestErrorWithoutAClusterSaysWhatToDo(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("KUBECONFIG", none)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if got := failure(t, "status"); !strings.Contains(got, "no cluster: no kubeconfig is in "+none) || !strings.Contains(got, "accepted: --kubeconfig FILE, or $KUBECONFIG") {
		t.Error(got)
	}
	if got := failure(t, "status", "--kubeconfig", none); !strings.Contains(got, none) || !strings.Contains(got, "accepted: a kubeconfig that kubectl works with") {
		t.Error(got)
	}
	if err := os.WriteFile(none, []byte("clusters: 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := failure(t, "status"); !strings.Contains(got, "accepted: a kubeconfig that kubectl works with") {
		t.Error(got)
	}
}

// TestReproduceListsExperiments: without arguments it says what there is, without any data.
func TestReproduceListsExperiments(t *testing.T) {
	out := stdout(t, "reproduce", "--data", t.TempDir())
	for _, want := range []string{"PAPER", "carbonscaler", "fig12", "low-carbon-scheduler"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
