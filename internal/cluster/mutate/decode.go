package mutate

import (
	"bytes"
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// errJSON is the error for what is not JSON, or not the JSON that is accepted.
var errJSON = errors.New("invalid JSON")

// Members calls each for every member of an object in JSON, in their order. The name is without quotes; the value is a part of text, and each may keep neither. A name that occurs twice is
// given twice. Of the values Members checks only where they end: who uses one decodes it. The error is that of each, or says where text is no object in JSON.
func Members(text []byte, each func(name, value []byte) error) error {
	s := scanner{text: text}
	if err := s.members(each); err != nil {
		return err
	}
	if s.space(); s.at != len(text) {
		return s.invalid("nothing more")
	}
	return nil
}

// decode decodes those fields of an object in JSON.
func decode(text []byte, f *fields) (map[string]any, error) {
	out := map[string]any{}
	if f.all {
		return out, utiljson.Unmarshal(text, &out)
	}
	return out, Members(text, func(name, value []byte) error {
		below := f.of[string(name)]
		if below == nil {
			return nil
		}
		if !below.all && value[0] == '{' {
			inner, err := decode(value, below)
			out[string(name)] = inner
			return err
		}
		var v any
		err := utiljson.Unmarshal(value, &v)
		out[string(name)] = v
		return err
	})
}

// scanner finds where values begin and end.
type scanner struct {
	text []byte
	at   int
}

// invalid is the error for what is found at the present place.
func (s *scanner) invalid(accepted string) error {
	return fmt.Errorf("%w at byte %d: %.20q; accepted: %s", errJSON, s.at, s.text[min(s.at, len(s.text)):], accepted)
}

// space skips white space.
func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

// next skips white space and one byte, which it returns; 0 at the end.
func (s *scanner) next() byte {
	if s.space(); s.at >= len(s.text) {
		return 0
	}
	s.at++
	return s.text[s.at-1]
}

func (s *scanner) members(each func(name, value []byte) error) error {
	if s.next() != '{' {
		s.at = max(0, s.at-1)
		return s.invalid("an object")
	}
	if s.space(); s.at < len(s.text) && s.text[s.at] == '}' {
		s.at++
		return nil
	}
	for {
		s.space()
		name, err := s.name()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.invalid("a colon before this")
		}
		s.space()
		from := s.at
		if err := s.skip(); err != nil {
			return err
		}
		if err := each(name, s.text[from:s.at]); err != nil {
			return err
		}
		switch s.next() {
		case ',':
		case '}':
			return nil
		default:
			return s.invalid("a comma or the end of the object before this")
		}
	}
}

// name reads the name of a member.
func (s *scanner) name() ([]byte, error) {
	from := s.at
	if err := s.str(); err != nil {
		return nil, err
	}
	quoted := s.text[from:s.at]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var name string
	err := utiljson.Unmarshal(quoted, &name)
	return []byte(name), err
}

// str skips a string.
func (s *scanner) str() error {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return s.invalid("a string")
	}
	for i := s.at + 1; ; i++ {
		n := bytes.IndexByte(s.text[i:], '"')
		if n < 0 {
			return s.invalid("a string that ends")
		}
		i += n
		escapes := 0
		for s.text[i-1-escapes] == '\\' { // ends at the opening quotation mark at the latest
			escapes++
		}
		if escapes%2 == 0 {
			s.at = i + 1
			return nil
		}
	}
}

// skip skips a value.
func (s *scanner) skip() error {
	if s.at >= len(s.text) {
		return s.invalid("a value")
	}
	switch s.text[s.at] {
	case '"':
		return s.str()
	case '{', '[':
		return s.nested()
	}
	from := s.at
	for s.at < len(s.text) && literal[s.text[s.at]] {
		s.at++
	}
	if s.at == from {
		return s.invalid("a value")
	}
	return nil
}

// literal is true for what numbers, true, false and null consist of.
var literal = func() (of [256]bool) {
	for _, b := range []byte("0123456789+-.eEtrufalsn") {
		of[b] = true
	}
	return of
}()

// nested skips an object or an array.
func (s *scanner) nested() error {
	depth := 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			if err := s.str(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if s.at++; depth == 0 {
			return nil
		}
	}
	return s.invalid("an object or array that ends")
}
