package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Signal says which carbon intensity a zone uses. Average and marginal
// intensities never mix.
// +kubebuilder:validation:Enum=Average;Marginal
type Signal string

// The signals of a zone.
const (
	SignalAverage  Signal = "Average"
	SignalMarginal Signal = "Marginal"
)

// Factor says which emissions of a power plant an intensity counts.
// +kubebuilder:validation:Enum=Lifecycle;Direct
type Factor string

// The emission factors of a zone.
const (
	FactorLifecycle Factor = "Lifecycle"
	FactorDirect    Factor = "Direct"
)

// GridZoneSpec says where the carbon intensity of a zone comes from.
//
// +kubebuilder:validation:ExactlyOneOf=zone;cloudRegion
// +kubebuilder:validation:XValidation:rule="!has(self.source.wattTime) || (self.signal == 'Average') == (self.source.wattTime.signalType == 'co2_aoer')",message="signal: WattTime's co2_moer is Marginal, co2_aoer is Average; signals never mix"
// +kubebuilder:validation:XValidation:rule="self.signal == 'Average' || !(has(self.source.electricityMaps) || has(self.source.ukCarbonIntensity) || has(self.source.entsoE) || has(self.source.eia))",message="signal: this source publishes Average intensities; for Marginal ones make a second GridZone with another source"
// +kubebuilder:validation:XValidation:rule="!has(self.factor) || self.factor == 'Direct' || !(has(self.source.ukCarbonIntensity) || has(self.source.wattTime))",message="factor: this source publishes Direct intensities"
// +kubebuilder:validation:XValidation:rule="!has(self.factor) || self.factor == 'Lifecycle' || !(has(self.source.entsoE) || has(self.source.eia))",message="factor: this source is computed with Lifecycle factors"
type GridZoneSpec struct {
	// zone is the name of the grid zone as Electricity Maps names it, e.g. "DE"
	// or "US-CAL-CISO".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Zone string `json:"zone,omitempty"`

	// cloudRegion names the zone by a region of a cloud that lies in it, e.g.
	// "aws/eu-central-1". lull forecast regions lists them.
	// +kubebuilder:validation:Pattern=`^(aws|gcp|azure)/[a-z0-9-]+$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	CloudRegion string `json:"cloudRegion,omitempty"`

	// signal says whether the source gives average or marginal intensities. To
	// record both, make two GridZones.
	// +kubebuilder:default=Average
	// +optional
	Signal Signal `json:"signal,omitempty"`

	// beside names another GridZone of the same place and time, with the other signal or factor: what
	// workloads emit and save is stated by both in the ledger. Plans go by this one alone.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Beside string `json:"beside,omitempty"`

	// factor says which emissions the source counts; by default what it publishes,
	// Lifecycle where it publishes both.
	// +optional
	Factor Factor `json:"factor,omitempty"`

	// paused opens everything that policies of this zone hold, and scales nothing.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// source is where the intensity comes from.
	Source GridZoneSource `json:"source"`

	// refresh is how often the source is asked.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="accepted: 1m to 24h"
	// +optional
	Refresh *metav1.Duration `json:"refresh,omitempty"`

	// horizon is how far ahead the intensity is looked at.
	// +kubebuilder:default="96h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('336h')",message="accepted: 1h to 336h"
	// +optional
	Horizon *metav1.Duration `json:"horizon,omitempty"`

	// fallback is used where neither the source, nor its past, nor climatology
	// says anything.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// weather of a place that drives the intensity; it improves forecasts made
	// from the past.
	// +optional
	Weather *WeatherSource `json:"weather,omitempty"`

	// replay plays a recorded series as if it happened now. All times that
	// concern jobs of this zone (run times, delays, deadlines) are then times of
	// the series. For tests and demonstrations.
	// +optional
	Replay *Replay `json:"replay,omitempty"`

	// staleAfter is how old the newest information may be to be called current.
	// +kubebuilder:default="2h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="accepted: 0s to 720h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// Fallback is the last resort.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.low) || self.low <= self.intensity) && (!has(self.high) || self.high >= self.intensity)",message="low may not be above intensity, high not below it"
type Fallback struct {
	// intensity in gCO2eq/kWh.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3000
	Intensity float64 `json:"intensity"`
	// low and high are what it lies between nearly always; by default a third of
	// it and twice it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3000
	// +optional
	Low *float64 `json:"low,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3000
	// +optional
	High *float64 `json:"high,omitempty"`
}

// WeatherSource is where the weather of a place comes from.
type WeatherSource struct {
	OpenMeteo OpenMeteoSource `json:"openMeteo"`
}

// OpenMeteoSource asks Open-Meteo, without a key and for non-commercial use, or
// a server of one's own.
type OpenMeteoSource struct {
	// +kubebuilder:default="https://api.open-meteo.com"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// +kubebuilder:validation:Minimum=-90
	// +kubebuilder:validation:Maximum=90
	Latitude float64 `json:"latitude"`
	// +kubebuilder:validation:Minimum=-180
	// +kubebuilder:validation:Maximum=180
	Longitude float64 `json:"longitude"`
}

// Endpoint is the address of a service: scheme, host, port and path, without a
// slash at the end.
// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-])?$`
// +kubebuilder:validation:MaxLength=256
type Endpoint string

// AnnotationProviderHosts is an annotation on a Secret that GridZones may use: the hosts (with the port, where the endpoint has one) that it
// may be sent to, separated by commas.
const AnnotationProviderHosts = "lull.dev/provider-hosts"

// SecretKey names a key of a Secret in the namespace of the controller.
type SecretKey struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// GridZoneSource is one source; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=configMap;file;electricityMaps;wattTime;ukCarbonIntensity;entsoE;eia;carbonAwareSDK;carbonAwareConfigMap;prometheus
type GridZoneSource struct {
	// configMap holds a series as CSV (time,intensity_gco2eq_per_kwh) or JSON.
	// +optional
	ConfigMap *ConfigMapKey `json:"configMap,omitempty"`
	// file is the path of such a series in the controller's file system.
	// +optional
	File *FileSource `json:"file,omitempty"`
	// electricityMaps asks the API of Electricity Maps: Average.
	// +optional
	ElectricityMaps *ElectricityMapsSource `json:"electricityMaps,omitempty"`
	// wattTime asks the API of WattTime: Marginal (or Average), Direct.
	// +optional
	WattTime *WattTimeSource `json:"wattTime,omitempty"`
	// ukCarbonIntensity asks the API of Great Britain's system operator: Average,
	// Direct, without a key.
	// +optional
	UKCarbonIntensity *UKCarbonIntensitySource `json:"ukCarbonIntensity,omitempty"`
	// entsoE computes the intensity from the generation that the ENTSO-E
	// Transparency Platform publishes: Average, Lifecycle, imports ignored.
	// +optional
	EntsoE *EntsoESource `json:"entsoE,omitempty"`
	// eia computes the intensity from form EIA-930 (United States): Average,
	// Lifecycle, imports ignored, no forecast.
	// +optional
	EIA *EIASource `json:"eia,omitempty"`
	// carbonAwareSDK asks the WebAPI of the Carbon Aware SDK.
	// +optional
	CarbonAwareSDK *CarbonAwareSDKSource `json:"carbonAwareSDK,omitempty"`
	// carbonAwareConfigMap reads what the exporter of the Carbon Aware SDK writes.
	// +optional
	CarbonAwareConfigMap *CarbonAwareConfigMapSource `json:"carbonAwareConfigMap,omitempty"`
	// prometheus runs a query that gives one series in gCO2eq/kWh.
	// +optional
	Prometheus *PrometheusSource `json:"prometheus,omitempty"`
}

// ElectricityMapsSource asks the API of Electricity Maps.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint.startsWith('https://') || self.endpoint.matches('^http://(127[.]0[.]0[.]1|localhost)(:|/|$)')",message="endpoint: a secret is sent; accepted: https, or http on loopback"
type ElectricityMapsSource struct {
	// +kubebuilder:default="https://api.electricitymaps.com"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// +kubebuilder:validation:Enum=v3;v4
	// +kubebuilder:default=v3
	// +optional
	Version string `json:"version,omitempty"`
	// disableEstimations asks for measured values only.
	// +optional
	DisableEstimations bool `json:"disableEstimations,omitempty"`
	// tokenSecret holds the auth-token.
	TokenSecret SecretKey `json:"tokenSecret"`
}

// WattTimeSource asks the API of WattTime, v3.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint.startsWith('https://') || self.endpoint.matches('^http://(127[.]0[.]0[.]1|localhost)(:|/|$)')",message="endpoint: a secret is sent; accepted: https, or http on loopback"
type WattTimeSource struct {
	// +kubebuilder:default="https://api.watttime.org"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// region as WattTime names it, e.g. CAISO_NORTH.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	// +kubebuilder:validation:MaxLength=64
	Region string `json:"region"`
	// +kubebuilder:validation:Enum=co2_moer;co2_aoer
	// +kubebuilder:default=co2_moer
	// +optional
	SignalType string `json:"signalType,omitempty"`
	// username is no secret; the password is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Username string `json:"username"`
	// passwordSecret holds the password.
	PasswordSecret SecretKey `json:"passwordSecret"`
}

// UKCarbonIntensitySource asks the Carbon Intensity API.
type UKCarbonIntensitySource struct {
	// +kubebuilder:default="https://api.carbonintensity.org.uk"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// regionID is 1 to 17; 0 is the whole of Great Britain.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=17
	// +optional
	RegionID int32 `json:"regionID,omitempty"`
}

// EntsoESource asks the ENTSO-E Transparency Platform.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint.startsWith('https://') || self.endpoint.matches('^http://(127[.]0[.]0[.]1|localhost)(:|/|$)')",message="endpoint: a secret is sent; accepted: https, or http on loopback"
type EntsoESource struct {
	// +kubebuilder:default="https://web-api.tp.entsoe.eu"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// domain is the EIC of the bidding zone, e.g. 10Y1001A1001A82H for DE-LU.
	// +kubebuilder:validation:Pattern=`^[0-9]{2}[A-Z][A-Z0-9-]{13}$`
	Domain string `json:"domain"`
	// tokenSecret holds the security token.
	TokenSecret SecretKey `json:"tokenSecret"`
}

// EIASource asks the US Energy Information Administration.
//
// +kubebuilder:validation:XValidation:rule="self.endpoint.startsWith('https://') || self.endpoint.matches('^http://(127[.]0[.]0[.]1|localhost)(:|/|$)')",message="endpoint: a secret is sent; accepted: https, or http on loopback"
type EIASource struct {
	// +kubebuilder:default="https://api.eia.gov"
	// +optional
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// respondent is the balancing authority, e.g. CISO.
	// +kubebuilder:validation:Pattern=`^[A-Z0-9]{2,8}$`
	Respondent string `json:"respondent"`
	// keySecret holds the API key.
	KeySecret SecretKey `json:"keySecret"`
}

// CarbonAwareSDKSource asks the WebAPI of the Carbon Aware SDK. What it publishes
// depends on its own source: signal and factor of the zone say it.
type CarbonAwareSDKSource struct {
	Endpoint Endpoint `json:"endpoint"`
	// location as the SDK names it, e.g. an Azure region.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Location string `json:"location"`
}

// CarbonAwareConfigMapSource reads binaryData of a ConfigMap.
type CarbonAwareConfigMapSource struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// +kubebuilder:default=data
	// +optional
	Key string `json:"key,omitempty"`
	// location as the exporter names it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Location string `json:"location"`
}

// PrometheusSource asks a Prometheus server. Signal and factor of the zone say
// what the query gives.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tokenSecret) || self.endpoint.startsWith('https://') || self.endpoint.matches('^http://(127[.]0[.]0[.]1|localhost)(:|/|$)')",message="endpoint: a secret is sent; accepted: https, or http on loopback"
type PrometheusSource struct {
	Endpoint Endpoint `json:"endpoint"`
	// query gives one series.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Query string `json:"query"`
	// forecastQuery gives an instant vector with a series for each hour to come,
	// whose label forecast_time says which.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ForecastQuery string `json:"forecastQuery,omitempty"`
	// tokenSecret holds a bearer token.
	// +optional
	TokenSecret *SecretKey `json:"tokenSecret,omitempty"`
}

// ConfigMapKey names a key of a ConfigMap.
type ConfigMapKey struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// key ends in .csv or .json, which names the format.
	// +kubebuilder:validation:Pattern=`\.(csv|json)$`
	Key string `json:"key"`
}

