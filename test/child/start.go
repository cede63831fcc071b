package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter starts processes on one thread, which no other goroutine gets. Linux sends the parent-death signal when the thread that started a process
// ends: that of a test may end before the test process does.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts a command as cmd.Start does. Linux kills the process when the test process ends, however that ends: no cleanup of a test runs after SIGKILL, a panic
// or the time limit of go test. Its own children are not killed: give those that have some a parent-death signal of their own by setting
// cmd.SysProcAttr.Pdeathsig before. The other fields of cmd.SysProcAttr count as well.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}
