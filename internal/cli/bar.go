package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// bar is a progress bar on a terminal, with the time left; nothing elsewhere, nor for
// work that is soon done.
type bar struct {
	w     io.Writer
	what  string
	begun time.Time
	last  time.Time
	drawn bool
	// unit and all, where set, give the rate: all of a unit are done at a share of 1.
	unit string
	all  int
}

const (
	barDelay = 500 * time.Millisecond
	barEvery = 100 * time.Millisecond
	barWidth = 30
)

func newBar(w io.Writer, what string) *bar {
	b := &bar{what: what, begun: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.w = w
	}
	return b
}

// set draws the share of the work that is done, 0..1.
func (b *bar) set(share float64) {
	now := time.Now()
	if b.w == nil || now.Sub(b.begun) < barDelay || now.Sub(b.last) < barEvery {
		return
	}
	b.last, b.drawn = now, true
	text := drawn(b.what, share, now.Sub(b.begun))
	if b.unit != "" {
		text += fmt.Sprintf("(%.0f %s/s) ", share*float64(b.all)/now.Sub(b.begun).Seconds(), b.unit)
	}
	fmt.Fprintf(b.w, "\r%s", text)
}

// drawn is the text of the bar.
func drawn(what string, share float64, since time.Duration) string {
	share = max(0, min(1, share))
	full := int(share * barWidth)
	left := "?"
	if share > 0 {
		left = time.Duration(float64(since) * (1 - share) / share).Round(time.Second).String()
	}
	return fmt.Sprintf("%s [%s%s] %3.0f %%, %s left ", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*share, left)
}

// close clears the bar.
func (b *bar) close() {
	if b.drawn {
		fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", 79))
	}
}
