package kinds

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// ErrPath marks a path that cannot be read.
var ErrPath = errors.New("invalid path")

// maxDepth bounds a path.
const maxDepth = 32

// path is a compiled v1alpha1.Path.
type path []step

// step is a key of a map, an item of a list or all items of either.
type step struct {
	key   string
	index int // of a list; -1 otherwise
	all   bool
}

// parsePath reads spec.groups[0].count, metadata.labels['a.b/c'], spec.jobs[*].replicas. The
// error wraps ErrPath and says what is accepted.
func parsePath(text string) (path, error) {
	fault := func(why string) (path, error) {
		return nil, fmt.Errorf("%w: %q: %s; accepted: e.g. spec.suspend, spec.groups[0].count, spec.jobs[*].replicas or metadata.labels['a.b/c']", ErrPath, text, why)
	}
	var p path
	rest := text
	for first := true; rest != ""; first = false {
		if len(p) == maxDepth {
			return fault(fmt.Sprintf("more than %d parts", maxDepth))
		}
		if rest[0] == '[' {
			inside, after, ok := bracket(rest)
			if !ok || first {
				return fault("a bracket that does not follow a name, or does not close")
			}
			s, ok := inBrackets(inside)
			if !ok {
				return fault(fmt.Sprintf("[%s]", inside))
			}
			p, rest = append(p, s), after
			continue
		}
		if !first {
			if rest[0] != '.' {
				return fault("a part that does not begin with a dot")
			}
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if !isName(rest[:end]) {
			return fault(fmt.Sprintf("part %q", rest[:end]))
		}
		p, rest = append(p, step{key: rest[:end], index: -1}), rest[end:]
	}
	if len(p) == 0 {
		return fault("empty")
	}
	return p, nil
}

// bracket splits "[inside]after"; a quoted inside may hold any characters but quotes.
func bracket(text string) (inside, after string, ok bool) {
	closing := "]"
	if strings.HasPrefix(text, "['") {
		closing = "']"
	}
	end := strings.Index(text, closing)
	if end < 0 {
		return "", "", false
	}
	end += len(closing) - 1
	return text[1:end], text[end+1:], true
}

func inBrackets(inside string) (step, bool) {
	if inside == "*" {
		return step{all: true, index: -1}, true
	}
	if n := len(inside); n > 2 && inside[0] == '\'' && inside[n-1] == '\'' && !strings.ContainsAny(inside[1:n-1], "'\\") {
		return step{key: inside[1 : n-1], index: -1}, true
	}
	i, err := strconv.Atoi(inside)
	if err != nil || i < 0 || i > 1000 || strconv.Itoa(i) != inside {
		return step{}, false
	}
	return step{index: i}, true
}

// isName accepts names of fields.
func isName(s string) bool {
	for i, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// get returns what the path leads to; false where there is nothing.
func (p path) get(obj any) (any, bool) {
	for _, s := range p {
		var ok bool
		if obj, ok = s.of(obj); !ok {
			return nil, false
		}
	}
	return obj, obj != nil
}

func (s step) of(obj any) (any, bool) {
	switch x := obj.(type) {
	case map[string]any:
		v, ok := x[s.key]
		return v, ok && s.index < 0
	case []any:
		if s.index >= 0 && s.index < len(x) {
			return x[s.index], true
		}
	}
	return nil, false
}

// put sets a field, making the maps that lead there; nothing where a list is too short.
func (p path) put(obj map[string]any, value any) {
	var at any = obj
	for i, s := range p[:len(p)-1] {
		next, ok := s.of(at)
		if m, is := at.(map[string]any); is && (!ok || next == nil) && p[i+1].index < 0 {
			next = map[string]any{}
			m[s.key] = next
		}
		at = next
	}
	if m, ok := at.(map[string]any); ok {
		m[p[len(p)-1].key] = value
	}
}

// graft copies what the path leads to from one object to another, and which maps and lists lead there.
func (p path) graft(to, from any) any {
	if len(p) == 0 {
		return to
	}
	switch x := from.(type) {
	case map[string]any:
		m, _ := to.(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		if v, ok := p[0].of(x); ok {
			m[p[0].key] = p[1:].grafted(m[p[0].key], v)
		}
		return m
	case []any:
		list, _ := to.([]any)
		if v, ok := p[0].of(x); ok {
			for len(list) <= p[0].index {
				list = append(list, map[string]any{})
			}
			list[p[0].index] = p[1:].grafted(list[p[0].index], v)
		}
		return list
	}
	return to
}

func (p path) grafted(to, from any) any {
	if len(p) == 0 {
		return from
	}
	return p.graft(to, from)
}

// each returns all that the path leads to, in the order of lists and of names.
func (p path) each(obj any) []any {
	found := []any{obj}
	for _, s := range p {
		var next []any
		for _, o := range found {
			if !s.all {
				if v, ok := s.of(o); ok && v != nil {
					next = append(next, v)
				}
				continue
			}
			switch x := o.(type) {
			case []any:
				next = append(next, x...)
			case map[string]any:
				names := make([]string, 0, len(x))
				for name := range x {
					names = append(names, name)
				}
				sort.Strings(names)
				for _, name := range names {
					next = append(next, x[name])
				}
			}
		}
		found = next
	}
	return found
}

// number returns the whole number at the path, or the given one where there is none.
func (p path) number(obj any, otherwise int) int {
	if len(p) == 0 {
		return otherwise
	}
	v, _ := p.get(obj)
	switch n := v.(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	}
	return otherwise
}

// text returns the string at the path, "" where there is none.
func (p path) text(obj any) string {
	if len(p) == 0 {
		return ""
	}
	v, _ := p.get(obj)
	s, _ := v.(string)
	return s
}

// below returns the rest of a path that leads through what another one leads to; false where it does not.
func (p path) below(other path) (path, bool) {
	if len(p) < len(other) {
		return nil, false
	}
	for i, s := range other {
		if !s.all && s != p[i] {
			return nil, false
		}
	}
	return p[len(other):], true
}

// String is the path as it is written.
func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.all:
			b.WriteString("[*]")
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		case !isName(s.key):
			fmt.Fprintf(&b, "['%s']", s.key)
		case i > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// pointer is the JSON pointer (RFC 6901) of the first n steps.
func (p path) pointer(n int) string {
	var b strings.Builder
	for _, s := range p[:n] {
		b.WriteByte('/')
		if s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
			continue
		}
		b.WriteString(escape(s.key))
	}
	return b.String()
}

// escaper is made once, as each new one builds a table.
var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func escape(key string) string { return escaper.Replace(key) }

// cel is the path as an optional CEL expression on the variable object.
func (p path) cel() string {
	var b strings.Builder
	b.WriteString("object")
	for _, s := range p {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&b, "[?%d]", s.index)
		case isName(s.key):
			fmt.Fprintf(&b, ".?%s", s.key)
		default:
			fmt.Fprintf(&b, "[?'%s']", s.key)
		}
	}
	return b.String()
}
