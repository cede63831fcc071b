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
	tr, err := ReadTrace(j.File, j.Format)
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

// ReadTrace reads a trace file, gzipped or not, in a format (csv, swf, gwf, kubernetes)
// that its name tells where none is stated. Errors name the file.
func ReadTrace(file, format string) (tr *trace.Trace, err error) {
	if format == "" {
		name := strings.TrimSuffix(file, ".gz")
		for suffix, f := range map[string]string{".csv": "csv", ".swf": "swf", ".gwf": "gwf", ".json": "kubernetes", ".yaml": "kubernetes", ".yml": "kubernetes"} {
			if strings.HasSuffix(name, suffix) {
				format = f
			}
		}
	}
	read, ok := map[string]func(io.Reader) (*trace.Trace, error){"csv": trace.ReadCSV, "swf": trace.ReadSWF, "gwf": trace.ReadGWF, "kubernetes": kube.ReadExport}[format]
	if !ok {
		return nil, fault("jobs.format", fmt.Sprintf("%q of %s", format, file), "csv, swf, gwf or kubernetes, or a file name that ends in .csv, .swf, .gwf, .json, .yaml or .yml, maybe with .gz")
	}
	err = source.WithFile(file, func(r io.Reader) error {
		tr, err = read(r)
		return err
	})
	return tr, err
}
