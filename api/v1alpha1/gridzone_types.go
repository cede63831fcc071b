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

	// cloudRegion names the zone by a cloud region in it, e.g. "aws/eu-central-1".
	// "lull forecast regions" lists the known regions.
	// +kubebuilder:validation:Pattern=`^(aws|gcp|azure)/[a-z0-9-]+$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	CloudRegion string `json:"cloudRegion,omitempty"`

	// signal says whether the source gives average or marginal intensities. To
	// record both, make two GridZones.
	// +kubebuilder:default=Average
	// +optional
	Signal Signal `json:"signal,omitempty"`

	// beside names another GridZone of the same place and time, with the other signal or factor. The ledger
	// then states emissions and savings by both. Plans use this one only.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Beside string `json:"beside,omitempty"`

	// factor says which emissions the source counts. By default it is what the source publishes, or
	// Lifecycle if the source publishes both.
	// +optional
	Factor Factor `json:"factor,omitempty"`

	// paused releases every workload that policies of this zone hold. While it is true, Lull holds and
	// scales none of their workloads.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// source is where the intensity comes from.
	Source GridZoneSource `json:"source"`

	// refresh is how often Lull reads the source.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="accepted: 1m to 24h"
	// +optional
	Refresh *metav1.Duration `json:"refresh,omitempty"`

	// horizon is how far ahead Lull forecasts the intensity.
	// +kubebuilder:default="96h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('336h')",message="accepted: 1h to 336h"
	// +optional
	Horizon *metav1.Duration `json:"horizon,omitempty"`

	// fallback is the intensity that Lull uses if it has neither a forecast, nor values
	// of the past, nor climatology.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// weather of a place that drives the intensity. It improves forecasts that Lull makes
	// from past values.
	// +optional
	Weather *WeatherSource `json:"weather,omitempty"`

	// replay plays a recorded series as if it happened now, for tests and demonstrations.
	// All times of jobs of this zone (run times, delays, deadlines) are then in time of
	// the series.
	// +optional
	Replay *Replay `json:"replay,omitempty"`

	// staleAfter is the age of the newest measured value or forecast above which the zone is stale.
	// +kubebuilder:default="2h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="accepted: 0s to 720h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// Fallback is the intensity that Lull uses if it knows nothing else.
//
// +kubebuilder:validation:XValidation:rule="(!has(self.low) || self.low <= self.intensity) && (!has(self.high) || self.high >= self.intensity)",message="low may not be above intensity, high not below it"
type Fallback struct {
	// intensity in gCO2eq/kWh.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3000
	Intensity float64 `json:"intensity"`
	// low is a value that the intensity is almost never below; by default a third of
	// intensity.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3000
	// +optional
	Low *float64 `json:"low,omitempty"`
	// high is a value that the intensity is almost never above; by default twice
	// intensity.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3000
	// +optional
	High *float64 `json:"high,omitempty"`
}

// Endpoint is the address of a service: scheme, host, port and path, without a
// slash at the end.
// +kubebuilder:validation:Pattern=`^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-])?$`
// +kubebuilder:validation:MaxLength=256
type Endpoint string

// AnnotationProviderHosts is an annotation on a Secret that GridZones may use. It names the hosts to which Lull may send the Secret,
// separated by commas, each with the port if the endpoint has one.
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
	// file names a file with such a series in the controller's file system.
	// +optional
	File *FileSource `json:"file,omitempty"`
	// electricityMaps reads from the API of Electricity Maps: Average.
	// +optional
	ElectricityMaps *ElectricityMapsSource `json:"electricityMaps,omitempty"`
	// wattTime reads from the API of WattTime: Marginal (or Average), Direct.
	// +optional
	WattTime *WattTimeSource `json:"wattTime,omitempty"`
	// ukCarbonIntensity reads from the API of Great Britain's system operator: Average,
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
	// carbonAwareSDK reads from the WebAPI of the Carbon Aware SDK.
	// +optional
	CarbonAwareSDK *CarbonAwareSDKSource `json:"carbonAwareSDK,omitempty"`
	// carbonAwareConfigMap reads what the exporter of the Carbon Aware SDK writes.
	// +optional
	CarbonAwareConfigMap *CarbonAwareConfigMapSource `json:"carbonAwareConfigMap,omitempty"`
	// prometheus runs a query that gives one series in gCO2eq/kWh.
	// +optional
	Prometheus *PrometheusSource `json:"prometheus,omitempty"`
}

