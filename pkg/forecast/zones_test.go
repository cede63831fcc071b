package forecast

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lull.dev/lull/pkg/carbon"
	"lull.dev/lull/test/data"
	"lull.dev/lull/test/size"
)

// TestBlendOnRealZones replays 2023 of three zones, six in the large run, with 2022 before it: the blend
// beats seasonal naive in each, and is within the best two of the forecasters
// that see only the past, in error and in regret. Sums over hours lie between the quantiles of its paths as often as they should.
func TestBlendOnRealZones(t *testing.T) {
	dir := data.Folder(t, "carbon")
	zones := []string{"DE", "CA-ON", "AU-SA"}
	for _, zone := range size.Of(zones, append(zones, "GB", "US-CAL-CISO", "NL")) {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			var samples []carbon.Sample
			for _, year := range []string{"2022", "2023"} {
				f, err := os.Open(filepath.Join(dir, "carbon", zone, year+".csv"))
				if err != nil {
					t.Fatal(err)
				}
				s, err := carbon.ReadCSV(f, carbon.Provenance{})
				_ = f.Close()
				if err != nil {
					t.Fatal(err)
				}
				for i := range s.Len() {
					samples = append(samples, s.Sample(i))
				}
			}
			series, err := carbon.NewSeries(carbon.Provenance{}, samples)
			if err != nil {
				t.Fatal(err)
			}
			h, err := FromSeries(series, series.End(), time.Hour, 2*8760)
			if err != nil {
				t.Fatal(err)
			}
			score := func(m Model) Scores {
				s, err := Backtest(m, h, 8760, 24, 6, 6)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			blend := score(NewBlend())
			naive := score(SeasonalNaive{Days: 1})
			if blend.MAPE >= naive.MAPE || blend.Regret >= naive.Regret {
				t.Errorf("blend %.3f and %.4f, seasonal naive %.3f and %.4f", blend.MAPE, blend.Regret, naive.MAPE, naive.Regret)
			}
			betterMAPE, betterRegret := 0, 0
			for _, m := range []Model{Persistence{}, SeasonalNaive{Days: 7}, MovingAverage{N: 24}, DayWeighted{}, &HoltWinters{}, &Ridge{}} {
				s := score(m)
				if s.MAPE < blend.MAPE {
					betterMAPE++
				}
				if s.Regret < blend.Regret {
					betterRegret++
				}
			}
			if betterMAPE > 1 || betterRegret > 1 {
				t.Errorf("%d forecasters have less error, %d less regret; want at most one", betterMAPE, betterRegret)
			}
			if blend.Coverage < 0.7 || blend.Coverage > 0.9 {
				t.Errorf("the band covers %.0f %%", 100*blend.Coverage)
			}
			days, covered := backtestSums(t, NewBlend(), h, 8760)
			t.Logf("four days ahead, the band covers %.0f %% of the hours, the paths %.0f %% of the sums of six", 100*days.Coverage, 100*covered)
			if covered < 0.7 || covered > 0.9 {
				t.Errorf("the paths cover %.0f %% of sums of six hours", 100*covered)
			}
		})
	}
}
