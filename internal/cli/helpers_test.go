package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/internal/engine/controller"
)

// lull runs a command and returns what it printed.
func lull(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	status, stdout, stderr := runMain(args...)
	if status != want {
		t.Fatalf("lull %s: status %d, want %d: %s", strings.Join(args, " "), status, want, stderr)
	}
	return stdout, stderr
}

// stdout is what a command prints that succeeds.
func stdout(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := lull(t, exitOK, args...)
	return out
}

// failure is what a command prints that fails.
func failure(t *testing.T, args ...string) string {
	t.Helper()
	_, text := lull(t, exitError, args...)
	return text
}

// runMain runs the command and returns its status and output.
func runMain(args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = Main(args, strings.NewReader(""), &out, &err)
	return status, out.String(), err.String()
}

// files writes files into a folder of their own and returns it.
func files(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, visit)
	}
}

// clusterOf is a cluster with some objects.
func clusterOf(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return builderOf(t, objects...).Build()
}

// builderOf is a cluster with some objects, to be built.
func builderOf(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(objects...)
}

// lullOn runs a command on a cluster.
func lullOn(t *testing.T, c client.Client, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	root := newRoot()
	var o, e bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&o)
	root.SetErr(&e)
	err = root.ExecuteContext(context.WithValue(t.Context(), clusterKey{}, c))
	return o.String(), e.String(), err
}

// schemeOf has the kinds that the controller reads.
func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme, err := controller.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return scheme
}

// jobKind is what Lull knows of Jobs.
func jobKind(t *testing.T) *kinds.Kind {
	t.Helper()
	list, err := kinds.Named([]string{"Job"})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}
