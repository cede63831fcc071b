package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lull.dev/lull/internal/accounting/ledger"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// ledgerFlags say where a ledger is: in a database, or in a raw export.
type ledgerFlags struct{ database, export string }

func (f *ledgerFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.database, "database", "", "the ledger's database: a file, or postgres://USER@HOST/NAME with the password in $PGPASSWORD or a passfile")
	cmd.Flags().StringVar(&f.export, "export", "", "raw export of the ledger, instead of its database")
}

// openedLedger is a ledger that is read.
type openedLedger struct {
	all      func(ledger.Query) iter.Seq2[ledger.Entry, error]
	exported bool // a file that anybody may have written, not the database
	closing  func() error
	checker  *ledger.Checker // of the last reading that was checked
}

func (f *ledgerFlags) open(ctx context.Context) (*openedLedger, error) {
	switch {
	case f.database == "" && f.export == "":
		return nil, errors.New("--database, --export: neither is given; accepted: one of them")
	case f.database != "" && f.export != "":
		return nil, errors.New("--database, --export: both are given; accepted: one of them")
	case f.export != "":
		file, err := os.Open(f.export)
		if err != nil {
			return nil, fmt.Errorf("--export: %w", err)
		}
		read := func(q ledger.Query) iter.Seq2[ledger.Entry, error] { return q.Of(ledger.ReadEntries(file)) }
		return &openedLedger{all: read, exported: true, closing: file.Close}, nil
	}
	l, err := openLedger(ctx, f.database)
	if err != nil {
		return nil, err
	}
	return &openedLedger{all: func(q ledger.Query) iter.Seq2[ledger.Entry, error] { return l.Read(ctx, q) }, closing: l.Close}, nil
}

// errNoEntries marks a ledger in which there is nothing to verify.
var errNoEntries = errors.New("nothing to verify: the ledger has no entries")

// checked yields the entries that are asked for, while it checks the whole chain. The last pair has the error,
// if any: one that wraps ledger.ErrBroken, or errNoEntries.
func (l *openedLedger) checked(q ledger.Query) iter.Seq2[ledger.Entry, error] {
	l.checker = &ledger.Checker{}
	return q.Of(func(yield func(ledger.Entry, error) bool) {
		for e, err := range l.checker.Through(l.all(ledger.Query{})) {
			if !yield(e, err) || err != nil {
				return
			}
		}
		if l.checker.Entries == 0 {
			yield(ledger.Entry{}, errNoEntries)
		}
	})
}

// entries yields the entries that are asked for; those of an export are checked.
func (l *openedLedger) entries(q ledger.Query) iter.Seq2[ledger.Entry, error] {
	if l.exported {
		return l.checked(q)
	}
	return l.all(q)
}

