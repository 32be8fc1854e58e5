package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// stopStep is how long a process may take to end after its input was
	// closed, and once more after it was told to terminate.
	stopStep = 2 * time.Second
	// drainTime is how long the output of a process that has ended is read on:
	// something that left its group may hold it open for ever.
	drainTime = 5 * time.Second
)

// inherited are the variables of ours that a tool server needs to run at all.
// It is given nothing else that was not configured for it.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// process is one run of a tool server's command, in a process group of its
// own. It is started once and never again.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *ring
	ended  chan struct{} // closed when the process, and its group, are gone
	err    error         // of the process; read after ended
	stop   sync.Once
}

// startProcess starts the server's command. Its standard error goes to stderr.
func startProcess(s chat.MCPServer, getenv func(string) string, stderr *ring) (*process, error) {
	cmd := exec.Command(s.Command, s.Args...) //nolint:noctx // it outlives the call; the process is stopped by close
	cmd.Dir = s.Dir
	cmd.Env = environment(s.Env, getenv)
	ownGroup(cmd)
	endWithUs(cmd)
	p := &process{cmd: cmd, stderr: stderr, ended: make(chan struct{})}

	// Pipes of our own rather than those of exec: Wait must return when the
	// process ends, not when the last of its children closes them.
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close() // nothing was written, or it is the other side's end
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(ours, theirs...))
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		if len(ours) == 0 {
			r, w = w, r // standard input is written by us
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p.stdin, p.stdout = ours[0], ours[1]
	started := make(chan error)
	go p.run(ours[2], started)
	err := <-started
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, fmt.Errorf("start the process: %w", err)
	}
	return p, nil
}

// run starts the process, reaps it, ends what it left behind and closes the
// pipes.
func (p *process) run(stderr *os.File, started chan<- error) {
	// To the kernel the parent is the thread that starts the process, and its end
	// is that of the process. Nothing else may run on it, and end it, meanwhile;
	// the wait takes a thread in any case.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.ended)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		p.stderr.read(stderr)
	}()
	p.err = p.cmd.Wait()
	killGroup(p.cmd.Process.Pid)
	deadline := time.Now().Add(drainTime)
	p.stdout.SetReadDeadline(deadline) //nolint:errcheck // closed already: nothing is read from it
	stderr.SetReadDeadline(deadline)   // a pipe of ours takes deadlines
	<-drained
	stderr.Close()  // read to its end
	p.stdin.Close() // nobody reads it
}

// close ends the process and its group: first by the end of its input, then
// with a signal, then by force. It returns when they are gone. What the process
// started, and what those started, is ended by force in the end, also if it
// left the group; it is found as long as all on the way to it run.
func (p *process) close() {
	p.stop.Do(func() {
		left := descendants(p.cmd.Process.Pid)
		defer func() {
			for _, child := range left {
				child.Kill()    //nolint:errcheck // most have ended with the process
				child.Release() //nolint:errcheck // it is not waited for: it is no child of ours
			}
		}()
		p.stdin.Close() // the session may have closed it
		for _, end := range []func(int){terminateGroup, killGroup} {
			patience := time.NewTimer(stopStep)
			select {
			case <-p.ended:
				patience.Stop()
				return
			case <-patience.C:
				left = append(left, descendants(p.cmd.Process.Pid)...)
				end(p.cmd.Process.Pid)
			}
		}
	})
	<-p.ended
	p.stdout.Close() // the session may have closed it
}

func environment(configured map[string]string, getenv func(string) string) []string {
	env := []string{}
	for _, name := range inherited {
		if _, ok := configured[name]; ok {
			continue
		}
		if value := getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range configured {
		env = append(env, name+"="+value)
	}
	return env
}
