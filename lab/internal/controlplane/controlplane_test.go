package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"
)

// TestRuntimeExpression evaluates the jq expression of the completion stage as
// KWOK does.
func TestRuntimeExpression(t *testing.T) {
	var stage struct {
		Spec struct {
			Delay struct {
				DurationFrom struct {
					ExpressionFrom string `json:"expressionFrom"`
				} `json:"durationFrom"`
			} `json:"delay"`
		} `json:"spec"`
	}
	for _, tc := range []struct {
		factor float64
		text   string
		want   string
	}{
		{1, "3s", "3000ms"}, {900, "1h30m0s", "6000ms"}, {900, "1h", "4000ms"}, {0.5, "2s", "4000ms"},
		{1, "1.5h", "5400000ms"}, {1, "250ms", "250ms"}, {1000, "1ms", "0ms"},
	} {
		if err := yaml.Unmarshal([]byte(podComplete(tc.factor)), &stage); err != nil {
			t.Fatal(err)
		}
		query, err := gojq.Parse(stage.Spec.Delay.DurationFrom.ExpressionFrom)
		if err != nil {
			t.Fatal(err)
		}
		pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{RuntimeAnnotation: tc.text}}}
		got, _ := query.Run(pod).Next()
		if got != tc.want {
			t.Errorf("%s at factor %v: %v, want %s", tc.text, tc.factor, got, tc.want)
		}
	}
}

func TestStagesAreValidYAML(t *testing.T) {
	for i, doc := range strings.Split(kwokConfig(900), "\n---\n") {
		var into map[string]any
		if err := yaml.Unmarshal([]byte(doc), &into); err != nil || into["kind"] == nil {
			t.Errorf("document %d: %v", i, err)
		}
	}
}

func TestStateOfNothingAndOfNonsense(t *testing.T) {
	dir := t.TempDir()
	if s, err := ReadState(dir); err != nil || s.Phase != Down {
		t.Errorf("an empty folder: %+v, %v", s, err)
	}
	if err := os.WriteFile(stateFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); err == nil {
		t.Error("a broken state file was read")
	}
	s := State{Phase: Ready, Options: Options{Dir: dir}}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadState(dir); err != nil || got.Phase != Failed {
		t.Errorf("a lab without supervisor: %+v, %v", got, err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	p, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	if p.etcdClient == p.etcdPeer || p.etcdPeer == p.apiserver || p.etcdClient == p.apiserver {
		t.Errorf("ports %+v", p)
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("1\n2\n3\n4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(file, 2); got != "  3\n  4" {
		t.Errorf("tail = %q", got)
	}
	if got := tail(file+"x", 2); !strings.Contains(got, "no such file") {
		t.Errorf("tail of nothing = %q", got)
	}
}
