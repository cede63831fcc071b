package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/pkg/power"
	"lull.dev/lull/pkg/zones"
)

// The columns of CodeCarbon's emissions.csv that count. Versions differ in the others and in the order.
//
// Source: CodeCarbon, codecarbon/output_methods/emissions_data.py and file.py, versions 1.0 to 3.3.
const (
	ccTimestamp = "timestamp" // when the row was written, by the clock of the machine, mostly without an offset
	ccTask      = "task_name" // in files of tasks only
	ccProject   = "project_name"
	ccRun       = "run_id" // from 2.0
	ccDuration  = "duration"
	ccEnergy    = "energy_consumed" // kWh, PUE included
	ccCountry   = "country_iso_code"
	ccRegion    = "region"
	ccProvider  = "cloud_provider"
	ccCloud     = "cloud_region"
	ccOS        = "os"
	ccCPUs      = "cpu_count"
	ccGPUs      = "gpu_count"
	ccMemory    = "ram_total_size" // GiB
	ccMode      = "tracking_mode"
	ccOnCloud   = "on_cloud"
	ccPUE       = "pue"
)

// The values of tracking_mode: the power of the whole machine, or of the process alone.
const ccMachine, ccProcess = "machine", "process"

// isCodeCarbon reports whether a header is that of CodeCarbon.
func isCodeCarbon(at map[string]int) bool {
	for _, name := range []string{ccTimestamp, ccDuration, ccEnergy} {
		if _, ok := at[name]; !ok {
			return false
		}
	}
	_, own := at[colID]
	return !own
}

// ccRow is a row while it is read.
type ccRow struct {
	csvRow
	ccEntry
}

// ccEntry is what a row says: a job that ran, and the line.
type ccEntry struct {
	ran   Job
	at    int
	start time.Time
	key   string // of the run; "" where the row stands for itself
	// later says that a later row of the run counts, short that the row has fewer fields than the header, noCPUs that it
	// has no cpu_count, and whole that its power is that of the whole machine. clock is by which its timestamp is read.
	later, short, noCPUs, whole bool
	clock                       ccClock
}

// ccClock is by which clock a timestamp is read.
type ccClock int

const (
	ccOffset ccClock = iota // its own offset
	ccLocal                 // that of the zone
	ccUTC
)

// ccReader reads CodeCarbon's rows.
type ccReader struct {
	t      *Trace
	header []string
	row    csvRow
	runs   []ccEntry
	last   map[string]int // the last row of a run, as an index of runs
}

// readCodeCarbon reads the rows of an emissions.csv of CodeCarbon, each a job that really ran:
//
//	start = timestamp - duration
//	watts = energy_consumed / pue / duration
//
// CodeCarbon appends a row each time it flushes, with the values since the start of the run. The last row of a run_id
// counts, and the ones before are counted in Skipped; if a duration falls, a new run has begun. Rows without a run_id
// and rows of tasks (task_name) each count. Files that were put together may have a header each, of different versions.
//
// A timestamp without an offset is UTC on a cloud (on_cloud Y, or a kernel built for a cloud), the clock of the zone
// elsewhere, and UTC where the zone is not known. The zone is that of the cloud region, else that of the country (zones.OfCountry). The request is
// the machine: cpu_count, gpu_count, ram_total_size; without cpu_count 1 CPU. Notes say how many jobs each rule holds
// for.
//
// Complexity: O(n log n) for n rows, which need not ascend.
func readCodeCarbon(cr *csv.Reader, header []string, at map[string]int) (*Trace, error) {
	cr.FieldsPerRecord = -1
	r := ccReader{t: &Trace{}, header: header, row: csvRow{at: at, shared: requests{}, words: map[string]string{}}, last: map[string]int{}}
	for {
		record, err := cr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(err, record, header)
		}
		r.row.line, _ = cr.FieldPos(0)
		if err := r.take(record); err != nil {
			return nil, err
		}
	}
	return r.t, r.end()
}

// take reads a row. A further header, as files have that were put together, holds for the rows below it.
func (r *ccReader) take(record []string) error {
	record[0] = strings.TrimPrefix(record[0], byteOrderMark) // of the file that begins here
	if slices.Contains(record, ccTimestamp) && slices.Contains(record, ccDuration) && slices.Contains(record, ccEnergy) {
		at, err := columnsOf(record, r.row.line)
		r.header, r.row.at = slices.Clone(record), at
		return err
	}
	aligned, short := r.align(record)
	if aligned == nil {
		return fmt.Errorf("%w: line %d: %d fields; accepted: %d, those of the header %s", ErrTrace, r.row.line, len(record), len(r.header), strings.Join(r.header, ","))
	}
	if len(r.runs) == MaxJobs {
		return fmt.Errorf("%w: line %d: accepted: at most %d rows", ErrTrace, r.row.line, MaxJobs)
	}
	x := ccRow{csvRow: r.row, ccEntry: ccEntry{at: r.row.line, short: short}}
	x.record = aligned
	if err := x.read(); err != nil {
		return err
	}
	if x.key != "" {
		if before, ok := r.last[x.key]; ok && x.ran.Length >= r.runs[before].ran.Length {
			r.runs[before].later = true
		}
		r.last[x.key] = len(r.runs)
	}
	r.runs = append(r.runs, x.ccEntry)
	return nil
}

