//go:build ignore

// Gen derives climatology.csv from the traces under LULL_DATA: the mean carbon
// intensity of every hour of the day and month, over the years 2021 to 2023.
//
//	LULL_DATA=../shared/data go run ./pkg/climatology/gen.go > pkg/climatology/climatology.csv
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"lull.dev/lull/pkg/carbon"
)

var zones = []string{"AU-SA", "CA-ON", "DE", "FR", "GB", "IN", "NL", "PL", "SE", "US-CAL-CISO", "US-MIDA-PJM", "US-TEX-ERCO"}

func main() {
	root := os.Getenv("LULL_DATA")
	fmt.Println("zone,month,hour,intensity_gco2eq_per_kwh")
	for _, zone := range zones {
		var sum, n [13][24]float64
		for year := 2021; year <= 2023; year++ {
			f, err := os.Open(filepath.Join(root, "carbon", zone, fmt.Sprint(year)+".csv"))
			if err != nil {
				log.Fatal(err)
			}
			s, err := carbon.ReadCSV(f, carbon.Provenance{})
			if err != nil {
				log.Fatal(err)
			}
			for i := range s.Len() {
				x := s.Sample(i)
				at := x.From.UTC()
				sum[at.Month()][at.Hour()] += float64(x.Value)
				n[at.Month()][at.Hour()]++
			}
			_ = f.Close()
		}
		for month := 1; month <= 12; month++ {
			for hour := range 24 {
				fmt.Printf("%s,%d,%d,%.1f\n", zone, month, hour, sum[month][hour]/n[month][hour])
			}
		}
	}
}
