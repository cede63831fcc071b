// Package source keeps what is known of the carbon intensity of zones: it asks
// providers, remembers their answers across restarts, and composes an outlook
// that says what each hour rests on and how far it may be off. Nothing here runs
// inside a scheduling decision: decisions are made on the last outlook.
package source

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"lull.dev/lull/pkg/carbon"
)

// ErrSource marks a source that cannot be read.
var ErrSource = errors.New("carbon source")

// Read reads a series in the format that the end of name says: .csv or .json. A
// series that states another signal than the zone is refused: average and
// marginal intensities never mix.
func Read(r io.Reader, name string, p carbon.Provenance) (*carbon.Series, error) {
	var series *carbon.Series
	var err error
	switch {
	case strings.HasSuffix(name, ".csv"):
		series, err = carbon.ReadCSV(r, p)
	case strings.HasSuffix(name, ".json"):
		series, err = carbon.ReadJSON(r, p)
	default:
		return nil, fmt.Errorf("%q: accepted: a name that ends in .csv or .json", name)
	}
	if err == nil && p.Signal != "" && series.Signal != p.Signal {
		return nil, fmt.Errorf("signal: the series is %s, the zone states %s", series.Signal, p.Signal)
	}
	return series, err
}
