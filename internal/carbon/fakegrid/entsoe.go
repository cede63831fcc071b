package fakegrid

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"
)

// eic maps the codes of bidding zones to grid zones.
var eic = map[string]string{
	"10Y1001A1001A82H": "DE", "10YFR-RTE------C": "FR", "10YNL----------L": "NL", "10YBE----------2": "BE", "10YAT-APG------L": "AT",
	"10YPL-AREA-----S": "PL", "10YES-REE------0": "ES", "10YPT-REN------W": "PT", "10YGB----------A": "GB", "10YFI-1--------U": "FI",
	"10Y1001A1001A46L": "SE-SE3", "10YNO-2--------T": "NO-NO2", "10YDK-2--------M": "DK-DK2", "10YCH-SWISSGRIDZ": "CH",
}

// generation is what a fake system generates in all, MW.
const generation = 10_000.0

// serveEntsoE publishes a mix of coal, onshore wind and a little nuclear whose
// mean life-cycle intensity is that of the series.
func (s *Server) serveEntsoE(r *http.Request, f Fault) answer {
	q := r.URL.Query()
	if !s.authorised(q.Get("securityToken")) {
		return answer{http.StatusUnauthorized, "text/xml", []byte(acknowledgement("Unauthorized. Missing or invalid security token."))}
	}
	zone := eic[q.Get("in_Domain")]
	if _, ok := s.Zones[zone]; !ok {
		return answer{http.StatusOK, "text/xml", []byte(acknowledgement("No matching data found"))}
	}
	from, err1 := time.Parse("200601021504", q.Get("periodStart"))
	to, err2 := time.Parse("200601021504", q.Get("periodEnd"))
	if err1 != nil || err2 != nil || !to.After(from) {
		return answer{http.StatusBadRequest, "text/xml", []byte(acknowledgement("Invalid period"))}
	}
	now := s.now()
	var values []value
	kinds := map[string]func(v float64) float64{}
	switch q.Get("documentType") {
	case "A75":
		values = s.recorded(zone, from, to, f)
		kinds["B05"] = func(v float64) float64 { return coalShare(v) * generation }
		kinds["B19"] = func(v float64) float64 { return (1 - coalShare(v)) * generation }
	case "A71":
		values = s.forecast(zone, now, from, to.Sub(from), f)
		kinds[""] = func(float64) float64 { return generation }
	case "A69":
		values = s.forecast(zone, now, from, to.Sub(from), f)
		kinds["B19"] = func(v float64) float64 { return (1 - coalShare(v)) * generation }
	default:
		return answer{http.StatusBadRequest, "text/xml", []byte(acknowledgement("documentType is not served here"))}
	}
	if len(values) == 0 {
		return answer{http.StatusOK, "text/xml", []byte(acknowledgement("No matching data found"))}
	}
	unit := "MAW"
	if f.Kind == FaultUnits {
		unit = "KWT"
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<GL_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-6:generationloaddocument:3:0">`)
	for _, kind := range []string{"", "B05", "B19"} {
		if quantity, ok := kinds[kind]; ok {
			timeSeries(&b, kind, unit, values, quantity, f)
		}
	}
	b.WriteString("</GL_MarketDocument>\n")
	return answer{http.StatusOK, "text/xml", []byte(b.String())}
}

// timeSeries writes one type with curve type A03: points that repeat the one
// before are left out. Each run of slots without a gap is a period.
func timeSeries(b *strings.Builder, kind, unit string, values []value, quantity func(float64) float64, f Fault) {
	fmt.Fprintf(b, "<TimeSeries><businessType>A01</businessType><inBiddingZone_Domain.mRID codingScheme=\"A01\">zone</inBiddingZone_Domain.mRID><quantity_Measure_Unit.name>%s</quantity_Measure_Unit.name><curveType>A03</curveType>", unit)
	if kind != "" {
		fmt.Fprintf(b, "<MktPSRType><psrType>%s</psrType></MktPSRType>", kind)
	}
	kept := values[:0:0]
	for _, x := range values {
		if !x.null { // the format has no null
			kept = append(kept, x)
		}
	}
	for i := 0; i < len(kept); {
		j := i + 1
		for j < len(kept) && kept[j].at.Equal(kept[j-1].end) {
			j++
		}
		run := kept[i:j]
		fmt.Fprintf(b, "<Period><timeInterval><start>%s</start><end>%s</end></timeInterval><resolution>PT%dM</resolution>",
			run[0].at.UTC().Format("2006-01-02T15:04Z"), run[len(run)-1].end.UTC().Format("2006-01-02T15:04Z"), int(run[0].end.Sub(run[0].at).Minutes()))
		last := math.NaN()
		for k, x := range run {
			v := x.v
			if f.Kind == FaultUnits {
				v /= 1000 // the unit is said instead
			}
			if q := math.Round(quantity(v)*1000) / 1000; q != last {
				fmt.Fprintf(b, "<Point><position>%d</position><quantity>%g</quantity></Point>", k+1, q)
				last = q
			}
		}
		b.WriteString("</Period>")
		i = j
	}
	b.WriteString("</TimeSeries>")
}

func acknowledgement(text string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Acknowledgement_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-1:acknowledgementdocument:7:0"><Reason><code>999</code><text>` + text + `</text></Reason></Acknowledgement_MarketDocument>`
}
