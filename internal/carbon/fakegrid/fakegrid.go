// Package fakegrid is a local stand-in for those who publish carbon intensity: it
// speaks the wire format of each of them from recorded series, replays at any
// speed, and misbehaves on demand.
package fakegrid

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/pkg/timegrid"
)

// Options say what is replayed, and how.
type Options struct {
	// Zones are the recorded series by zone.
	Zones map[string]*carbon.Series
	// Timeline maps the clock of the machine to that of the series.
	Timeline timegrid.Timeline
	// Now is the clock of the machine.
	Now func() time.Time
	// ForecastError is the relative error (one standard deviation, roughly) of the
	// forecasts a day ahead; it grows with the root of the lead time.
	ForecastError float64
	// Token is what clients must present, each in its provider's way; empty
	// accepts anything.
	Token string
	// Seed of the forecast errors.
	Seed uint64
	// Weather is what was recorded at places; elsewhere it is made up.
	Weather []Weather
}

// Weather is what was recorded at a place, hour by hour from a time on.
type Weather struct {
	Latitude, Longitude float64
	Start               time.Time
	Irradiance          []float64 // W/m2
}

// The faults that can be injected. Each concerns every answer of the providers
// it is declared for.
const (
	FaultTooMany   = "429"       // 429 with Retry-After
	FaultError     = "500"       // 500
	FaultRefused   = "403"       // 403
	FaultTimeout   = "timeout"   // no answer until the client gives up
	FaultHTML      = "html"      // 200 with a page instead of data
	FaultTruncated = "truncated" // the first half of the answer
	FaultNulls     = "nulls"     // every fourth value is null (missing, where the format has no null)
	FaultGaps      = "gaps"      // every fifth value is left out
	FaultLate      = "late"      // nothing of the last six hours
	FaultRevised   = "revised"   // values of the last three hours are preliminary, 20 % too high
	FaultUnits     = "units"     // another unit, said where the format says units
	FaultSkew      = "skew"      // a clock that is three hours ahead
	FaultEmpty     = "empty"     // no data
)

// Faults lists all kinds.
func Faults() []string {
	return []string{FaultTooMany, FaultError, FaultRefused, FaultTimeout, FaultHTML, FaultTruncated, FaultNulls, FaultGaps, FaultLate, FaultRevised, FaultUnits, FaultSkew, FaultEmpty}
}

// Fault is an injected fault.
type Fault struct {
	Kind string `json:"kind"`
	// Provider that misbehaves, e.g. "electricityMaps"; empty for all.
	Provider string `json:"provider,omitempty"`
	// From and To bound it in time of the series; zero for no bound.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Times is how many answers it spoils before it ends; 0 for no end.
	Times int `json:"times,omitempty"`
	// RetryAfter is what a 429 says, in seconds.
	RetryAfter int `json:"retryAfter,omitempty"`
}

// Server is the handler; it is safe for concurrent use.
type Server struct {
	Options
	mux *http.ServeMux

	mu       sync.Mutex
	faults   []Fault
	requests map[string]int
	tokens   map[string]time.Time // of WattTime: until when each is good
}

// The names of the providers, as GridZones have them.
const (
	electricityMaps = "electricityMaps"
	wattTime        = "wattTime"
	ukCarbon        = "ukCarbonIntensity"
	entsoE          = "entsoE"
	eia             = "eia"
	carbonAware     = "carbonAwareSDK"
	prometheus      = "prometheus"
	openMeteo       = "openMeteo"
)

// Providers lists the wire formats that are spoken.
func Providers() []string {
	return []string{electricityMaps, wattTime, ukCarbon, entsoE, eia, carbonAware, prometheus, openMeteo}
}

