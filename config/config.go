// Package config embeds the manifests that Lull needs in a cluster.
package config

import (
	"embed"
	"io/fs"
	"sort"
	"strings"
)

//go:embed crd/*.yaml rbac/*.yaml admission/*.yaml
var files embed.FS

// Manifests returns all manifests as one YAML stream, in the order in which
// they have to be applied: custom resources, access rules, admission policy.
func Manifests() string {
	var documents []string
	for _, dir := range []string{"crd", "rbac", "admission"} {
		entries, err := fs.ReadDir(files, dir)
		if err != nil {
			panic(err) // the folders are part of the binary
		}
		sort.Slice(entries, func(a, b int) bool { return entries[a].Name() < entries[b].Name() })
		for _, e := range entries {
			text, err := fs.ReadFile(files, dir+"/"+e.Name())
			if err != nil {
				panic(err)
			}
			documents = append(documents, strings.TrimSpace(strings.TrimPrefix(string(text), "---\n")))
		}
	}
	return "---\n" + strings.Join(documents, "\n---\n") + "\n"
}
