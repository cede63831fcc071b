// Package outfile writes the files that users name as output. Every command that has a flag for an output
// file uses it.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// newMode is the mode of a new file, before the umask.
const newMode = 0o666

// WriteFile writes text to the file, as Write does.
func WriteFile(file string, text []byte) error {
	return Write(file, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Write calls write with a writer to the file.
//
// A new file, or a regular file that has one name, is replaced in one step: if write or the disk fails, the
// old content stays. The mode of an old file is kept. Everything else is written in place, so that it stays
// what it is: devices and named pipes receive the text, symbolic links are followed, hard links and the
// owner are kept. A failure there can leave a part of the text.
//
// Write returns the error of write as it is, and an error with the name of the file if it cannot be
// written.
func Write(file string, write func(io.Writer) error) error {
	old, err := os.Lstat(file)
	switch {
	case err == nil && old.IsDir():
		return fmt.Errorf("output %s: is a directory; accepted: the name of a file", file)
	case errors.Is(err, fs.ErrNotExist) || err == nil && replaceable(old):
		if f, err := create(file, old); err == nil {
			return replace(f, file, write)
		}
		// The folder may be read-only and the file not.
	}
	flags := os.O_WRONLY | os.O_TRUNC
	if old == nil || old.Mode().Type() == fs.ModeSymlink {
		// Only here, as Linux refuses it for files and pipes of other users in folders such as /tmp.
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(file, flags, newMode)
	if err != nil {
		return fmt.Errorf("output %w", err) // it names the file
	}
	err = write(f)
	if cerr := f.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("output %w", cerr))
	}
	return err
}

// replaceable reports whether another file may take the place of an old one: nothing else refers to it, and
// the new one has the same owner.
func replaceable(old fs.FileInfo) bool {
	stat, ok := old.Sys().(*syscall.Stat_t)
	return ok && old.Mode().IsRegular() && stat.Nlink == 1 && int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid()
}

// create creates a new file beside another, with the mode of old, if there is one.
func create(file string, old fs.FileInfo) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(file), fmt.Sprintf(".lull-%016x", rand.Uint64())), os.O_WRONLY|os.O_CREATE|os.O_EXCL, newMode)
	if err != nil || old == nil {
		return f, err
	}
	const kept = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if err := f.Chmod(old.Mode() & kept); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return f, nil
}

// replace writes f and gives it the name file; on an error it removes f.
func replace(f *os.File, file string, write func(io.Writer) error) error {
	err := write(f)
	if cerr := f.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("output %s: %w", file, cerr))
	}
	if err == nil {
		if err = os.Rename(f.Name(), file); err == nil {
			return nil
		}
		err = fmt.Errorf("output %s: %w", file, err)
	}
	return errors.Join(err, os.Remove(f.Name()))
}
