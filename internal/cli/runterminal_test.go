package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// trapsOnce and diesSecond catch SIGINT. At the second, trapsOnce ends with status 5, and the signal ends diesSecond.
var (
	trapsOnce  = []string{"sh", "-c", `n=0; trap 'n=$((n+1)); echo "caught $n" >&2; [ $n -lt 2 ] || exit 5' INT; echo ready >&2; while :; do sleep 0.05; done`}
	diesSecond = []string{"sh", "-c", `trap 'trap - INT; echo "caught 1" >&2' INT; echo ready >&2; while :; do sleep 0.05; done`}
)

// TestRunSecondInterrupt: a command that traps the first SIGINT gets the second one too, and lull run ends as the command ends.
func TestRunSecondInterrupt(t *testing.T) {
	if signal.Ignored(syscall.SIGINT) {
		t.Skip("SIGINT is ignored, as nohup has it")
	}
	for name, tc := range map[string]struct {
		command []string
		says    string
		status  int
	}{
		"traps": {trapsOnce, "lull: saved nothing", 5},
		"ends":  {diesSecond, "ended by a signal: interrupt", 130},
	} {
		cmd := lullProcess(t, append([]string{"run", "--length", "1h", "--within", "1h", "--"}, tc.command...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(stderr)
		for _, says := range []string{"ready\n", "caught 1\n"} {
			for line := ""; line != says; {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatalf("%s: no %q: %v", name, says, err)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		var rest bytes.Buffer
		if _, err := rest.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		if status := endedWith(cmd.Wait(), cmd); status != tc.status || !strings.Contains(rest.String(), tc.says) {
			t.Errorf("%s: status %d, want %d: %s", name, status, tc.status, rest.String())
		}
	}
}

// openTerminal returns both ends of a terminal: what people type and see, and what processes read and write.
func openTerminal(t *testing.T) (people, process *os.File) {
	t.Helper()
	people, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { people.Close() })
	if err := unix.IoctlSetPointerInt(int(people.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip("no terminals here:", err)
	}
	n, err := unix.IoctlGetInt(int(people.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	process, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { process.Close() })
	return people, process
}

// TestRunOnATerminal: Ctrl-C asks, Enter runs, and the line that answers is not read by the command.
func TestRunOnATerminal(t *testing.T) {
	reads := []string{"sh", "-c", `echo ready; read line; echo "got <$line>"`}
	curve := curveFile(t, 8*time.Minute)
	const key = "\x03" // Ctrl-C
	for name, tc := range map[string]struct {
		command []string
		steps   []string // what it says, what is typed then, and so on
		status  int
	}{
		"Enter": {reads, []string{"Ctrl-C asks", key, "press Enter", "\n", "ready", "for the command\n", "got <for the command>", ""}, 0},
		"no":    {reads, []string{"Ctrl-C asks", key, "press Enter", "n\n", "still waits", key, "press Enter", key, "canceled (interrupt)", ""}, 130},
		"twice": {reads, []string{"Ctrl-C asks", key, "press Enter", key, "canceled (interrupt)", ""}, 130},
		// Ctrl-C reaches the command once, from the terminal.
		"runs": {reads, []string{"Ctrl-C asks", key, "press Enter", "\n", "ready", key, "ended by a signal: interrupt", ""}, 130},
		// So does the second one, if the command has trapped the first.
		"runs, traps":     {trapsOnce, []string{"Ctrl-C asks", key, "press Enter", "\n", "ready", key, "caught 1", key, "caught 2", ""}, 5},
		"runs, then ends": {diesSecond, []string{"Ctrl-C asks", key, "press Enter", "\n", "ready", key, "caught 1", key, "ended by a signal: interrupt", ""}, 130},
	} {
		people, process := openTerminal(t)
		cmd := lullProcess(t, append([]string{"run", "--within", "14m", "--length", "10s", "--source", curve, "--"}, tc.command...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = process, process, process
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		seen := make(chan byte, 1<<16)
		go func() {
			r := bufio.NewReader(people)
			for {
				b, err := r.ReadByte()
				if err != nil {
					close(seen)
					return
				}
				seen <- b
			}
		}()
		var all strings.Builder
		for i := 0; i < len(tc.steps); i += 2 {
			before := all.Len()
			for !strings.Contains(all.String()[before:], tc.steps[i]) {
				select {
				case b, ok := <-seen:
					if !ok {
						t.Fatalf("%s: no %q in %q", name, tc.steps[i], all.String())
					}
					all.WriteByte(b)
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill()
					t.Fatalf("%s: no %q in %q", name, tc.steps[i], all.String())
				}
			}
			if _, err := people.WriteString(tc.steps[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if status := endedWith(cmd.Wait(), cmd); status != tc.status {
			t.Errorf("%s: status %d, want %d:\n%s", name, status, tc.status, all.String())
		}
	}
}