// ElectricityMapsSource reads from the API of Electricity Maps.
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

// WattTimeSource reads from the API of WattTime, v3.
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
	// username of the account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Username string `json:"username"`
	// passwordSecret holds the password of the account.
	PasswordSecret SecretKey `json:"passwordSecret"`
}

// UKCarbonIntensitySource reads from the Carbon Intensity API.
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

// EntsoESource reads from the ENTSO-E Transparency Platform.
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

// EIASource reads from the US Energy Information Administration.
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

// CarbonAwareSDKSource reads from the WebAPI of the Carbon Aware SDK. What the SDK publishes
// depends on its own source: state it in signal and factor of the zone.
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

// PrometheusSource queries a Prometheus server. State in signal and factor of the zone
// what the query returns.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tokenSecret) || self.endpoint.startsWith('https://') || self.endpoint.matches('^http://(127[.]0[.]0[.]1|localhost)(:|/|$)')",message="endpoint: a secret is sent; accepted: https, or http on loopback"
type PrometheusSource struct {
	Endpoint Endpoint `json:"endpoint"`
	// query returns one series.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Query string `json:"query"`
	// forecastQuery returns an instant vector with one series for each coming hour. The
	// label forecast_time states the hour.
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
	// start is the time in the series at which the replay begins.
	Start metav1.Time `json:"start"`
	// epoch is the wall time at which the replay begins; by default the creation
	// of the GridZone.
	// +optional
	Epoch *metav1.Time `json:"epoch,omitempty"`
	// factor is how many seconds of the series pass in one second of wall time.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=1
	// +optional
	Factor int64 `json:"factor,omitempty"`
}

// Trend says whether the intensity rises or falls.
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
	// low is the 10 % quantile; absent if it equals intensity.
	// +optional
	Low *float64 `json:"low,omitempty"`
	// high is the 90 % quantile; absent if it equals intensity.
	// +optional
	High *float64 `json:"high,omitempty"`
}

// Accuracy says how good recent forecasts were.
type Accuracy struct {
	// meanError is the mean absolute percentage error of forecasts up to a day
	// ahead, in percent.
	MeanError float64 `json:"meanError"`
	// values is how many comparisons meanError is computed from.
	Values int64 `json:"values"`
}

// GridZoneStatus is what is known of the zone now.
type GridZoneStatus struct {
	// zone is the grid zone, also if the specification names a cloud region.
	// +optional
	Zone string `json:"zone,omitempty"`
	// intensity is the present carbon intensity, in gCO2eq/kWh; absent if it is not known.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// gridTime is the present time of the series; it differs from wall time with replay.
	// +optional
	GridTime *metav1.Time `json:"gridTime,omitempty"`
	// trend compares the next three hours with now.
	// +optional
	Trend Trend `json:"trend,omitempty"`
	// basis says where the intensities of the coming hours come from: LiveForecast,
	// CachedForecast, OwnForecast, Climatology or Constant.
	// +optional
	Basis string `json:"basis,omitempty"`
	// source names the source of the intensities.
	// +optional
	Source string `json:"source,omitempty"`
	// factor says which emissions the intensities count.
	// +optional
	Factor Factor `json:"factor,omitempty"`
	// age of the newest information, a measured value or a forecast, e.g. "25m".
	// +optional
	Age string `json:"age,omitempty"`
	// accuracy of recent forecasts of the present basis.
	// +optional
	Accuracy *Accuracy `json:"accuracy,omitempty"`
	// issuedAt is when the present forecast was published or made.
	// +optional
	IssuedAt *metav1.Time `json:"issuedAt,omitempty"`
	// validUntil is the time up to which the intensity is known.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// forecast is the intensity of the coming hours, at most two days.
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Forecast []ForecastPoint `json:"forecast,omitempty"`
	// conditions: Ready (the source is configured and has been read), Stale (the
	// newest measured value or forecast is too old), Degraded (the intensities of the
	// coming hours are worse than the source should provide).
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
	// ConditionDegraded: the intensities of the coming hours are worse than the source
	// should provide.
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
