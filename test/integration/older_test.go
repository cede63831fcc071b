//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"lull.dev/lull/internal/base/loopback"
	"lull.dev/lull/internal/cluster/kinds"
	"lull.dev/lull/test/child"
)

// older is the older minor version of Kubernetes that the labs of the tests run, such as 1.33, or "" for the lab's own. It has no admission
// policies: lull admission holds there. make test-kubernetes sets it.
func older() string { return os.Getenv("LULL_KUBERNETES") }

// olderFlags are the flags of a lab of that version.
func olderFlags() []string {
	if older() == "" {
		return nil
	}
	return []string{"--kubernetes", older()}
}

// builtinNames are the names of all kinds that Lull knows by itself.
func builtinNames() string {
	var all []string
	for _, k := range kinds.Builtin() {
		all = append(all, k.Name)
	}
	return strings.Join(all, ",")
}

// runAdmission runs lull admission with the rights of its account and the flags, until end is called. Its log is in a file beside the
// kubeconfigs of the lab.
func runAdmission(flags ...string) (end func(), err error) {
	address, err := loopback.FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(env.dir, "admission-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(os.Getenv("LULL_BIN"), append([]string{
		"admission", "--kubeconfig", env.admission, "--bind-address", address, "--url", "https://" + address, "--kinds", builtinNames(),
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0",
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(cmd); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		var ended *exec.ExitError
		if err := cmd.Wait(); errors.As(err, &ended) {
			text, _ := os.ReadFile(log.Name())
			fmt.Fprintf(os.Stderr, "integration: lull admission ended with %v; it wrote:\n%s\n", err, text)
		}
	}, nil
}
