package repository_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

// writes are all operations of the store that write.
func writes() []writing {
	none := func(*testing.T, *repository.Store) chat.Fence { return chat.Fence{} }
	runs := func(t *testing.T, s *repository.Store) chat.Fence { return running(t, s) }
	calls := func(t *testing.T, s *repository.Store) chat.Fence { return again(t, s) }
	started := func(t *testing.T, s *repository.Store) chat.Fence {
		f := again(t, s)
		do(t, edit(t.Context(), s, f, chat.Start))
		return f
	}
	parked := func(t *testing.T, s *repository.Store) chat.Fence { return waiting(t, s, "first", "second") }
	parkedOnOne := func(t *testing.T, s *repository.Store) chat.Fence { return waiting(t, s, "first") }
	queued := func(t *testing.T, s *repository.Store) chat.Fence {
		f := running(t, s)
		do(t, send(t.Context(), s, f, "queued"))
		return f
	}
	stopped := func(t *testing.T, s *repository.Store) chat.Fence {
		f := queued(t, s)
		_, _, err := s.Stop(t.Context(), f.TopicID)
		do(t, err)
		return f
	}
	failed := func(t *testing.T, s *repository.Store) chat.Fence {
		f := running(t, s)
		_, err := s.Fail(t.Context(), f, 0, chat.Parts{chat.Text{Text: "half"}}, chat.TurnError{Kind: "k", Message: "m"})
		do(t, err)
		return f
	}
	done := func(t *testing.T, s *repository.Store) chat.Fence {
		f := running(t, s)
		do(t, step(t.Context(), s, f, true, chat.Text{Text: "done"}))
		return f
	}
	rule := func(t *testing.T, s *repository.Store) chat.Fence {
		r, err := s.CreateRule(t.Context(), chat.NewRule{Name: "r", Verdict: chat.VerdictAsk, Expression: "true", Enabled: true}, ada)
		do(t, err)
		return chat.Fence{TopicID: r.ID}
	}
	assistant := func(t *testing.T, s *repository.Store) chat.Fence {
		a, err := s.CreateAssistant(t.Context(), chat.NewAssistant{Name: "a"})
		do(t, err)
		return chat.Fence{TopicID: a.ID}
	}
	local := chat.MCPServer{Name: "files", Transport: chat.TransportStdio, Command: "files"}
	server := func(t *testing.T, s *repository.Store) chat.Fence {
		made, err := s.CreateMCPServers(t.Context(), []chat.MCPServer{local}, ada)
		do(t, err)
		return chat.Fence{TopicID: made[0].ID}
	}
	token := func(t *testing.T, s *repository.Store) chat.Fence {
		do(t, s.PutToken(t.Context(), chat.Token{Digest: "d", Kind: chat.TokenLogin, Principal: "ada"}, time.Hour))
		return chat.Fence{}
	}
	title := "another"
	return []writing{
		{"CreateTopic", none, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			_, c, err := s.CreateTopic(ctx, chat.NewTopic{Title: "t"})
			return told(c, err)
		}},
		{"UpdateTopic", runs, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.UpdateTopic(ctx, f.TopicID, chat.TopicPatch{Title: &title})
			return told(c, err)
		}},
		{"DeleteTopic", parked, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.DeleteTopic(ctx, f.TopicID)
			return told(c, err)
		}},
		{"Send", done, func(ctx context.Context, s *repository.Store, f chat.Fence) error { return send(ctx, s, f, "m") }},
		{"Send to a queue", parked, func(ctx context.Context, s *repository.Store, f chat.Fence) error { return send(ctx, s, f, "m") }},
		{"EditMessage", queued, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.EditMessage(ctx, f.TopicID, "queued", chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "edited"}}})
			return told(c, err)
		}},
		{"DeleteMessage", queued, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.DeleteMessage(ctx, f.TopicID, "queued")
			return told(c, err)
		}},
		{"SendQueued", stopped, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.SendQueued(ctx, f.TopicID, "queued")
			return told(c, err)
		}},
		{"Regenerate", done, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.Regenerate(ctx, f.TopicID, f.MessageID)
			return told(c, err)
		}},
		{"Retry", failed, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.Retry(ctx, f.TopicID, f.MessageID)
			return told(c, err)
		}},
		{"Select", func(t *testing.T, s *repository.Store) chat.Fence {
			f := done(t, s)
			_, _, err := s.Regenerate(t.Context(), f.TopicID, f.MessageID)
			do(t, err)
			_, _, err = s.Stop(t.Context(), f.TopicID)
			do(t, err)
			return f
		}, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.Select(ctx, f.TopicID, f.MessageID)
			return told(c, err)
		}},
		{"Stop", parked, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			epochs, c, err := s.Stop(ctx, f.TopicID)
			if err == nil && len(epochs) != 1 {
				return errors.New("it stopped nothing")
			}
			return told(c, err)
		}},
		{"Decide", parkedOnOne, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return outcome(decide(ctx, s, f, "first"))(chat.ContinuationScheduled)
		}},
		{"Decide one of two", parked, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return outcome(decide(ctx, s, f, "second"))(chat.ContinuationWaiting)
		}},
		{"EditPending", parked, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			c, err := s.EditPending(ctx, f.TopicID, []string{"first"}, func(c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
				return chat.Close(c, chat.ResolutionExpired, at)
			})
			return told(c, err)
		}},
		{"SettlePending", parkedOnOne, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			c, err := s.SettlePending(ctx, f.TopicID, []string{"first"}, "", func(_ chat.TopicPolicy, c chat.ToolCall, at time.Time) (chat.ToolCall, bool) {
				return chat.Close(c, chat.ResolutionExpired, at)
			})
			return told(c, err)
		}},
		{"AnswerQuestion", func(t *testing.T, s *repository.Store) chat.Fence {
			f := started(t, s)
			do(t, edit(t.Context(), s, f, func(c chat.ToolCall, at time.Time) (chat.ToolCall, error) {
				return chat.AskPerson(c, chat.Question{ID: "q", Message: "Which?"}, at)
			}))
			return f
		}, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, c, err := s.AnswerQuestion(ctx, f.TopicID, f.MessageID, "q", chat.Answer{Action: chat.AnswerDecline}, ada)
			return told(c, err)
		}},
		{"CreateRule", none, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			_, err := s.CreateRule(ctx, chat.NewRule{Name: "r", Verdict: chat.VerdictAsk, Expression: "true", Enabled: true}, ada)
			return err
		}},
		{"UpdateRule", rule, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, err := s.UpdateRule(ctx, f.TopicID, chat.RulePatch{Name: &title}, ada)
			return err
		}},
		{"DeleteRule", rule, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return s.DeleteRule(ctx, f.TopicID, ada)
		}},
		{"CreateMCPServers", none, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			_, err := s.CreateMCPServers(ctx, []chat.MCPServer{local}, ada)
			return err
		}},
		{"UpdateMCPServer", server, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, err := s.UpdateMCPServer(ctx, f.TopicID, func(m chat.MCPServer) (chat.MCPServer, error) { m.Disabled = true; return m, nil }, ada)
			return err
		}},
		{"DeleteMCPServer", server, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return s.DeleteMCPServer(ctx, f.TopicID, ada)
		}},
		{"AdoptMCPServers", none, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			return s.AdoptMCPServers(ctx, []chat.MCPServer{local})
		}},
		{"CreateAssistant", none, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			_, err := s.CreateAssistant(ctx, chat.NewAssistant{Name: "a"})
			return err
		}},
		{"UpdateAssistant", assistant, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			_, err := s.UpdateAssistant(ctx, f.TopicID, chat.AssistantPatch{Name: &title})
			return err
		}},
		{"DeleteAssistant", assistant, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return s.DeleteAssistant(ctx, f.TopicID)
		}},
		{"PutToken", none, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			return s.PutToken(ctx, chat.Token{Digest: "d", Kind: chat.TokenLogin, Principal: "ada"}, time.Hour)
		}},
		{"TakeToken", token, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			_, err := s.TakeToken(ctx, "d", chat.TokenLogin)
			return err
		}},
		{"DeleteToken", token, func(ctx context.Context, s *repository.Store, _ chat.Fence) error { return s.DeleteToken(ctx, "d") }},
		{"Claim", func(t *testing.T, s *repository.Store) chat.Fence {
			f := started(t, s)
			do(t, s.LetGo(t.Context(), "owner"))
			return f
		}, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			w, c, ok, err := s.Claim(ctx, chat.Candidate{TopicID: f.TopicID, TurnID: f.TurnID}, "other", time.Hour)
			if err == nil && (!ok || w.Turn.Epoch != f.Epoch+1) {
				return fmt.Errorf("claimed %t, epoch %d after %d", ok, w.Turn.Epoch, f.Epoch)
			}
			return told(c, err)
		}},
		{"Heartbeat", func(t *testing.T, s *repository.Store) chat.Fence {
			f := running(t, s)
			do(t, s.LetGo(t.Context(), "owner"))
			return f
		}, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			owned, err := s.Heartbeat(ctx, "owner", chat.Epochs{f.TurnID: f.Epoch}, time.Hour)
			if err == nil && owned[f.TurnID] != f.Epoch {
				return errors.New("the turn is lost")
			}
			return err
		}},
		{"FirstOutput", runs, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			c, err := s.FirstOutput(ctx, f)
			return told(c, err)
		}},
		{"CommitStep", runs, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return step(ctx, s, f, false, chat.Ask(chat.ToolCall{ToolName: "t", ToolCallID: "c", Input: []byte(`{}`)}, "a", time.Now()))
		}},
		{"CommitStep that is the last, and sends the next", queued, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return step(ctx, s, f, true, chat.Text{Text: "done"})
		}},
		{"EditCalls starts a call", calls, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return edit(ctx, s, f, chat.Start)
		}},
		{"EditCalls ends a call", started, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			return edit(ctx, s, f, func(c chat.ToolCall, at time.Time) (chat.ToolCall, error) {
				next, _ := chat.Finish(c, chat.Result{Outcome: chat.OutcomeOK, Output: []byte(`"ok"`)}, at)
				return next, nil
			})
		}},
		{"Park", func(t *testing.T, s *repository.Store) chat.Fence {
			f := running(t, s)
			do(t, step(t.Context(), s, f, false, chat.Ask(chat.ToolCall{ToolName: "t", ToolCallID: "c", Input: []byte(`{}`)}, "a", time.Now())))
			return f
		}, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			ok, _, c, err := s.Park(ctx, f)
			if err == nil && !ok {
				return errors.New("it did not park")
			}
			return told(c, err)
		}},
		{"Fail", calls, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			c, err := s.Fail(ctx, f, 1, chat.Parts{chat.Text{Text: "half"}}, chat.TurnError{Kind: "k", Message: "m"})
			return told(c, err)
		}},
		{"KeepPartial", stopped, func(ctx context.Context, s *repository.Store, f chat.Fence) error {
			c, err := s.KeepPartial(ctx, f, 0, chat.Parts{chat.Text{Text: "half"}})
			return told(c, err)
		}},
		{"LetGo", runs, func(ctx context.Context, s *repository.Store, _ chat.Fence) error { return s.LetGo(ctx, "owner") }},
		{"CloseStopped", stopped, func(ctx context.Context, s *repository.Store, _ chat.Fence) error {
			_, err := s.CloseStopped(ctx, 0)
			return err
		}},
	}
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// told is an error if the change is not to be announced although it was made.
func told(c chat.Change, err error) error {
	if err == nil && c.Revision == 0 {
		return errors.New("it was done, and nobody will be told")
	}
	return err
}

