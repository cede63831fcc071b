// Package config embeds the manifests that Lull needs in a cluster.
package config

import (
	"embed"
	"io/fs"
	"sort"
	"strings"

	"lull.dev/lull/internal/kinds"
)

//go:embed crd/*.yaml rbac/*.yaml rbac/failsafe/*.yaml fleet/*.yaml deploy/*.yaml extender/*.yaml extender/deploy/*.yaml capacity/*.yaml web/*.yaml web/deploy/*.yaml
var files embed.FS

// Alerts are the alerts for Prometheus, as a file of rules.
//
//go:embed monitoring/alerts.yaml
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
	// setting the capacity of queues, node pools and nodes does, Web what the web page does.
	Kueue, Extender, Capacity, Web bool
	// Image adds the Deployments of all that is installed; empty for none.
	Image string
}

// Manifests returns all manifests as one YAML stream, in the order in which
// they have to be applied: custom resources, access rules, an access rule and
// an admission policy for each of the given kinds of workloads, and what the options add.
func Manifests(of []*kinds.Kind, o Options) string {
	documents, deployments := documentsOf("crd", "rbac", "rbac/failsafe"), []string{"deploy"}
	if o.Kueue {
		documents = append(documents, documentsOf("fleet")...)
	}
	if o.Extender {
		documents, deployments = append(documents, documentsOf("extender")...), append(deployments, "extender/deploy")
	}
	if o.Web {
		documents, deployments = append(documents, documentsOf("web")...), append(deployments, "web/deploy")
	}
	if o.Capacity {
		documents = append(documents, documentsOf("capacity")...)
	}
	for _, k := range of {
		documents = append(documents, strings.TrimSpace(k.Manifests()))
	}
	if o.Image != "" {
		for _, text := range documentsOf(deployments...) {
			documents = append(documents, strings.ReplaceAll(text, "image: IMAGE", "image: "+o.Image))
		}
	}
	return "---\n" + strings.Join(documents, "\n---\n") + "\n"
}

// documentsOf returns the embedded documents of some folders.
func documentsOf(dirs ...string) []string {
	var documents []string
	for _, dir := range dirs {
		entries, err := fs.ReadDir(files, dir)
		if err != nil {
			panic(err) // the folders are part of the binary
		}
		sort.Slice(entries, func(a, b int) bool { return entries[a].Name() < entries[b].Name() })
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			text, err := fs.ReadFile(files, dir+"/"+e.Name())
			if err != nil {
				panic(err)
			}
			documents = append(documents, strings.TrimSpace(strings.TrimPrefix(string(text), "---\n")))
		}
	}
	return documents
}
