// Package units holds the physical quantities of Lull as types, so that a
// power cannot be added to an energy by accident. A value is converted once,
// where it enters the program; inside, only the base units below exist.
package units

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// CarbonIntensity is the greenhouse gas emitted per unit of electrical energy,
// in gCO2eq/kWh.
type CarbonIntensity float64

// Power is an electrical power in watts.
type Power float64

// Energy is an electrical energy in kilowatt-hours.
type Energy float64

// Emissions is a mass of greenhouse gas in grams of CO2 equivalent.
type Emissions float64

const (
	wattsPerKilowatt = 1000
	// gramsPerPound is exact by the international avoirdupois definition.
	gramsPerPound = 453.59237
	// kilowattHoursPerMegawattHour converts the denominators of providers that
	// publish per MWh.
	kilowattHoursPerMegawattHour = 1000
)

// Over returns the energy that a constant power uses in d. Negative durations
// give negative energies; callers that cannot have them must check.
func (p Power) Over(d time.Duration) Energy {
	return Energy(float64(p) / wattsPerKilowatt * d.Hours())
}

// At returns the emissions of using e at a constant intensity.
func (e Energy) At(ci CarbonIntensity) Emissions {
	return Emissions(float64(e) * float64(ci))
}

// FromPoundsPerMegawattHour converts the unit of WattTime (lbs CO2/MWh) to
// gCO2/kWh.
func FromPoundsPerMegawattHour(v float64) CarbonIntensity {
	return CarbonIntensity(v * gramsPerPound / kilowattHoursPerMegawattHour)
}

// MaxCarbonIntensity is the largest intensity that Lull accepts. The dirtiest power
// plants emit less than 2,000 gCO2eq/kWh, life cycle included; a larger value is in
// another unit, such as g/MWh.
const MaxCarbonIntensity CarbonIntensity = 3000

// Valid reports whether ci is a usable intensity: a number from 0 to MaxCarbonIntensity.
func (ci CarbonIntensity) Valid() bool { return ci >= 0 && ci <= MaxCarbonIntensity }

// String prints the intensity in its base unit, e.g. "412 gCO2eq/kWh".
func (ci CarbonIntensity) String() string { return Number("%.4g gCO2eq/kWh", float64(ci)) }

// String prints the power in watts or kilowatts.
func (p Power) String() string {
	if math.Abs(float64(p)) >= wattsPerKilowatt {
		return Number("%.4g kW", float64(p)/wattsPerKilowatt)
	}
	return Number("%.4g W", float64(p))
}

// String prints the energy in Wh, kWh or MWh.
func (e Energy) String() string {
	switch v := math.Abs(float64(e)); {
	case v == 0:
		return "0 kWh"
	case v < 1:
		return Number("%.4g Wh", float64(e)*1000)
	case v >= 1000:
		return Number("%.4g MWh", float64(e)/1000)
	default:
		return Number("%.4g kWh", float64(e))
	}
}

// String prints the mass in g, kg or t of CO2 equivalent.
func (m Emissions) String() string {
	switch v := math.Abs(float64(m)); {
	case v >= 1e6:
		return Number("%.4g tCO2eq", float64(m)/1e6)
	case v >= 1e3:
		return Number("%.4g kgCO2eq", float64(m)/1e3)
	default:
		return Number("%.4g gCO2eq", float64(m))
	}
}

// Number formats a number with a verb of package fmt and a unit, such as "%.1f" or "%+.2f %%". What rounds to zero has no
// minus: the sign would tell of a difference that the digits do not show.
func Number(verb string, v float64) string {
	text := fmt.Sprintf(verb, v)
	if digits, minus := strings.CutPrefix(text, "-"); minus && !math.IsInf(v, 0) {
		if rest := strings.TrimLeft(digits, "0."); rest == "" || !strings.ContainsRune("123456789", rune(rest[0])) {
			text = digits
			if strings.Contains(verb, "+") {
				text = "+" + digits
			}
		}
	}
	return text
}
