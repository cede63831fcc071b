package source

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/forecast"
	"lull.dev/lull/pkg/units"
)

// WithFile hands the content of a file to read, unpacked where its name ends in .gz.
// Errors name the file.
func WithFile(path string, read func(r io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		gz, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("%s: not gzipped as its name says: %w", path, units.ReadError(err))
		}
		r = gz
	}
	if err := read(r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ReadRecorded reads a file of recorded forecasts, gzipped or not.
func ReadRecorded(path string) (issued []forecast.Issued, err error) {
	err = WithFile(path, func(r io.Reader) error {
		issued, err = forecast.ReadRecorded(r)
		return err
	})
	return issued, err
}

// ReadFiles reads consecutive files of one zone into one series.
func ReadFiles(files ...string) (*carbon.Series, error) {
	var samples []carbon.Sample
	var p carbon.Provenance
	for _, file := range files {
		err := WithFile(file, func(r io.Reader) error {
			s, err := Read(r, strings.TrimSuffix(file, ".gz"), carbon.Provenance{Source: file, Zone: p.Zone, Factor: p.Factor})
			if err != nil {
				return err
			}
			p = s.Provenance
			for i := range s.Len() {
				samples = append(samples, s.Sample(i))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	series, err := carbon.NewSeries(p, samples)
	if err != nil {
		return nil, fmt.Errorf("the files in this order (%s): %w", strings.Join(files, ", "), err)
	}
	return series, nil
}
