package api

import (
	"net"

	"golang.org/x/sys/unix"
)

// tuneSocket bounds the send buffer, and the time that a peer may leave data
// unacknowledged. Neither is needed for a stream to work, so an error changes
// nothing.
func tuneSocket(c *net.TCPConn) {
	_ = c.SetWriteBuffer(streamSendBuffer)
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(streamPeerTimeout.Milliseconds()))
	})
}
