package admission

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lull.dev/lull/internal/cluster/mutate"
)

// request is what is read of an AdmissionRequest. The objects, in JSON, are parts of the buffer into which the request was read; nil for none.
type request struct {
	uid, namespace, operation, subResource string
	resource                               schema.GroupResource
	dryRun                                 bool
	object, oldObject                      []byte
}

// buffers are for what is read and written.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keptBuffer is the most bytes of a buffer that is used again: few objects are larger.
const keptBuffer = 64 << 10

func release(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// read reads the request of an AdmissionReview into a buffer that is empty. The error says what is accepted, and comes with a status of HTTP.
func read(body io.Reader, buffer *bytes.Buffer) (*request, int, error) {
	_, err := buffer.ReadFrom(body)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("body: more than %d bytes", large.Limit)
	} else if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("body: %w", err)
	}
	var version, kind string
	var out *request
	err = mutate.Members(buffer.Bytes(), func(name, value []byte) error {
		switch string(name) {
		case "apiVersion":
			return text(value, &version)
		case "kind":
			return text(value, &kind)
		case "request":
			if out = nil; string(value) == "null" {
				return nil
			}
			out = &request{}
			return out.read(value)
		}
		return nil
	})
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("body: %w; accepted: an AdmissionReview", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); version != want || kind != "AdmissionReview" || out == nil {
		return nil, http.StatusBadRequest, fmt.Errorf("body: apiVersion %.80q, kind %.80q, request set: %t; accepted: AdmissionReview of %s with a request", version, kind, out != nil, want)
	}
	return out, 0, nil
}

// read reads the members of an AdmissionRequest.
func (r *request) read(members []byte) error {
	return mutate.Members(members, func(name, value []byte) error {
		switch string(name) {
		case "uid":
			return text(value, &r.uid)
		case "namespace":
			return text(value, &r.namespace)
		case "operation":
			return text(value, &r.operation)
		case "subResource":
			return text(value, &r.subResource)
		case "dryRun":
			return json.Unmarshal(value, &r.dryRun)
		case "resource":
			return mutate.Members(value, func(name, value []byte) error {
				switch string(name) {
				case "group":
					return text(value, &r.resource.Group)
				case "resource":
					return text(value, &r.resource.Resource)
				}
				return nil
			})
		case "object":
			r.object = unlessNull(value)
		case "oldObject":
			r.oldObject = unlessNull(value)
		}
		return nil
	})
}

func unlessNull(value []byte) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}

// text decodes a string in JSON.
func text(value []byte, to *string) error {
	if n := len(value); n >= 2 && value[0] == '"' && plain(value[1:n-1]) {
		*to = string(value[1 : n-1])
		return nil
	}
	return json.Unmarshal(value, to)
}

// plain reports whether a string is the same in JSON, between quotation marks.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' || s[i] == '<' || s[i] == '>' || s[i] == '&' {
			return false
		}
	}
	return true
}

// writeReview writes the AdmissionReview that allows an object and has it patched: the bytes that encoding/json makes of the type of k8s.io/api/admission/v1.
func writeReview(to *bytes.Buffer, uid string, patch []mutate.Operation) error {
	to.WriteString(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":`)
	if plain(uid) {
		to.WriteByte('"')
		to.WriteString(uid)
		to.WriteByte('"')
	} else {
		quoted, err := json.Marshal(uid)
		if err != nil {
			return err
		}
		to.Write(quoted)
	}
	to.WriteString(`,"allowed":true`)
	if len(patch) > 0 {
		operations, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		to.WriteString(`,"patch":"`)
		to.Write(base64.StdEncoding.AppendEncode(to.AvailableBuffer(), operations))
		to.WriteString(`","patchType":"JSONPatch"`)
	}
	to.WriteString("}}\n")
	return nil
}
