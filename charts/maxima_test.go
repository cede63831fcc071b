package charts

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/cluster/kinds"
)

// crdSchema is what of a schema bounds a value.
type crdSchema struct {
	Properties           map[string]*crdSchema
	Items                *crdSchema
	AdditionalProperties *crdSchema
	Minimum, Maximum     *float64
	Default              any
	MaxLength            *int64
	Rules                []struct{ Rule string } `json:"x-kubernetes-validations"`
}

// TestEveryNumberIsBounded: each number, duration and amount in the specification of a custom resource has a minimum and a maximum in its schema, and the values of
// maps of texts have a maximum.
func TestEveryNumberIsBounded(t *testing.T) {
	for name, spec := range map[string]any{
		"capacitycurves": v1alpha1.CapacityCurveSpec{}, "carbonpolicies": v1alpha1.CarbonPolicySpec{}, "computeclusters": v1alpha1.ComputeClusterSpec{}, "follows": v1alpha1.FollowSpec{},
		"gridzones": v1alpha1.GridZoneSpec{}, "scalingprofiles": v1alpha1.ScalingProfileSpec{}, "workloadkinds": v1alpha1.WorkloadKindSpec{},
	} {
		bounded(t, name+".spec", reflect.TypeOf(spec), specSchema(t, name))
	}
}

// specSchema is the schema of the specification of a custom resource.
func specSchema(t *testing.T, name string) *crdSchema {
	t.Helper()
	text, err := os.ReadFile("lull/files/crd/lull.dev_" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema crdSchema `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// TestDefaultEndpointsAreTheSameEverywhere: a source that names no address asks the same service whether the API server has filled the address in or not.
func TestDefaultEndpointsAreTheSameEverywhere(t *testing.T) {
	want := map[string]string{
		"electricityMaps": provider.ElectricityMapsEndpoint, "wattTime": provider.WattTimeEndpoint, "ukCarbonIntensity": provider.UKCarbonIntensityEndpoint,
		"entsoE": provider.EntsoEEndpoint, "eia": provider.EIAEndpoint,
	}
	got := map[string]string{}
	for name, source := range specSchema(t, "gridzones").Properties["source"].Properties {
		if endpoint := source.Properties["endpoint"]; endpoint != nil && endpoint.Default != nil {
			got[name], _ = endpoint.Default.(string)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the API server fills in %v, want %v", got, want)
	}
}

// TestDefaultKindsAreTheSameEverywhere: a policy that names no kinds governs the same ones whether the API server has filled them in or not.
func TestDefaultKindsAreTheSameEverywhere(t *testing.T) {
	text, err := os.ReadFile("lull/files/crd/lull.dev_carbonpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "              kinds:\n                default:\n")
	list, _, _ := strings.Cut(after, "                description:")
	var got []string
	if err := yaml.Unmarshal([]byte(list), &got); err != nil || !slices.Equal(got, kinds.DefaultNames) {
		t.Errorf("%v, want %v, %v", got, kinds.DefaultNames, err)
	}
}

func bounded(t *testing.T, path string, of reflect.Type, s *crdSchema) {
	t.Helper()
	if s == nil {
		t.Errorf("%s has no schema", path)
		return
	}
	rules := ""
	for _, r := range s.Rules {
		rules += r.Rule + "\n"
	}
	switch of {
	case reflect.TypeFor[metav1.Duration]():
		if !strings.Contains(rules, "<= duration(") {
			t.Errorf("%s: a duration without a maximum", path)
		}
		if !strings.Contains(rules, ">= duration(") && !strings.Contains(rules, "> duration(") {
			t.Errorf("%s: a duration without a minimum", path)
		}
		return
	case reflect.TypeFor[resource.Quantity]():
		t.Errorf("%s: a Quantity has no maximum, and a text such as 1e-2000000000 takes forever to read; accepted: Amount", path)
		return
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.LabelSelector](), reflect.TypeFor[v1alpha1.Amount]():
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		bounded(t, path, of.Elem(), s)
	case reflect.Struct:
		if of.Implements(reflect.TypeFor[json.Marshaler]()) {
			return
		}
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			bounded(t, path+"."+name, f.Type, s.Properties[name])
		}
	case reflect.Slice:
		if of.Elem().Kind() != reflect.Uint8 {
			bounded(t, path+"[]", of.Elem(), s.Items)
		}
	case reflect.Map:
		if strings.Contains(rules, "self.all(k, self[k] >= 0.0 && self[k] <= ") { // a map of numbers
			return
		}
		if strings.Contains(rules, "size(self[k]) <= ") {
			return
		}
		if s.AdditionalProperties == nil || of.Elem().Kind() == reflect.String && s.AdditionalProperties.MaxLength == nil && of.Elem() != reflect.TypeFor[v1alpha1.Amount]() {
			t.Errorf("%s: texts without a greatest length", path)
			return
		}
		bounded(t, path+"{}", of.Elem(), s.AdditionalProperties)
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		if s.Minimum == nil || s.Maximum == nil {
			t.Errorf("%s: a number without a minimum or a maximum", path)
		}
	}
}
