package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lull.dev/lull/internal/cluster/manager"
	"lull.dev/lull/internal/studies/scenario"
)

// bounds are the finite numbers that a flag accepts.
type bounds struct {
	low, high    float64 // high is +Inf where there is no upper bound
	above, below bool    // low, or high, itself is not accepted
}

func between(low, high float64) bounds { return bounds{low: low, high: high} }
func atLeast(low float64) bounds       { return bounds{low: low, high: math.Inf(1)} }
func above0() bounds                   { return bounds{high: math.Inf(1), above: true} }
func (b bounds) from() bounds          { b.above = true; return b }
func (b bounds) to() bounds            { b.below = true; return b }

// above0To accepts numbers above 0 up to high, which it accepts, too.
func above0To(high float64) bounds { return between(0, high).from() }

func (b bounds) has(v float64) bool {
	return !math.IsInf(v, 0) && (v > b.low || v == b.low && !b.above) && (v < b.high || v == b.high && !b.below)
}

// String says what is accepted.
func (b bounds) String() string {
	low, high := shown(b.low), shown(b.high)
	switch {
	case math.IsInf(b.high, 1) && b.above:
		return "a number above " + low
	case math.IsInf(b.high, 1):
		return "a number of at least " + low
	case b.above && b.below:
		return "a number above " + low + " and below " + high
	case b.above:
		return "a number above " + low + ", at most " + high
	case b.below:
		return "a number from " + low + " to below " + high
	}
	return "a number from " + low + " to " + high
}

