package scenario

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lull.dev/lull/internal/carbon/source"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/trace"
)

// trace reads or draws the jobs.
func (j *Jobs) trace(seed uint64) (*trace.Trace, error) {
	if j.File == "" {
		for name, d := range map[string]time.Duration{"jobs.from": j.From.Duration, "jobs.to": j.To.Duration, "jobs.least": j.Least.Duration} {
			if d > 0 {
				return nil, fault(name, ShortDuration(d), "with a trace, jobs.file")
			}
		}
		g := j.Generate
		hours, err := g.Hours.build("jobs.generate.hours")
		if err != nil {
			return nil, err
		}
		cpus, err := g.CPUs.build("jobs.generate.cpus")
		if err != nil {
			return nil, err
		}
		return trace.Generate(trace.Spec{
			Arrivals: trace.Arrivals{PerHour: g.PerHour, Swing: g.Swing, Peak: g.Peak}, Span: g.Span.Duration,
			Length: hours, CPUs: cpus, Whole: g.Whole.Duration, Seed: seed,
		})
	}
	tr, err := ReadTrace(j.File, j.Format, j.TimeZone)
	if err != nil {
		return nil, err
	}
	if from, to := j.From.Duration, j.To.Duration; from > 0 || to > 0 {
		if from > tr.Span() {
			return nil, fault("jobs.from", ShortDuration(from), "a time before the last arrival, "+ShortDuration(tr.Span())+" after the start")
		}
		if to == 0 {
			to = tr.Span() + 1
		}
		if to <= from {
			return nil, fault("jobs.to", ShortDuration(to), "later than jobs.from, "+ShortDuration(from))
		}
		tr = tr.Between(from, to)
	}
	if j.Least.Duration > 0 {
		kept := tr.Jobs[:0]
		for _, x := range tr.Jobs {
			if x.Length >= j.Least.Duration {
				kept = append(kept, x)
			}
		}
		tr.Jobs = kept
	}
	return tr, nil
}

// suffixes are the formats that the end of a file's name tells.
var suffixes = map[string]string{".csv": "csv", ".swf": "swf", ".gwf": "gwf", ".sacct": "sacct", ".json": "kubernetes", ".yaml": "kubernetes", ".yml": "kubernetes"}

// ReadTrace reads a trace file, gzipped or not, in a format (csv, swf, gwf, sacct, kubernetes)
// that its name tells where none is stated. The time zone (IANA) is that of sacct's times without an offset, "" for UTC.
// Errors name the file.
func ReadTrace(file, format, timeZone string) (tr *trace.Trace, err error) {
	if format == "" {
		name := strings.TrimSuffix(file, ".gz")
		for suffix, f := range suffixes {
			if strings.HasSuffix(name, suffix) {
				format = f
			}
		}
	}
	clock, err := clockOf(timeZone, format)
	if err != nil {
		return nil, err
	}
	sacct := func(r io.Reader) (*trace.Trace, error) { return trace.ReadSacct(r, clock) }
	read, ok := map[string]func(io.Reader) (*trace.Trace, error){"csv": trace.ReadCSV, "swf": trace.ReadSWF, "gwf": trace.ReadGWF, "sacct": sacct, "kubernetes": kube.ReadExport}[format]
	if !ok {
		return nil, fault("jobs.format", fmt.Sprintf("%q of %s", format, file), "csv, swf, gwf, sacct or kubernetes, or a file name that ends in .csv, .swf, .gwf, .sacct, .json, .yaml or .yml, maybe with .gz")
	}
	err = source.WithFile(file, func(r io.Reader) error {
		tr, err = read(r)
		return err
	})
	return tr, err
}

// clockOf returns the clock of a time zone, nil without one.
func clockOf(timeZone, format string) (*time.Location, error) {
	if timeZone == "" {
		return nil, nil
	}
	if format != "sacct" {
		return nil, fault("jobs.timeZone", timeZone, "with format sacct: the times of others are UTC or have an offset")
	}
	clock, err := time.LoadLocation(timeZone)
	if err != nil || timeZone == "Local" {
		return nil, fault("jobs.timeZone", fmt.Sprintf("%q", timeZone), "a name of the time zone database, e.g. Europe/Berlin")
	}
	return clock, nil
}