// ofKinds yields the entries of some kinds: of an export in their order, of a database kind by kind.
func (l *openedLedger) ofKinds(kinds ...ledger.Kind) iter.Seq2[ledger.Entry, error] {
	return func(yield func(ledger.Entry, error) bool) {
		if l.exported { // a file is read once
			for e, err := range l.checked(ledger.Query{}) {
				if (err != nil || slices.Contains(kinds, e.Kind)) && !yield(e, err) {
					return
				}
			}
			return
		}
		for _, kind := range kinds {
			for e, err := range l.all(ledger.Query{Kind: kind}) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// writeChecked says what was checked, if anything was.
func (l *openedLedger) writeChecked(out io.Writer) error {
	if l.checker == nil {
		return nil
	}
	v := &l.checker.Verified
	quarantined := ""
	if n := v.Kinds[ledger.KindQuarantined]; n > 0 {
		quarantined = fmt.Sprintf("; %d of them in quarantine", n)
	}
	_, err := fmt.Fprintf(out, "%d entries (%d to %d), unbroken%s; head %s\n", v.Entries, v.First, v.Last, quarantined, v.Head)
	return err
}

// openLedger opens a ledger that is there: reading makes none.
func openLedger(ctx context.Context, database string) (*ledger.Ledger, error) {
	if !strings.Contains(database, "://") {
		const accepted = "a file that a controller keeps (made once it leads), or the URL of a PostgreSQL"
		switch info, err := os.Stat(database); {
		case err != nil:
			return nil, fmt.Errorf("--database: %w; accepted: %s", err, accepted)
		case info.Size() == 0: // opening would make a database of it
			return nil, fmt.Errorf("--database: %s is empty; accepted: %s", database, accepted)
		}
	}
	return ledger.Open(ctx, database)
}

func newLedgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Verify, show and export the ledger: what ran, when, and what it saved",
		Long: `The ledger has an entry for each observation of governed workloads and each settlement. The
entries are chained by hash. The controller writes it (lull controller --ledger).`,
	}
	return group(cmd, newLedgerVerifyCommand(), newLedgerShowCommand(), newLedgerExportCommand(), newLedgerDropCommand())
}

func newLedgerVerifyCommand() *cobra.Command {
	var f ledgerFlags
	var head, format string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the chain of hashes: no entry was changed, removed or moved",
		Long: `Verify checks every hash. To prove also that nobody rewrote the whole chain or cut off its end, note the
head somewhere else, and give it as --head later. A ledger without entries is an error: there is nothing to
verify.`,
		Example: `  lull ledger verify --database ledger.db
  lull ledger verify --export ledger.jsonl --head 4f0c...`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var want ledger.Hash
			if err := want.UnmarshalText([]byte(head)); cmd.Flags().Changed("head") && err != nil {
				return fmt.Errorf("--head: %q; accepted: a hash as lull ledger verify prints it, 64 characters of 0 to 9 and a to f", head)
			}
			l, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.closing()) }()
			found := head == ""
			for e, err := range l.checked(ledger.Query{}) {
				if err != nil {
					return err
				}
				found = found || e.Hash == want
			}
			if !found {
				return fmt.Errorf("%w: no entry has the hash %s", ledger.ErrBroken, head)
			}
			if structured(format) {
				return writeStructured(cmd.OutOrStdout(), format, &l.checker.Verified)
			}
			return l.writeChecked(cmd.OutOrStdout())
		},
	}
	f.register(cmd)
	textFlag(cmd.Flags(), &format)
	cmd.Flags().StringVar(&head, "head", "", "hash that an entry must have: the head that you noted before")
	return cmd
}

func newLedgerShowCommand() *cobra.Command {
	var f ledgerFlags
	var namespace, format string
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show all entries of a workload as its history",
		Example: `  lull ledger show train -n batch --database ledger.db`,
		Args:    takes(1, 1, "the name of a workload"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			l, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.closing()) }()
			var story []ledger.Entry
			for e, err := range l.entries(ledger.Query{}) {
				if err != nil {
					return err
				}
				if e.Kind == ledger.KindSubmitted {
					var b ledger.Submitted
					if err := json.Unmarshal(e.Body, &b); err != nil {
						return fmt.Errorf("%w: entry %d: %w", ledger.ErrBroken, e.Seq, err)
					}
					if b.Namespace == namespace && b.Name == args[0] {
						story = []ledger.Entry{e} // the last of this name
						continue
					}
				}
				if len(story) > 0 && e.Workload == story[0].Workload {
					story = append(story, e)
				}
			}
			if len(story) == 0 {
				return fmt.Errorf("workload %s/%s: accepted: one that the ledger has", namespace, args[0])
			}
			tell := tellStory
			if structured(format) {
				tell = func(out io.Writer, story []ledger.Entry) error {
					return writeStructured(out, format, list[ledger.Entry]{story})
				}
			}
			return errors.Join(tell(cmd.OutOrStdout(), story), l.writeChecked(cmd.ErrOrStderr()))
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the workload")
	textFlag(cmd.Flags(), &format)
	return cmd
}