// New returns a server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{Options: o, mux: http.NewServeMux(), requests: map[string]int{}, tokens: map[string]time.Time{}}
	s.handle("GET /v3/carbon-intensity/{what}", electricityMaps, s.serveElectricityMaps)
	s.handle("GET /v4/carbon-intensity/{what}", electricityMaps, s.serveElectricityMaps)
	s.handle("GET /login", wattTime, s.serveLogin)
	s.handle("GET /v3/forecast", wattTime, s.serveWattTime)
	s.handle("GET /v3/historical", wattTime, s.serveWattTime)
	s.handle("GET /intensity/{from}/{to}", ukCarbon, s.serveUK)
	s.handle("GET /regional/intensity/{from}/{to}/regionid/{region}", ukCarbon, s.serveUK)
	s.handle("GET /api", entsoE, s.serveEntsoE)
	s.handle("GET /v2/electricity/rto/fuel-type-data/data/", eia, s.serveEIA)
	s.handle("GET /emissions/bylocations", carbonAware, s.serveCarbonAware)
	s.handle("GET /emissions/forecasts/current", carbonAware, s.serveCarbonAware)
	s.handle("GET /api/v1/query_range", prometheus, s.servePrometheus)
	s.handle("GET /api/v1/query", prometheus, s.servePrometheus)
	s.handle("GET /v1/forecast", openMeteo, s.serveOpenMeteo)
	s.mux.HandleFunc("GET /-/faults", s.getFaults)
	s.mux.HandleFunc("PUT /-/faults", s.putFaults)
	s.mux.HandleFunc("GET /-/clock", s.getClock)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// now is the time of the series.
func (s *Server) now() time.Time { return s.Timeline.ToGrid(s.Now()) }

// SetFaults replaces all faults.
func (s *Server) SetFaults(faults ...Fault) error {
	for i, f := range faults {
		known := false
		for _, kind := range Faults() {
			known = known || f.Kind == kind
		}
		if !known {
			return fmt.Errorf("faults[%d].kind: %q; accepted: %s", i, f.Kind, strings.Join(Faults(), ", "))
		}
		known = f.Provider == ""
		for _, name := range Providers() {
			known = known || f.Provider == name
		}
		if !known {
			return fmt.Errorf("faults[%d].provider: %q; accepted: %s, or none for all", i, f.Provider, strings.Join(Providers(), ", "))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append([]Fault(nil), faults...)
	return nil
}

// Requests counts the requests to a provider, by what was asked for.
func (s *Server) Requests(provider, what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[provider+" "+what]
}

// active is a fault of the given provider that is on now.
func (s *Server) active(provider string) (Fault, bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if (f.Provider != "" && f.Provider != provider) || (!f.From.IsZero() && now.Before(f.From)) || (!f.To.IsZero() && !now.Before(f.To)) || f.Times < 0 {
			continue
		}
		if f.Times > 0 {
			if s.faults[i].Times--; s.faults[i].Times == 0 {
				s.faults[i].Times = -1
			}
		}
		return f, true
	}
	return Fault{}, false
}

// answer is what a provider's handler makes: a body and its type, or a status.
type answer struct {
	status int
	kind   string // content type
	body   []byte
}

func problem(status int, format string, args ...any) answer {
	body, _ := json.Marshal(map[string]string{"error": fmt.Sprintf(format, args...)})
	return answer{status, "application/json", body}
}

func document(v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return problem(http.StatusInternalServerError, "%v", err)
	}
	return answer{http.StatusOK, "application/json", body}
}

// handle serves a pattern with what make returns, spoilt by the active fault.
func (s *Server) handle(pattern, provider string, make func(r *http.Request, f Fault) answer) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		what := r.URL.Path[strings.LastIndex(strings.TrimSuffix(r.URL.Path, "/"), "/")+1:]
		if v := r.URL.Query().Get("documentType"); v != "" {
			what = v
		}
		s.mu.Lock()
		s.requests[provider+" "+what]++
		s.mu.Unlock()
		f, _ := s.active(provider)
		switch f.Kind {
		case FaultTooMany:
			w.Header().Set("Retry-After", strconv.Itoa(max(1, f.RetryAfter)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		case FaultError:
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		case FaultRefused:
			http.Error(w, "not part of your plan", http.StatusForbidden)
			return
		case FaultTimeout:
			<-r.Context().Done()
			return
		}
		a := make(r, f)
		switch f.Kind {
		case FaultHTML:
			a = answer{http.StatusOK, "text/html", []byte("<!DOCTYPE html><html><body><h1>Scheduled maintenance</h1></body></html>")}
		case FaultTruncated:
			a.body = a.body[:len(a.body)/2]
		}
		sum := sha256.Sum256(a.body)
		tag := `"` + hex.EncodeToString(sum[:12]) + `"`
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Type", a.kind)
		if a.status == http.StatusOK && r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // the client is gone otherwise
	})
}

