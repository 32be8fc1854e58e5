package chat_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestExpireAfter(t *testing.T) {
	t.Parallel()
	call := waiting()
	got := chat.ExpireAfter(call, time.Hour)
	if end := got.Approval.ExpiresAt; end == nil || !end.Equal(noon.Add(time.Hour)) || call.Approval.ExpiresAt != nil {
		t.Errorf("it expires at %v, and the call that was given at %v", end, call.Approval.ExpiresAt)
	}
	undated := waiting()
	a := *undated.Approval
	a.RequestedAt = nil
	undated.Approval = &a
	for name, c := range map[string]chat.ToolCall{"decided": decided(t, chat.Decision{Approved: true}), "of no time": undated, "none": {}} {
		if got := chat.ExpireAfter(c, time.Hour); cmp.Diff(c, got) != "" {
			t.Errorf("a call that is %s: got %+v", name, got.Approval)
		}
	}
	for _, life := range []time.Duration{0, -time.Hour} {
		if got := chat.ExpireAfter(call, life); got.Approval.ExpiresAt != nil {
			t.Errorf("after %s: expires at %v", life, got.Approval.ExpiresAt)
		}
	}
}

func TestWhatTimeDoesToACardThatWaits(t *testing.T) {
	t.Parallel()
	call := chat.ExpireAfter(waiting(), time.Hour)
	end := noon.Add(time.Hour)
	for _, at := range []time.Time{noon, end.Add(-1)} {
		if got, ok := chat.Expire(call, at); ok || cmp.Diff(call, got) != "" {
			t.Errorf("at %v: got %v, %+v", at, ok, got.Approval)
		}
		if _, effect, err := chat.Decide(call, chat.Decision{ApprovalID: "ap1", Approved: true}, ada, at); err != nil || effect != chat.EffectApplied {
			t.Errorf("a yes at %v: %q, %v", at, effect, err)
		}
	}
	for _, at := range []time.Time{end, end.Add(time.Hour)} {
		got, ok := chat.Expire(call, at)
		if !ok || got.State != chat.CallOutputDenied || got.Approval.Granted() || got.Approval.Resolution != chat.ResolutionExpired || !got.Approval.DecidedAt.Equal(at) {
			t.Errorf("at %v: got %v, %s, %+v", at, ok, got.State, got.Approval)
		}
		if again, ok := chat.Expire(got, at); ok || cmp.Diff(got, again) != "" {
			t.Errorf("expired twice: %+v", again.Approval)
		}
		for _, d := range []chat.Decision{{Approved: true}, {}, {Approved: true, Remember: chat.RememberAlwaysAllow}} {
			d.ApprovalID = "ap1"
			// Whether or not anybody has closed it by then.
			for _, c := range []chat.ToolCall{call, got} {
				if next, _, err := chat.Decide(c, d, ada, at); !errors.Is(err, chat.ErrGone) || cmp.Diff(c, next) != "" {
					t.Errorf("%+v at %v: got %v", d, at, err)
				}
			}
		}
	}
	for name, c := range map[string]chat.ToolCall{"for ever": waiting(), "decided": decided(t, chat.Decision{Approved: true}), "none": {}} {
		if got, ok := chat.Expire(c, end); ok || cmp.Diff(c, got) != "" {
			t.Errorf("a call that is %s: got %v, %+v", name, ok, got.Approval)
		}
	}
}

// A question that is asked again has as much time as it had at first, and so is
// not closed the moment it is asked.
func TestAskAgainGivesTheTimeAnew(t *testing.T) {
	t.Parallel()
	tool, call := asked()
	call = chat.ExpireAfter(call, time.Hour)
	tool.InputSchema = json.RawMessage(`{"type":"object"}`)
	at := noon.Add(time.Hour - 1)
	got, ok := chat.AskAgain(call, tool, true, nil, "ap2", at)
	if !ok || got.Approval.ExpiresAt == nil || !got.Approval.ExpiresAt.Equal(at.Add(time.Hour)) || !call.Approval.ExpiresAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("got %v, %+v", ok, got.Approval)
	}
	if next, ok := chat.AskAgain(call, tool, true, nil, "ap2", noon.Add(time.Hour)); ok || cmp.Diff(call, next) != "" {
		t.Errorf("a card whose time is over lives on: %+v", next.Approval)
	}
}