// tellStory writes the entries of a workload for people.
func tellStory(out io.Writer, story []ledger.Entry) error {
	line := func(at time.Time, format string, args ...any) {
		fmt.Fprintf(out, "%s  %s\n", at.UTC().Format("2006-01-02 15:04:05"), fmt.Sprintf(format, args...))
	}
	for i := range story {
		e := &story[i]
		var err error
		switch e.Kind {
		case ledger.KindSubmitted:
			var b ledger.Submitted
			if err = json.Unmarshal(e.Body, &b); err == nil {
				until := "may not wait"
				if !b.Deadline.IsZero() {
					until = "to be done by " + b.Deadline.UTC().Format("2006-01-02 15:04")
				}
				workers := fmt.Sprintf("%d workers", b.Workers)
				if b.Others > 0 {
					workers += fmt.Sprintf(" and %d other pods", b.Others)
				}
				line(b.At, "submitted: %s %s/%s, policy %s, %s, %s", b.Kind, b.Namespace, b.Name, b.Policy, workers, until)
			}
		case ledger.KindDecided:
			var b ledger.Decided
			if err = json.Unmarshal(e.Body, &b); err == nil {
				line(b.At, "%s (%s): %s", b.Verb, b.Reason, b.Message)
			}
		case ledger.KindStarted:
			var b ledger.Started
			if err = json.Unmarshal(e.Body, &b); err == nil {
				line(b.At, "runs: %s, %.4g W", cmp.Or(b.Node+b.Cluster, b.Zone), b.Watts)
			}
		case ledger.KindEnded:
			var b ledger.Ended
			if err = json.Unmarshal(e.Body, &b); err == nil {
				text := string(b.How)
				if b.Lost != "" {
					text += ", " + string(b.Lost)
				}
				line(b.At, "a run ends (%s)", text)
			}
		case ledger.KindEnergy:
			var b ledger.Energy
			if err = json.Unmarshal(e.Body, &b); err == nil {
				line(b.To, "%.4g kWh measured by %s since %s", b.KWh, b.Source, b.From.UTC().Format("15:04:05"))
			}
		case ledger.KindFinished:
			var b ledger.Finished
			if err = json.Unmarshal(e.Body, &b); err == nil {
				line(b.At, "is over (%s)", b.How)
			}
		case ledger.KindQuarantined:
			var b ledger.Quarantined
			if err = json.Unmarshal(e.Body, &b); err == nil {
				line(e.At, "in quarantine: %s %s: %s", b.Kind, b.Key, b.Reason)
			}
		case ledger.KindSettled:
			b, readErr := e.Settled()
			if err = readErr; err == nil {
				line(b.To, "%s", settledText(&b))
			}
		}
		if err != nil {
			return fmt.Errorf("%w: entry %d: %w", ledger.ErrBroken, e.Seq, err)
		}
	}
	return nil
}

// settledText says what was settled of a workload.
func settledText(b *ledger.Settled) string {
	c := &b.Counterfactual
	const at = "01-02 15:04"
	text := fmt.Sprintf("settled, revision %d: %.4g kWh (%.0f %% measured), ", b.Revision, b.KWh, 100*b.MeasuredKWh/max(b.KWh, 1e-12))
	if b.Withheld != "" {
		return text + fmt.Sprintf("give or take %.0f %%; as submitted, from %s to %s; emissions withheld: %s",
			100*b.Uncertainty, c.From.UTC().Format(at), c.To.UTC().Format(at), b.Withheld)
	}
	text += fmt.Sprintf("%.4g gCO2eq, give or take %.0f %%; as submitted, from %s to %s, %.4g gCO2eq: saved %s",
		b.Grams, 100*b.Uncertainty, c.From.UTC().Format(at), c.To.UTC().Format(at), c.Grams, units.Number("%.4g", b.SavedGrams))
	if b.FilledSeconds+c.FilledSeconds > 0 {
		text += fmt.Sprintf("; %.4g h of the runs and %.4g h as submitted are filled: %s", b.FilledSeconds/3600, c.FilledSeconds/3600, carbon.FillRule)
	}
	return text
}

