// Package charts holds the Helm chart, and renders it into the manifests that Lull needs in a cluster.
package charts

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"

	"lull.dev/lull/internal/cluster/kinds"
)

//go:embed all:lull
var files embed.FS

// Namespace is where Lull runs unless it is installed elsewhere by the chart.
const Namespace = kinds.DefaultNamespace

// Alerts are the alerts for Prometheus, as a file of rules.
//
//go:embed lull/files/alerts.yaml
var Alerts string

// PrometheusRule returns the alerts as an object of the Prometheus operator.
func PrometheusRule(namespace string) string {
	_, groups, _ := strings.Cut(Alerts, "groups:")
	return "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: lull, namespace: " + namespace + "}\nspec:\n  " +
		strings.ReplaceAll("groups:"+strings.TrimRight(groups, "\n"), "\n", "\n  ") + "\n"
}

// Options say what is to be installed beside what always is.
type Options struct {
	// Kueue adds what working with Kueue takes, Extender what "lull extender" does, Capacity what
	// setting the capacity of queues, node pools and nodes does, Autoscaling what reading the limits of autoscalers does, Web what
	// the web page does.
	Kueue, Extender, Capacity, Autoscaling, Web bool
	// Webhook has "lull admission" hold work at creation, instead of admission policies.
	Webhook bool
	// Namespaces are those that Lull governs; none for all.
	Namespaces []string
	// Image adds the Deployments of all that is installed; empty for none.
	Image string
}

var load = sync.OnceValues(func() (*chart.Chart, error) {
	var buffered []*archive.BufferedFile
	err := fs.WalkDir(files, "lull", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		buffered = append(buffered, &archive.BufferedFile{Name: strings.TrimPrefix(path, "lull/"), Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(buffered)
})

const namespaceManifest = `apiVersion: v1
kind: Namespace
metadata:
  name: ` + Namespace + `
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

// Manifests returns all manifests as one YAML stream, in the order in which
// they have to be applied: custom resources, access rules, an access rule and
// an admission policy for each of the given kinds of workloads, and what the options add.
// They are the chart's, but for its hooks.
func Manifests(of []*kinds.Kind, o Options) (string, error) {
	on := func(is bool) map[string]any { return map[string]any{"enabled": is} }
	values := map[string]any{
		"deploy": o.Image != "", "crds": map[string]any{"keep": false}, "image": image(o.Image), "kinds": []any{},
		"kueue": on(o.Kueue), "extender": on(o.Extender), "capacity": on(o.Capacity), "autoscaling": on(o.Autoscaling), "web": on(o.Web),
	}
	mode, manifestsOf := "policy", (*kinds.Kind).Manifests
	if o.Webhook {
		mode, manifestsOf = "webhook", (*kinds.Kind).Rights
	}
	names := make([]any, len(of))
	for i, k := range of {
		names[i] = k.Name
	}
	values["admission"] = map[string]any{"mode": mode, "kinds": names}
	if len(o.Namespaces) > 0 {
		list := make([]any, 0, len(o.Namespaces))
		for _, name := range o.Namespaces {
			list = append(list, name)
		}
		values["namespaces"] = list
	}
	_, sorted, err := render(values)
	if err != nil {
		return "", fmt.Errorf("the chart: %w", err)
	}
	documents := []string{namespaceManifest}
	deployed := slices.IndexFunc(sorted, func(m releaseutil.Manifest) bool { return m.Head.Kind == "Deployment" })
	if deployed < 0 {
		deployed = len(sorted)
	}
	for _, m := range sorted[:deployed] {
		documents = append(documents, m.Content)
	}
	for _, k := range of {
		documents = append(documents, manifestsOf(k, o.Namespaces...))
	}
	for _, m := range sorted[deployed:] {
		documents = append(documents, m.Content)
	}
	for i := range documents {
		documents[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(documents[i]), "---"))
	}
	return "---\n" + strings.Join(documents, "\n---\n") + "\n", nil
}

// render renders the chart into hooks, and manifests in the order of their installation.
func render(values map[string]any) ([]*release.Hook, []releaseutil.Manifest, error) {
	return renderIn(Namespace, values)
}

// renderIn renders the chart as it is installed in a namespace.
func renderIn(namespace string, values map[string]any) ([]*release.Hook, []releaseutil.Manifest, error) {
	return renderFor(common.ReleaseOptions{Name: "lull", Namespace: namespace, IsInstall: true}, nil, values)
}

// renderFor renders the chart for an installation or an upgrade. The cluster is what templates look up objects in; nil for none.
func renderFor(o common.ReleaseOptions, cluster engine.ClientProvider, values map[string]any) ([]*release.Hook, []releaseutil.Manifest, error) {
	capabilities, err := kubernetes(tested)
	if err != nil {
		return nil, nil, err
	}
	return renderOn(capabilities, o, cluster, values)
}

// tested is the version of Kubernetes that Lull is tested on.
const tested = "v1.36.0"

// kubernetes returns the capabilities of a cluster of a version, with further API versions.
func kubernetes(version string, apis ...string) (*common.Capabilities, error) {
	out := common.DefaultCapabilities.Copy()
	v, err := common.ParseKubeVersion(version)
	if err != nil {
		return nil, err
	}
	out.KubeVersion, out.APIVersions = *v, slices.Concat(out.APIVersions, apis)
	return out, nil
}

// renderOn renders the chart for a cluster that has some capabilities.
func renderOn(capabilities *common.Capabilities, o common.ReleaseOptions, cluster engine.ClientProvider, values map[string]any) ([]*release.Hook, []releaseutil.Manifest, error) {
	c, err := load()
	if err != nil {
		return nil, nil, err
	}
	all, err := util.ToRenderValues(c, values, o, capabilities)
	if err != nil {
		return nil, nil, err
	}
	var rendered map[string]string
	if cluster == nil {
		rendered, err = engine.Render(c, all)
	} else {
		rendered, err = engine.RenderWithClientProvider(c, all, cluster)
	}
	if err != nil {
		return nil, nil, err
	}
	maps.DeleteFunc(rendered, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	return releaseutil.SortManifests(rendered, nil, releaseutil.InstallOrder)
}

// image takes the name of an image apart.
func image(name string) map[string]any {
	repository, digest, _ := strings.Cut(name, "@")
	tag := "latest"
	if colon := strings.LastIndexByte(repository, ':'); colon > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:colon], repository[colon+1:]
	}
	return map[string]any{"repository": repository, "tag": tag, "digest": digest}
}
