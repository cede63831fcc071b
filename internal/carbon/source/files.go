package source

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"lull.dev/lull/internal/carbon/provider"
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

// ReadWeather reads a file of weather, gzipped or not.
func ReadWeather(path string) (weather *forecast.WeatherFile, err error) {
	err = WithFile(path, func(r io.Reader) error {
		weather, err = forecast.ReadWeather(r)
		return err
	})
	return weather, err
}

// ReadFiles reads files of one zone into one series. Where they overlap, a measured value stands over an estimated one,
// and that over a forecast: a value of an interval that began when the file was issued, or later. Of equal values that of
// the later file stands. Files that state different zones, signals or factors are an error.
//
// Complexity: O(files * samples).
func ReadFiles(files ...string) (*carbon.Series, error) {
	if len(files) == 1 {
		return readFile(files[0], carbon.Provenance{})
	}
	var about statements
	all := make([]*carbon.Series, len(files))
	for i, file := range files {
		s, err := readFile(file, carbon.Provenance{Factor: about.factor.text})
		if err != nil {
			return nil, err
		}
		if err := about.add(file, s.Provenance); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all[i] = s
	}
	var samples []carbon.Sample
	for rank := carbon.RankForecast; rank <= carbon.RankMeasured; rank++ {
		for _, s := range all {
			var of []carbon.Sample
			for i := range s.Len() {
				if s.RankOf(i) == rank {
					of = append(of, s.Sample(i))
				}
			}
			samples = provider.Merge(samples, of)
		}
	}
	return carbon.NewSeries(carbon.Provenance{
		Zone: about.zone.text, Signal: about.signal.text, Factor: about.factor.text, Source: strings.Join(files, ", "),
	}, samples)
}

// readFile reads one file; p is what it is to be about.
func readFile(file string, p carbon.Provenance) (series *carbon.Series, err error) {
	p.Source = file
	err = WithFile(file, func(r io.Reader) error {
		series, err = Read(r, strings.TrimSuffix(file, ".gz"), p)
		return err
	})
	return series, err
}

// statements are what files of one series state of it.
type statements struct {
	zone   statement[string]
	signal statement[carbon.Signal]
	factor statement[carbon.Factor]
}

func (s *statements) add(file string, p carbon.Provenance) error {
	return errors.Join(s.zone.add("zone", file, p.Zone), s.signal.add("signal", file, p.Signal), s.factor.add("factor", file, p.Factor))
}

// statement is what the first file that states a field says, or empty.
type statement[T ~string] struct {
	text T
	file string
}

func (s *statement[T]) add(field, file string, text T) error {
	switch {
	case s.text == "":
		s.text, s.file = text, file
	case text != "" && text != s.text:
		return fmt.Errorf("%s: %q; accepted: %q, that of %s", field, text, s.text, s.file)
	}
	return nil
}
