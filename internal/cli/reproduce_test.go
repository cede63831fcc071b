package cli

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lull.dev/lull/internal/studies/reproduce"
	"lull.dev/lull/test/data"
	"lull.dev/lull/test/size"
)

// recorded are the figures of docs/reproduction.md.
func recorded(t *testing.T) map[string]reproduce.Found {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reproduction.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []reproduce.Found
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]reproduce.Found{}
	for _, f := range list {
		out[f.Paper+" "+f.ID] = f
	}
	return out
}

// drift is how far a figure may be from the one recorded: the order of sums differs
// between machines.
const drift = 0.05

// TestHeadlinesMatchTheReproductionPage: headline experiments come to what docs/reproduction.md says. After a
// change that is meant to move figures run "lull reproduce all" anew (docs/reference.md).
// By default those of a few seconds, and of carbonflex fig11 one trace of two; six years of starts
// (carbonscaler fig12) and both traces belong to the large run.
func TestHeadlinesMatchTheReproductionPage(t *testing.T) {
	env := NewReproduction(data.Folder(t, "carbon", "jobs", "profiles"))
	if err := env.Check(); err != nil {
		t.Skip(err)
	}
	found := recorded(t)
	names := []string{"caspian fig4-5", "carbonscaler fig14", "low-carbon-scheduler fig5", "low-carbon-scheduler ranks"}
	if size.Large() {
		names = append(names, "carbonscaler fig12", "carbonflex fig11")
	} else {
		t.Run("carbonflex fig11, "+reproduce.FlexAzure, func(t *testing.T) {
			rows, err := reproduce.FlexTrace(context.Background(), env, reproduce.FlexAzure)
			if err != nil {
				t.Fatal(err)
			}
			want := found["carbonflex fig11"].Rows
			sameFigures(t, rows, want[:min(len(rows), len(want))])
		})
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			paper, id, _ := strings.Cut(name, " ")
			list, err := reproduce.Select(paper, id)
			if err != nil {
				t.Fatal(err)
			}
			res, err := list[0].Run(context.Background(), env)
			if err != nil {
				t.Fatal(err)
			}
			sameFigures(t, res.Rows, found[name].Rows)
		})
	}
}

func sameFigures(t *testing.T, rows, want []reproduce.Row) {
	t.Helper()
	if len(rows) != len(want) || len(want) == 0 {
		t.Fatalf("%d figures, %d recorded", len(rows), len(want))
	}
	for i, r := range rows {
		if r.What != want[i].What || !near(r.Here, want[i].Here) || !near(r.Joint, want[i].Joint) {
			t.Errorf("%s: here %v, joint %v; recorded: %s: %v, %v", r.What, r.Here, r.Joint, want[i].What, want[i].Here, want[i].Joint)
		}
	}
}

func near(a, b reproduce.Value) bool {
	if math.IsNaN(float64(a)) || math.IsNaN(float64(b)) {
		return math.IsNaN(float64(a)) == math.IsNaN(float64(b))
	}
	return math.Abs(float64(a-b)) <= drift
}

// TestRecordIsComplete: each experiment is recorded, and where a figure differs much from
// the paper's the record says why.
func TestRecordIsComplete(t *testing.T) {
	found := recorded(t)
	for _, x := range reproduce.All() {
		f, ok := found[x.Name()]
		if !ok {
			t.Errorf("%s is not recorded", x.Name())
			continue
		}
		for _, r := range f.Rows {
			if d := math.Abs(float64(r.Here - r.Paper)); d > 5 && r.Why == "" {
				t.Errorf("%s, %s: %v in the paper, %v here, without a reason", x.Name(), r.What, r.Paper, r.Here)
			}
		}
	}
}

func TestReproduceErrors(t *testing.T) {
	for args, want := range map[string]string{"nobody": "nobody", "carbonscaler fig99": "fig99", "caspian --data /nowhere": "/nowhere"} {
		if out := failure(t, append([]string{"reproduce"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: %q lacks %q", args, out, want)
		}
	}
}
