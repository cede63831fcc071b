package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that a run passes on to its command. Those that stop and continue a job reach both by themselves.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// command runs the command to its end and returns its exit status. The error is about starting it.
func (r *runner) command(args []string) (status int, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.stdin, r.stdout, r.stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-r.signals:
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && keysReachGroup() {
				continue // the terminal has sent it to the command too
			}
			_ = cmd.Process.Signal(s) // the command may have ended
		case err := <-done:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				r.say("warning: %v", err) // of its input or output: it ran
			}
			state, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if state.Signaled() {
				r.say("the command was ended by a signal: %v", state.Signal())
				return exitSignal + int(state.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// terminal is the terminal from which a run reads, if it does.
type terminal interface {
	// foreground reports whether what is typed there goes to this process.
	foreground() bool
	// line reports, without waiting, whether a line was typed, and whether it is empty. It takes the line.
	line() (typed, empty bool)
	// howTo says what people can do while a run waits.
	howTo(pid int) string
}

// tty is a terminal; the zero value is none.
type tty struct{ file *os.File }

func terminalOf(stdin io.Reader) terminal {
	f, _ := stdin.(*os.File)
	return tty{f}
}

func (t tty) foreground() bool { return t.file != nil && inForeground(int(t.file.Fd())) }

// inForeground reports whether fd is a terminal whose keys reach the group of this process.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// keysReachGroup reports whether Ctrl-C on the terminal of this process reaches its group.
func keysReachGroup() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false // there is none
	}
	defer f.Close()
	return inForeground(int(f.Fd()))
}

func (t tty) line() (typed, empty bool) {
	if !t.foreground() {
		return false, false
	}
	fds := []unix.PollFd{{Fd: int32(t.file.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 || fds[0].Revents&unix.POLLIN == 0 {
		return false, false
	}
	// A terminal gives one line at most, and what follows stays for the command.
	text := make([]byte, 4096)
	n, err := t.file.Read(text)
	return err == nil && n > 0, strings.TrimSpace(string(text[:n])) == ""
}

func (t tty) howTo(pid int) string {
	if t.foreground() {
		return "Ctrl-C asks whether to run the command now or to cancel"
	}
	return fmt.Sprintf("to run the command now: kill -USR1 %d; to cancel: kill %d", pid, pid)
}
