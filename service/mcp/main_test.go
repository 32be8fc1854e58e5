package mcp

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: each would be a connection, or a
// process, that nobody ends.
func TestMain(m *testing.M) {
	if script := os.Getenv("ASSENT_TEST_PARENT_OF"); script != "" {
		p, err := startProcess(shell(script), os.Getenv, &ring{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.cmd.Process.Pid)
		<-p.ended // the test ends this program before
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