// FileSource names a file.
type FileSource struct {
	// path ends in .csv or .json, which names the format.
	// +kubebuilder:validation:Pattern=`^/.*\.(csv|json)$`
	Path string `json:"path"`
}

// Replay maps wall time to time of the series.
type Replay struct {
	// start is the time of the series that is played at epoch.
	Start metav1.Time `json:"start"`
	// epoch is the wall time at which the replay begins; by default the creation
	// of the GridZone.
	// +optional
	Epoch *metav1.Time `json:"epoch,omitempty"`
	// factor is how many seconds of the series pass in a second.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=1
	// +optional
	Factor int64 `json:"factor,omitempty"`
}

// Trend says where the intensity goes.
type Trend string

// The trends shown in the status.
const (
	TrendRising  Trend = "Rising"
	TrendFalling Trend = "Falling"
	TrendSteady  Trend = "Steady"
)

// ForecastPoint is the expected intensity of an hour.
type ForecastPoint struct {
	Time metav1.Time `json:"time"`
	// intensity in gCO2eq/kWh.
	Intensity float64 `json:"intensity"`
	// low and high are its 10 % and 90 % quantiles; absent where they are equal to
	// it.
	// +optional
	Low *float64 `json:"low,omitempty"`
	// +optional
	High *float64 `json:"high,omitempty"`
}

