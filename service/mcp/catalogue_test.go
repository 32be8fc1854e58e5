package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

// scripted is a server whose tools are what the test says.
type scripted struct {
	name  string
	id    string
	tools []chat.Tool
	list  func() error // before listing
	call  func(ctx context.Context, tool string, input json.RawMessage, progress func(string), ask Ask) (chat.Result, error)
	calls int
}

func (s *scripted) Name() string { return s.name }
func (s *scripted) ID() string   { return s.id }

func (s *scripted) Tools(context.Context) ([]chat.Tool, error) {
	if s.list != nil {
		if err := s.list(); err != nil {
			return nil, err
		}
	}
	return s.tools, nil
}

func (s *scripted) Call(ctx context.Context, tool string, input json.RawMessage, progress func(string), ask Ask) (chat.Result, error) {
	s.calls++
	return s.call(ctx, tool, input, progress, ask)
}

func scriptedTool(server, tool string) chat.Tool {
	return chat.Tool{
		Name: chat.ToolName(server, tool), Server: server, ServerID: "id-" + server, Tool: tool,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
	}
}

func newScripted(name string, tools ...string) *scripted {
	s := &scripted{name: name, id: "id-" + name}
	for _, t := range tools {
		s.tools = append(s.tools, scriptedTool(name, t))
	}
	return s
}

