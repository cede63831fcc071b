// Package config embeds the manifests that Lull needs in a cluster.
package config

import (
	"embed"
	"io/fs"
	"sort"
	"strings"

	"lull.dev/lull/internal/kinds"
)

//go:embed crd/*.yaml rbac/*.yaml rbac/failsafe/*.yaml fleet/*.yaml deploy/*.yaml
var files embed.FS

// Manifests returns all manifests as one YAML stream, in the order in which
// they have to be applied: custom resources, access rules, an access rule and
// an admission policy for each of the given kinds of workloads, what working with Kueue takes
// where that is wanted, and, where an image is given, the Deployments of controller and
// watchdog.
func Manifests(of []*kinds.Kind, withKueue bool, image string) string {
	documents := documentsOf("crd", "rbac", "rbac/failsafe")
	if withKueue {
		documents = append(documents, documentsOf("fleet")...)
	}
	for _, k := range of {
		documents = append(documents, strings.TrimSpace(k.Manifests()))
	}
	if image != "" {
		for _, text := range documentsOf("deploy") {
			documents = append(documents, strings.ReplaceAll(text, "image: IMAGE", "image: "+image))
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
