package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

const tree = "../.."

// generated compares a page with what the code says; LULL_UPDATE=1 (make generate) writes it.
func generated(t *testing.T, page, want string) {
	t.Helper()
	file := filepath.Join(tree, "docs", page)
	if os.Getenv("LULL_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("docs/%s is out of date: run make generate (%v)", page, err)
	}
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}

// ended ends a text with a period, unless it is a question.
func ended(text string) string {
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// TestReferenceCommands writes every command with its flags.
func TestReferenceCommands(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nFor everyone who types `lull`: every command and flag.\n\nThis page is generated. `lull COMMAND --help` prints the same text.\n")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() && !c.Hidden && c.Name() != "help" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", c.CommandPath(), ended(cell(c.Short)))
			var rows []string
			c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
				if f.Hidden || f.Name == "help" {
					return
				}
				name := "`--" + f.Name + "`"
				if f.Shorthand != "" {
					name = "`-" + f.Shorthand + "`, " + name
				}
				value := f.DefValue
				if filepath.IsAbs(value) || value == "NaN" || value == "[]" { // of this machine; none
					value = ""
				}
				rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", name, cell(value), cell(f.Usage)))
			})
			if len(rows) > 0 {
				b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n" + strings.Join(rows, ""))
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	b.WriteString("\n## Exit status\n\n| status | command | meaning |\n|---|---|---|\n")
	for _, r := range exitRows() {
		command := r.command
		if strings.HasPrefix(command, "lull ") {
			command = "`" + command + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.status, command, cell(r.meaning))
	}
	generated(t, "reference-commands.md", b.String())
}

// schema is what is read of a custom resource's schema.
type schema struct {
	Type        string
	Format      string
	Description string
	Default     any
	Enum        []any
	Required    []string
	Properties  map[string]schema
	Items       *schema
	Values      *schema `json:"additionalProperties"`
}

// TestReferenceFields writes every field of every custom resource.
func TestReferenceFields(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(tree, "charts/lull/files/crd/*.yaml"))
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	var b strings.Builder
	b.WriteString("# Fields\n\nFor everyone who writes Lull's resources: every field, its type, default and meaning.\n\nThis page lists the fields of all custom resources (group `lull.dev`, version `v1alpha1`). It is generated; `kubectl explain` prints the same text.\nIf you write a value that is not accepted, the error of the API server names the accepted values.\n")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Scope    string
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		top := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		fmt.Fprintf(&b, "\n## %s\n\n%s Scope: %s.\n\n| field | type | default | meaning |\n|---|---|---|---|\n", crd.Spec.Names.Kind, cell(top.Description), crd.Spec.Scope)
		for _, part := range []string{"spec", "status"} {
			if s, there := top.Properties[part]; there {
				fieldsOf(&b, part, s)
			}
		}
	}
	generated(t, "reference-fields.md", b.String())
}

