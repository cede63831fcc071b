package units

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// readError is an error of reading a file in the words of who wrote the file.
type readError struct {
	text string
	err  error
}

func (e *readError) Error() string { return e.text }
func (e *readError) Unwrap() error { return e.err }

// readPrefixes are what the packages that read JSON and YAML put before an error.
var readPrefixes = []string{"error unmarshaling JSON: ", "while decoding JSON: ", "error converting YAML to JSON: ", "yaml: ", "json: "}

var (
	wrongType = regexp.MustCompile(`^cannot unmarshal (\S+)(?: (\S+))? into Go (?:struct field (\S+)|value) of type (\S+)$`)
	wrongTime = regexp.MustCompile(`parsing time (".*?") as "2006-01-02T`)
	wrongChar = regexp.MustCompile(`^invalid character (.+?) (?:looking for|after|in|.*literal)`)
)

// ReadError returns an error of reading JSON or YAML in the words of who wrote the text: what stands there, where, and what is
// accepted. It returns other errors as they are. The error wraps err.
func ReadError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for cut := true; cut; {
		cut = false
		for _, prefix := range readPrefixes {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				text, cut = rest, true
			}
		}
	}
	switch m := wrongType.FindStringSubmatch(text); {
	case m != nil:
		_, field, within := strings.Cut(m[3], ".")
		field = strings.TrimPrefix(field, "TypeMeta.") // embedded
		if !within || field == "" {
			field = "the value"
		}
		found := jsonWord(m[1])
		if m[2] != "" {
			found = m[2] // the number
		}
		text = fmt.Sprintf("%s: %s; accepted: %s", field, found, goTypeWord(m[4]))
	case wrongTime.MatchString(text):
		text = fmt.Sprintf("%q; accepted: a time in RFC 3339, e.g. 2023-11-14T11:00:00Z", strings.Trim(wrongTime.FindStringSubmatch(text)[1], `\"`))
	case errors.Is(err, io.ErrUnexpectedEOF) || text == "unexpected end of JSON input":
		text = "it ends in the middle: a part of it is missing"
	case errors.Is(err, io.EOF):
		text = "it is empty"
	case wrongChar.MatchString(text):
		where := ""
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			where = fmt.Sprintf(" at character %d", syntax.Offset)
		}
		text = fmt.Sprintf("not JSON%s: unexpected %s", where, wrongChar.FindStringSubmatch(text)[1])
	}
	if text == err.Error() {
		return err
	}
	return &readError{text, err}
}

// jsonWord is the word of a JSON type.
func jsonWord(kind string) string {
	switch kind {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	}
	return "a " + kind
}

// goTypeWord is the word of what a Go type is in JSON.
func goTypeWord(name string) string {
	name = strings.TrimLeft(name, "*")
	switch {
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "int") || strings.HasPrefix(name, "uint"):
		return "a whole number"
	case strings.HasPrefix(name, "float"):
		return "a number"
	case name == "string":
		return "a text"
	case name == "bool":
		return "true or false"
	}
	return "an object"
}
