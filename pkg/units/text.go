package units

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// Errors of PlainText.
var (
	errUTF16 = errors.New("the text is UTF-16, as older PowerShell writes with >; accepted: UTF-8")
	errGzip  = errors.New("the text is compressed; accepted: plain text, or gzip in a file whose name ends in .gz")
)

// PlainText returns a reader of a text without its byte order mark, which spreadsheets and the tools of Windows write. It refuses
// UTF-16 and gzip, which such marks tell too, as what a reader says of them helps nobody.
func PlainText(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReader(r)
	head, _ := in.Peek(3) // shorter if there is no more
	switch text := string(head); {
	case text == "\ufeff":
		_, err := in.Discard(len(text))
		return in, err
	case strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff"):
		return nil, errUTF16
	case strings.HasPrefix(text, "\x1f\x8b"):
		return nil, errGzip
	}
	return in, nil
}
