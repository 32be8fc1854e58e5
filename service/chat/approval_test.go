package chat_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assent-chat/assent/service/chat"
)

var (
	noon  = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Minute)
	ada   = chat.Decider{Name: "ada", Via: chat.ViaAPI}
)

func waiting() chat.ToolCall {
	call := chat.ToolCall{
		Type: chat.DynamicTool, ToolName: "workspace__write_file", ToolCallID: "c1", State: chat.CallInputAvailable,
		Input: json.RawMessage(`{"path":"a.txt","n":12345678901234567890}`), ToolMetadata: &chat.ToolMetadata{Verdict: chat.VerdictAsk},
	}
	return chat.Ask(call, "ap1", noon)
}

func decided(t *testing.T, d chat.Decision) chat.ToolCall {
	t.Helper()
	d.ApprovalID = "ap1"
	call, effect, err := chat.Decide(waiting(), d, ada, later)
	if err != nil || effect != chat.EffectApplied {
		t.Fatalf("decide: %v, %v", effect, err)
	}
	return call
}

func TestDecide(t *testing.T) {
	t.Parallel()

	t.Run("AnApprovalIsRecordedWithWhoWhenAndHow", func(t *testing.T) {
		t.Parallel()
		got := decided(t, chat.Decision{Approved: true, Reason: " only this once\n"})
		yes := true
		want := waiting()
		want.State = chat.CallApprovalResponded
		want.Approval.Approved, want.Approval.DecidedAt = &yes, &later
		want.Approval.DecidedBy, want.Approval.Via, want.Approval.Reason = "ada", chat.ViaAPI, " only this once\n"
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if !got.Runnable() {
			t.Error("an approved call cannot be run")
		}
	})
	t.Run("ABlankReasonIsAbsent", func(t *testing.T) {
		t.Parallel()
		if got := decided(t, chat.Decision{Reason: " \t\n"}); got.Approval.Reason != "" || got.Runnable() {
			t.Errorf("got %+v", got.Approval)
		}
	})
	t.Run("AnEditReplacesTheInputAndKeepsTheOriginal", func(t *testing.T) {
		t.Parallel()
		got := decided(t, chat.Decision{Approved: true, UpdatedInput: json.RawMessage(`{"path":"b.txt","n":12345678901234567891}`)})
		if string(got.Input) != `{"path":"b.txt","n":12345678901234567891}` {
			t.Errorf("runs %s", got.Input)
		}
		if string(got.Approval.OriginalInput) != string(waiting().Input) {
			t.Errorf("original %s", got.Approval.OriginalInput)
		}
	})
	t.Run("AnEditThatChangesNothingIsNone", func(t *testing.T) {
		t.Parallel()
		got := decided(t, chat.Decision{Approved: true, UpdatedInput: json.RawMessage(`{"n":12345678901234567890, "path":"a.txt"}`)})
		if got.Approval.OriginalInput != nil || string(got.Input) != string(waiting().Input) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("TheArgumentIsNotModified", func(t *testing.T) {
		t.Parallel()
		call := waiting()
		if _, _, err := chat.Decide(call, chat.Decision{ApprovalID: "ap1", Approved: true}, ada, later); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(waiting(), call); d != "" {
			t.Error(d)
		}
	})

	edit := json.RawMessage(`{"path":"b.txt"}`)
	stopped, _ := chat.Close(decided(t, chat.Decision{Approved: true}), chat.ResolutionCancelled, later)
	cancelled, _ := chat.Close(waiting(), chat.ResolutionCancelled, later)
	expired, _ := chat.Close(waiting(), chat.ResolutionExpired, later)
	superseded, _ := chat.Close(waiting(), chat.ResolutionSuperseded, later)
	finished, _ := chat.Finish(decided(t, chat.Decision{Approved: true}), chat.Result{Outcome: chat.OutcomeOK, Output: json.RawMessage(`1`)}, later)
	plain := waiting()
	plain.Approval = nil
	for _, tt := range []struct {
		name   string
		call   chat.ToolCall
		d      chat.Decision
		effect chat.Effect
		err    error
	}{
		{"an equal approval is settled already", decided(t, chat.Decision{Approved: true}), chat.Decision{Approved: true}, chat.EffectAlreadySettled, nil},
		{"an equal denial is settled already, whatever its reason", decided(t, chat.Decision{Reason: "a"}), chat.Decision{Reason: "b"}, chat.EffectAlreadySettled, nil},
		{"an equal edit is settled already", decided(t, chat.Decision{Approved: true, UpdatedInput: edit}), chat.Decision{Approved: true, UpdatedInput: json.RawMessage(` {"path" : "b.txt"}`)}, chat.EffectAlreadySettled, nil},
		{"an equal approval after the run is settled already", finished, chat.Decision{Approved: true}, chat.EffectAlreadySettled, nil},
		{"an equal approval after a stop is settled already", stopped, chat.Decision{Approved: true}, chat.EffectAlreadySettled, nil},
		{"a denial after an approval conflicts", decided(t, chat.Decision{Approved: true}), chat.Decision{}, "", chat.ErrConflict},
		{"an approval after a denial conflicts", decided(t, chat.Decision{}), chat.Decision{Approved: true}, "", chat.ErrConflict},
		{"another edit conflicts", decided(t, chat.Decision{Approved: true, UpdatedInput: edit}), chat.Decision{Approved: true, UpdatedInput: json.RawMessage(`{"path":"c.txt"}`)}, "", chat.ErrConflict},
		{"no edit after an edit conflicts", decided(t, chat.Decision{Approved: true, UpdatedInput: edit}), chat.Decision{Approved: true}, "", chat.ErrConflict},
		{"an edit after none conflicts", decided(t, chat.Decision{Approved: true}), chat.Decision{Approved: true, UpdatedInput: edit}, "", chat.ErrConflict},
		{"a denial after the run conflicts", finished, chat.Decision{}, "", chat.ErrConflict},
		{"a denial of a stopped call is gone", stopped, chat.Decision{}, "", chat.ErrGone},
		{"a cancelled approval is gone", cancelled, chat.Decision{Approved: true}, "", chat.ErrGone},
		{"a cancelled approval is gone for a denial too", cancelled, chat.Decision{}, "", chat.ErrGone},
		{"an expired approval is gone", expired, chat.Decision{Approved: true}, "", chat.ErrGone},
		{"a superseded approval is gone", superseded, chat.Decision{Approved: true}, "", chat.ErrGone},
		{"a call without an approval is not found", plain, chat.Decision{Approved: true}, "", chat.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.d.ApprovalID = "ap1"
			got, effect, err := chat.Decide(tt.call, tt.d, chat.Decider{Name: "eve"}, later.Add(time.Hour))
			if effect != tt.effect || !errors.Is(err, tt.err) {
				t.Fatalf("got %q, %v; want %q, %v", effect, err, tt.effect, tt.err)
			}
			if d := cmp.Diff(tt.call, got); d != "" {
				t.Errorf("the call changed: %s", d)
			}
			var lost *chat.DecidedError
			if errors.Is(err, chat.ErrConflict) && (!errors.As(err, &lost) || lost.DecidedBy != "ada" || !lost.DecidedAt.Equal(later)) {
				t.Errorf("the loser is not told who won: %v", err)
			}
		})
	}
}

func TestClose(t *testing.T) {
	t.Parallel()

	started, err := chat.Start(decided(t, chat.Decision{Approved: true}), later)
	if err != nil {
		t.Fatal(err)
	}
	allowed := waiting()
	allowed.State, allowed.Approval, allowed.ToolMetadata = chat.CallInputAvailable, nil, &chat.ToolMetadata{Verdict: chat.VerdictAllow}
	for _, tt := range []struct {
		name       string
		call       chat.ToolCall
		state      chat.CallState
		resolution chat.Resolution
		outcome    chat.Outcome
	}{
		{"never decided", waiting(), chat.CallOutputDenied, chat.ResolutionCancelled, ""},
		{"decided against", decided(t, chat.Decision{}), chat.CallOutputDenied, "", ""},
		{"approved, not started", decided(t, chat.Decision{Approved: true}), chat.CallOutputError, "", chat.OutcomeStopped},
		{"allowed, not started", allowed, chat.CallOutputError, "", chat.OutcomeStopped},
		{"started", started, chat.CallOutputError, "", chat.OutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, ok := chat.Close(tt.call, chat.ResolutionCancelled, later)
			if !ok || got.State != tt.state || got.ToolMetadata.Outcome != tt.outcome {
				t.Fatalf("got %v, %+v", ok, got)
			}
			if got.Approval != nil && got.Approval.Resolution != tt.resolution {
				t.Errorf("resolution %q", got.Approval.Resolution)
			}
			if got.Runnable() {
				t.Error("a closed call can be run")
			}
			if again, ok := chat.Close(got, chat.ResolutionExpired, later); ok || cmp.Diff(got, again) != "" {
				t.Error("a settled call was closed again")
			}
		})
	}
}