func outcome(d chat.Decided, err error) func(chat.Continuation) error {
	return func(want chat.Continuation) error {
		if err == nil && (d.Continuation != want || len(d.Results) != 1 || d.Results[0].Outcome != chat.EffectApplied) {
			return fmt.Errorf("got %+v", d)
		}
		return err
	}
}

func send(ctx context.Context, s *repository.Store, f chat.Fence, id string) error {
	_, c, err := s.Send(ctx, f.TopicID, chat.NewMessage{ID: id, Parts: chat.Parts{chat.Text{Text: id}}})
	return told(c, err)
}

func step(ctx context.Context, s *repository.Store, f chat.Fence, last bool, parts ...chat.Part) error {
	c, err := s.CommitStep(ctx, f, chat.Step{Done: last, Build: func(time.Time) chat.Parts { return parts }})
	return told(c, err)
}

// edit changes all calls of the anchor.
func edit(ctx context.Context, s *repository.Store, f chat.Fence, fn func(chat.ToolCall, time.Time) (chat.ToolCall, error)) error {
	var failed error
	_, c, err := s.EditCalls(ctx, f, func(calls []chat.PlacedCall, at time.Time) []chat.PlacedCall {
		for i := range calls {
			if calls[i].Call, failed = fn(calls[i].Call, at); failed != nil {
				return nil
			}
		}
		return calls
	})
	return errors.Join(failed, told(c, err))
}
