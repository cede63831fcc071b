package charts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// schemas are the schemas of a CustomResourceDefinition by their versions, and its names.
func schemas(t *testing.T, text []byte) (name, kind string, versions map[string]map[string]any) {
	t.Helper()
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	kind, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "kind")
	list, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	versions = map[string]map[string]any{}
	for _, v := range list {
		v, _ := v.(map[string]any)
		version, _ := v["name"].(string)
		versions[version], _, err = unstructured.NestedMap(v, "schema", "openAPIV3Schema")
		if err != nil || version == "" {
			t.Fatalf("%s: version %q: %v", crd.GetName(), version, err)
		}
	}
	return crd.GetName(), kind, versions
}

// invalid says what an API server finds wrong with an object under a schema, unknown fields included.
func invalid(t *testing.T, schema, object map[string]any) (problems []string) {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var known spec.Schema
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	for _, err := range validate.NewSchemaValidator(&known, nil, "", strfmt.Default).Validate(object).Errors {
		problems = append(problems, err.Error())
	}
	return append(problems, unknown(schema, object, "")...)
}

// unknown are the fields of a value that a schema does not have.
func unknown(schema map[string]any, x any, path string) (fields []string) {
	switch x := x.(type) {
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		others, open := schema["additionalProperties"].(map[string]any)
		keep, _ := schema["x-kubernetes-preserve-unknown-fields"].(bool)
		for key, value := range x {
			property, known := properties[key].(map[string]any)
			switch {
			case path == "" && (key == "apiVersion" || key == "kind" || key == "metadata"):
			case known:
				fields = append(fields, unknown(property, value, path+"."+key)...)
			case open:
				fields = append(fields, unknown(others, value, path+"."+key)...)
			case !keep:
				fields = append(fields, path+"."+key+" is unknown")
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		for i, value := range x {
			fields = append(fields, unknown(items, value, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return fields
}

// certManager is the version of cert-manager whose definitions are compared, and the checksum of its module.
const certManager, certManagerSum = "github.com/cert-manager/cert-manager@v1.19.1", "h1:Txh8L/nLWTDcb7ZnXuXbTe15BxQnLbLirXmbNk0fGgY="

// TestCertManagerKnowsTheCertificate: the Certificate that the chart makes is valid by the definition that cert-manager publishes, and is what lull admission needs.
func TestCertManagerKnowsTheCertificate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // of a network that does not answer
	defer cancel()
	fetch := exec.CommandContext(ctx, "go", "mod", "download", "-json", certManager) // nothing is built of it
	fetch.Dir = t.TempDir()
	out, err := fetch.Output()
	var module struct{ Dir, Sum, Error string }
	if json.Unmarshal(out, &module) != nil || err != nil {
		t.Skipf("%s cannot be fetched: %v %s", certManager, err, module.Error)
	}
	if module.Sum != certManagerSum {
		t.Fatalf("%s has the checksum %s, want %s", certManager, module.Sum, certManagerSum)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "deploy", "crds", "cert-manager.io_certificates.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, kind, versions := schemas(t, text)
	values := set(set(everything(), "admission.mode", "webhook"), "admission.certificates", "cert-manager")
	values = set(values, "admission.issuer.name", "ours")
	var certificate map[string]any
	if err := yaml.Unmarshal([]byte(names(t, values)["Certificate lull-admission"]), &certificate); err != nil {
		t.Fatal(err)
	}
	if certificate["kind"] != kind || certificate["apiVersion"] != "cert-manager.io/v1" || versions["v1"] == nil {
		t.Fatalf("%v of cert-manager has %v; the chart makes %v", kind, slices.Collect(maps.Keys(versions)), certificate)
	}
	for _, problem := range invalid(t, versions["v1"], certificate) {
		t.Error(problem)
	}
	// Each of these has to be found: else the comparison would compare nothing.
	for path, to := range map[string]any{"spec.dnsName": []any{"a"}, "spec.privateKey.algorithm": "RSA2", "spec.issuerRef.name": 3, "spec.usages": []any{"serving"}} {
		if len(invalid(t, versions["v1"], set(certificate, path, to))) == 0 {
			t.Errorf("%s: %v is accepted", path, to)
		}
	}
}

// TestCertManager: with cert-manager the chart makes a Certificate for the name by which API servers ask, and no Secret; lull admission reads the Secret of the Certificate.
func TestCertManager(t *testing.T) {
	values := set(set(everything(), "admission.mode", "webhook"), "admission.certificates", "cert-manager")
	if _, _, err := render(values); err == nil || !strings.Contains(err.Error(), "admission.issuer.name: not set; accepted") {
		t.Errorf("without an issuer: %v", err)
	}
	values = set(set(values, "admission.issuer.name", "ours"), "admission.issuer.kind", "Issuer")
	all := names(t, values)
	for _, want := range []string{"secretName: lull-admission-tls\n", "dnsNames: [lull-admission." + Namespace + ".svc]\n", "kind: Issuer\n", "name: ours"} {
		if !strings.Contains(all["Certificate lull-admission"], want) {
			t.Errorf("no %q in %s", want, all["Certificate lull-admission"])
		}
	}
	role := all["Role lull-admission"]
	if all["Secret lull-admission-tls"] != "" || strings.Contains(role, "update") || !strings.Contains(all["Deployment lull-admission"], "--certificates=secret\n") {
		t.Errorf("%s\n%s", role, all["Deployment lull-admission"])
	}
	if other := names(t, set(values, "admission.certificates", "self")); other["Certificate lull-admission"] != "" || other["Secret lull-admission-tls"] == "" {
		t.Error("Lull's own certificate: there is a Certificate, or no Secret")
	}
}

// TestArtifactHub: the annotations of the chart are those that Artifact Hub documents for Helm charts, with values that it accepts; the custom resources in them are
// those of the chart, and the examples are valid.
func TestArtifactHub(t *testing.T) {
	c, err := load()
	if err != nil {
		t.Fatal(err)
	}
	a := c.Metadata.Annotations
	const prefix = "artifacthub.io/"
	documented := []string{
		"alternativeName", "category", "changes", "containsSecurityUpdates", "crds", "crdsExamples", "images", "license", "links", "maintainers", "operator",
		"operatorCapabilities", "prerelease", "recommendations", "screenshots", "signKey",
	}
	for name := range a {
		if !slices.Contains(documented, strings.TrimPrefix(name, prefix)) {
			t.Errorf("%s; accepted: %s and one of %q", name, prefix, documented)
		}
	}
	if _, err := strconv.ParseBool(a[prefix+"operator"]); err != nil {
		t.Error(err)
	}
	if levels := []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}; !slices.Contains(levels, a[prefix+"operatorCapabilities"]) {
		t.Errorf("operatorCapabilities: %q; accepted: %q", a[prefix+"operatorCapabilities"], levels)
	}
	licence, err := os.ReadFile("../LICENSE")
	if err != nil || a[prefix+"license"] != "Apache-2.0" || !strings.Contains(string(licence), "Apache License") {
		t.Errorf("license: %q, %v", a[prefix+"license"], err)
	}
	definitions := map[string]map[string]any{} // by kind
	var want, got []string
	for _, f := range c.Files {
		if strings.HasPrefix(f.Name, "files/crd/") {
			name, kind, versions := schemas(t, f.Data)
			for version, schema := range versions {
				want, definitions[kind+" lull.dev/"+version] = append(want, kind+" "+version+" "+name), schema
			}
		}
	}
	var crds []struct{ Kind, Version, Name, DisplayName, Description string }
	if err := yaml.UnmarshalStrict([]byte(a[prefix+"crds"]), &crds); err != nil {
		t.Fatal(err)
	}
	for _, x := range crds {
		if got = append(got, x.Kind+" "+x.Version+" "+x.Name); x.DisplayName == "" || x.Description == "" {
			t.Errorf("%+v: no name to show, or no description", x)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("crds: %q, want those of the chart: %q", got, want)
	}
	var examples []map[string]any
	if err := yaml.UnmarshalStrict([]byte(a[prefix+"crdsExamples"]), &examples); err != nil || len(examples) == 0 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, x := range examples {
		schema := definitions[fmt.Sprintf("%v %v", x["kind"], x["apiVersion"])]
		if schema == nil {
			t.Errorf("%v %v is no custom resource of the chart", x["kind"], x["apiVersion"])
			continue
		}
		for _, problem := range invalid(t, schema, x) {
			t.Errorf("example %v: %s", x["kind"], problem)
		}
	}
}
