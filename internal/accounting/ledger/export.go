package ledger

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// Record is a workload that is settled, as a line of a table.
type Record struct {
	Workload    string    `json:"workload" parquet:"workload"`
	Kind        string    `json:"kind" parquet:"kind,dict"`
	Namespace   string    `json:"namespace" parquet:"namespace,dict"`
	Name        string    `json:"name" parquet:"name"`
	Policy      string    `json:"policy" parquet:"policy,dict"`
	Zone        string    `json:"zone" parquet:"zone,dict"`
	Submitted   time.Time `json:"submitted" parquet:"submitted,timestamp(millisecond)"`
	Start       time.Time `json:"start" parquet:"start,timestamp(millisecond)"`
	End         time.Time `json:"end" parquet:"end,timestamp(millisecond)"`
	Deadline    time.Time `json:"deadline" parquet:"deadline,timestamp(millisecond)"`
	OnTime      bool      `json:"onTime" parquet:"on_time"`
	Runs        int       `json:"runs" parquet:"runs"`
	Inferred    int       `json:"inferredEnds" parquet:"inferred_ends"`
	WorkerHours float64   `json:"workerHours" parquet:"worker_hours"`
	KWh         float64   `json:"kWh" parquet:"kwh"`
	MeasuredKWh float64   `json:"measuredKWh" parquet:"measured_kwh"`
	Grams       float64   `json:"gCO2eq" parquet:"gco2eq"`
	Uncertainty float64   `json:"uncertainty" parquet:"uncertainty"`
	Signal      string    `json:"signal" parquet:"signal,dict"`
	Factor      string    `json:"factor" parquet:"factor,dict"`
	// The counterfactual.
	AsSubmittedStart time.Time `json:"asSubmittedStart" parquet:"as_submitted_start,timestamp(millisecond)"`
	AsSubmittedEnd   time.Time `json:"asSubmittedEnd" parquet:"as_submitted_end,timestamp(millisecond)"`
	AsSubmittedKWh   float64   `json:"asSubmittedKWh" parquet:"as_submitted_kwh"`
	AsSubmittedGrams float64   `json:"asSubmittedGCO2eq" parquet:"as_submitted_gco2eq"`
	SavedGrams       float64   `json:"savedGCO2eq" parquet:"saved_gco2eq"`
	// By the signal beside; "" and zeros where there is none.
	BesideSignal     string  `json:"besideSignal,omitempty" parquet:"beside_signal,dict"`
	BesideFactor     string  `json:"besideFactor,omitempty" parquet:"beside_factor,dict"`
	BesideGrams      float64 `json:"besideGCO2eq,omitempty" parquet:"beside_gco2eq"`
	BesideSavedGrams float64 `json:"besideSavedGCO2eq,omitempty" parquet:"beside_saved_gco2eq"`
	Method           string  `json:"method" parquet:"method,dict"`
	Revision         int     `json:"revision" parquet:"revision"`
	// FilledSeconds of the run, and AsSubmittedFilledSeconds of the counterfactual, are priced
	// by carbon.FillRule. Withheld is why no emissions are stated, BesideWithheld why none by
	// the signal beside: their grams are 0 then and mean nothing.
	FilledSeconds            float64 `json:"filledSeconds,omitempty" parquet:"filled_seconds"`
	AsSubmittedFilledSeconds float64 `json:"asSubmittedFilledSeconds,omitempty" parquet:"as_submitted_filled_seconds"`
	Withheld                 string  `json:"withheld,omitempty" parquet:"withheld"`
	BesideWithheld           string  `json:"besideWithheld,omitempty" parquet:"beside_withheld"`
	// FailedHours and EvictedHours are the part of WorkerHours that pods ran which failed, and which were evicted.
	FailedHours  float64 `json:"failedHours,omitempty" parquet:"failed_hours"`
	EvictedHours float64 `json:"evictedHours,omitempty" parquet:"evicted_hours"`
}

// Settlement is a settled workload.
type Settlement struct {
	Workload string // UID
	Settled
}

// Settlements are the last ones of workloads whose end is in [from, to), in the order of their ends; a zero
// time bounds nothing. Errors wrap ErrDatabase or ErrBroken. Memory: O(settlements).
func Settlements(entries iter.Seq2[Entry, error], from, to time.Time) ([]Settlement, error) {
	last := map[string]Settled{}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		if e.Kind != KindSettled {
			continue
		}
		b, err := e.Settled()
		if err != nil {
			return nil, err
		}
		last[e.Workload] = b
	}
	var out []Settlement
	for uid, b := range last {
		if !b.To.Before(from) && (to.IsZero() || b.To.Before(to)) {
			out = append(out, Settlement{uid, b})
		}
	}
	slices.SortFunc(out, func(a, b Settlement) int {
		return cmp.Or(a.To.Compare(b.To), strings.Compare(a.Workload, b.Workload))
	})
	return out, nil
}

