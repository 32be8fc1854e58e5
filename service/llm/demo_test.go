package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm"
)

func noPause(context.Context) error { return nil }

func workspace() []chat.ToolSpec {
	var tools []chat.ToolSpec
	for _, name := range []string{"list_files", "read_file", "write_file", "delete_file", "slow_task"} {
		tools = append(tools, chat.ToolSpec{Name: chat.ToolName("workspace", name)})
	}
	return tools
}

func askDemo(t *testing.T, messages ...chat.PromptMessage) *reply {
	t.Helper()
	r := stream(t.Context(), llm.Demo{Pause: noPause}, chat.Prompt{Model: llm.DemoModel, Messages: messages, Tools: workspace()})
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

func TestDemoUnderstandsPlainRequests(t *testing.T) {
	t.Parallel()
	const def = `{"path":"a.txt","content":"Hello from the demo guide.\n"}`
	const defB = `{"path":"b.txt","content":"Hello from the demo guide.\n"}`
	for _, tt := range []struct {
		says string
		want []string // calls, without "workspace__"
	}{
		{"list files", []string{`list_files{}`}},
		{"List all files, please.", []string{`list_files{}`}},
		{"Please list the files in the workspace", []string{`list_files{}`}},
		{"list files in docs/2026", []string{`list_files{"path":"docs/2026"}`}},
		{"show me the files", []string{`list_files{}`}},
		{"ls", []string{`list_files{}`}},
		{"what files are there?", []string{`list_files{}`}},
		{"read notes.txt", []string{`read_file{"path":"notes.txt"}`}},
		{"Can you read the file notes.txt?", []string{`read_file{"path":"notes.txt"}`}},
		{"show notes.txt", []string{`read_file{"path":"notes.txt"}`}},
		{"read README", []string{`read_file{"path":"README"}`}},
		{"read `my notes.txt`", []string{`read_file{"path":"my notes.txt"}`}},
		{"write hello to notes.txt", []string{`write_file{"path":"notes.txt","content":"hello"}`}},
		{"Write hello, and goodbye to notes.txt.", []string{`write_file{"path":"notes.txt","content":"hello, and goodbye"}`}},
		{`write "buy milk, and delete b.txt" to notes.txt`, []string{`write_file{"path":"notes.txt","content":"buy milk, and delete b.txt"}`}},
		{"put hello in the file notes.txt", []string{`write_file{"path":"notes.txt","content":"hello"}`}},
		{"save hello as notes.txt", []string{`write_file{"path":"notes.txt","content":"hello"}`}},
		{"create a.txt with hello", []string{`write_file{"path":"a.txt","content":"hello"}`}},
		{"create a new file called a.txt with the text hello and goodbye", []string{`write_file{"path":"a.txt","content":"hello and goodbye"}`}},
		{"create a.txt: one <b> & \"two\"", []string{`write_file{"path":"a.txt","content":"one <b> & \"two\""}`}},
		{"create a.txt", []string{`write_file` + def}},
		{"delete notes.txt", []string{`delete_file{"path":"notes.txt"}`}},
		{"Remove the file docs/old", []string{`delete_file{"path":"docs/old"}`}},
		{"write a.txt and b.txt", []string{`write_file` + def, `write_file` + defB}},
		{"write hello to a.txt and b.txt", []string{`write_file{"path":"a.txt","content":"hello"}`, `write_file{"path":"b.txt","content":"hello"}`}},
		{"write a.txt and delete b.txt", []string{`write_file` + def, `delete_file{"path":"b.txt"}`}},
		{"delete a.txt, b.txt and c.txt", []string{`delete_file{"path":"a.txt"}`, `delete_file{"path":"b.txt"}`, `delete_file{"path":"c.txt"}`}},
		{"read a.txt then delete it.txt, then list files", []string{`read_file{"path":"a.txt"}`, `delete_file{"path":"it.txt"}`, `list_files{}`}},
		{"read a.txt\nread b.txt", []string{`read_file{"path":"a.txt"}`, `read_file{"path":"b.txt"}`}},
		{"run a slow task for 5 seconds", []string{`slow_task{"seconds":5}`}},
		{"run the slow task", []string{`slow_task{"seconds":5}`}},
		{"start a slow task of 30s and list files", []string{`slow_task{"seconds":30}`, `list_files{}`}},
		{"wait 3 seconds", []string{`slow_task{"seconds":3}`}},
		{"write it's fine to a.txt", []string{`write_file{"path":"a.txt","content":"it's fine"}`}},
		{`write "half to a.txt`, []string{`write_file{"path":"a.txt","content":"\"half"}`}},
		{"and then, please, list files", []string{`list_files{}`}},
		{"help", nil},
		{"", nil},
		{"approve", nil},
		{"yes, approved", nil},
		{"How are you?", nil},
		{"delete everything that is old", nil},
		{"show me", nil},
		{"read a.txt and sing a song", []string{`read_file{"path":"a.txt"}`}},
	} {
		t.Run(tt.says, func(t *testing.T) {
			t.Parallel()
			r := askDemo(t, user(tt.says))
			var got []string
			for _, c := range r.calls() {
				got = append(got, strings.TrimPrefix(c, "workspace__"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			want := chat.FinishStop
			if len(tt.want) > 0 {
				want = chat.FinishToolCalls
			} else if !strings.Contains(r.text(chat.StreamText), "`list files`") {
				t.Errorf("no help in %q", r.text(chat.StreamText))
			}
			if r.reply.Finish != want {
				t.Errorf("finish %q, want %q", r.reply.Finish, want)
			}
			wantUnique(t, r.ids())
		})
	}
}

func TestDemoIntroducesItselfHonestly(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"list files", "hello", "help", "think"} {
		if got := askDemo(t, user(says)).text(chat.StreamText); !strings.Contains(got, "not a language model") {
			t.Errorf("first answer to %q does not say what it is: %q", says, got)
		}
	}
	again := askDemo(t, user("hello"), chat.PromptMessage{Role: chat.PromptAssistant, Parts: user("Hi.").Parts}, user("list files"))
	if got := again.text(chat.StreamText); strings.Contains(got, "not a language model") || !strings.Contains(got, "list the files") {
		t.Errorf("second answer: %q", got)
	}
}

func TestDemoSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	t.Run("a tool that is not offered", func(t *testing.T) {
		t.Parallel()
		p := chat.Prompt{Messages: []chat.PromptMessage{user("list files and delete a.txt")}, Tools: workspace()[:1]}
		r := stream(t.Context(), llm.Demo{Pause: noPause}, p)
		wantOK(t, r, chat.FinishToolCalls)
		if diff := cmp.Diff([]string{"workspace__list_files{}"}, r.calls()); diff != "" {
			t.Error(diff)
		}
		if got := r.text(chat.StreamText); !strings.Contains(got, "I cannot delete `a.txt`") {
			t.Errorf("text %q", got)
		}
	})
	t.Run("a ninth call", func(t *testing.T) {
		t.Parallel()
		r := askDemo(t, user("read a.txt, b.txt, c.txt, d.txt, e.txt, f.txt, g.txt, h.txt, i.txt and j.txt"))
		if n := len(r.calls()); n != 8 {
			t.Errorf("%d calls, want 8", n)
		}
		if got := r.text(chat.StreamText); !strings.Contains(got, "leave out the last 2") {
			t.Errorf("text %q", got)
		}
	})
	t.Run("what it did not understand", func(t *testing.T) {
		t.Parallel()
		if got := askDemo(t, user("read a.txt and sing a song")).text(chat.StreamText); !strings.Contains(got, "`sing a song`") {
			t.Errorf("text %q", got)
		}
	})
}

func TestDemoShowsMarkdownAndReasoning(t *testing.T) {
	t.Parallel()
	got := askDemo(t, user("show markdown")).text(chat.StreamText)
	for _, want := range []string{"\n## ", "\n1. ", "\n|---|", "\n```go\n", "\n> "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	r := askDemo(t, user("think and list files"))
	if r.events[0].Kind != chat.StreamReasoning || len(r.calls()) != 1 {
		t.Errorf("first event %v, calls %q", r.events[0], r.calls())
	}
}

// settled is the history of one step whose calls became what they are.
func settled(calls ...chat.ToolCall) []chat.PromptMessage {
	parts := chat.Parts{chat.StepStart{}}
	for _, c := range calls {
		parts = append(parts, c)
	}
	return chat.History([]chat.Message{{Role: chat.RoleUser, Parts: chat.Parts{chat.Text{Text: "go"}}}, {Role: chat.RoleAssistant, Parts: parts}})
}

func TestDemoTellsWhatBecameOfItsCalls(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	me := chat.Decider{Name: "ada", Via: chat.ViaWeb}
	fresh := chat.ToolCall{ToolName: "workspace__write_file", ToolCallID: "c1", State: chat.CallInputAvailable, Input: json.RawMessage(`{"path":"a.txt","content":"x"}`)}
	asked := chat.Ask(fresh, "ap1", at)
	decide := func(d chat.Decision) chat.ToolCall {
		d.ApprovalID = "ap1"
		c, _, err := chat.Decide(asked, d, me, at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	run := func(c chat.ToolCall, r chat.Result) chat.ToolCall {
		c, err := chat.Start(c, at)
		if err != nil {
			t.Fatal(err)
		}
		c, _ = chat.Finish(c, r, at)
		return c
	}
	closed := func(c chat.ToolCall, why chat.Resolution) chat.ToolCall {
		c, ok := chat.Close(c, why, at)
		if !ok {
			t.Fatal("not closed")
		}
		return c
	}
	denied := func(reason string) chat.ToolCall {
		c, _ := chat.SettleDenied(decide(chat.Decision{Reason: reason}))
		return c
	}
	started, err := chat.Start(decide(chat.Decision{Approved: true}), at)
	if err != nil {
		t.Fatal(err)
	}
	ok := chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`"wrote 1 byte"`)}
	lost := chat.Result{Outcome: chat.OutcomeUnknown, ErrorText: "The outcome is unknown: the tool did not answer within 10 minutes."}
	invalid := fresh
	invalid.State, invalid.ErrorText, invalid.Input, invalid.RawInput = chat.CallOutputError, "The call was not run: it is not JSON.", nil, "{oops"

	for _, tt := range []struct {
		name string
		call chat.ToolCall
		want string // a pattern
	}{
		{"done", run(decide(chat.Decision{Approved: true}), ok), "write file\\*\\* `a.txt`: done\\.\\n\\n  ```\\n  wrote 1 byte\\n  ```"},
		{"changed", run(decide(chat.Decision{Approved: true, UpdatedInput: json.RawMessage(`{"path":"b.txt"}`)}), ok), "you changed it before it ran.*`\\{\"path\":\"b.txt\"\\}`(?s:.*)wrote 1 byte"},
		{"failed", run(decide(chat.Decision{Approved: true}), chat.Result{Outcome: chat.OutcomeFailed, ErrorText: "disk full"}), "it \\*\\*failed\\*\\*(?s:.*)disk full"},
		{"refused", denied(""), "you refused it, so it was \\*\\*not run\\*\\*\\.$"},
		{"refused with a reason", denied("not\nnow, `please`"), "you refused it.*not run.*The reason given: .*not now, `please`"},
		{"refused by a rule", chat.Refuse(fresh, "ap1", chat.Judgement{Reason: "no writes"}, at), "a rule of this server refused it.*not run.*no writes"},
		{"expired", closed(asked, chat.ResolutionExpired), "nobody decided in time.*not run"},
		{"cancelled", closed(asked, chat.ResolutionCancelled), "stopped before anybody decided.*not run"},
		{"superseded", closed(asked, chat.ResolutionSuperseded), "went on without deciding.*not run"},
		{"stopped", closed(decide(chat.Decision{Approved: true}), chat.ResolutionCancelled), "stopped before it started.*not run"},
		{"unknown after a crash", closed(started, chat.ResolutionCancelled), "\\*\\*unknown\\*\\*.*may or may not"},
		{"unknown after a timeout", run(decide(chat.Decision{Approved: true}), lost), "\\*\\*unknown\\*\\*.*may or may not"},
		{"invalid", invalid, "failed(?s:.*)not run: it is not JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := askDemo(t, settled(tt.call)...)
			got := r.text(chat.StreamText)
			if !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("text %q does not match %q", got, tt.want)
			}
			if r.reply.Finish != chat.FinishStop || len(r.calls()) != 0 {
				t.Errorf("finish %q, calls %q", r.reply.Finish, r.calls())
			}
		})
	}
	t.Run("several, each on its own", func(t *testing.T) {
		t.Parallel()
		second := denied("no")
		second.ToolCallID = "c2"
		got := askDemo(t, settled(run(decide(chat.Decision{Approved: true}), ok), second)...).text(chat.StreamText)
		if !strings.Contains(got, "Of 2 calls, 1 succeeded") || strings.Count(got, "\n- ") != 2 {
			t.Errorf("text %q", got)
		}
		all := askDemo(t, settled(run(decide(chat.Decision{Approved: true}), ok), run(decide(chat.Decision{Approved: true}), ok))...).text(chat.StreamText)
		if !strings.Contains(all, "All 2 calls are done") {
			t.Errorf("text %q", all)
		}
	})
	t.Run("a result cannot break out of its block", func(t *testing.T) {
		t.Parallel()
		out := chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage("\"a\\n```\\n# not a heading\"")}
		got := askDemo(t, settled(run(decide(chat.Decision{Approved: true}), out))...).text(chat.StreamText)
		if !strings.Contains(got, "  ````\n  a\n  ```\n  # not a heading\n  ````") {
			t.Errorf("text %q", got)
		}
	})
	t.Run("other calls have a name as well, and a result may be empty", func(t *testing.T) {
		t.Parallel()
		empty := chat.ToolCall{ToolCallID: "c1", ToolName: "workspace__slow_task", State: chat.CallOutputAvailable, Input: json.RawMessage(`{"seconds":5}`), Output: json.RawMessage(`""`)}
		foreign := chat.ToolCall{ToolCallID: "c2", ToolName: "fs__stat", State: chat.CallOutputAvailable, Input: json.RawMessage(`[]`), Output: json.RawMessage(`{"n":1}`)}
		got := askDemo(t, settled(empty, foreign)...).text(chat.StreamText)
		for _, want := range []string{"**slow task** of 5 s: done.\n", "**fs__stat**: done.", `{"n":1}`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
		alone := settled(empty)
		if got := askDemo(t, alone[len(alone)-1]).text(chat.StreamText); got != "**slow task**: done." {
			t.Errorf("results alone: %q", got)
		}
	})
	t.Run("a long result is shortened", func(t *testing.T) {
		t.Parallel()
		long, err := json.Marshal(strings.Repeat("ä", 5000))
		if err != nil {
			t.Fatal(err)
		}
		got := askDemo(t, settled(run(decide(chat.Decision{Approved: true}), chat.Result{Outcome: chat.OutcomeOK, Output: long}))...).text(chat.StreamText)
		if len(got) > 2200 || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("text of %d bytes", len(got))
		}
	})
}

