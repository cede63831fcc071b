package report

import "fmt"

// Delay returns a delay in hours as text; one below 0 is named earlier.
func Delay(hours float64) string {
	if hours < -0.05 {
		return fmt.Sprintf("%.1f h earlier", -hours)
	}
	return fmt.Sprintf("%.1f h", max(0, hours))
}

// Count returns a number of things as text: 1 job, 2 jobs.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
