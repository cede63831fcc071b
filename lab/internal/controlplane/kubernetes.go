package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// olderMinors are the minor versions of Kubernetes whose control plane a lab may run instead of its own. Each has a module in
// lab/kubernetes; `make kubernetes` builds it into a folder beside the lab's binary.
var olderMinors = []string{"1.32", "1.33", "1.34", "1.35"}

// isKubernetes reports whether a component is of Kubernetes itself.
func isKubernetes(name string) bool { return strings.HasPrefix(name, "kube-") }

// kubernetesDir is the folder of the binaries of the older minor version.
func (o Options) kubernetesDir() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(self), "kubernetes", "v"+o.Kubernetes), nil
}

// older makes a component of Kubernetes itself one of the older minor version; it leaves any other.
func (o Options) older(c component) (component, error) {
	if o.Kubernetes == "" || !isKubernetes(c.name) {
		return c, nil
	}
	dir, err := o.kubernetesDir()
	if err != nil {
		return c, err
	}
	c.binary = filepath.Join(dir, c.name)
	return c, nil
}

// BuildKubernetes builds the control plane of the older minor version, if there is one in the options and it is not built yet. It runs
// make in the folder above that of the lab's binary, and writes to log what make writes. It returns an error if that folder is not Lull's
// source, or the build fails.
func (o Options) BuildKubernetes(ctx context.Context, log io.Writer) error {
	if o.Kubernetes == "" {
		return nil
	}
	dir, err := o.kubernetesDir()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "version")); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	tree := filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	if _, err := os.Stat(filepath.Join(tree, "lab", "kubernetes", "v"+o.Kubernetes, "go.mod")); err != nil {
		return fmt.Errorf("--kubernetes: %s is not built, and cannot be built: %w (in Lull's source: make kubernetes KUBERNETES=%s)", o.Kubernetes, err, o.Kubernetes)
	}
	build := exec.CommandContext(ctx, "make", "-C", tree, "kubernetes", "KUBERNETES="+o.Kubernetes)
	build.Stdout, build.Stderr = log, log
	if err := build.Run(); err != nil {
		return fmt.Errorf("--kubernetes: make kubernetes KUBERNETES=%s: %w", o.Kubernetes, err)
	}
	return nil
}