func TestDemoStreamsInPiecesAndStops(t *testing.T) {
	t.Parallel()
	t.Run("its own pause takes time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r := stream(t.Context(), llm.Demo{}, chat.Prompt{Messages: []chat.PromptMessage{user("help")}})
			wantOK(t, r, chat.FinishStop)
			if took := time.Since(began); took < time.Second || len(r.events) < 50 {
				t.Errorf("%d pieces in %s", len(r.events), took)
			}
		})
	})
	t.Run("a cancel ends its own pause at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			events := 0
			_, err := llm.Demo{}.Stream(ctx, chat.Prompt{Messages: []chat.PromptMessage{user("help")}}, func(chat.StreamEvent) {
				events++
				cancel()
			})
			wantError(t, err, chat.ModelCanceled)
			if events != 1 {
				t.Errorf("%d pieces after the cancel", events-1)
			}
		})
	})
	t.Run("an injected pause that fails ends it, wherever it is", func(t *testing.T) {
		t.Parallel()
		for after := range 40 {
			n := 0
			d := llm.Demo{Pause: func(context.Context) error {
				if n++; n > after {
					return errors.New("enough")
				}
				return nil
			}}
			r := stream(t.Context(), d, chat.Prompt{Messages: []chat.PromptMessage{user("think and list files")}, Tools: workspace()})
			wantError(t, r.err, chat.ModelCanceled)
		}
	})
	t.Run("a cancel at the last piece leaves no complete reply", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		_, err := llm.Demo{Pause: noPause}.Stream(ctx, chat.Prompt{Messages: []chat.PromptMessage{user("list files")}, Tools: workspace()}, func(ev chat.StreamEvent) {
			if ev.Kind == chat.StreamToolInput {
				cancel()
			}
		})
		wantError(t, err, chat.ModelCanceled)
	})
	t.Run("the pieces are the text", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("ä", 500)
		out := settled(chat.ToolCall{ToolName: "x", ToolCallID: "c", State: chat.CallOutputAvailable, Output: json.RawMessage(`"` + long + `"`)})
		if got := askDemo(t, out...).text(chat.StreamText); !strings.Contains(got, long) {
			t.Errorf("text %q", got)
		}
	})
}
