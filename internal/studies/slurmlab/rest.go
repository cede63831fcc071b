package slurmlab

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// ErrNoREST says that slurmrestd is not in the folder of the packages.
var ErrNoREST = errors.New("no slurmrestd in the folder of the packages: tools/slurm.sh could not fetch it")

func (c *Cluster) hasREST() error {
	for _, file := range []string{c.Root + "/usr/sbin/slurmrestd", c.lib + "/slurm-wlm/auth_jwt.so"} {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("%w: %w", ErrNoREST, err)
		}
	}
	return nil
}

// tokens are the lines of slurm.conf with which slurmctld accepts tokens, whose key they name.
func (c *Cluster) tokens() (string, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	file := c.Dir + "/jwt.key"
	return "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=" + file + "\n", os.WriteFile(file, key, 0o600)
}

// StartREST starts a slurmrestd that runs as an ordinary user of the machine, and waits until it listens: at an address such as 127.0.0.1:6820, where it answers
// whoever has a token of Token, or at the path of a socket after unix:, where it answers this user and root, with the rights of this user in Slurm. stop ends it.
// The error wraps ErrNoREST if there is no slurmrestd.
func (c *Cluster) StartREST(uid uint32, at string) (stop func(), err error) {
	if err := c.hasREST(); err != nil {
		return nil, err
	}
	network, address := "tcp", at
	var variables []string
	auth := "rest_auth/local"
	if path, is := strings.CutPrefix(at, "unix:"); is {
		network, address = "unix", path
	} else { // it would take no token otherwise, and with it nobody on the socket
		auth, variables = "rest_auth/jwt", []string{"SLURM_JWT=daemon"}
	}
	cmd, err := c.daemonAs(&syscall.Credential{Uid: uid, Gid: uid}, variables, "slurmrestd", "slurmrestd", "-s", "openapi/v0.0.38", "-a", auth, at)
	if err != nil {
		return nil, err
	}
	return func() { end(cmd) }, Wait("slurmrestd", func() bool {
		conn, err := net.Dial(network, address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// Token is one with which slurmrestd lets the caller act as a user.
func (c *Cluster) Token(user string) (string, error) {
	out, err := c.Command("scontrol", "token", "username="+user, "lifespan=3600").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("scontrol token: %w: %s", err, out)
	}
	_, token, found := strings.Cut(strings.TrimSpace(string(out)), "SLURM_JWT=")
	if !found {
		return "", errors.New("scontrol token prints no token")
	}
	return token, nil
}