// Accuracy says how good recent forecasts were.
type Accuracy struct {
	// meanError is the mean absolute percentage error of forecasts up to a day
	// ahead, in percent.
	MeanError float64 `json:"meanError"`
	// values is how many comparisons it rests on.
	Values int64 `json:"values"`
}

// GridZoneStatus is what is known of the zone now.
type GridZoneStatus struct {
	// zone is the grid zone, also where the specification names a cloud region.
	// +optional
	Zone string `json:"zone,omitempty"`
	// intensity is that of this moment, gCO2eq/kWh; absent where it is not known.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// gridTime is the time of the series that is now.
	// +optional
	GridTime *metav1.Time `json:"gridTime,omitempty"`
	// trend compares the next three hours with now.
	// +optional
	Trend Trend `json:"trend,omitempty"`
	// basis is what the hours to come rest on: LiveForecast, CachedForecast,
	// OwnForecast, Climatology or Constant.
	// +optional
	Basis string `json:"basis,omitempty"`
	// source names where these numbers come from.
	// +optional
	Source string `json:"source,omitempty"`
	// factor is which emissions they count.
	// +optional
	Factor Factor `json:"factor,omitempty"`
	// age of the newest information, a measured value or a forecast, e.g. "25m".
	// +optional
	Age string `json:"age,omitempty"`
	// accuracy of recent forecasts on the present basis.
	// +optional
	Accuracy *Accuracy `json:"accuracy,omitempty"`
	// issuedAt is when the forecast in use was published or made.
	// +optional
	IssuedAt *metav1.Time `json:"issuedAt,omitempty"`
	// validUntil is the end of what is known.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// forecast is the intensity of the hours to come, at most two days of them.
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Forecast []ForecastPoint `json:"forecast,omitempty"`
	// conditions: Ready (the source is configured and has been read), Stale (the
	// newest information is too old), Degraded (the hours to come rest on less
	// than the source should give).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Conditions of a GridZone.
const (
	// ConditionReady: the resource does what its specification asks.
	ConditionReady = "Ready"
	// ConditionStale: the newest information is older than the zone accepts.
	ConditionStale = "Stale"
	// ConditionDegraded: the hours to come rest on less than the source should
	// give.
	ConditionDegraded = "Degraded"
)

// GridZone is the carbon intensity of a grid zone.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=gz
// +kubebuilder:validation:XValidation:rule="!has(self.spec.beside) || self.spec.beside != self.metadata.name",message="spec.beside: accepted: the name of another GridZone"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.status.zone`
// +kubebuilder:printcolumn:name="gCO2eq/kWh",type=number,JSONPath=`.status.intensity`
// +kubebuilder:printcolumn:name="Trend",type=string,JSONPath=`.status.trend`
// +kubebuilder:printcolumn:name="Basis",type=string,JSONPath=`.status.basis`
// +kubebuilder:printcolumn:name="Age",type=string,JSONPath=`.status.age`
// +kubebuilder:printcolumn:name="Error %",type=number,JSONPath=`.status.accuracy.meanError`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Stale",type=string,JSONPath=`.status.conditions[?(@.type=="Stale")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source`,priority=1
type GridZone struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GridZoneSpec `json:"spec"`
	// +optional
	Status GridZoneStatus `json:"status,omitempty"`
}

// GridZoneList is a list of zones.
//
// +kubebuilder:object:root=true
type GridZoneList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GridZone `json:"items"`
}
