// Package config embeds the manifests that Lull needs in a cluster.
package config

import (
	"embed"
	"io/fs"
	"sort"
	"strings"

	"lull.dev/lull/internal/kinds"
)

//go:embed crd/*.yaml rbac/*.yaml rbac/failsafe/*.yaml
var files embed.FS

// Manifests returns all manifests as one YAML stream, in the order in which
// they have to be applied: custom resources, access rules, then an access rule and
// an admission policy for each of the given kinds of workloads.
func Manifests(of []*kinds.Kind) string {
	var documents []string
	for _, dir := range []string{"crd", "rbac", "rbac/failsafe"} {
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
	for _, k := range of {
		documents = append(documents, strings.TrimSpace(k.Manifests()))
	}
	return "---\n" + strings.Join(documents, "\n---\n") + "\n"
}
