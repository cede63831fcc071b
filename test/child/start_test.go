package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain is the test process that is killed, where TestStartedProcessEndsWithItsTest runs it: it starts a process on a thread that ends at once, and prints its number.
func TestMain(m *testing.M) {
	if os.Getenv("LULL_CHILD_PARENT") == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "3600")
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with it: the thread ends too
		started <- Start(cmd)
	}()
	if err := <-started; err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
	fmt.Println("ended")
}

// runs reports whether a process runs: one that has ended and that nobody has waited for is a zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// TestStartedProcessEndsWithItsTest: a process of Start outlives the thread that called Start, and ends when the test process is killed.
func TestStartedProcessEndsWithItsTest(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "LULL_CHILD_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(parent); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	time.Sleep(100 * time.Millisecond) // in which a process that ends with the thread of its caller would end
	if !runs(pid) {
		t.Error("the process has ended with the thread that called Start")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.Now().Add(time.Minute); runs(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = exec.Command("kill", "-KILL", strconv.Itoa(pid)).Run()
			t.Fatal("the process still runs a minute after its test process was killed")
		}
	}
}

// startsByItself is a call of exec.Cmd.Start, by the names that variables of that type have here.
var startsByItself = regexp.MustCompile(`\b(cmd|up|command|l\.cmd)\.Start\(\)`)

// TestEveryProcessOfTestsEndsWithThem: tests start what runs on beside them by Start of this package.
func TestEveryProcessOfTestsEndsWithThem(t *testing.T) {
	var files, byStart int
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "../child/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		byStart += strings.Count(string(text), "child.Start(")
		if found := startsByItself.Find(text); found != nil {
			t.Errorf("%s: %s; accepted: child.Start, which ends the process with its test", path, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 || byStart == 0 {
		t.Errorf("%d files, %d calls of child.Start: the test reads the wrong folder", files, byStart)
	}
}
