package repository

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// defaultNetworkTimeout bounds each read from and write to PostgreSQL. A server
// that has gone silent (it hangs, it failed over, a firewall forgot the
// connection) answers nothing and refuses nothing, and the driver does not
// look at a context while it reads. None of our statements takes that long.
const defaultNetworkTimeout = 10 * time.Second

// dialer makes connections on which no read or write lasts for ever.
type dialer struct {
	timeout time.Duration
	// silent is told of a connection on which nothing came in time. Others of
	// its age are as dead.
	silent func()
}

// Dialer makes connections to PostgreSQL on which no read or write lasts for
// longer than the timeout; 0 is 10 s. It is for connections that are not the
// store's.
func Dialer(timeout time.Duration) interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
} {
	return dialer{timeout: cmp.Or(timeout, defaultNetworkTimeout), silent: func() {}}
}

// Dial is for the driver.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout is for the driver.
func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext is for the driver.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &boundedConn{c, d}, nil
}

type boundedConn struct {
	net.Conn
	dialer dialer
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.dialer.timeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.dialer.silent()
	}
	return n, err
}

func (c *boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.dialer.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
