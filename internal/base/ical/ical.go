// Package ical writes one event as an iCalendar file (RFC 5545), as calendars import it.
package ical

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Event is what the calendar shows.
type Event struct {
	// UID is globally unique, and the same each time the same event is written.
	UID string
	// Stamp is when the event was written; Start and End bound it.
	Stamp, Start, End    time.Time
	Summary, Description string
}

// maxLine is how many octets a line may have, without its end (RFC 5545, section 3.1).
const maxLine = 75

const layout = "20060102T150405Z"

// Calendar returns the file. Times are in UTC, so no time zone needs to be described.
func (e Event) Calendar() string {
	var b strings.Builder
	for _, line := range []string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Lull//lull when//EN", "CALSCALE:GREGORIAN",
		"BEGIN:VEVENT",
		"UID:" + escape(e.UID),
		"DTSTAMP:" + e.Stamp.UTC().Format(layout),
		"DTSTART:" + e.Start.UTC().Format(layout),
		"DTEND:" + e.End.UTC().Format(layout),
		"SUMMARY:" + escape(e.Summary),
		"DESCRIPTION:" + escape(e.Description),
		"TRANSP:TRANSPARENT", // a computer is busy, not a person
		"END:VEVENT", "END:VCALENDAR",
	} {
		b.WriteString(fold(line))
		b.WriteString("\r\n")
	}
	return b.String()
}

// escape writes a value of type TEXT. Control characters have no place in one, other than tabs and new lines.
func escape(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\' || r == ';' || r == ',':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n' || r == '\r':
			b.WriteString(`\n`)
		case r < ' ' && r != '\t' || r == 0x7f:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fold breaks a line that is too long; the next part begins with a space. No character of UTF-8 is broken.
func fold(line string) string {
	var b strings.Builder
	room := maxLine
	for _, r := range line {
		n := utf8.RuneLen(r)
		if n > room {
			b.WriteString("\r\n ")
			room = maxLine - 1
		}
		b.WriteRune(r)
		room -= n
	}
	return b.String()
}
