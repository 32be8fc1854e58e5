package mcp

import (
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

// wire is a way to a server, used for one session and never again.
type wire struct {
	transport sdk.Transport
	traffic   *traffic
	// lost tells why the session is at an end, which the SDK may take long to
	// notice: it waits for what it writes.
	lost <-chan error
	// end says how the other side ended, nil if nothing is known. It is asked
	// after close, when there was no other reason than that it did.
	end func() error
	// close releases everything. The session is being closed at the same time;
	// the channel is closed when it is. Whatever the server does, close returns.
	close func(sessionClosed <-chan struct{})
}

// dial opens a wire as the settings say.
func dial(s chat.MCPServer, getenv func(string) string, stderr *ring) (*wire, error) {
	if s.Transport == chat.TransportHTTP {
		return dialHTTP(s)
	}
	p, err := startProcess(s, getenv, stderr)
	if err != nil {
		return nil, err
	}
	return processWire(p, stderr), nil
}
