package controlplane

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// RoleCommand is the hidden first argument by which the lab's binary starts
// itself as one of the components.
const RoleCommand = "__role"

// process is a running component.
type process struct {
	component
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; valid once done is closed
}

// start runs a component as a child. The kernel kills it should the supervisor
// die without ending it; the thread that starts children must therefore live
// as long as the supervisor (see Supervise).
func start(dir string, c component) (*process, error) {
	binary, args := c.binary, c.args
	if binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		binary, args = self, append([]string{RoleCommand, c.name}, c.args...)
	}
	log, err := os.OpenFile(logFile(dir, c.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.isolated {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	p := &process{component: c, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stopGrace is how long a component may take to end by itself.
const stopGrace = 10 * time.Second

// stop ends the process, by force if it must, and waits until it is gone.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// crash describes how a component ended that should not have, with the tail of
// its log.
func (p *process) crash(dir string) error {
	how := "status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended by itself (%s); the end of its log:\n%s", p.name, how, tail(logFile(dir, p.name), 15))
}

// tail returns the last n lines of a file.
func tail(file string, n int) string {
	f, err := os.Open(file)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	defer f.Close()
	lines := make([]string, 0, n)
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if len(lines) == n {
			lines = lines[1:]
		}
		lines = append(lines, "  "+scanner.Text())
	}
	if len(lines) == 0 {
		return "  (empty)"
	}
	return strings.Join(lines, "\n")
}
