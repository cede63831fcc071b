package outfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"lull.dev/lull/internal/base/outfile"
)

func inode(t *testing.T, file string) uint64 {
	t.Helper()
	info, err := os.Lstat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func expect(t *testing.T, file, want string) {
	t.Helper()
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%s holds %q, %v; want %q", filepath.Base(file), text, err, want)
	}
}

// only fails if a folder holds other names than these, as a file that was left behind.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder holds %v, want %v", got, want)
	}
}

func TestRegularFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "out")
	for _, text := range []string{"first, and longer", "second"} {
		if err := outfile.WriteFile(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		expect(t, file, text)
	}
	if err := os.Chmod(file, 0o604); err != nil {
		t.Fatal(err)
	}
	before := inode(t, file)
	if err := outfile.WriteFile(file, []byte("third")); err != nil {
		t.Fatal(err)
	}
	expect(t, file, "third")
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o604 {
		t.Errorf("mode %v, %v; want that of the old file, 0604", info.Mode(), err)
	}
	if inode(t, file) == before {
		t.Error("a regular file was written in place; want it replaced in one step")
	}
	only(t, dir, "out")
}

// TestFailureKeepsTheOldContent: what fails half-way changes nothing and leaves nothing behind.
func TestFailureKeepsTheOldContent(t *testing.T) {
	dir := t.TempDir()
	failure := errors.New("failure")
	half := func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			return err
		}
		return failure
	}
	file := filepath.Join(dir, "out")
	if err := outfile.Write(file, half); !errors.Is(err, failure) {
		t.Errorf("new file: %v", err)
	}
	only(t, dir)
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := outfile.Write(file, half); !errors.Is(err, failure) {
		t.Errorf("old file: %v", err)
	}
	expect(t, file, "old")
	only(t, dir, "out")
}

// TestPipeReceivesTheText: a named pipe, as a device, receives the text and stays what it is.
func TestPipeReceivesTheText(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // read and write: neither side waits for the other
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := outfile.WriteFile(pipe, []byte("text")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Fatalf("the pipe became %v, %v", info.Mode(), err)
	}
	text := make([]byte, 4)
	if _, err := io.ReadFull(reader, text); err != nil || string(text) != "text" {
		t.Errorf("the pipe received %q, %v", text, err)
	}
	only(t, dir, "pipe")
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, text := range []string{"through a link to nothing", "through a link to a file"} {
		if err := os.Symlink("target", at("link")); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		if err := outfile.WriteFile(at("link"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if to, err := os.Readlink(at("link")); err != nil || to != "target" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		expect(t, at("target"), text)
	}
	if err := os.Link(at("target"), at("twin")); err != nil {
		t.Fatal(err)
	}
	before := inode(t, at("twin"))
	if err := outfile.WriteFile(at("twin"), []byte("by either name")); err != nil {
		t.Fatal(err)
	}
	expect(t, at("target"), "by either name")
	if inode(t, at("twin")) != before || inode(t, at("target")) != before {
		t.Error("the two names are of two files now")
	}
	only(t, dir, "link", "target", "twin")
}

func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{dir, filepath.Join(dir, "absent", "out"), filepath.Join(dir, strings.Repeat("n", 300))} {
		called := false
		err := outfile.Write(file, func(io.Writer) error { called = true; return nil })
		if err == nil || !strings.Contains(err.Error(), file) || called {
			t.Errorf("%s: %v, written %v", file, err, called)
		}
	}
	if err := outfile.WriteFile(dir, nil); err == nil || !strings.Contains(err.Error(), "is a directory; accepted: the name of a file") {
		t.Errorf("a directory: %v", err)
	}
	only(t, dir)
}

// TestFolderThatCannotBeWritten: an old file there is written in place, a new one is an error.
func TestFolderThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(old, 0o666); err != nil {
		t.Fatal(err)
	}
	for folder, mode := range map[string]fs.FileMode{filepath.Dir(dir): 0o755, dir: 0o555} {
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer os.Chmod(dir, 0o755) //nolint:errcheck // for the removal of the folder
	if os.Geteuid() == 0 {
		// Root may write everywhere; another user of the file system, on this thread, may not.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const nobody = 65534
		setfsuid := func(id uintptr) { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, id, 0, 0) }
		setfsuid(nobody)
		defer setfsuid(0)
	}
	probe := filepath.Join(dir, "probe")
	if err := os.WriteFile(probe, nil, 0o600); err == nil {
		_ = os.Remove(probe)
		t.Skip("this process may write to every folder, and may not become another user (CAP_SETUID)")
	}
	if _, err := os.Stat(old); err != nil {
		t.Skipf("another user cannot enter the folder of temporary files: %v; set TMPDIR to one where all can", err)
	}
	if err := outfile.WriteFile(old, []byte("after")); err != nil {
		t.Error(err)
	}
	expect(t, old, "after")
	file := filepath.Join(dir, "new")
	if err := outfile.WriteFile(file, nil); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), file) {
		t.Errorf("new file: %v", err)
	}
}