// version is how python_version and codecarbon_version begin.
var version = regexp.MustCompile(`^\d+\.\d+`)

// align returns the fields of a row under the columns of the header, nil if it cannot. CodeCarbon 3.2 and later leave
// fields without a value out of the rows that they append. In such a row the columns up to the country keep their
// place, those from the operating system to the CPUs are found by the two versions, and those from the tracking mode on
// by the end of the row. Others are not known.
func (r *ccReader) align(record []string) (aligned []string, short bool) {
	missing := len(r.header) - len(record)
	if missing <= 0 {
		if missing < 0 {
			return nil, false
		}
		return record, false
	}
	place := func(name string) int {
		if i, ok := r.row.at[name]; ok {
			return i
		}
		return -1
	}
	country, system, cpus, mode := place(ccCountry), place(ccOS), place(ccCPUs), place(ccMode)
	if country < 0 || system < country || cpus != system+3 || mode < cpus || mode-missing <= country {
		return nil, false
	}
	out := make([]string, len(r.header))
	copy(out[:country+1], record)
	for i := mode; i < len(out); i++ {
		out[i] = record[i-missing]
	}
	for i := country + 1; i <= system && i+3 < len(record); i++ {
		if !version.MatchString(record[i+1]) || !version.MatchString(record[i+2]) {
			continue
		}
		copy(out[system:cpus+1], record[i:])
		if at := place(ccCloud); i-country > 2 && at == country+3 { // the cloud and its region stand before
			copy(out[at-1:at+1], record[i-2:i])
		}
		return out, slices.Contains([]string{ccMachine, ccProcess}, strings.TrimSpace(out[mode]))
	}
	return nil, false
}

// read makes the job of a row.
func (x *ccRow) read() error {
	for _, column := range []string{ccTimestamp, ccDuration} {
		if x.text(column) == "" {
			x.fail(column, "", "a value")
		}
	}
	kWh := x.amount(ccEnergy)
	x.ran.Length = x.duration(ccDuration, false)
	x.ran.Zone = x.zone()
	x.start = x.time().Add(-x.ran.Length)
	pue := 1.0
	if text := x.text(ccPUE); text != "" {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 1 && v <= power.MaxPUE) {
			x.fail(ccPUE, text, fmt.Sprintf("1 to %v", float64(power.MaxPUE)))
			v = 1
		}
		pue = v
	}
	if x.ran.Length > 0 {
		x.ran.Watts = kWh * 1000 / pue / x.ran.Length.Hours()
	}
	if x.ran.Watts > power.MaxWatts {
		x.fail(ccEnergy, x.text(ccEnergy), fmt.Sprintf("at most %g W over the duration, in kWh", float64(power.MaxWatts)))
	}
	cpus := x.amount(ccCPUs)
	if x.noCPUs = cpus == 0; x.noCPUs {
		cpus = 1
	}
	x.whole = x.text(ccMode) == ccMachine
	x.ran.Request = x.shared.of([4]float64{cpus, x.amount(ccGPUs), x.amount(ccMemory)})
	x.ran.Class = x.word(ccProject)
	run, task := strings.Clone(x.text(ccRun)), x.text(ccTask)
	switch {
	case run == "":
		x.ran.ID = strings.TrimSpace(fmt.Sprintf("%s (line %d)", x.ran.Class, x.line))
	case task != "":
		x.ran.ID = run + "/" + task
	default:
		x.ran.ID, x.key = run, run
	}
	return x.err
}

// cloudKernel is in the name of kernels that are built for a cloud, as 6.8.0-1021-aws of Ubuntu.
var cloudKernel = regexp.MustCompile(`-(aws|azure|gcp|gke|oracle|ibm|cloud)-|\.amzn\d`)

// onCloud reports whether the row is of a cloud: by on_cloud, or by the kernel, as CodeCarbon 2.3 and later state N on AWS
// and Azure.
func (x *ccRow) onCloud() bool {
	return strings.EqualFold(x.text(ccOnCloud), "Y") || cloudKernel.MatchString(x.text(ccOS))
}