func fieldsOf(b *strings.Builder, path string, s schema) {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		f := s.Properties[name]
		kind, inner, at := cmp.Or(f.Type, "quantity"), f, path+"."+name
		switch {
		case f.Items != nil:
			kind, inner, at = "list of "+f.Items.Type, *f.Items, at+"[]"
		case f.Values != nil && len(f.Properties) == 0:
			kind, inner, at = "map to "+f.Values.Type, *f.Values, at+".*"
		}
		if len(inner.Enum) > 0 {
			var values []string
			for _, v := range inner.Enum {
				values = append(values, fmt.Sprint(v))
			}
			kind = strings.Join(values, ", ")
		}
		if slices.Contains(s.Required, name) {
			kind += ", required"
		}
		value := ""
		if f.Default != nil {
			text, _ := yaml.Marshal(f.Default)
			value = cell(string(text))
		}
		fmt.Fprintf(b, "| `%s.%s` | %s | %s | %s |\n", path, name, kind, value, cell(f.Description))
		if name != "matchExpressions" { // a selector's, as everywhere in Kubernetes
			fieldsOf(b, at, inner)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	fenced  = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```")
	command = regexp.MustCompile(`(?:^|[\s|(;])(?:\./)?(?:bin/|kubectl )?lull ((?:[a-z]|-)[^|&;<>)#]*)`)
	inlined = regexp.MustCompile("`(?:kubectl )?lull ([a-z][^`]*)`")
)

// TestDocsAreCorrect reads every page: links lead somewhere, commands of Lull are there with the flags they are
// given, and manifests of its resources have the fields they use.
func TestDocsAreCorrect(t *testing.T) {
	decoder := serializer.NewCodecFactory(schemeOf(t), serializer.EnableStrict).UniversalDeserializer()
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "charts/lull/templates/NOTES.txt"}
	err := filepath.WalkDir(filepath.Join(tree, "docs"), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, strings.TrimPrefix(path, tree+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	commands, manifests := 0, 0
	for _, page := range pages {
		raw, err := os.ReadFile(filepath.Join(tree, page))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "\\\n", " ")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(tree, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: a link leads nowhere: %s", page, m[1])
			}
		}
		var lines []string
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			if block[1] == "yaml" || block[1] == "sh" && strings.Contains(block[2], "<<EOF") {
				manifests += manifestsOf(t, page, block[2], func(u []byte) error {
					_, _, err := decoder.Decode(u, nil, nil)
					return err
				})
			}
			if block[1] == "sh" || block[1] == "" {
				lines = append(lines, strings.Split(block[2], "\n")...)
			}
		}
		for line := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(line, "    ") && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				lines = append(lines, line)
			}
			for _, m := range inlined.FindAllStringSubmatch(line, -1) {
				lines = append(lines, "lull "+m[1])
			}
		}
		for _, line := range lines {
			if strings.HasPrefix(strings.TrimSpace(line), "helm ") { // to which Lull is a release
				continue
			}
			line, _, _ = strings.Cut(line, "   #")
			for _, m := range command.FindAllStringSubmatch(line, -1) {
				commands++
				if err := accepted(strings.Fields(m[1])); err != nil {
					t.Errorf("%s: lull %s: %v", page, m[1], err)
				}
			}
		}
	}
	t.Logf("%d pages, %d commands, %d manifests", len(pages), commands, manifests)
	if commands < 100 || manifests < 20 {
		t.Errorf("only %d commands and %d manifests were found", commands, manifests)
	}
}

// TestExamplesForSchedulersUseRealFlags: the commands in the examples for other schedulers are there with the flags they are given.
func TestExamplesForSchedulersUseRealFlags(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(tree, "examples/schedule/*"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".yml") {
			if err := yaml.UnmarshalStrict(text, &map[string]any{}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		found := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for _, m := range command.FindAllStringSubmatch(line, -1) {
				if words := strings.Fields(m[1]); words[0] == "run" || words[0] == "when" {
					found++
					if err := accepted(words); err != nil {
						t.Errorf("%s: lull %s: %v", file, m[1], err)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no command of lull", file)
		}
	}
}

// manifestsOf decodes those of Lull's resources, strictly, and returns how many there are.
func manifestsOf(t *testing.T, page, block string, decode func([]byte) error) (n int) {
	t.Helper()
	for text := range strings.SplitSeq("\n"+block, "\n---") {
		_, text, _ = strings.Cut("\n"+text, "\napiVersion:")
		text, _, _ = strings.Cut("apiVersion:"+text, "\nEOF")
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil || u.GroupVersionKind().Group != "lull.dev" || u.GetKind() == "ExtenderConfiguration" {
			continue
		}
		n++
		// What a shell would fill in is a time.
		text = regexp.MustCompile(`\$\([^)]*\)`).ReplaceAllString(text, `2026-01-01T00:00:00Z`)
		if err := decode([]byte(text)); err != nil {
			t.Errorf("%s: %s %s: %v", page, u.GetKind(), u.GetName(), err)
		}
	}
	return n
}

// accepted checks that a command is there and knows the flags it is given.
func accepted(words []string) error {
	root := newRoot()
	root.InitDefaultCompletionCmd() // as Execute does
	root.InitDefaultHelpCmd()
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if c.HasSubCommands() && !c.Runnable() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && strings.ToUpper(rest[0]) != rest[0] {
		return fmt.Errorf("no command %s", rest[0])
	}
	for _, w := range rest {
		if w == "--" { // what follows is of another command
			break
		}
		name, _, _ := strings.Cut(w, "=")
		name = strings.TrimRight(name, ".,:`\"'")
		switch {
		case strings.HasPrefix(name, "--") && len(name) > 2:
			if name != "--help" && c.Flags().Lookup(name[2:]) == nil && c.InheritedFlags().Lookup(name[2:]) == nil {
				return fmt.Errorf("no flag %s", name)
			}
		case len(name) == 2 && name[0] == '-' && name[1] != '-':
			if name != "-h" && c.Flags().ShorthandLookup(name[1:]) == nil {
				return fmt.Errorf("no flag %s", name)
			}
		}
	}
	return nil
}
