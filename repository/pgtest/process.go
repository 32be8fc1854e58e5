package pgtest

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startProcess starts cmd from a thread that lives as long as the process: on
// Linux the signal of the parent's death is that of the death of the thread
// which started the child, and Go ends threads when it likes.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// quit asks the server to end at once, and insists after the timeout.
func (p *process) quit(timeout time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		select {
		case <-p.done: // it ended by itself
			return nil
		default:
			return err
		}
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-p.done:
		return nil
	case <-late.C:
	}
	err := p.cmd.Process.Kill()
	<-p.done
	return errors.Join(errors.New("it did not end when it was told to"), err)
}