// zone is the grid zone that the row tells, "" if it tells none.
func (x *ccRow) zone() string {
	if zone, err := zones.OfRegion(x.text(ccProvider) + "/" + x.text(ccCloud)); err == nil {
		return zone
	}
	zone, err := zones.OfCountry(x.text(ccCountry), x.text(ccRegion))
	if err != nil {
		return ""
	}
	return zone
}

// The layouts of a timestamp, without and with an offset: as CodeCarbon writes it, and as pandas writes it anew.
var ccLayouts = []struct {
	layout string
	offset bool
}{{"2006-01-02T15:04:05", false}, {"2006-01-02 15:04:05", false}, {time.RFC3339, true}, {"2006-01-02 15:04:05Z07:00", true}}

// The years of a timestamp.
const ccFirstYear, ccLastYear = 1970, 2200

// time reads the timestamp.
func (x *ccRow) time() time.Time {
	text := x.text(ccTimestamp)
	clock := time.UTC
	x.clock = ccUTC
	if local, known := zones.Clock(x.ran.Zone); known && !x.onCloud() {
		clock, x.clock = local, ccLocal
	}
	for _, l := range ccLayouts {
		if at, err := time.ParseInLocation(l.layout, text, clock); err == nil && at.Year() >= ccFirstYear && at.Year() <= ccLastYear {
			if l.offset {
				x.clock = ccOffset
			}
			return at.UTC()
		}
	}
	x.fail(ccTimestamp, text, fmt.Sprintf("a time of the years %d to %d such as 2024-05-31T10:39:13, maybe with an offset", ccFirstYear, ccLastYear))
	return time.Unix(0, 0)
}

// end makes the trace of the rows that count.
func (r *ccReader) end() error {
	var counted []*ccEntry
	for i := range r.runs {
		switch x := &r.runs[i]; {
		case x.later:
			r.t.Skip(EarlierRow)
		case x.ran.Length == 0:
			r.t.Skip(NoRunTime)
		default:
			counted = append(counted, x)
		}
	}
	slices.SortStableFunc(counted, func(a, b *ccEntry) int { return a.start.Compare(b.start) })
	seen := make(map[string]bool, len(counted))
	for i, x := range counted {
		if i == 0 {
			r.t.Start = x.start
		}
		x.ran.Arrival = x.start.Sub(r.t.Start)
		for seen[x.ran.ID] {
			x.ran.ID = fmt.Sprintf("%s (line %d)", x.ran.ID, x.at)
		}
		seen[x.ran.ID] = true
		if err := r.t.add(x.ran, x.at, ccTimestamp); err != nil {
			return err
		}
	}
	r.t.Notes = ccNotes(counted)
	return nil
}

// ccNotes say what rules the jobs rest on.
func ccNotes(counted []*ccEntry) []string {
	count := func(is func(x *ccEntry) bool) string {
		n := 0
		for _, x := range counted {
			if is(x) {
				n++
			}
		}
		switch n {
		case 0:
			return ""
		case 1:
			return "1 job"
		}
		return fmt.Sprintf("%d jobs", n)
	}
	var out []string
	note := func(format string, is func(x *ccEntry) bool) {
		if n := count(is); n != "" {
			out = append(out, fmt.Sprintf(format, n))
		}
	}
	ran := map[string]bool{}
	for _, x := range counted {
		ran[x.ran.Zone] = true
	}
	delete(ran, "")
	for _, zone := range slices.Sorted(maps.Keys(ran)) {
		note("zone "+zone+": %s ran there", func(x *ccEntry) bool { return x.ran.Zone == zone })
	}
	note("no grid zone is known for the cloud region or the country of %s", func(x *ccEntry) bool { return x.ran.Zone == "" })
	note("%s: the power is the mean that CodeCarbon states, without its PUE", func(x *ccEntry) bool { return x.ran.Watts > 0 })
	note("%s: the power is that of the whole machine (tracking_mode machine)", func(x *ccEntry) bool { return x.ran.Watts > 0 && x.whole })
	note("%s: no energy is stated, the power is that of the model", func(x *ccEntry) bool { return x.ran.Watts == 0 })
	note("%s: no cpu_count is stated, 1 CPU is taken", func(x *ccEntry) bool { return x.noCPUs })
	note("%s: the timestamp has no offset and is read by the clock of the zone", func(x *ccEntry) bool { return x.clock == ccLocal })
	note("%s: the timestamp has no offset and is read as UTC, as the row is of a cloud or its zone is not known", func(x *ccEntry) bool { return x.clock == ccUTC })
	note("%s: the row has fewer fields than the header, so region, GPUs and memory are not known", func(x *ccEntry) bool { return x.short })
	return out
}