func newLedgerExportCommand() *cobra.Command {
	var f ledgerFlags
	var format, output, from, to string
	var raw bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the settlements, or every entry",
		Long: `Export checks the whole chain, as lull ledger verify does, while it reads it. It says on standard error how
many entries there are and what the head is. It fails if the chain is broken: then it writes no file (-o),
and its standard output is incomplete.`,
		Example: `  lull ledger export --database ledger.db --from 2026-10-01 --to 2026-11-01 --format csv -o october.csv
  lull ledger export --database ledger.db --entries -o ledger.jsonl`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if raw && (from != "" || to != "") {
				return errors.New("--from, --to: accepted: without --entries, which exports the whole chain")
			}
			start, end, err := period(from, to)
			if err != nil {
				return err
			}
			l, err := f.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.closing()) }()
			write := func(w io.Writer) error {
				_, err := ledger.WriteEntries(w, l.checked(ledger.Query{}))
				return err
			}
			if !raw {
				list, err := ledger.Settlements(l.checked(ledger.Query{Kind: ledger.KindSettled}), start, end)
				if err != nil {
					return err
				}
				write = func(w io.Writer) error { return ledger.WriteRecords(w, format, ledger.Records(list)) }
			}
			if err := streamOut(output, cmd.OutOrStdout(), write); err != nil {
				return err
			}
			return l.writeChecked(cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&raw, "entries", false, "export every entry, as lines of JSON (the raw export)")
	cmd.Flags().StringVar(&format, "format", "csv", "format of the settlements: csv, json or parquet")
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write (default: standard output)")
	cmd.Flags().StringVar(&from, "from", "", "day or time; workloads that ended before it are left out (default: none)")
	cmd.Flags().StringVar(&to, "to", "", "day or time; workloads that ended then or later are left out (default: none)")
	return cmd
}

func newLedgerDropCommand() *cobra.Command {
	database, before := "", ""
	cmd := &cobra.Command{
		Use:   "drop",
		Short: "Delete the entries before a day",
		Long: `Drop deletes the entries before a day in one transaction. Export them first. It keeps workloads that are not
settled, and writes a checkpoint, so that the chain stays valid. Reports no longer contain settlements before
that day. The controller may run meanwhile.`,
		Example: `  lull ledger export --database ledger.db --entries -o until-2026.jsonl
  lull ledger drop --database ledger.db --before 2026-01-01`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			at, _, err := period(before, "")
			switch {
			case err != nil:
				return fmt.Errorf("--before: %q; accepted: a day (2026-10-01) or a time (2026-10-01T00:00:00Z)", before)
			case database == "":
				return errors.New("--database: not given; accepted: the ledger's database")
			case at.IsZero():
				return errors.New("--before: not given; accepted: a day (2026-10-01) or a time (2026-10-01T00:00:00Z)")
			}
			l, err := openLedger(cmd.Context(), database)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, l.Close()) }()
			n, err := l.Drop(cmd.Context(), at)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d entries less\n", n)
			return err
		},
	}
	cmd.Flags().StringVar(&database, "database", "", "the ledger's database: a file, or postgres://USER@HOST/NAME")
	cmd.Flags().StringVar(&before, "before", "", "day or time (UTC); entries from then on stay")
	return cmd
}

// period reads two days or times.
func period(from, to string) (start, end time.Time, err error) {
	read := func(flag, text string) (time.Time, error) {
		if text == "" {
			return time.Time{}, nil
		}
		for _, layout := range []string{time.DateOnly, time.RFC3339} {
			if at, err := time.Parse(layout, text); err == nil {
				return at, nil
			}
		}
		return time.Time{}, fmt.Errorf("--%s: %q; accepted: a day (2026-10-01) or a time (2026-10-01T00:00:00Z)", flag, text)
	}
	if start, err = read("from", from); err != nil {
		return
	}
	if end, err = read("to", to); err != nil {
		return
	}
	if !end.IsZero() && !end.After(start) {
		err = fmt.Errorf("--to: %q; accepted: after --from (%s)", to, from)
	}
	return
}
