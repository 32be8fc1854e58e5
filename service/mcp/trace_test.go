package mcp

import (
	"context"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestTrace(t *testing.T) {
	var none *callTrace // of a message that belongs to no call
	none.arrived()
	none.turnedAway()
	none.broken(io.EOF)
	none.noAnswer("")
	trace := &callTrace{}
	for i, step := range []struct {
		do    func()
		never bool
	}{{func() {}, true}, {trace.arrived, false}, {trace.turnedAway, true}, {trace.arrived, false}, {trace.arrived, false}, {trace.turnedAway, false}} {
		step.do()
		if never, _, _ := trace.end(); never != step.never {
			t.Errorf("after step %d: never began %v", i, never)
		}
	}
}

func TestOnlyTheAnswerToACallIsOne(t *testing.T) {
	id := func(v any) jsonrpc.ID {
		id, err := jsonrpc.MakeID(v)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	trace, traffic := &callTrace{}, &traffic{}
	ctx := context.WithValue(t.Context(), traceKey{}, trace)
	answered := func(want bool) {
		t.Helper()
		if _, got, _ := trace.end(); got != want {
			t.Errorf("answered: %v, want %v", got, want)
		}
	}
	receive := func(v any) {
		t.Helper()
		if _, err := traffic.received(&jsonrpc.Response{ID: id(v)}); err != nil {
			t.Fatal(err)
		}
	}
	traffic.sending(ctx, &jsonrpc.Request{Method: "notifications/cancelled"})
	traffic.sending(ctx, &jsonrpc.Request{ID: id(7.0), Method: "tools/call"})
	receive(6.0)
	receive("7")
	answered(false)
	receive(7.0)
	answered(true)
	traffic.sending(ctx, &jsonrpc.Request{ID: id(8.0), Method: "tools/call"}) // the next round
	answered(false)
	receive(7.0)
	answered(false)
	trace.over()
	receive(8.0)
	answered(false)
	if len(traffic.calls) != 0 {
		t.Errorf("%d calls are kept", len(traffic.calls))
	}
}