// value is one slot of a series as published.
type value struct {
	at, end   time.Time
	v         float64
	null      bool
	estimated bool
}

// recorded is what a provider has published of [from, to) by now, spoilt by f.
func (s *Server) recorded(zone string, from, to time.Time, f Fault) []value {
	now := s.now()
	end := now
	if f.Kind == FaultLate {
		end = now.Add(-6 * time.Hour)
	}
	if to.Before(end) {
		end = to
	}
	series := s.Zones[zone]
	var out []value
	for i := s.first(series, from); i < series.Len(); i++ {
		x := series.Sample(i)
		if x.To.After(end) {
			break
		}
		v := float64(x.Value)
		if f.Kind == FaultRevised && now.Sub(x.To) < 3*time.Hour {
			v *= 1.2
		}
		out = append(out, value{at: x.From, end: x.To, v: v, estimated: x.Estimated})
	}
	return spoil(out, f)
}

// forecast is what a provider forecasts at issued for [from, from+horizon).
func (s *Server) forecast(zone string, issued, from time.Time, horizon time.Duration, f Fault) []value {
	series := s.Zones[zone]
	var out []value
	for i := s.first(series, from); i < series.Len(); i++ {
		x := series.Sample(i)
		if !x.From.Before(from.Add(horizon)) {
			break
		}
		lead := math.Max(0, x.From.Sub(issued).Hours()) / 24
		v := float64(x.Value) * math.Exp(s.ForecastError*math.Sqrt(lead)*s.noise(zone, x.From))
		out = append(out, value{at: x.From, end: x.To, v: math.Round(v*100) / 100})
	}
	return spoil(out, f)
}

// first is the sample that covers or follows at.
func (s *Server) first(series *carbon.Series, at time.Time) int {
	return sort.Search(series.Len(), func(i int) bool { return series.Sample(i).To.After(at) })
}

// noise is a smooth function of time, about standard normal, that is the same
// in every run.
func (s *Server) noise(zone string, at time.Time) float64 {
	const period = 6 * time.Hour
	draw := func(n int64) float64 {
		h := fnv.New64a()
		fmt.Fprint(h, s.Seed, zone, n)
		return (float64(h.Sum64()%10_000)/10_000 - 0.5) * math.Sqrt(12)
	}
	n := at.Unix() / int64(period.Seconds())
	share := float64(at.Unix()%int64(period.Seconds())) / period.Seconds()
	return (1-share)*draw(n) + share*draw(n+1)
}

// spoil applies the faults that concern values.
func spoil(in []value, f Fault) []value {
	out := in[:0]
	for _, x := range in {
		slot := x.at.Unix() / max(1, int64(x.end.Sub(x.at).Seconds()))
		switch f.Kind {
		case FaultGaps:
			if slot%5 == 0 {
				continue
			}
		case FaultNulls:
			x.null = slot%4 == 0
		case FaultEmpty:
			continue
		case FaultSkew:
			x.at, x.end = x.at.Add(3*time.Hour), x.end.Add(3*time.Hour)
		case FaultUnits:
			x.v *= 1000
		}
		out = append(out, x)
	}
	return out
}

// clock is the time that a provider states.
func (s *Server) clock(f Fault) time.Time {
	if f.Kind == FaultSkew {
		return s.now().Add(3 * time.Hour)
	}
	return s.now()
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	body, err := json.Marshal(s.faults)
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(append(body, '\n'))
}

func (s *Server) putFaults(w http.ResponseWriter, r *http.Request) {
	var faults []Fault
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	dec.DisallowUnknownFields()
	err := dec.Decode(&faults)
	if err == nil {
		err = s.SetFaults(faults...)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.getFaults(w, r)
}

func (s *Server) getClock(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "%s\n", rfc3339(s.now()))
}

// zoneNamed finds a zone by one of its names, without regard to case.
func (s *Server) zoneNamed(match func(zone string) bool) (string, bool) {
	names := make([]string, 0, len(s.Zones))
	for zone := range s.Zones {
		names = append(names, zone)
	}
	sort.Strings(names)
	for _, zone := range names {
		if match(zone) {
			return zone, true
		}
	}
	return "", false
}

// authorised checks the token.
func (s *Server) authorised(token string) bool {
	return s.Token == "" || bytes.Equal([]byte(token), []byte(s.Token))
}
