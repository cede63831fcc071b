package slurmlab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"lull.dev/lull/internal/base/loopback"
)

// ErrNoPackages says that slurmdbd or its MariaDB is not in the folder of the packages.
var ErrNoPackages = errors.New("no slurmdbd and MariaDB in the folder of the packages: tools/slurm.sh could not fetch them")

// Account is the account of all users in slurmdbd.
const Account = "lab"

// StartAccounting starts MariaDB and slurmdbd, makes some users known to it, and restarts slurmctld with it. The error wraps ErrNoPackages if they are not
// there. StopAccounting undoes it, also after an error.
//
// The database listens on a socket in a folder of root only, so it needs no passwords and no tables of privileges: who can write to it can make themselves
// administrator of the cluster.
func (c *Cluster) StartAccounting(users ...string) error {
	for _, program := range []string{"mariadbd", "slurmdbd"} {
		if _, err := os.Stat(c.Root + "/usr/sbin/" + program); err != nil {
			return fmt.Errorf("%w: %w", ErrNoPackages, err)
		}
	}
	var err error
	if c.configured, err = os.ReadFile(c.Dir + "/slurm.conf"); err != nil {
		return err
	}
	at, err := loopback.FreeAddress()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(at)
	if err := c.startDatabase(); err != nil {
		return err
	}
	if err := c.startAccountingDaemon(port); err != nil {
		return err
	}
	// All users are added before slurmctld knows slurmdbd: slurmctld 22.05 may crash while a new account comes to it.
	if err := c.manage("add", "cluster", "lull"); err != nil {
		return err
	}
	if err := c.manage("add", "account", Account, "Cluster=lull"); err != nil {
		return err
	}
	for _, user := range users {
		if err := c.manage("add", "user", user, "Account="+Account); err != nil {
			return err
		}
	}
	end(c.ctld)
	return c.StartController()
}

// SQL runs statements in the database of slurmdbd, as root, with MariaDB's client. The error wraps ErrNoPackages if there is none.
func (c *Cluster) SQL(statements string) error {
	client := c.Root + "/usr/bin/mariadb"
	if _, err := os.Stat(client); err != nil {
		return fmt.Errorf("%w: %w", ErrNoPackages, err)
	}
	if out, err := exec.Command(client, "--no-defaults", "--socket="+c.Dir+"/database/socket", "accounting", "--execute="+statements).CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb: %w: %s", err, out)
	}
	return nil
}

// StopAccounting ends slurmdbd, and restarts slurmctld without it.
func (c *Cluster) StopAccounting() error {
	if c.configured == nil {
		return nil
	}
	end(c.ctld)
	err := os.WriteFile(c.Dir+"/slurm.conf", c.configured, 0o644)
	if err == nil {
		err = c.StartController()
	}
	for i := len(c.accounting) - 1; i >= 0; i-- {
		end(c.accounting[i])
	}
	c.accounting, c.configured = nil, nil
	return errors.Join(err, os.RemoveAll(c.Dir+"/database"))
}

func (c *Cluster) startDatabase() error {
	dir := c.Dir + "/database"
	if err := os.MkdirAll(dir+"/data", 0o700); err != nil {
		return err
	}
	os.Setenv("MYSQL_UNIX_PORT", dir+"/socket") // slurmdbd.conf has no setting for it
	log := c.Dir + "/log/mariadbd.out"
	_ = os.Remove(log)
	cmd, err := c.daemon("mariadbd", "mariadbd", "--no-defaults", "--user=root", "--datadir="+dir+"/data", "--lc-messages-dir="+c.Root+"/usr/share/mysql", "--skip-grant-tables", "--skip-networking",
		"--socket="+dir+"/socket", "--pid-file="+dir+"/pid", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-use-native-aio=0")
	if err != nil {
		return err
	}
	c.accounting = append(c.accounting, cmd)
	return Wait("MariaDB", func() bool {
		text, _ := os.ReadFile(log)
		return strings.Contains(string(text), "ready for connections")
	})
}

func (c *Cluster) startAccountingDaemon(port string) error {
	text := fmt.Sprintf(`AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=%[2]s
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
PluginDir=%[3]s/slurm-wlm
PidFile=%[1]s/slurmdbd.pid
LogFile=%[1]s/log/slurmdbd.log
`, c.Dir, port, c.lib)
	if err := os.WriteFile(c.Dir+"/slurmdbd.conf", []byte(text), 0o600); err != nil {
		return err
	}
	cmd, err := c.daemon("slurmdbd", "slurmdbd", "-D")
	if err != nil {
		return err
	}
	c.accounting = append(c.accounting, cmd)
	// sacctmgr reads it, and slurmctld once it is started again. For auth/munge, the password is the path of the socket.
	with := fmt.Sprintf("%sAccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\nAccountingStoragePort=%s\nAccountingStoragePass=%s/munge.sock\n", c.configured, port, c.Dir)
	if err := os.WriteFile(c.Dir+"/slurm.conf", []byte(with), 0o644); err != nil {
		return err
	}
	return Wait("slurmdbd", func() bool { return c.Command("sacctmgr", "-n", "show", "cluster").Run() == nil })
}

// manage runs sacctmgr.
func (c *Cluster) manage(args ...string) error {
	if out, err := c.Command("sacctmgr", append([]string{"--immediate"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("sacctmgr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// end ends a daemon, and kills it if it takes long.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(Within):
		_ = cmd.Process.Kill()
		<-ended
	}
}
