package zones

import "strings"

// Hint names the grid zone that somebody meant who wrote something else, as "; did you mean DE?": a zone in other letters (de, ca_on),
// a region with its cloud (aws/eu-central-1) or without it (eu-central-1), or the ISO 3166-1 alpha-3 code of a country (DEU).
// Hint returns "" for a zone that the tables have, and for a text that means none.
func Hint(text string) string {
	t, err := load()
	if err != nil || t.zones[text] {
		return ""
	}
	written := strings.TrimSpace(text)
	if zone := strings.ToUpper(strings.ReplaceAll(written, "_", "-")); t.zones[zone] {
		return "; did you mean " + zone + "?"
	}
	if zone, there := t.ofRegion[strings.ToLower(written)]; there {
		return "; did you mean " + zone + ", in which that region lies?"
	}
	for _, r := range Regions() {
		if strings.EqualFold(written, r.Name) {
			return "; did you mean " + r.Zone + ", in which " + r.Cloud + "/" + r.Name + " lies?"
		}
	}
	if zone, err := OfCountry(written, ""); err == nil {
		return "; did you mean " + zone + "?"
	}
	return ""
}
