package cli

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWriteOutKeepsSpecialFiles: a named pipe, as a device, receives the text and stays; a link is followed.
func TestWriteOutKeepsSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, target, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // read and write: neither side waits for the other
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := writeOut(pipe, []byte("plan"), nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("the pipe became %v, %v", info.Mode(), err)
	}
	text := make([]byte, 4)
	if _, err := io.ReadFull(reader, text); err != nil || string(text) != "plan" {
		t.Errorf("the pipe received %q, %v", text, err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := writeOut(link, []byte("plan"), nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "plan" {
		t.Errorf("the link's target holds %q, %v", text, err)
	}
}
