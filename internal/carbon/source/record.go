package source

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// record is a feed as kept on disk. A file of another version, or one that does
// not read as a series, is as good as none: the provider is asked again.
type record struct {
	Version   int
	Key       string
	Source    string
	Factor    carbon.Factor
	History   []row
	IssuedAt  time.Time
	FetchedAt time.Time
	Forecast  []row
	Issues    []issueRow
	Revisions int
	Fuels     provider.Fuels
	Asked     map[int64]asked
	Weather   []month `json:",omitempty"`
	WeatherOf string  `json:",omitempty"` // whom Weather is from and which places it is of
}

const recordVersion = 1

// row is a sample: start and length in seconds, value, 1 if estimated.
type row [4]float64

// month is a month of past weather: its first second, and a value for each hour, as columnOf writes them.
type month struct {
	Start                         int64
	Wind, Temperature, Irradiance []byte
}

// weatherOf names the months of a configuration: feeds of one key, as those of the command line, may be of several places.
func weatherOf(cfg Config) string {
	if cfg.Weather == nil {
		return ""
	}
	return fmt.Sprint(cfg.Weather.HistoryEndpoint, cfg.Weather.Places)
}

func toMonths(months map[int64]provider.Weather) []month {
	var out []month
	for _, first := range slices.Sorted(maps.Keys(months)) {
		w := months[first]
		out = append(out, month{first, columnOf(w.Wind), columnOf(w.Temperature), columnOf(w.Irradiance)})
	}
	return out
}

// fromMonths leaves out what is no month, or the beginning of one: it is asked for again.
func fromMonths(rows []month) map[int64]provider.Weather {
	out := map[int64]provider.Weather{}
	for _, r := range rows {
		w := provider.Weather{Start: time.Unix(r.Start, 0).UTC(), Wind: ofColumn(r.Wind), Temperature: ofColumn(r.Temperature), Irradiance: ofColumn(r.Irradiance)}
		n := len(w.Wind)
		begins := w.Start.Day() == 1 && w.Start.Equal(w.Start.Truncate(day))
		if begins && n > 0 && n <= 31*24 && n == len(w.Temperature) && n == len(w.Irradiance) {
			out[r.Start] = w
		}
	}
	return out
}

// columnOf is values as 32-bit floating-point numbers, little-endian, since JSON has no NaN.
func columnOf(values []float64) []byte {
	out := make([]byte, 0, 4*len(values))
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(v)))
	}
	return out
}

// ofColumn undoes columnOf. It returns nil for what columnOf has not written.
func ofColumn(text []byte) []float64 {
	if len(text)%4 != 0 {
		return nil
	}
	out := make([]float64, len(text)/4)
	for i := range out {
		if out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(text[4*i:]))); math.IsInf(out[i], 0) {
			return nil
		}
	}
	return out
}

type issueRow struct {
	At   time.Time
	Rows []row
}

// saveEvery bounds how often a feed is written, in wall time of its zone.
const saveEvery = time.Minute

// maxRecordBytes bounds what is read back.
const maxRecordBytes = 256 << 20

func toRows(samples []carbon.Sample) []row {
	out := make([]row, len(samples))
	for i, x := range samples {
		out[i] = row{float64(x.From.Unix()), x.To.Sub(x.From).Seconds(), float64(x.Value), 0}
		if x.Estimated {
			out[i][3] = 1
		}
	}
	return out
}

func fromRows(rows []row, p carbon.Provenance) ([]carbon.Sample, error) {
	out := make([]carbon.Sample, len(rows))
	for i, r := range rows {
		from := time.Unix(int64(r[0]), 0).UTC()
		out[i] = carbon.Sample{From: from, To: from.Add(time.Duration(r[1]) * time.Second), Value: units.CarbonIntensity(r[2]), Estimated: r[3] != 0, Of: &p}
	}
	_, err := carbon.NewSeries(p, out) // checks order and values
	return out, err
}

// save writes the feed if it has changed and was not written lately. What cannot
// be written is only not kept.
func (f *Feed) save(now time.Time) {
	if f.path == "" || !f.dirty || (!f.saved.IsZero() && f.cfg.Timeline.WallDuration(now.Sub(f.saved)) < saveEvery) {
		return
	}
	r := record{
		Version: recordVersion, Key: f.cfg.Key, History: toRows(f.history), IssuedAt: f.issuedAt, FetchedAt: f.fetchedAt,
		Forecast: toRows(f.forecast), Revisions: f.revisions, Fuels: f.fuels, Asked: f.asked, Weather: toMonths(f.past.months), WeatherOf: weatherOf(f.cfg),
	}
	for _, x := range f.issues {
		r.Issues = append(r.Issues, issueRow{x.At, toRows(x.samples)})
	}
	text, err := json.Marshal(r)
	if err != nil || fetch.WriteFile(f.path, text) != nil {
		return
	}
	f.saved, f.dirty = now, false
}

// load reads the feed back.
func (f *Feed) load() {
	if f.path == "" || f.cfg.Provider == nil {
		return
	}
	if info, err := os.Stat(f.path); err != nil || info.Size() > maxRecordBytes {
		return
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return
	}
	var r record
	if json.Unmarshal(text, &r) != nil || r.Version != recordVersion || r.Key != f.cfg.Key {
		return
	}
	p := f.cfg.Provider.Provenance()
	history, err1 := fromRows(r.History, p)
	p.IssuedAt = r.IssuedAt
	published, err2 := fromRows(r.Forecast, p)
	if err1 != nil || err2 != nil {
		return
	}
	f.history, f.forecast, f.issuedAt, f.fetchedAt, f.revisions = history, published, r.IssuedAt, r.FetchedAt, r.Revisions
	f.fuels, f.asked = r.Fuels, r.Asked
	if r.WeatherOf == weatherOf(f.cfg) {
		f.past.months = fromMonths(r.Weather)
	}
	for _, x := range r.Issues {
		p.IssuedAt = x.At
		if samples, err := fromRows(x.Rows, p); err == nil {
			f.issues = append(f.issues, issue{x.At, samples})
		}
	}
	f.score()
}
