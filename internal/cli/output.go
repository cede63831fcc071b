package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// The formats of -o that several commands have.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatText  = "text"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// choiceValue is a flag that accepts one of some words.
type choiceValue struct {
	to       *string
	accepted []string
}

func (v *choiceValue) String() string {
	if v.to == nil {
		return ""
	}
	return *v.to
}

// Set reads the text of the flag.
func (v *choiceValue) Set(text string) error {
	if !slices.Contains(v.accepted, text) {
		return errors.New(alternatives(v.accepted))
	}
	*v.to = text
	return nil
}

// Type is that of pflag.
func (v *choiceValue) Type() string { return "string" }

// alternatives lists words as a sentence does: "a, b or c".
func alternatives(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// choice adds a flag that accepts one of some words; the first is its default. Shell completion offers them.
func choice(f *pflag.FlagSet, to *string, name, shorthand, meaning string, accepted ...string) {
	*to = accepted[0]
	f.VarP(&choiceValue{to, accepted}, name, shorthand, meaning+": "+alternatives(accepted))
}

// tableFlag adds -o to a command that prints a table. Own are further formats of the command.
func tableFlag(f *pflag.FlagSet, to *string, own ...string) {
	choice(f, to, "output", "o", "format", append([]string{formatTable, formatWide, formatJSON, formatYAML}, own...)...)
}

// textFlag adds -o to a command that prints sentences.
func textFlag(f *pflag.FlagSet, to *string, own ...string) {
	choice(f, to, "output", "o", "format", append([]string{formatText, formatJSON, formatYAML}, own...)...)
}

// errBothOutputs refuses --json - beside -o json or -o yaml.
var errBothOutputs = errors.New("--json, --output: both are for standard output; accepted: one of them")

// structured reports whether a format is for programs: writeStructured writes it.
func structured(format string) bool { return format == formatJSON || format == formatYAML }

// writeStructured writes a value as JSON or YAML; both have the keys of its JSON tags.
func writeStructured(out io.Writer, format string, v any) error {
	if format == formatYAML {
		text, err := yaml.Marshal(v)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// column is one of the columns of a table with a row for each T.
type column[T any] struct {
	head string
	cell func(*T) string
	wide bool // only with -o wide
}

// list are rows as JSON: an object, so that there is room for more than the rows.
type list[T any] struct {
	Items []T `json:"items"`
}

// writeRows writes rows in a format: as a list, or as a table. A cell without a text is "-", so that columns can be counted.
func writeRows[T any](out io.Writer, format string, columns []column[T], rows []T) error {
	if structured(format) {
		return writeStructured(out, format, list[T]{append([]T{}, rows...)})
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	line := func(cell func(*column[T]) string) {
		var cells []string
		for i := range columns {
			if !columns[i].wide || format == formatWide {
				cells = append(cells, cell(&columns[i]))
			}
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	line(func(c *column[T]) string { return c.head })
	for i := range rows {
		line(func(c *column[T]) string {
			if text := c.cell(&rows[i]); text != "" {
				return text
			}
			return "-"
		})
	}
	return tw.Flush()
}
