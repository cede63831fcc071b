package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Phase is where a lab is in its life.
type Phase string

// The phases of a lab.
const (
	Starting Phase = "starting"
	Ready    Phase = "ready"
	Failed   Phase = "failed"
	Down     Phase = "down"
)

// State is what a lab's folder says of it.
type State struct {
	Phase      Phase          `json:"phase"`
	Error      string         `json:"error,omitempty"`
	PID        int            `json:"pid"` // of the supervisor
	Server     string         `json:"server"`
	Kubeconfig string         `json:"kubeconfig"`
	Kubelet    string         `json:"kubelet,omitempty"` // of the real node
	Started    time.Time      `json:"started"`
	BootTime   string         `json:"bootTime,omitempty"`
	Components map[string]int `json:"components"` // name -> process id
	Spokes     []Spoke        `json:"spokes,omitempty"`
	Options    Options        `json:"options"`
}

func stateFile(dir string) string { return filepath.Join(dir, "state.json") }

// write replaces the state file as a whole.
func (s State) write() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp := stateFile(s.Options.Dir) + ".tmp"
	if err := os.WriteFile(tmp, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, stateFile(s.Options.Dir))
}

// ReadState returns the state of the lab in dir. A lab whose supervisor is gone
// is down, whatever its file says; so is a folder without a lab.
func ReadState(dir string) (State, error) {
	text, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return State{Phase: Down, Options: Options{Dir: dir}}, nil
	}
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		return State{}, fmt.Errorf("%s: %w", stateFile(dir), err)
	}
	if (s.Phase == Ready || s.Phase == Starting) && !locked(dir) {
		s.Phase, s.Error = Failed, "the supervisor is gone without having ended the lab"
	}
	return s, nil
}

func lockFile(dir string) string { return filepath.Join(dir, "lock") }

// errLocked says that another supervisor owns the folder.
var errLocked = errors.New("another lab runs in this folder")

// lock makes this process the owner of the folder until it ends.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errLocked
	}
	return f, nil
}

// locked reports whether a supervisor owns the folder.
func locked(dir string) bool {
	f, err := lock(dir)
	if err != nil {
		return errors.Is(err, errLocked)
	}
	_ = f.Close()
	return false
}
