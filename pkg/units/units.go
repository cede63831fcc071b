// Package units holds the physical quantities of Lull as types, so that a
// power cannot be added to an energy by accident. A value is converted once,
// where it enters the program; inside, only the base units below exist.
package units

import (
	"fmt"
	"math"
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

// Valid reports whether ci is a usable intensity: finite and not negative.
func (ci CarbonIntensity) Valid() bool {
	return !math.IsNaN(float64(ci)) && !math.IsInf(float64(ci), 0) && ci >= 0
}

// String prints the intensity in its base unit, e.g. "412 gCO2eq/kWh".
func (ci CarbonIntensity) String() string { return fmt.Sprintf("%.4g gCO2eq/kWh", float64(ci)) }

// String prints the power in watts or kilowatts.
func (p Power) String() string {
	if math.Abs(float64(p)) >= wattsPerKilowatt {
		return fmt.Sprintf("%.4g kW", float64(p)/wattsPerKilowatt)
	}
	return fmt.Sprintf("%.4g W", float64(p))
}

// String prints the energy in Wh, kWh or MWh.
func (e Energy) String() string {
	switch v := math.Abs(float64(e)); {
	case v == 0:
		return "0 kWh"
	case v < 1:
		return fmt.Sprintf("%.4g Wh", float64(e)*1000)
	case v >= 1000:
		return fmt.Sprintf("%.4g MWh", float64(e)/1000)
	default:
		return fmt.Sprintf("%.4g kWh", float64(e))
	}
}

// String prints the mass in g, kg or t of CO2 equivalent.
func (m Emissions) String() string {
	switch v := math.Abs(float64(m)); {
	case v >= 1e6:
		return fmt.Sprintf("%.4g tCO2eq", float64(m)/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.4g kgCO2eq", float64(m)/1e3)
	default:
		return fmt.Sprintf("%.4g gCO2eq", float64(m))
	}
}
