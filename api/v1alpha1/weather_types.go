package v1alpha1

// WeatherSource is where the weather of a place comes from.
type WeatherSource struct {
	OpenMeteo OpenMeteoSource `json:"openMeteo"`
}

// OpenMeteoSource reads from Open-Meteo (no key, non-commercial use only), or from
// your own Open-Meteo server.
type OpenMeteoSource struct {
	// +kubebuilder:default="https://api.open-meteo.com"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// historyEndpoint is asked for the weather of the past year as it had been forecast. By default it is
	// https://previous-runs-api.open-meteo.com, or endpoint if that is your own server. ComputeClusters do not use it.
	// +optional
	HistoryEndpoint Endpoint `json:"historyEndpoint,omitempty"`
	// +kubebuilder:validation:Minimum=-90
	// +kubebuilder:validation:Maximum=90
	Latitude float64 `json:"latitude"`
	// +kubebuilder:validation:Minimum=-180
	// +kubebuilder:validation:Maximum=180
	Longitude float64 `json:"longitude"`
	// morePlaces are further places, at most 9. Lull uses the mean of the weather of all places. For a
	// GridZone, choose places all over the zone: near its wind farms, its solar parks and its cities.
	// +kubebuilder:validation:MaxItems=9
	// +listType=atomic
	// +optional
	MorePlaces []Place `json:"morePlaces,omitempty"`
}

// Place is a place on Earth, in degrees.
type Place struct {
	// +kubebuilder:validation:Minimum=-90
	// +kubebuilder:validation:Maximum=90
	Latitude float64 `json:"latitude"`
	// +kubebuilder:validation:Minimum=-180
	// +kubebuilder:validation:Maximum=180
	Longitude float64 `json:"longitude"`
}
