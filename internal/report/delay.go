package report

import "fmt"

// Delay returns a delay in hours as text; one below 0 is named earlier.
func Delay(hours float64) string {
	if hours < -0.05 {
		return fmt.Sprintf("%.1f h earlier", -hours)
	}
	return fmt.Sprintf("%.1f h", max(0, hours))
}
