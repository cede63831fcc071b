package units_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"lull.dev/lull/pkg/units"
)

// TestReadErrorsAreSaidInPlainWords: errors of encoding/json, alone and as packages of YAML wrap them, are said without words of Go.
func TestReadErrorsAreSaidInPlainWords(t *testing.T) {
	type inner struct {
		Hours float64 `json:"hours"`
		Count int     `json:"count"`
	}
	type outer struct {
		Jobs  []inner   `json:"jobs"`
		One   inner     `json:"one"`
		Whole bool      `json:"whole"`
		Name  string    `json:"name"`
		At    time.Time `json:"at"`
	}
	for text, want := range map[string]string{
		`{"jobs": "x"}`:             "jobs: a text; accepted: a list",
		`{"one": {"hours": "x"}}`:   "one.hours: a text; accepted: a number",
		`{"one": {"count": 1.5}}`:   "one.count: 1.5; accepted: a whole number",
		`{"one": {"count": [1]}}`:   "one.count: a list; accepted: a whole number",
		`{"whole": 1}`:              "whole: a number; accepted: true or false",
		`{"name": {}}`:              "name: an object; accepted: a text",
		`{"at": "soon"}`:            `"soon"; accepted: a time in RFC 3339, e.g. 2023-11-14T11:00:00Z`,
		`{"name": true}`:            "name: true or false; accepted: a text",
		`{"one": 3}`:                "one: a number; accepted: an object",
		`[1]`:                       "the value: a list; accepted: an object",
		`{"jobs": [`:                "it ends in the middle: a part of it is missing",
		``:                          "it ends in the middle: a part of it is missing",
		`hello`:                     "not JSON at character 1: unexpected 'h'",
		`{"jobs" 1}`:                "not JSON at character 9: unexpected '1'",
		`{"one": {"hours": 1e999}}`: "one.hours: 1e999; accepted: a number",
	} {
		var o outer
		err := json.Unmarshal([]byte(text), &o)
		if err == nil {
			t.Fatalf("%s is read", text)
		}
		got := units.ReadError(err)
		if got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if wrapped := units.ReadError(fmt.Errorf("error unmarshaling JSON: while decoding JSON: %s", err.Error())); text != "hello" && text != `{"jobs" 1}` && wrapped.Error() != want {
			t.Errorf("%s as of YAML: %q, want %q", text, wrapped, want)
		}
	}
	for err, want := range map[error]string{
		nil:                 "",
		io.EOF:              "it is empty",
		io.ErrUnexpectedEOF: "it ends in the middle: a part of it is missing",
		errors.New(`json: unknown field "colour"`):                                           `unknown field "colour"`,
		errors.New("invalid planner"):                                                        "invalid planner",
		fmt.Errorf("error converting YAML to JSON: yaml: line 3: did not find expected ','"): "line 3: did not find expected ','",
	} {
		if got := units.ReadError(err); (err == nil) != (got == nil) || got != nil && (got.Error() != want || !errors.Is(got, err)) {
			t.Errorf("%v: %v, want %q", err, got, want)
		}
	}
}
