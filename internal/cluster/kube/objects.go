package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/pkg/trace"
	"lull.dev/lull/pkg/units"
)

// exported is an object of an export, and where it stands in it.
type exported struct {
	*unstructured.Unstructured
	at string
}

const acceptedExport = "objects or lists of them, as of kubectl get jobs -o json (or -o yaml)"

// readObjects reads objects as kubectl prints them, JSON or YAML: a list, one object, or several documents of either.
//
// Errors wrap trace.ErrTrace and name the document and the item.
func readObjects(r io.Reader) (out []exported, err error) {
	in, err := units.PlainText(io.LimitReader(r, maxExport))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trace.ErrTrace, err)
	}
	next, documents, found := documentsOf(in), 0, false
	for {
		raw, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w; accepted: %s", trace.ErrTrace, units.ReadError(err), acceptedExport)
		}
		documents++
		at := ""
		if documents > 1 {
			at = fmt.Sprintf("document %d: ", documents)
		}
		list, some, err := expand(raw, at, "")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", trace.ErrTrace, err)
		}
		out, found = append(out, list...), found || some
	}
	if !found {
		return nil, fmt.Errorf("%w: no object; accepted: %s", trace.ErrTrace, acceptedExport)
	}
	return out, nil
}

// documentsOf returns a function that returns one document after the other as JSON, and io.EOF after the last.
func documentsOf(in *bufio.Reader) func() (json.RawMessage, error) {
	for {
		c, err := in.Peek(1)
		if err != nil || !bytes.ContainsAny(c, " \t\r\n") {
			break
		}
		_, _ = in.Discard(1)
	}
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = in.Discard(3)
	}
	if c, err := in.Peek(1); err != nil || c[0] == '{' || c[0] == '[' {
		decoder := json.NewDecoder(in)
		return func() (raw json.RawMessage, err error) {
			err = decoder.Decode(&raw)
			return raw, err
		}
	}
	documents := yamlutil.NewYAMLReader(in)
	return func() (json.RawMessage, error) {
		for {
			text, err := documents.Read()
			if err != nil {
				return nil, err
			}
			raw, err := yaml.YAMLToJSONStrict(text)
			if err != nil || !bytes.Equal(raw, []byte("null")) { // what stands between two separators may be a comment
				return raw, err
			}
		}
	}
}

// expand returns the objects of a document: those of a list, or itself. kind is that of the items of a list whose items
// do not state theirs. some says that the document is a list or an object.
func expand(raw json.RawMessage, at, kind string) (out []exported, some bool, err error) {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) { // says nothing
		return nil, false, nil
	}
	var items []json.RawMessage
	var head struct {
		Kind  string             `json:"kind"`
		Items *[]json.RawMessage `json:"items"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, false, fmt.Errorf("%s%w", at, units.ReadError(err))
		}
	} else {
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, false, fmt.Errorf("%s%w; accepted: %s", at, units.ReadError(err), acceptedExport)
		}
		if head.Items == nil && !strings.HasSuffix(head.Kind, "List") {
			u := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw, &u.Object); err != nil {
				return nil, false, fmt.Errorf("%s%w", at, units.ReadError(err))
			}
			if head.Kind == "" {
				u.Object["kind"] = kind
			}
			return []exported{{u, at}}, true, nil
		}
		if head.Items != nil {
			items = *head.Items
		}
		kind, some = strings.TrimSuffix(head.Kind, "List"), true
	}
	for i, item := range items {
		list, _, err := expand(item, fmt.Sprintf("%sitems[%d]: ", at, i), kind)
		if err != nil {
			return nil, false, err
		}
		out, some = append(out, list...), true
	}
	return out, some, nil
}
