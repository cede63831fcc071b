package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// child is a process that lives no longer than the demo.
type child struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// startChild starts a process that the kernel ends with this one.
func startChild(dir, name, binary string, args ...string) (*child, error) {
	log := filepath.Join(dir, name+".log")
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// ended reports a child that ended by itself, with the end of its log.
func (c *child) ended() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	const most = 4000
	text, _ := os.ReadFile(c.log)
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return fmt.Errorf("%s ended by itself (%s):\n%s", c.name, c.cmd.ProcessState, bytes.TrimSpace(text))
}

// stop ends the child and waits for it.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// startLab starts a lab of its own in dir and waits until it is ready.
func startLab(ctx context.Context, dir string, setup Setup) (*child, error) {
	if _, err := os.Stat(setup.Lab); err != nil {
		return nil, fmt.Errorf("the lab's binary: %w (build it with: make bin/lab)", err)
	}
	labDir := filepath.Join(dir, "lab")
	args := []string{
		"up", "--foreground", "--dir", labDir, "--nodes", strconv.Itoa(setup.Nodes),
		"--cpu", strconv.FormatInt(setup.CPUs, 10), "--gpus", strconv.Itoa(setup.GPUs), "--time-factor", strconv.FormatInt(setup.Factor, 10),
	}
	if setup.Spokes > 0 {
		args = append(args, "--kueue", "--spokes", strconv.Itoa(setup.Spokes))
	}
	if setup.Scheduler != "" {
		args = append(args, "--scheduler-config", setup.Scheduler)
	}
	lab, err := startChild(dir, "lab", setup.Lab, args...)
	if err != nil {
		return nil, err
	}
	ready := func() bool {
		text, err := os.ReadFile(filepath.Join(labDir, "state.json"))
		var state struct {
			Phase string `json:"phase"`
		}
		return err == nil && json.Unmarshal(text, &state) == nil && state.Phase == "ready"
	}
	for !ready() {
		if err := lab.ended(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			lab.stop()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return lab, nil
}