// Whatever happens to a call, in any order: it is started at most once, only
// after a yes, never after a no, and once settled it never changes again. It
// asks something only while it runs, and one thing at a time.
func TestCallLife(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		call := waiting()
		starts, granted, refused := 0, false, false
		var settled *chat.ToolCall
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			before := call
			switch rapid.IntRange(0, 11).Draw(t, "event") {
			case 0:
				yes := rapid.Bool().Draw(t, "approved")
				next, effect, err := chat.Decide(call, chat.Decision{ApprovalID: "ap1", Approved: yes}, ada, later)
				if err == nil && effect == chat.EffectApplied {
					if granted || refused {
						t.Fatal("decided twice")
					}
					granted, refused = yes, !yes
				}
				call = next
			case 1:
				if next, err := chat.Start(call, later); err == nil {
					starts++
					call = next
				}
			case 2:
				call, _ = chat.Finish(call, chat.Result{Outcome: chat.OutcomeOK}, later)
			case 3:
				call, _ = chat.Lose(call, later)
			case 4:
				call, _ = chat.SettleDenied(call)
			case 5:
				call, _ = chat.Close(call, chat.ResolutionCancelled, later)
			case 6:
				call, _ = chat.Close(call, chat.ResolutionExpired, later)
			case 7:
				verdict := rapid.SampledFrom([]chat.Verdict{chat.VerdictAllow, chat.VerdictAsk, chat.VerdictDeny}).Draw(t, "verdict")
				if next, ok := chat.AllowByRule(call, chat.Judgement{Verdict: verdict, Rule: chat.ByAutoApprove}, later); ok {
					if granted || refused || verdict != chat.VerdictAllow {
						t.Fatalf("allowed by %s, decided before: %v", verdict, granted || refused)
					}
					granted, call = true, next
				}
			case 8:
				call, _ = chat.AskAgain(call, chat.Tool{Tool: rapid.StringMatching(`[ab]`).Draw(t, "tool")}, rapid.Bool().Draw(t, "offered"),
					rapid.SampledFrom([]error{nil, nil, errors.New("no")}).Draw(t, "wrong"), "ap"+rapid.StringMatching(`[2-9]`).Draw(t, "id"), later)
			case 9:
				if next, err := chat.AskPerson(call, chat.Question{ID: rapid.StringMatching(`q[12]`).Draw(t, "asked")}, later); err == nil {
					call = next
				}
			case 10:
				next, effect, _ := chat.AnswerQuestion(call, rapid.StringMatching(`q[12]`).Draw(t, "answered"), chat.Answer{Action: chat.AnswerDecline}, ada, later)
				if effect == chat.EffectApplied {
					call = next
				}
			case 11:
				call, _ = chat.CloseQuestion(call, later)
			}
			open := 0
			if call.ToolMetadata != nil {
				for _, q := range call.ToolMetadata.Questions {
					if q.Open() {
						open++
					}
				}
			}
			if open > 1 || open == 1 && (call.State.Settled() || starts == 0) {
				t.Fatalf("%d questions are open: %+v", open, call)
			}
			if starts > 1 || starts == 1 && !granted {
				t.Fatalf("started %d times, granted %v", starts, granted)
			}
			if before.State != chat.CallApprovalRequested && call.State == chat.CallApprovalRequested {
				t.Fatal("asked again")
			}
			if settled != nil && cmp.Diff(*settled, call) != "" {
				t.Fatalf("a settled call changed: %s", cmp.Diff(*settled, call))
			}
			if call.State.Settled() && settled == nil {
				kept := call
				settled = &kept
			}
		}
	})
}
