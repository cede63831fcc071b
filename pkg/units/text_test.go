package units_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"lull.dev/lull/pkg/units"
)

// TestWhatIsNotPlainTextIsNamed: a byte order mark is left out, and what is not plain text is named, with the line on which it stands.
func TestWhatIsNotPlainTextIsNamed(t *testing.T) {
	const accepted = "; accepted: plain text in UTF-8"
	long := strings.Repeat("2026-03-01T00:00:00Z,100\n", 5000)
	for name, tc := range map[string]struct{ text, want, err string }{
		"nothing":                  {"", "", ""},
		"a byte order mark":        {"\ufeffa,b\r\n1,\t2\r\n", "a,b\r\n1,\t2\r\n", ""},
		"another language":         {"île,Größe,日本\n", "île,Größe,日本\n", ""},
		"Latin 1":                  {"Gr\xf6\xdfe\n", "Gr\xf6\xdfe\n", ""},
		"one byte":                 {"a", "a", ""},
		"UTF-16":                   {"\xff\xfea\x00", "", "UTF-16"},
		"UTF-16 without a mark":    {"a\x00,\x00b\x00", "", "UTF-16"},
		"UTF-16, the other order":  {"\x00a\x00,", "", "UTF-16"},
		"gzip":                     {"\x1f\x8b\x08\x00", "", ".gz"},
		"NUL bytes alone":          {strings.Repeat("\x00", 100), "", "line 1: NUL (U+0000)" + accepted},
		"NUL in the header":        {"ab\x00\n1\n", "", "line 1: NUL (U+0000)" + accepted},
		"NUL in a row":             {"a,b\n1,2\n3\x00,4\n5,6\n", "a,b\n1,2\n", "line 3: NUL (U+0000)" + accepted},
		"colors of a terminal":     {"a,b\n\x1b[1m1,2\n", "a,b\n", "line 2: control character U+001B" + accepted},
		"DEL":                      {"a\n\x7f", "a\n", "line 2: control character U+007F" + accepted},
		"NUL far from the start":   {long + "x\x00", long, "line 5001: NUL (U+0000)" + accepted},
		"NUL after the last line":  {"a\n1\n\x00\x00", "a\n1\n", "line 3: NUL (U+0000)" + accepted},
		"white space of all kinds": {"a\tb\v\f\r\n", "a\tb\v\f\r\n", ""},
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(tc.text), "by the byte": iotest.OneByteReader(strings.NewReader(tc.text))} {
			text, err := units.PlainText(r)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(text)
				if _, again := text.ReadByte(); err != nil && (again == nil || again.Error() != err.Error()) {
					t.Errorf("%s, %s: after the error %v", name, how, again)
				}
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s, %s: error %v, want %q", name, how, err, tc.err)
			}
			if how == "at once" && string(got) != tc.want || !bytes.HasPrefix(got, []byte(tc.want)) {
				t.Errorf("%s, %s: %d bytes %.40q, want %d", name, how, len(got), got, len(tc.want))
			}
		}
	}
}
