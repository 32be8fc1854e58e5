package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

const oneText = `{"type":"object","properties":{"a":{"type":"string"}}}`

func TestFormsAloneAreAdvertised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, &sdk.Tool{Name: "ping"})
		call(t, f.start(t, ClientOptions{}), "ping", `{}`)
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := f.sent.String(); !strings.Contains(got, `/clientCapabilities":{"elicitation":{"form":{}}}`) {
			t.Errorf("advertised:\n%s", got)
		}
	})
}

func TestSamplingIsRefused(t *testing.T) {
	t.Run("as a request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, &sdk.Tool{Name: "ping"})
			c := f.start(t, ClientOptions{})
			call(t, c, "ping", `{}`)
			f.say(`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}`)
			synctest.Wait()
			f.mu.Lock()
			defer f.mu.Unlock()
			_, answer, _ := strings.Cut(f.sent.String(), `"id":"s"`)
			if !strings.Contains(answer, `"error":{`) || strings.Contains(answer, `"result"`) {
				t.Errorf("the answer was %s", answer)
			}
		})
	})
	t.Run("in place of a result", func(t *testing.T) {
		w := newWeb(t, &sdk.StreamableHTTPOptions{Stateless: true})
		c := w.connect(t, ClientOptions{})
		await(t, c, inPhase(chat.ServerReady))
		w.onCall(t, func(rw http.ResponseWriter, id string, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}}}}`, id)
		})
		if r := call(t, c, "ping", `{}`); r.Outcome != chat.OutcomeFailed || !strings.Contains(r.ErrorText, "not offered here") {
			t.Errorf("a tool that wants a model of ours gave %+v", r)
		}
	})
}

// asks adds a tool that asks a question and ends with what it heard.
func (f *fake) asks(p *sdk.ElicitParams, heard func(*sdk.ElicitResult)) {
	f.add(&sdk.Tool{Name: "ask"}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		a, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": p}}, nil
		}
		if heard != nil {
			heard(a)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Action}}}, nil
	})
}

// callAsking calls the tool that asks.
func callAsking(t *testing.T, c *Client, ask Ask) chat.Result {
	t.Helper()
	r, err := c.Call(t.Context(), "ask", nil, func(string) {}, ask)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestElicitation(t *testing.T) {
	form := &sdk.ElicitParams{Mode: "form", Message: "Which?\x00", RequestedSchema: json.RawMessage(oneText)}
	for _, answer := range []chat.Answer{
		{Action: chat.AnswerAccept, Content: json.RawMessage(`{"a":"left"}`)},
		{Action: chat.AnswerAccept},
		{Action: chat.AnswerDecline, Content: json.RawMessage(`{"a":"left"}`)},
		{Action: chat.AnswerCancel},
	} {
		t.Run(fmt.Sprintf("the answer %s %s", answer.Action, answer.Content), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				var heard map[string]any
				f.asks(form, func(a *sdk.ElicitResult) { heard = a.Content })
				var asked chat.Question
				r := callAsking(t, f.start(t, ClientOptions{}), func(_ context.Context, q chat.Question) (chat.Answer, error) {
					asked = q
					return answer, nil
				})
				if text(t, r) != string(answer.Action) {
					t.Errorf("the tool ended as %+v", r)
				}
				want := chat.Question{Message: "Which?\uFFFD", Schema: json.RawMessage(`{"properties":{"a":{"type":"string"}},"type":"object"}`)}
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("question (-want +got):\n%s", diff)
				}
				if said := answer.Action == chat.AnswerAccept && answer.Content != nil; said != (heard["a"] == "left") || !said && heard != nil {
					t.Errorf("the tool heard %v", heard)
				}
			})
		})
	}
	t.Run("every digit reaches the server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.asks(&sdk.ElicitParams{Message: "How many?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}, nil)
			callAsking(t, f.start(t, ClientOptions{}), func(context.Context, chat.Question) (chat.Answer, error) {
				return chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{"n":9007199254740993}`)}, nil
			})
			f.mu.Lock()
			defer f.mu.Unlock()
			if !strings.Contains(f.sent.String(), `9007199254740993`) {
				t.Errorf("sent:\n%s", f.sent.String())
			}
		})
	})
	t.Run("a question that fails tells the server nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.asks(form, nil)
			r := callAsking(t, f.start(t, ClientOptions{}), func(context.Context, chat.Question) (chat.Answer, error) {
				return chat.Answer{}, errors.New("database password is hunter2")
			})
			if r.Outcome != chat.OutcomeFailed || strings.Contains(r.ErrorText, "hunter2") {
				t.Errorf("the call gave %+v", r)
			}
		})
	})
	t.Run("the question is that of the call that asked it, whichever is newer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			began := f.blocking(t)
			f.asks(form, nil)
			c := f.start(t, ClientOptions{})
			r := callAsking(t, c, func(ctx context.Context, _ chat.Question) (chat.Answer, error) {
				newer, end := context.WithCancel(ctx)
				go func() { <-began; end() }()
				_, err := c.Call(newer, "block", nil, func(string) {}, nobody)
				return chat.Answer{Action: chat.AnswerDecline}, err
			})
			if text(t, r) != "decline" {
				t.Errorf("the call gave %+v", r)
			}
		})
	})
	t.Run("what the person left out is not filled in", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			var heard map[string]any
			f.asks(&sdk.ElicitParams{Message: "Which?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","default":"b"}}}`)},
				func(a *sdk.ElicitResult) { heard = a.Content })
			callAsking(t, f.start(t, ClientOptions{}), func(context.Context, chat.Question) (chat.Answer, error) {
				return chat.Answer{Action: chat.AnswerAccept, Content: json.RawMessage(`{}`)}, nil
			})
			if len(heard) != 0 {
				t.Errorf("the tool heard %v", heard)
			}
		})
	})
	t.Run("without end is given up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.add(&sdk.Tool{Name: "ask"}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"a": form, "b": form}}, nil
			})
			asked := 0
			r := callAsking(t, f.start(t, ClientOptions{}), func(context.Context, chat.Question) (chat.Answer, error) {
				asked++
				return chat.Answer{Action: chat.AnswerAccept}, nil
			})
			if r.Outcome != chat.OutcomeFailed || asked != 2*maxRounds {
				t.Errorf("after %d questions the call gave %+v", asked, r)
			}
		})
	})
	t.Run("a lost connection ends the question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.asks(form, nil)
			ended := make(chan struct{})
			r := callAsking(t, f.start(t, ClientOptions{}), func(ctx context.Context, _ chat.Question) (chat.Answer, error) {
				f.cut()
				<-ctx.Done()
				close(ended)
				return chat.Answer{}, ctx.Err()
			})
			if r.Outcome != chat.OutcomeUnknown {
				t.Errorf("the call gave %+v", r)
			}
			<-ended
		})
	})
}

// live is a call of a session that nobody is connected to.
func live(t *testing.T, s *session, ask Ask) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	_, _, over, ok := s.begin(ctx, cancel, func(string) {}, ask)
	if !ok {
		t.Fatal("the session is over")
	}
	return func() { over(); cancel(nil) }
}

func TestTheCallThatAsks(t *testing.T) {
	form := &sdk.ElicitParams{Message: "Sure?"}
	answers := func(action chat.AnswerAction) Ask {
		return func(context.Context, chat.Question) (chat.Answer, error) { return chat.Answer{Action: action}, nil }
	}
	asked := func(t *testing.T, s *session, want string) {
		t.Helper()
		r, err := s.asked(t.Context(), form)
		if err != nil {
			r = &sdk.ElicitResult{Action: err.Error()}
		}
		if r.Action != want {
			t.Errorf("got %q, want %q", r.Action, want)
		}
	}
	s := &session{}
	asked(t, s, "no call runs that could ask anything")
	endFirst := live(t, s, answers(chat.AnswerAccept))
	asked(t, s, "accept")
	endSecond := live(t, s, answers(chat.AnswerDecline))
	asked(t, s, "decline") // the newest
	endSecond()
	asked(t, s, "accept")
	endFirst()
	asked(t, s, "no call runs that could ask anything")
}

func TestOneQuestionOfACallAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{}
		asked, answer := make(chan string, 3), make(chan chat.AnswerAction)
		end := live(t, s, func(ctx context.Context, q chat.Question) (chat.Answer, error) {
			asked <- q.Message
			select {
			case a := <-answer:
				return chat.Answer{Action: a}, nil
			case <-ctx.Done():
				return chat.Answer{}, ctx.Err()
			}
		})
		results := make(chan string, 3)
		ask := func(ctx context.Context, message string) {
			r, err := s.asked(ctx, &sdk.ElicitParams{Message: message})
			if err != nil {
				r = &sdk.ElicitResult{Action: err.Error()}
			}
			results <- message + ": " + r.Action
		}
		go ask(t.Context(), "first")
		synctest.Wait()
		impatient, takeBack := context.WithCancel(t.Context())
		go ask(impatient, "second")
		synctest.Wait()
		go ask(t.Context(), "third")
		synctest.Wait()
		if len(asked) != 1 {
			t.Fatalf("%d questions are asked at once", len(asked))
		}
		takeBack() // by the server, before it came to be asked
		if got := <-results; got != "second: nobody answered" {
			t.Errorf("got %q", got)
		}
		answer <- chat.AnswerDecline
		if got := <-results; got != "first: decline" {
			t.Errorf("got %q", got)
		}
		synctest.Wait()
		end() // of the call
		if got := <-results; got != "third: nobody answered" {
			t.Errorf("got %q", got)
		}
		if a, b := <-asked, <-asked; a != "first" || b != "third" || len(asked) != 0 {
			t.Errorf("asked %s, then %s", a, b)
		}
	})
}

func TestTheEndOfASessionEndsItsQuestions(t *testing.T) {
	s := &session{}
	end := live(t, s, func(ctx context.Context, _ chat.Question) (chat.Answer, error) {
		s.finish(errSessionOver)
		<-ctx.Done()
		return chat.Answer{}, ctx.Err()
	})
	defer end()
	if _, err := s.asked(t.Context(), &sdk.ElicitParams{Message: "Sure?"}); err == nil {
		t.Error("it was answered")
	}
}

func TestCatalogueAsksOnlyWhileTheCallRuns(t *testing.T) {
	t.Run("a question that is open when the call is given up ends first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			s := newScripted("a", "x")
			late := make(chan error, 1)
			s.call = func(_ context.Context, _ string, _ json.RawMessage, _ func(string), ask Ask) (chat.Result, error) {
				_, err := ask(t.Context(), chat.Question{}) // with a context that does not end
				_, again := ask(t.Context(), chat.Question{})
				late <- errors.Join(err, again)
				return chat.Result{Outcome: chat.OutcomeOK}, err
			}
			open, asked := 0, 0
			newCatalogue(t, s).Call(ctx, s.tools[0], json.RawMessage(`{}`), nil, func(ctx context.Context, _ chat.Question) (chat.Answer, error) {
				open++
				asked++
				defer func() { open-- }()
				stop()
				<-ctx.Done()
				return chat.Answer{}, ctx.Err()
			})
			if open != 0 || asked != 1 {
				t.Errorf("%d questions are open, %d were asked", open, asked)
			}
			if err := <-late; !errors.Is(err, context.Canceled) || !errors.Is(err, errNobody) || asked != 1 {
				t.Errorf("asked %d times: %v", asked, err)
			}
		})
	})
	t.Run("without anybody to ask", func(t *testing.T) {
		s := newScripted("a", "x")
		s.call = func(ctx context.Context, _ string, _ json.RawMessage, _ func(string), ask Ask) (chat.Result, error) {
			_, err := ask(ctx, chat.Question{})
			return chat.Result{}, err
		}
		if r := newCatalogue(t, s).Call(t.Context(), s.tools[0], json.RawMessage(`{}`), nil, nil); r.Outcome != chat.OutcomeUnknown {
			t.Errorf("got %+v", r)
		}
	})
}