func shown(v float64) string {
	if math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// quantity is what a numeric flag holds.
type quantity interface{ float64 | int | int64 | uint64 }

// parseNumber reads a number. Its error says what is accepted.
func parseNumber[T quantity](text string, b bounds) (v T, err error) {
	accepted := strings.Replace(b.String(), "a number", "a whole number", 1)
	switch to := any(&v).(type) {
	case *float64:
		accepted = b.String()
		*to, err = strconv.ParseFloat(text, 64)
	case *uint64:
		*to, err = strconv.ParseUint(text, 0, 64)
	case *int64:
		*to, err = strconv.ParseInt(text, 0, 64)
	case *int:
		*to, err = strconv.Atoi(text)
	}
	if err != nil || !b.has(float64(v)) {
		return v, errors.New(accepted)
	}
	return v, nil
}

// numberValue is a flag with bounds. Its default is not checked: it may stand for what is not given.
type numberValue[T quantity] struct {
	to     *T
	bounds bounds
}

func (v numberValue[T]) String() string {
	if v.to == nil {
		return ""
	}
	if f, ok := any(*v.to).(float64); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprint(*v.to)
}

// Set reads the text of the flag.
func (v numberValue[T]) Set(text string) error {
	n, err := parseNumber[T](text, v.bounds)
	if err == nil {
		*v.to = n
	}
	return err
}

// Type is that of pflag.
func (v numberValue[T]) Type() string { var n T; return fmt.Sprintf("%T", n) }

// number adds a numeric flag whose values have bounds.
func number[T quantity](f *pflag.FlagSet, to *T, name string, value T, b bounds, usage string) {
	*to = value
	f.Var(numberValue[T]{to, b}, name, usage)
	if !b.has(float64(value)) {
		f.Lookup(name).DefValue = "" // what is not given has no value; usage says what holds then
	}
}

// savingConfidenceFlag is how sure a saving must be, in percent, where a job may wait.
func savingConfidenceFlag(f *pflag.FlagSet, to *float64, does string) {
	number(f, to, "saving-confidence", 0, between(0, 100), "percent of the cases that the forecast leaves open in which a job must emit no more than with a start now, if it "+does+"; else it runs at once where there is room. A CarbonPolicy has savingConfidence for this, as a share; with 0 the mean counts")
}

// numbersValue is a flag with numbers that have bounds each.
type numbersValue[T quantity] struct {
	to     *[]T
	bounds bounds
	given  bool
}

func (v *numbersValue[T]) String() string {
	if v.to == nil {
		return "[]"
	}
	return "[" + strings.Join(v.texts(), ",") + "]"
}

func (v *numbersValue[T]) texts() (out []string) {
	for i := range *v.to {
		out = append(out, numberValue[T]{to: &(*v.to)[i]}.String())
	}
	return out
}

// Set reads numbers with commas between them. The first replaces the default.
func (v *numbersValue[T]) Set(text string) error {
	var list []T
	for _, part := range strings.Split(text, ",") {
		n, err := parseNumber[T](strings.TrimSpace(part), v.bounds)
		if err != nil {
			return fmt.Errorf("%w each, with commas between them", err)
		}
		list = append(list, n)
	}
	if v.given {
		list = append(*v.to, list...)
	}
	*v.to, v.given = list, true
	return nil
}

// Type is that of pflag.
func (v *numbersValue[T]) Type() string { var n T; return fmt.Sprintf("%TSlice", n) }

// numberList adds a flag with numbers.
func numberList[T quantity](f *pflag.FlagSet, to *[]T, name string, value []T, b bounds, usage string) {
	*to = value
	f.Var(&numbersValue[T]{to: to, bounds: b}, name, usage)
}

// durationValue is a duration of at least 0, with days.
type durationValue time.Duration

func (v *durationValue) String() string { return time.Duration(*v).String() }

// Set reads the text of the flag.
func (v *durationValue) Set(text string) error {
	d, err := scenario.ParseDuration(text)
	if err != nil {
		return errors.New(scenario.AcceptedDurations)
	}
	*v = durationValue(d)
	return nil
}

// Type is that of pflag.
func (v *durationValue) Type() string { return "duration" }

// duration adds a flag with a duration.
func duration(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var((*durationValue)(to), name, usage)
}

// metricsFlags says how a program serves its metrics, at address by default.
func metricsFlags(f *pflag.FlagSet, to *manager.Metrics, address string) {
	f.StringVar(&to.Address, "metrics-bind-address", address, `address of /metrics, "0" for none`)
	f.BoolVar(&to.Secure, "metrics-secure", false, "serve /metrics by HTTPS, with a certificate made at the start, to bearer tokens whose users may get it")
}

// otherNames are names that flags had, or have in other programs. They are accepted, and shown by none.
var otherNames = map[string]string{
	"file":   "filename", // as kubectl
	"listen": "bind-address",
	"every":  "interval",
}

// oneName gives flags that mean the same the same name in every command.
func oneName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if known, is := otherNames[name]; is {
		name = known
	}
	return pflag.NormalizedName(name)
}

// flagError says in the words of a user what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		accepted := ""
		switch f.Value.(type) {
		case numberValue[float64], numberValue[int], numberValue[int64], numberValue[uint64], *numbersValue[int], *numbersValue[float64], *durationValue, *choiceValue:
			accepted = invalid.Unwrap().Error()
		default:
			accepted = map[string]string{"bool": "true or false", "stringToString": "NAME=VALUE"}[f.Value.Type()]
		}
		if accepted == "" {
			return err
		}
		return fmt.Errorf("--%s: %s; accepted: %s", f.Name, quoted(invalid.GetValue()), accepted)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s: no value; accepted: --%s VALUE: %s", missing.GetFlag().Name, missing.GetFlag().Name, missing.GetFlag().Usage)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w; %s --help lists all flags", err, cmd.CommandPath())
	}
	return err
}

// quoted quotes a text that is neither a number nor a duration.
func quoted(text string) string {
	_, number := strconv.ParseFloat(text, 64)
	_, duration := time.ParseDuration(text)
	if number == nil || duration == nil {
		return text
	}
	return strconv.Quote(text)
}

// firstGiven is the first of some flags that is given, "" if none is.
func firstGiven(f *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if f.Changed(name) {
			return name
		}
	}
	return ""
}
