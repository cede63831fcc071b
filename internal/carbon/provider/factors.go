package provider

import "math"

// Life-cycle emission factors, gCO2eq/kWh: medians of IPCC, Special Report on
// Renewable Energy Sources and Climate Change Mitigation, 2011, Annex II, Table
// A.II.4. Waste, storage and "other" have none there: they are left out of the
// mix, on both sides of the mean.
const (
	factorBiopower   = 18.0
	factorSolar      = 46.0
	factorGeothermal = 45.0
	factorHydro      = 4.0
	factorOcean      = 8.0
	factorWind       = 12.0
	factorNuclear    = 16.0
	factorGas        = 469.0
	factorOil        = 840.0
	factorCoal       = 1001.0
)

// mix collects generation by type for one slot.
type mix map[string]float64

// intensity is the mean factor of a mix; false where nothing known generates.
func (m mix) intensity(factors map[string]float64) (float64, bool) {
	grams, energy := 0.0, 0.0
	for kind, q := range m {
		f, known := factors[kind]
		if known && math.IsNaN(q) { // stated, but not readable: the mean of the others would be wrong
			return 0, false
		}
		if !known || !(q > 0) { // consumption of storage, small negative readings
			continue
		}
		grams += q * f
		energy += q
	}
	if energy <= 0 || !finite(grams) || !finite(energy) {
		return 0, false
	}
	return grams / energy, true
}
