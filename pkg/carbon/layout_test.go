package carbon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Headers as the portal has had them.
const (
	portal2025 = "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),Renewable energy percentage (RE%),Data source,Data estimated,Data estimation method\n"
	portal2023 = "\ufeffDatetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),Carbon Intensity gCO₂eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage,Data Source,Data Estimated,Data Estimation Method\r\n"
	onlyDirect = "Datetime (UTC),Zone id,Carbon intensity gCO₂eq/kWh (direct)\n"
)

func portalRows(zone string) string {
	return "2025-01-01 00:00:00,Germany,Germany," + zone + ",256.5,310.2,54.1,48.0,\"entsoe.eu, others\",false,\n" +
		"2025-01-01 01:00:00,Germany,Germany," + zone + ",250,301,55,49,entsoe.eu,True,TIME_SLICER_AVERAGE\n" +
		"2025-01-01 02:00:00,Germany,Germany," + zone + ",,,,,,,\n" +
		"2025-01-01 03:00:00,Germany,Germany," + zone + ",260,320,55,49,entsoe.eu,false,\n"
}

// TestPortalDownloadIsRead: a download from the portal of Electricity Maps is read as it is; the factor picks the column.
func TestPortalDownloadIsRead(t *testing.T) {
	const lifecycle, direct = "00:00 60 310.2, 01:00 60 301e, 03:00 60 320", "00:00 60 256.5, 01:00 60 250e, 03:00 60 260"
	for name, tc := range map[string]struct {
		text   string
		p      Provenance
		want   string // samples, or a part of the error
		factor Factor
	}{
		"no factor asked for": {portal2025 + portalRows("DE"), Provenance{}, lifecycle, Lifecycle},
		"life cycle":          {portal2025 + portalRows("DE"), Provenance{Zone: "DE", Signal: Average, Factor: Lifecycle}, lifecycle, Lifecycle},
		"direct":              {portal2025 + portalRows("DE"), Provenance{Factor: Direct}, direct, Direct},
		"2023":                {portal2023 + strings.ReplaceAll(portalRows("DE"), "\n", "\r\n"), Provenance{Zone: "DE"}, lifecycle, Lifecycle},
		"2023, direct":        {portal2023 + portalRows("DE"), Provenance{Factor: Direct}, direct, Direct},
		"one column":          {onlyDirect + "2025-01-01 00:00:00,DE,5\n", Provenance{}, "00:00 60 5", Direct},
		"another factor":      {onlyDirect + "2025-01-01 00:00:00,DE,5\n", Provenance{Factor: Lifecycle}, `without lifecycle intensities, which are asked for; it has "Carbon intensity gCO₂eq/kWh (direct)"`, ""},
		"no intensity":        {"Datetime (UTC),Zone id\n2025-01-01 00:00:00,DE\n", Provenance{}, "without a column of intensities", ""},
		"another zone":        {portal2025 + portalRows("FR"), Provenance{Zone: "DE"}, `line 2: Zone id: "FR"; accepted: "DE"`, ""},
		"two zones":           {portal2025 + portalRows("DE") + strings.ReplaceAll(portalRows("FR"), "2025-01-01", "2025-01-02"), Provenance{}, `line 6: Zone id: "FR"; accepted: "DE"`, ""},
		"a time of no zone":   {onlyDirect + "1 Jan 2025,DE,5\n", Provenance{}, `line 2: Datetime (UTC): "1 Jan 2025"; accepted: UTC, e.g. 2023-11-14 11:00:00`, ""},
		"an impossible value": {onlyDirect + "2025-01-01 00:00:00,DE,5000\n", Provenance{}, `line 2: Carbon intensity gCO₂eq/kWh (direct): "5000"; accepted: 0 to 3000`, ""},
		"another estimate":    {portal2025 + strings.Replace(portalRows("DE"), "True", "maybe", 1), Provenance{}, `line 3: Data estimated: "maybe"; accepted: true or false`, ""},
		"by five minutes":     {onlyDirect + "2025-01-01 00:00:00,DE,5\n2025-01-01 00:05:00,DE,6\n2025-01-01 00:10:00,DE,7\n", Provenance{}, "00:00 5 5, 00:05 5 6, 00:10 5 7", Direct},
	} {
		s, err := ReadCSV(strings.NewReader(tc.text), tc.p)
		if tc.factor == "" {
			if !errors.Is(err, ErrSeries) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want %s", name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for i := range s.Len() {
			x := s.Sample(i)
			text := fmt.Sprintf("%s %g %g", x.From.Format("15:04"), x.To.Sub(x.From).Minutes(), float64(x.Value))
			if x.Estimated {
				text += "e"
			}
			got = append(got, text)
		}
		if strings.Join(got, ", ") != tc.want || s.Zone != "DE" || s.Signal != Average || s.Factor != tc.factor {
			t.Errorf("%s: %v of %+v, want %s", name, got, s.Provenance, tc.want)
		}
	}
}
