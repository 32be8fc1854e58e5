package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// box is an MCP server over HTTP whose tools a test changes while it runs.
type box struct {
	server *sdk.Server
	url    string
	http   *httptest.Server

	mu     sync.Mutex
	broken bool
	ran    []string // "tool text", in the order in which the calls came
	header http.Header
}

func newBox(t *testing.T, tools ...string) *box {
	t.Helper()
	b := &box{server: sdk.NewServer(&sdk.Implementation{Name: "box", Version: "1"}, nil)}
	for _, tool := range tools {
		b.add(tool, `{"type":"string"}`)
	}
	handler := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.header = r.Header.Clone()
		return b.server
	}, nil)
	b.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		broken := b.broken
		b.mu.Unlock()
		if broken {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(b.leave)
	b.url = b.http.URL
	return b
}

// breaks says whether connections break off once a request has been read, so
// that whoever made it does not know what became of it.
func (b *box) breaks(broken bool) {
	b.mu.Lock()
	b.broken = broken
	b.mu.Unlock()
	b.http.CloseClientConnections()
}

// leave ends the server: its address is nobody's.
func (b *box) leave() {
	b.http.CloseClientConnections()
	b.http.Close()
}

// add offers a tool, or gives the one of that name another schema for "text".
func (b *box) add(tool, text string) {
	b.server.AddTool(&sdk.Tool{
		Name: tool, Title: "Box: " + tool, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: tool == "look"},
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":` + text + `},"required":["text"]}`),
	}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in probeInput
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		b.mu.Lock()
		b.ran = append(b.ran, tool+" "+in.Text)
		b.mu.Unlock()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + in.Text}}}, nil
	})
}

func (b *box) runs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.ran...)
}

// boxCall is a call of a tool of the server named box. Its id is its text.
func boxCall(tool, text string) llmtest.Call {
	return llmtest.Call{ID: "call-" + text, Name: "box__" + tool, Args: `{"text":"` + text + `"}`}
}

// addServer adds a tool server over HTTP and waits until it is ready.
func (w *world) addServer(settings map[string]any) chat.ServerInfo {
	w.t.Helper()
	var info chat.ServerInfo
	w.want(201, "POST", "/mcp-servers", settings).into(w.t, &info)
	return w.server(info.ID, chat.ServerReady)
}

// server waits until a tool server's connection stands so.
func (w *world) server(id string, want chat.ServerPhase) chat.ServerInfo {
	w.t.Helper()
	var last chat.ServerInfo
	w.eventually(func() bool {
		last = chat.ServerInfo{}
		w.want(200, "GET", serverPath(id), nil).into(w.t, &last)
		return last.State.Phase == want
	}, func() string { return fmt.Sprintf("the server is %+v, want %s", last.State, want) })
	return last
}

func serverPath(id string) string { return "/mcp-servers/" + url.PathEscape(id) }
