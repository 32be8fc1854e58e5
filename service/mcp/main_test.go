package mcp

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: each would be a connection, or a
// process, that nobody ends.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
