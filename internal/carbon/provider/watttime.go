package provider

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"lull.dev/lull/internal/carbon/fetch"
	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/units"
)

// WattTime asks the API of WattTime, v3: the marginal operating emissions rate
// (co2_moer) or the average one (co2_aoer), in lbs/MWh on the wire. A token lasts
// half an hour and is renewed when it is refused.
//
// Documentation: https://docs.watttime.org.
type WattTime struct {
	Endpoint           string // e.g. https://api.watttime.org
	Region             string // a balancing authority, e.g. CAISO_NORTH
	SignalType         string // co2_moer or co2_aoer
	Username, Password string

	mu    sync.Mutex
	token string
}

// Name implements Provider.
func (m *WattTime) Name() string { return "wattTime" }

// Identity implements Provider.
func (m *WattTime) Identity() []string { return []string{m.Endpoint} }

// Forecasts implements Provider.
func (m *WattTime) Forecasts() bool { return true }

// Provenance implements Provider.
func (m *WattTime) Provenance() carbon.Provenance {
	p := carbon.Provenance{Zone: m.Region, Signal: carbon.Marginal, Factor: carbon.Direct, Source: "WattTime v3 " + m.SignalType}
	if m.SignalType == "co2_aoer" {
		p.Signal = carbon.Average
	}
	return p
}

// Inherit implements Inheritor: it takes over the token, so that a new configuration does not log in anew.
func (m *WattTime) Inherit(before Provider) {
	old, is := before.(*WattTime)
	if !is || m.Endpoint != old.Endpoint || m.Username != old.Username || m.Password != old.Password {
		return
	}
	old.mu.Lock()
	token := old.token
	old.mu.Unlock()
	m.mu.Lock()
	m.token = token
	m.mu.Unlock()
}

// wattTimeQuota is what WattTime documents.
var wattTimeQuota = fetch.Quota{Requests: 3000, Per: 5 * time.Minute}

const (
	// wattTimeSpan is the longest span of a request for history.
	wattTimeSpan = 32 * 24 * time.Hour
	// wattTimeHours is the longest forecast.
	wattTimeHours = 72
)

// Fetch implements Provider.
func (m *WattTime) Fetch(ctx context.Context, get Getter, q Query) (Answer, error) {
	var a Answer
	var errs []error
	bad, err := askEach(ctx, q.past(q.Since, q.Now, wattTimeSpan), func(span carbon.Interval) error {
		body, err := m.get(ctx, get, q, "historical", url.Values{"start": {stamp(span.From)}, "end": {stamp(span.To)}})
		if err != nil {
			return err
		}
		s, err := decodeWattTime(body, m.Region, m.SignalType, m.Provenance())
		a.Past = Merge(s, a.Past)
		return err
	})
	if a.Bad = bad; err != nil {
		errs = append(errs, fmt.Errorf("historical: %w", err))
	}
	hours := min(wattTimeHours, max(1, int(q.Horizon.Hours())))
	body, err := m.get(ctx, get, q, "forecast", url.Values{"horizon_hours": {strconv.Itoa(hours)}})
	if err == nil {
		a.Forecast, err = decodeWattTime(body, m.Region, m.SignalType, m.Provenance())
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("forecast: %w", err))
	}
	return a, errors.Join(errs...)
}

// get asks with the token, and once more with a new one when it is refused.
func (m *WattTime) get(ctx context.Context, get Getter, q Query, path string, extra url.Values) ([]byte, error) {
	query := url.Values{"region": {m.Region}, "signal_type": {m.SignalType}}
	for k, v := range extra {
		query[k] = v
	}
	for try := 0; ; try++ {
		token, err := m.login(ctx, get, try > 0)
		if err != nil {
			return nil, fmt.Errorf("login: %w", err)
		}
		res, err := get.Get(ctx, fetch.Request{
			URL:    fmt.Sprintf("%s/v3/%s?%s", m.Endpoint, path, query.Encode()),
			Header: http.Header{"Authorization": {"Bearer " + token}}, Fresh: q.Fresh, Quota: wattTimeQuota,
		})
		if err == nil || try > 0 || !errors.Is(err, fetch.ErrRefused) {
			return res.Body, err
		}
	}
}

func (m *WattTime) login(ctx context.Context, get Getter, again bool) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.token != "" && !again {
		return m.token, nil
	}
	m.token = ""
	basic := base64.StdEncoding.EncodeToString([]byte(m.Username + ":" + m.Password))
	res, err := get.Get(ctx, fetch.Request{
		URL: m.Endpoint + "/login", Header: http.Header{"Authorization": {"Basic " + basic}}, Quota: wattTimeQuota, MaxBytes: 1 << 16, Private: true,
	})
	if err != nil {
		return "", err
	}
	var in struct {
		Token string `json:"token"`
	}
	if err := decode(res.Body, &in); err != nil {
		return "", err
	}
	if in.Token == "" {
		return "", fmt.Errorf("%w: no token", ErrWire)
	}
	m.token = in.Token
	return m.token, nil
}

// decodeWattTime reads forecast and historical.
func decodeWattTime(body []byte, region, signal string, p carbon.Provenance) ([]carbon.Sample, error) {
	var in struct {
		Data []*struct {
			PointTime string     `json:"point_time"`
			Value     wireNumber `json:"value"`
		} `json:"data"`
		Meta struct {
			Region      string     `json:"region"`
			SignalType  string     `json:"signal_type"`
			Units       string     `json:"units"`
			GeneratedAt string     `json:"generated_at"`
			Seconds     wireNumber `json:"data_point_period_seconds"`
		} `json:"meta"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	switch {
	case in.Meta.Region != region:
		return nil, fmt.Errorf("%w: meta.region: %q; accepted: %q, the one asked for", ErrWire, clip(in.Meta.Region), region)
	case in.Meta.SignalType != signal:
		return nil, fmt.Errorf("%w: meta.signal_type: %q; accepted: %q", ErrWire, clip(in.Meta.SignalType), signal)
	case in.Meta.Units != "lbs_co2_per_mwh":
		return nil, fmt.Errorf("%w: meta.units: %q; accepted: lbs_co2_per_mwh", ErrWire, clip(in.Meta.Units))
	}
	if in.Meta.GeneratedAt != "" {
		at, err := parseTime(in.Meta.GeneratedAt)
		if err != nil {
			return nil, fmt.Errorf("meta.generated_at: %w", err)
		}
		p.IssuedAt = at
	}
	stated := time.Duration(0)
	if s := in.Meta.Seconds.value; s >= 1 && s <= 86400 {
		stated = time.Duration(s * float64(time.Second))
	}
	points := make([]point, 0, len(in.Data))
	for i, x := range in.Data {
		if x == nil {
			continue
		}
		at, err := parseTime(x.PointTime)
		if err != nil {
			points = append(points, point{bad: fmt.Errorf("data[%d].point_time: %w", i, err)})
			continue
		}
		pt := x.Value.point(at, fmt.Sprintf("data[%d].value (converted from lbs/MWh)", i))
		pt.length, pt.value = stated, float64(units.FromPoundsPerMegawattHour(pt.value))
		points = append(points, pt)
	}
	return samples(points, 5*time.Minute, p)
}
