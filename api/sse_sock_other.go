//go:build !linux

package api

import "net"

// tuneSocket bounds the send buffer; a peer that has vanished is noticed by
// the write deadline alone.
func tuneSocket(c *net.TCPConn) { _ = c.SetWriteBuffer(streamSendBuffer) }
