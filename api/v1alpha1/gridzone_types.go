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

// GridZoneSpec says where the carbon intensity of a zone comes from.
type GridZoneSpec struct {
	// zone is the name of the grid zone as Electricity Maps names it, e.g. "DE"
	// or "US-CAL-CISO".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Zone string `json:"zone"`

	// signal says whether the source gives average or marginal intensities.
	// +kubebuilder:default=Average
	// +optional
	Signal Signal `json:"signal,omitempty"`

	// source is where the intensity comes from.
	Source GridZoneSource `json:"source"`

	// replay plays a recorded series as if it happened now. All times that
	// concern jobs of this zone (run times, delays, deadlines) are then times of
	// the series. For tests and demonstrations.
	// +optional
	Replay *Replay `json:"replay,omitempty"`

	// staleAfter is how long past the end of its newest value the series is
	// still called current.
	// +kubebuilder:default="2h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// GridZoneSource is one source; exactly one field is set.
// +kubebuilder:validation:ExactlyOneOf=configMap;file
type GridZoneSource struct {
	// configMap holds a series as CSV (time,intensity_gco2eq_per_kwh) or JSON.
	// +optional
	ConfigMap *ConfigMapKey `json:"configMap,omitempty"`
	// file is the path of such a series in the controller's file system.
	// +optional
	File *FileSource `json:"file,omitempty"`
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
}

// GridZoneStatus is what is known of the zone now.
type GridZoneStatus struct {
	// intensity is that of this moment, gCO2eq/kWh; absent where it is not known.
	// +optional
	Intensity *float64 `json:"intensity,omitempty"`
	// gridTime is the time of the series that is now.
	// +optional
	GridTime *metav1.Time `json:"gridTime,omitempty"`
	// trend compares the next three hours with now.
	// +optional
	Trend Trend `json:"trend,omitempty"`
	// source names where the numbers come from.
	// +optional
	Source string `json:"source,omitempty"`
	// issuedAt is when the numbers were published, where the source says so.
	// +optional
	IssuedAt *metav1.Time `json:"issuedAt,omitempty"`
	// validUntil is the end of the series.
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// forecast is the intensity of the hours to come, at most two days of them.
	// +kubebuilder:validation:MaxItems=48
	// +listType=atomic
	// +optional
	Forecast []ForecastPoint `json:"forecast,omitempty"`
	// conditions: Ready (a series was read), Stale (it has no value for now).
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
	// ConditionStale: the series has no value for this moment.
	ConditionStale = "Stale"
)

// GridZone is the carbon intensity of a grid zone.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=gz
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="gCO2eq/kWh",type=number,JSONPath=`.status.intensity`
// +kubebuilder:printcolumn:name="Trend",type=string,JSONPath=`.status.trend`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Stale",type=string,JSONPath=`.status.conditions[?(@.type=="Stale")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
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
