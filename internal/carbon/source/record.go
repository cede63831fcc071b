package source

import (
	"encoding/json"
	"os"
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
}

const recordVersion = 1

// row is a sample: start and length in seconds, value, 1 if estimated.
type row [4]float64

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
		Forecast: toRows(f.forecast), Revisions: f.revisions, Fuels: f.fuels, Asked: f.asked,
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
	for _, x := range r.Issues {
		p.IssuedAt = x.At
		if samples, err := fromRows(x.Rows, p); err == nil {
			f.issues = append(f.issues, issue{x.At, samples})
		}
	}
	f.score()
}
