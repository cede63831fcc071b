package kube

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMisspeltAnnotationIsNamed: a misspelt annotation is named with the nearest one, and what is right is not.
func TestMisspeltAnnotationIsNamed(t *testing.T) {
	for name, near := range map[string]string{
		"lull.dev/max-dealy": "lull.dev/max-delay", "lull.dev/deadlne": "lull.dev/deadline", "lull.dev/run-time": "lull.dev/runtime", "lull.dev/maxDelay": "lull.dev/max-delay",
		"lull.dev/interruptable": "lull.dev/interruptible", "lull.dev/workers-max": "lull.dev/max-workers", "lull.dev/": "",
	} {
		got := UnknownAnnotations(map[string]string{name: "x", "lull.dev/runtime": "1h"})
		if !strings.Contains(got, "annotation "+name+" is unknown and has no effect; the nearest is ") || name != "lull.dev/workers-max" && !strings.Contains(got, near) {
			t.Errorf("%s: %q, want %s", name, got, near)
		}
	}
	if got := UnknownAnnotations(map[string]string{"lull.dev/b": "", "lull.dev/a": ""}); strings.Index(got, "lull.dev/a ") > strings.Index(got, "lull.dev/b ") {
		t.Errorf("not in order: %s", got)
	}
	if got := UnknownAnnotations(map[string]string{"lab.lull.dev/runtime": "1h", "example.com/max-dealy": "", "lull.dev/max-delay": "never"}); got != "" {
		t.Error(got)
	}
}

// TestEveryAnnotationIsKnown: the annotations that the API declares are known.
func TestEveryAnnotationIsKnown(t *testing.T) {
	all, err := filepath.Glob("../../../api/v1alpha1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`\bAnnotation\w+ *= "(lull\.dev/[^"]+)"`)
	n := 0
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			n++
			if !slices.Contains(userAnnotations, m[1]) && !slices.Contains(ownAnnotations, m[1]) {
				t.Errorf("%s is not known", m[1])
			}
		}
	}
	if n != len(userAnnotations)+len(ownAnnotations) {
		t.Errorf("%d annotations declared, %d known", n, len(userAnnotations)+len(ownAnnotations))
	}
}