// Records are settlements as lines of a table.
func Records(list []Settlement) []Record {
	var out []Record
	for i := range list {
		b := &list[i]
		c := &b.Counterfactual
		out = append(out, Record{
			Workload: b.Workload, Kind: b.Of.Kind, Namespace: b.Of.Namespace, Name: b.Of.Name, Policy: b.Of.Policy, Zone: b.Of.Zone,
			Submitted: b.Of.At, Start: b.From, End: b.To, Deadline: b.Of.Deadline, OnTime: b.OnTime, Runs: b.Runs, Inferred: b.Inferred, WorkerHours: b.WorkerHours,
			KWh: b.KWh, MeasuredKWh: b.MeasuredKWh, Grams: b.Grams, Uncertainty: b.Uncertainty, Signal: b.Signal, Factor: b.Factor,
			AsSubmittedStart: c.From, AsSubmittedEnd: c.To, AsSubmittedKWh: c.KWh, AsSubmittedGrams: c.Grams, SavedGrams: b.SavedGrams,
			Method: b.Method, Revision: b.Revision, FilledSeconds: b.FilledSeconds, AsSubmittedFilledSeconds: c.FilledSeconds, Withheld: b.Withheld,
			FailedHours: b.FailedHours, EvictedHours: b.EvictedHours,
		})
		if o := b.Beside; o != nil {
			r := &out[len(out)-1]
			r.BesideSignal, r.BesideFactor, r.BesideGrams, r.BesideSavedGrams, r.BesideWithheld = o.Signal, o.Factor, o.Grams, o.SavedGrams, o.Withheld
		}
	}
	return out
}

// WriteRecords writes records as csv, json (a line each) or parquet. An error wrapping ErrInvalid says
// that it is another format.
func WriteRecords(w io.Writer, format string, records []Record) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		for i := range records {
			if err := enc.Encode(&records[i]); err != nil {
				return err
			}
		}
		return nil
	case "parquet":
		out := parquet.NewGenericWriter[Record](w)
		_, err := out.Write(records)
		return errors.Join(err, out.Close())
	case "csv":
		return writeCSV(w, records)
	}
	return fmt.Errorf("%w: format: %q; accepted: csv, json, parquet", ErrInvalid, format)
}

func writeCSV(w io.Writer, records []Record) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{
		"workload", "kind", "namespace", "name", "policy", "zone", "submitted", "start", "end", "deadline", "on_time", "runs", "inferred_ends", "worker_hours",
		"kwh", "measured_kwh", "gco2eq", "uncertainty", "signal", "factor", "as_submitted_start", "as_submitted_end", "as_submitted_kwh", "as_submitted_gco2eq", "saved_gco2eq",
		"beside_signal", "beside_factor", "beside_gco2eq", "beside_saved_gco2eq", "method", "revision",
		"filled_seconds", "as_submitted_filled_seconds", "withheld", "beside_withheld", "failed_hours", "evicted_hours",
	}); err != nil {
		return err
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	for i := range records {
		r := &records[i]
		if err := out.Write([]string{
			r.Workload, r.Kind, r.Namespace, r.Name, r.Policy, r.Zone, at(r.Submitted), at(r.Start), at(r.End), at(r.Deadline), strconv.FormatBool(r.OnTime), strconv.Itoa(r.Runs), strconv.Itoa(r.Inferred), number(r.WorkerHours),
			number(r.KWh), number(r.MeasuredKWh), number(r.Grams), number(r.Uncertainty), r.Signal, r.Factor, at(r.AsSubmittedStart), at(r.AsSubmittedEnd), number(r.AsSubmittedKWh), number(r.AsSubmittedGrams), number(r.SavedGrams),
			r.BesideSignal, r.BesideFactor, number(r.BesideGrams), number(r.BesideSavedGrams), r.Method, strconv.Itoa(r.Revision),
			number(r.FilledSeconds), number(r.AsSubmittedFilledSeconds), r.Withheld, r.BesideWithheld, number(r.FailedHours), number(r.EvictedHours),
		}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
