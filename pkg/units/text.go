package units

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Errors of PlainText.
var (
	errUTF16 = errors.New("the text is UTF-16, as older PowerShell writes with >; accepted: UTF-8")
	errGzip  = errors.New("the text is compressed; accepted: plain text, or gzip in a file whose name ends in .gz")
)

// PlainText returns a reader of a text without its byte order mark, which spreadsheets and the tools of Windows write.
//
// PlainText refuses UTF-16 and gzip, because the error of a format that reads them does not say what is wrong. The reader fails
// at a control character other than white space, such as the NUL bytes that a crash leaves in a file, and names its line.
func PlainText(r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReader(r)
	head, _ := in.Peek(3) // shorter if there is no more
	switch text := string(head); {
	case text == "\ufeff":
		if _, err := in.Discard(len(text)); err != nil {
			return nil, err
		}
	case strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff"):
		return nil, errUTF16
	case len(text) > 1 && (text[0] == 0) != (text[1] == 0): // UTF-16 without its mark
		return nil, errUTF16
	case strings.HasPrefix(text, "\x1f\x8b"):
		return nil, errGzip
	}
	checked := &plainReader{r: in, line: 1}
	out := bufio.NewReader(checked)
	_, _ = out.Peek(1)
	if out.Buffered() == 0 && errors.As(checked.err, new(controlError)) {
		return nil, checked.err // on the first line
	}
	return out, nil
}

// controlError is a control character in a text.
type controlError struct {
	line int
	char byte
}

func (e controlError) Error() string {
	what := fmt.Sprintf("control character U+%04X", e.char)
	if e.char == 0 {
		what = "NUL (U+0000)"
	}
	return fmt.Sprintf("line %d: %s; accepted: plain text in UTF-8, without control characters", e.line, what)
}

// plainReader fails at a control character. It returns the whole lines before that.
type plainReader struct {
	r    io.Reader
	line int
	err  error
}

func (p *plainReader) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.r.Read(b)
	p.err = err
	for i, c := range b[:n] {
		if c == '\n' {
			p.line++
		}
		if c < ' ' && (c < '\t' || c > '\r') || c == 0x7f {
			p.err = controlError{p.line, c}
			return bytes.LastIndexByte(b[:i], '\n') + 1, p.err
		}
	}
	return n, err
}
