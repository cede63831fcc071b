package ical

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// read is an independent reader of the lines of a file: it unfolds, and undoes escapes.
func read(t *testing.T, text string) map[string]string {
	t.Helper()
	if !strings.HasSuffix(text, "\r\n") || strings.Count(text, "\n") != strings.Count(text, "\r\n") || strings.Count(text, "\r") != strings.Count(text, "\r\n") {
		t.Fatalf("lines do not end with CRLF alone: %q", text)
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if len(line) > 75 || line == "" || !utf8.ValidString(line) {
			t.Fatalf("a line of %d octets: %q", len(line), line)
		}
	}
	out := map[string]string{}
	for _, line := range strings.Split(strings.ReplaceAll(text, "\r\n ", ""), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.NewReplacer(`\\`, `\`, `\;`, ";", `\,`, ",", `\n`, "\n").Replace(value)
	}
	return out
}

func TestCalendar(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	e := Event{
		UID: "a@lull.dev", Stamp: time.Date(2026, 11, 26, 20, 0, 0, 0, berlin),
		Start: time.Date(2026, 11, 27, 1, 30, 15, 5e8, berlin), End: time.Date(2026, 11, 27, 4, 30, 15, 0, berlin),
		Summary:     `train; "a, b" \ ` + strings.Repeat("größer ", 30),
		Description: "first\nsecond\r\nthird\x00\x07",
	}
	text := e.Calendar()
	got := read(t, text)
	for name, want := range map[string]string{
		"BEGIN": "VEVENT", "END": "VCALENDAR", "VERSION": "2.0", "UID": "a@lull.dev",
		"DTSTAMP": "20261126T190000Z", "DTSTART": "20261127T003015Z", "DTEND": "20261127T033015Z",
		"SUMMARY": e.Summary, "DESCRIPTION": "first\nsecond\nthird",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if !strings.HasPrefix(text, "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:") || !strings.HasSuffix(text, "END:VEVENT\r\nEND:VCALENDAR\r\n") {
		t.Errorf("%q", text)
	}
}

// FuzzCalendar: whatever the texts are, the lines are those of the event and no others, none is too long, and what is
// written can be read.
func FuzzCalendar(f *testing.F) {
	f.Add("plain", "text")
	f.Add("a,b;c\\d", "x\r\nEND:VEVENT\r\nBEGIN:VEVENT")
	f.Add(strings.Repeat("ü", 80), "\xff\xfe\x00\t\u2028")
	f.Fuzz(func(t *testing.T, summary, description string) {
		text := Event{UID: "u", Summary: summary, Description: description}.Calendar()
		got := read(t, text)
		if len(got) != 13 || strings.Count(text, "\r\nBEGIN:VEVENT\r\n") != 1 {
			t.Fatalf("%d names: %q", len(got), text)
		}
		keep := func(r rune) rune {
			if r < ' ' && r != '\t' && r != '\n' || r == 0x7f {
				return -1
			}
			return r
		}
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(description, "\ufffd"))
		if want = strings.Map(keep, want); got["DESCRIPTION"] != want {
			t.Fatalf("read %q, want %q", got["DESCRIPTION"], want)
		}
	})
}
