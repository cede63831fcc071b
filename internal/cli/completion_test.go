package cli

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// completed is what a shell is offered for the last of some words, and the directive to it.
func completed(t *testing.T, c client.Client, words ...string) ([]string, string) {
	t.Helper()
	root := newRoot()
	addCompletion(root)
	var o, e bytes.Buffer
	root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, words...))
	root.SetOut(&o)
	root.SetErr(&e)
	if err := root.ExecuteContext(context.WithValue(t.Context(), clusterKey{}, c)); err != nil {
		t.Fatal(err)
	}
	if text := strings.TrimSpace(e.String()); strings.Contains(text, "\n") || !strings.HasPrefix(text, "Completion ended with directive:") {
		t.Errorf("lull %v: says %q", words, text)
	}
	lines := strings.Split(strings.TrimSpace(o.String()), "\n")
	last := len(lines) - 1
	return lines[:last], lines[last]
}

func TestCompletionKnowsNames(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	c := sampleCluster(t)
	const nothingElse, extension, listing = ":4", ":8", ":6"
	for args, want := range map[string]string{
		"explain -n team-a |":                      "job/index job/over job/train " + nothingElse,
		"explain -n team-a job/t|":                 "job/train " + nothingElse,
		"explain -n team-a job/train |":            nothingElse,
		"release -n team-a job/i|":                 "job/index " + nothingElse,
		"progress 0.4 -n team-a --workload job/o|": "job/over " + nothingElse,
		"get p|":                            "planners policies " + nothingElse,
		"get policies -n team-b |":          "other " + nothingElse,
		"get policies -A |":                 "clean other " + nothingElse,
		"get zones |":                       "de " + nothingElse,
		"get workloads -n team-a job/tr|":   "job/train " + nothingElse,
		"get planners gaia-l|":              "gaia-lowest-slot gaia-lowest-window " + nothingElse,
		"get zones -o |":                    "table wide json yaml " + nothingElse,
		"capacity explain |":                "batch " + nothingElse,
		"status -n |":                       "team-a team-b " + nothingElse,
		"profile --zone |":                  "de " + nothingElse,
		"kinds Job|":                        "Job JobSet " + nothingElse,
		"plan --planner l|":                 "list " + nothingElse,
		"demo --planner asa|":               "asap " + nothingElse,
		"simulate --planner exa|":           "exact " + nothingElse,
		"controller --planners asap,ch|":    "asap,cheapest " + listing,
		"forecast --zone D|":                "DE " + nothingElse,
		"forecast --zone aws/eu-central-1|": "aws/eu-central-1 " + nothingElse,
		"forecast --source ui|":             "csv json " + extension,
		"forecast --source uk|":             "ukCarbonIntensity " + nothingElse,
		"when -o i|":                        "ical " + nothingElse,
		"report --format |":                 "text html json yaml impact " + nothingElse,
		"top --by n|":                       "namespace " + nothingElse,
		"plan -f |":                         "json " + extension,
		"simulate -f |":                     "yaml yml " + extension,
		"profile -f |":                      "yaml yml json " + extension,
		"ledger verify --export |":          "jsonl " + extension,
		"check -f i.json |":                 "json " + extension,
		"forecast --cache-dir |":            ":16",
		"forecast --horizon |":              nothingElse,
		"reproduce casp|":                   "caspian " + nothingElse,
		"reproduce carbonscaler fig12|":     "fig12 " + nothingElse,
		"status x|":                         nothingElse,
	} {
		words := strings.Split(strings.TrimSuffix(args, "|"), " ")
		names, directive := completed(t, c, words...)
		if got := strings.Join(append(names, directive), " "); got != want {
			t.Errorf("lull %s: %s; want %s", args, got, want)
		}
	}
}

// TestCompletionIsSilentAndShort: without a cluster, without rights, and with a cluster that accepts a connection and does not
// answer, completion offers nothing, says nothing, and ends in time.
func TestCompletionIsSilentAndShort(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HOME", dir)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	refused := interceptor.NewClient(clusterOf(t), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(kschema.GroupResource{Resource: "gridzones"}, "", nil)
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	kubeconfig := filepath.Join(dir, "silent")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: 'http://"+l.Addr().String()+"'}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		c    client.Client
		args []string
	}{
		"no cluster": {nil, []string{"get", "zones", ""}},
		"no rights":  {refused, []string{"get", "zones", ""}},
		"no answer":  {nil, []string{"get", "zones", "--kubeconfig", kubeconfig, ""}},
	} {
		start := time.Now()
		names, directive := completed(t, tc.c, tc.args...)
		if len(names) > 0 || directive != ":4" {
			t.Errorf("%s: %v %s", name, names, directive)
		}
		if took := time.Since(start); took > completionTime+time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// TestCompletionsAreOfFlagsThatAreThere: no entry of the tables is of a command or a flag that is not there.
func TestCompletionsAreOfFlagsThatAreThere(t *testing.T) {
	commands, flags := map[string]bool{}, map[string]bool{}
	eachCommand(newRoot(), func(c *cobra.Command) {
		commands[c.CommandPath()] = true
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			flags[f.Name], flags[c.CommandPath()+" --"+f.Name] = true, true
		})
	})
	var missing []string
	for name := range argumentCompletions {
		if !commands[name] {
			missing = append(missing, name)
		}
	}
	for name := range flagCompletions {
		if !flags[name] {
			missing = append(missing, name)
		}
	}
	if slices.Sort(missing); missing != nil {
		t.Errorf("not there: %v", missing)
	}
}