func newCatalogue(t *testing.T, servers ...Server) *Catalogue {
	t.Helper()
	c, err := NewCatalogue(servers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func toolNames(tools []chat.Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

func TestNewCatalogueRefusesServersThatCannotBeToldApart(t *testing.T) {
	a, sameID, sameName := newScripted("a"), newScripted("b"), newScripted("a")
	sameID.id, sameName.id = a.id, "other"
	for _, second := range []Server{sameID, sameName} {
		if _, err := NewCatalogue(a, second); !errors.Is(err, chat.ErrConflict) {
			t.Errorf("server %s %s beside %s %s gave %v, want a conflict", second.Name(), second.ID(), a.name, a.id, err)
		}
	}
}

func TestToolsOfSeveralServers(t *testing.T) {
	t.Run("one that does not answer does not hide the others", func(t *testing.T) {
		down, broken := newScripted("down", "x"), newScripted("broken", "x")
		down.list = func() error { return errors.New("connection refused") }
		broken.list = func() error { panic("nil map") }
		c := newCatalogue(t, newScripted("a", "x"), down, broken, newScripted("b", "x", "y"))
		tools, err := c.Tools(t.Context())
		if diff := cmp.Diff([]string{"a__x", "b__x", "b__y"}, toolNames(tools)); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		for _, name := range []string{"down", "broken"} {
			if err == nil || !strings.Contains(err.Error(), "server "+name) {
				t.Errorf("the error does not name the server %s: %v", name, err)
			}
		}
	})
	t.Run("two tools never have one name", func(t *testing.T) {
		twin := newScripted("b", "x")
		twin.tools[0].Name = "a__x"
		tools, err := newCatalogue(t, newScripted("a", "x"), twin).Tools(t.Context())
		if diff := cmp.Diff([]string{"a__x"}, toolNames(tools)); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
		if err == nil {
			t.Error("the tool that was left out is not mentioned")
		}
	})
}

func TestHasGoesById(t *testing.T) {
	c := newCatalogue(t, newScripted("a", "x"), newScripted("b", "x"))
	for id, want := range map[string]bool{"id-a": true, "id-b": true, "a": false, "id-c": false, "": false} {
		if got := c.Has(id); got != want {
			t.Errorf("%q: got %v", id, got)
		}
	}
}

func TestAnAnswerThatIsTooLargeIsSaidNotKept(t *testing.T) {
	s := newScripted("a", "x")
	s.call = func(context.Context, string, json.RawMessage, func(string), Ask) (chat.Result, error) {
		return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"` + strings.Repeat("x", maxOutput) + `"`)}, nil
	}
	c := newCatalogue(t, s)
	got := c.Call(t.Context(), scriptedTool("a", "x"), json.RawMessage(`{}`), nil, nil)
	if got.Outcome != chat.OutcomeOK || len(got.Output) > 200 || !strings.Contains(string(got.Output), "more than is kept") {
		t.Errorf("got %s, %d bytes", got.Outcome, len(got.Output))
	}
}

func TestAnAnswerThatNestsTooDeepIsKeptAsText(t *testing.T) {
	deep := strings.Repeat(`[`, maxDepth+1) + strings.Repeat(`]`, maxDepth+1)
	for raw, kept := range map[string]bool{
		deep: false, strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth): true,
		`["` + strings.Repeat(`[\"`, maxDepth) + `"]`: true,
	} {
		got := output(json.RawMessage(raw))
		if !json.Valid(got) || (string(got) == raw) != kept {
			t.Errorf("%.20s…: kept %v", raw, string(got) == raw)
		}
	}
}

func TestCallOutcomes(t *testing.T) {
	type result = chat.Result
	answer := func(r result, err error) func(context.Context, string, json.RawMessage, func(string), Ask) (result, error) {
		return func(context.Context, string, json.RawMessage, func(string), Ask) (result, error) { return r, err }
	}
	ok := answer(result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`{"n":9007199254740993}`)}, nil)
	changed := scriptedTool("a", "x")
	changed.InputSchema = json.RawMessage(`{"type":"object"}`)
	moved := scriptedTool("a", "x")
	moved.Identity = "of other settings"
	spaced := scriptedTool("a", "x")
	spaced.InputSchema = json.RawMessage("{ \"type\":\"object\",\n\"properties\":{\"n\":{\"type\":\"integer\"}}}")
	tests := []struct {
		name  string
		tool  chat.Tool
		input string
		call  func(context.Context, string, json.RawMessage, func(string), Ask) (result, error)
		want  chat.Outcome
		text  string // contained in the output or in the error text
		runs  int
	}{
		{"an answer", scriptedTool("a", "x"), `{}`, ok, chat.OutcomeOK, `{"n":9007199254740993}`, 1},
		{"a schema with other white space", spaced, `{}`, ok, chat.OutcomeOK, `{"n":9007199254740993}`, 1},
		{"no output", scriptedTool("a", "x"), `{}`, answer(result{Outcome: chat.OutcomeOK}, nil), chat.OutcomeOK, `null`, 1},
		{"output with a NUL", scriptedTool("a", "x"), `{}`, answer(result{Outcome: chat.OutcomeOK, Output: json.RawMessage("\"a\x00b\"")}, nil), chat.OutcomeOK, `\u0000`, 1},
		{"output that is not UTF-8", scriptedTool("a", "x"), `{}`, answer(result{Outcome: chat.OutcomeOK, Output: json.RawMessage("\"a\xffb\"")}, nil), chat.OutcomeOK, "\"a\uFFFDb\"", 1},
		{"output that is not JSON", scriptedTool("a", "x"), `{}`, answer(result{Outcome: chat.OutcomeOK, Output: json.RawMessage("plain \xff text")}, nil), chat.OutcomeOK, "\"plain \uFFFD text\"", 1},
		{"a failure of the tool", scriptedTool("a", "x"), `{}`, answer(result{Outcome: chat.OutcomeFailed, ErrorText: "no\x00 \xffspace"}, nil), chat.OutcomeFailed, "no\uFFFD \uFFFDspace", 1},
		{"a failure without a reason", scriptedTool("a", "x"), `{}`, answer(result{Outcome: chat.OutcomeFailed}, nil), chat.OutcomeFailed, "gave no reason", 1},
		{"an error of the server", scriptedTool("a", "x"), `{}`, answer(result{}, errors.New("exit status 2")), chat.OutcomeUnknown, "(exit status 2): its outcome is unknown", 1},
		{"a server that is down", scriptedTool("a", "x"), `{}`, answer(result{}, fmt.Errorf("dial: %w", chat.ErrUnavailable)), chat.OutcomeUnavailable, "was not run", 1},
		{"a tool that vanished on the way", scriptedTool("a", "x"), `{}`, answer(result{}, chat.NotFound("No tool.")), chat.OutcomeUnavailable, "was not run", 1},
		{"no outcome", scriptedTool("a", "x"), `{}`, answer(result{}, nil), chat.OutcomeUnknown, "may or may not", 1},
		{"the server's own deadline", scriptedTool("a", "x"), `{}`, answer(result{}, context.DeadlineExceeded), chat.OutcomeUnknown, "may or may not", 1},
		{"a panic", scriptedTool("a", "x"), `{}`, func(context.Context, string, json.RawMessage, func(string), Ask) (result, error) { panic("oops") }, chat.OutcomeUnknown, "broke down", 1},
		{"a goroutine that ends", scriptedTool("a", "x"), `{}`, func(context.Context, string, json.RawMessage, func(string), Ask) (result, error) {
			runtime.Goexit()
			return result{}, nil
		}, chat.OutcomeUnknown, "broke down", 1},
		{"an unknown tool", scriptedTool("a", "y"), `{}`, ok, chat.OutcomeUnavailable, `"y"`, 0},
		{"an unknown server", scriptedTool("b", "x"), `{}`, ok, chat.OutcomeUnavailable, "was not run", 0},
		{"a changed schema", changed, `{}`, ok, chat.OutcomeUnavailable, "another schema", 0},
		{"a server with other settings", moved, `{}`, ok, chat.OutcomeUnavailable, "its settings changed", 0},
		{"input that breaks the schema", scriptedTool("a", "x"), `{"n":"1"}`, ok, chat.OutcomeInvalid, "/n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScripted("a", "x")
			s.call = tt.call
			got := newCatalogue(t, s).Call(t.Context(), tt.tool, json.RawMessage(tt.input), nil, nil)
			if got.Outcome != tt.want {
				t.Errorf("outcome %q (%s), want %q", got.Outcome, got.ErrorText, tt.want)
			}
			text := got.ErrorText
			if tt.want == chat.OutcomeOK {
				text = string(got.Output)
				if !json.Valid(got.Output) {
					t.Errorf("the output is not JSON: %q", got.Output)
				}
			}
			if !strings.Contains(text, tt.text) {
				t.Errorf("text %q does not contain %q", text, tt.text)
			}
			if s.calls != tt.runs {
				t.Errorf("the tool ran %d times, want %d", s.calls, tt.runs)
			}
		})
	}
}

func TestCallWhoseContextEnds(t *testing.T) {
	call := func(t *testing.T, run func(ctx context.Context) (chat.Result, error)) (chat.Result, *scripted) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		s := newScripted("a", "x")
		s.call = func(ctx context.Context, _ string, _ json.RawMessage, _ func(string), _ Ask) (chat.Result, error) {
			cancel()
			return run(ctx)
		}
		return newCatalogue(t, s).Call(ctx, s.tools[0], json.RawMessage(`{}`), nil, nil), s
	}
	t.Run("before it began is not run", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := newScripted("a", "x")
		got := newCatalogue(t, s).Call(ctx, s.tools[0], json.RawMessage(`{}`), nil, nil)
		if got.Outcome != chat.OutcomeStopped || s.calls != 0 {
			t.Errorf("outcome %q after %d runs, want stopped after none", got.Outcome, s.calls)
		}
	})
	t.Run("while it ran is unknown", func(t *testing.T) {
		got, _ := call(t, func(ctx context.Context) (chat.Result, error) {
			<-ctx.Done()
			return chat.Result{}, errors.New("broken pipe")
		})
		if got.Outcome != chat.OutcomeUnknown {
			t.Errorf("outcome %q, want unknown", got.Outcome)
		}
	})
	t.Run("but that answered all the same keeps its answer", func(t *testing.T) {
		got, _ := call(t, func(ctx context.Context) (chat.Result, error) {
			<-ctx.Done()
			return chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`1`)}, nil
		})
		if got.Outcome != chat.OutcomeOK || string(got.Output) != "1" {
			t.Errorf("result %+v, want the tool's answer", got)
		}
	})
	t.Run("and that does not listen is left behind, and cannot report any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			release := make(chan struct{})
			var mu sync.Mutex
			var told []string
			s := newScripted("a", "x")
			s.call = func(_ context.Context, _ string, _ json.RawMessage, progress func(string), ask Ask) (chat.Result, error) {
				progress("1/2")
				cancel()
				<-release
				progress("2/2")
				return chat.Result{Outcome: chat.OutcomeOK}, nil
			}
			got := newCatalogue(t, s).Call(ctx, s.tools[0], json.RawMessage(`{}`), func(text string) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, text)
			}, nil)
			close(release)
			synctest.Wait()
			if got.Outcome != chat.OutcomeUnknown {
				t.Errorf("outcome %q, want unknown", got.Outcome)
			}
			if diff := cmp.Diff([]string{"1/2"}, told); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	})
}

func TestSetKeepsTheOldListOnConflict(t *testing.T) {
	c := newCatalogue(t, newScripted("a", "x"))
	if err := c.Set(newScripted("b", "x"), newScripted("b", "x")); !errors.Is(err, chat.ErrConflict) {
		t.Fatalf("two of one id gave %v", err)
	}
	if _, _, err := c.find(t.Context(), "id-a", "x"); err != nil {
		t.Error("the list that was refused replaced the old one")
	}
	if err := c.Set(newScripted("b", "x")); err != nil {
		t.Fatal(err)
	}
	if c.Has("id-a") || !c.Has("id-b") {
		t.Errorf("after the change it has a: %v, b: %v", c.Has("id-a"), c.Has("id-b"))
	}
	if _, _, err := c.find(t.Context(), "id-a", "x"); err == nil {
		t.Error("a server that was taken out is still there")
	}
}

func TestToolsAreListedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(name string) *scripted {
			s := newScripted(name, "x")
			s.list = func() error { time.Sleep(10 * time.Second); return nil }
			return s
		}
		c := newCatalogue(t, slow("a"), newScripted("b", "x"), slow("c"))
		began := time.Now()
		tools, err := c.Tools(t.Context())
		if diff := cmp.Diff([]string{"a__x", "b__x", "c__x"}, toolNames(tools)); diff != "" || err != nil {
			t.Errorf("tools (-want +got):\n%s%v", diff, err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestToolsOfSomeServersWaitForNoOther(t *testing.T) {
	hung := newScripted("hung", "x")
	hung.list = func() error { return errors.New("asked") }
	c := newCatalogue(t, hung, newScripted("a", "x"), newScripted("b", "x"))
	for _, tt := range []struct {
		ids  []string
		want []string
	}{
		{[]string{"id-b", "id-a", "id-gone"}, []string{"a__x", "b__x"}},
		{[]string{}, nil},
	} {
		tools, err := c.ToolsOf(t.Context(), tt.ids)
		if diff := cmp.Diff(tt.want, toolNames(tools)); diff != "" || err != nil {
			t.Errorf("tools of %v (-want +got):\n%s%v", tt.ids, diff, err)
		}
	}
	if tools, err := c.ToolsOf(t.Context(), nil); len(tools) != 2 || err == nil {
		t.Errorf("without ids: %v, %v", toolNames(tools), err)
	}
}
