package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"lull.dev/lull/pkg/plan"
	"lull.dev/lull/pkg/units"
)

// alternativesShown is how many other places of a job are listed.
const alternativesShown = 12

// explained finds the jobs named by --explain.
func explained(p *plan.Problem, ids []string) ([]int, error) {
	var out []int
next:
	for _, id := range ids {
		for j := range p.Jobs {
			if p.Jobs[j].ID == id {
				out = append(out, j)
				continue next
			}
		}
		return nil, fmt.Errorf("--explain: %q; accepted: the id of a job of the instance", id)
	}
	return out, nil
}

// explain tells why a job is where it is; safe is the probability of the run time that its deadline is kept for.
func explain(w io.Writer, p *plan.Problem, res plan.Result, j int, safe float64) error {
	job := &p.Jobs[j]
	x, ok := plan.Guarded{Probability: safe}.Explain(p, res.Plan, j)
	if !ok {
		why := "the objective does without it"
		for _, u := range res.Unplaced {
			if u.Job == j {
				why = u.Why
			}
		}
		fmt.Fprintf(w, "\njob %s has no place: %s\n", job.ID, why)
		return nil
	}
	at := func(t int) string { return p.Grid.Time(t).UTC().Format(time.RFC3339) }
	first := x.Planned.Segments[0]
	fmt.Fprintf(w, "\njob %s (%s, %d slots, window %s to %s) begins at %s on %s and emits %s\n",
		job.ID, job.Kind, job.Slots(), at(job.Arrival), at(p.LastSlot(j)), at(first.Slot), p.Clusters[first.Cluster].Name, units.Emissions(x.Grams))
	if x.Guard > 0 {
		fmt.Fprintf(w, "its run time is uncertain: it has to end by %s if it takes the expected %.4g slots, so that one of %.4g slots (--safe %v) keeps its deadline\n",
			at(x.Guard), job.Length, job.LengthAt(safe), safe)
		if last := x.Planned.Segments[len(x.Planned.Segments)-1]; last.Slot >= x.Guard {
			fmt.Fprintln(w, "it ends later, as it found no such place: its deadline is kept for the expected run time only")
		}
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	what := "BEGINNING AT"
	if job.Kind != "rigid" {
		what = "WITH ITS DEAREST SLOT AT"
	}
	fmt.Fprintf(tw, "%s\tON\tEMITS\tDIFFERENCE\tROOM\n", what)
	for i, a := range x.Alternatives {
		if i == alternativesShown {
			fmt.Fprintf(tw, "and %d more, each emitting at least as much\n", len(x.Alternatives)-i)
			break
		}
		room := "yes"
		if !a.Fits {
			room = a.Why
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", at(a.Slot), p.Clusters[a.Cluster].Name, units.Emissions(a.Grams), units.Number("%+.1f %%", change(a.Grams, x.Grams)), room)
	}
	return tw.Flush()
}

func change(v, from float64) float64 {
	if from == 0 {
		return 0
	}
	return 100 * (v/from - 1)
}
