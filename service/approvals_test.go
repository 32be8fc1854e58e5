package service_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestAnEditIsCheckedBeforeItIsDecidedAndNotAfter(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	topic, id := waiting(t, svc, store)
	bad := []chat.Decision{{ApprovalID: id, Approved: true, UpdatedInput: json.RawMessage(`{"bad":1}`)}}
	var input *chat.InputError
	if _, err := svc.Decide(t.Context(), topic, bad, ada); !errors.As(err, &input) || input.Problems[0].Pointer != "/bad" {
		t.Errorf("got %v", err)
	}
	good := []chat.Decision{{ApprovalID: id, Approved: true, UpdatedInput: json.RawMessage(`{"good":1}`)}}
	before := told.wakes
	if d, err := svc.Decide(t.Context(), topic, good, ada); err != nil || d.Continuation != chat.ContinuationScheduled {
		t.Errorf("got %+v, %v", d, err)
	}
	if told.wakes != before+1 {
		t.Error("the engine was not woken by the last decision")
	}
	// Decided already: the answer is the conflict, whatever the schema says today.
	var lost *chat.DecidedError
	if _, err := svc.Decide(t.Context(), topic, bad, ada); !errors.As(err, &lost) || lost.DecidedBy != "ada" {
		t.Errorf("got %v", err)
	}
	if d, err := svc.Decide(t.Context(), topic, good, ada); err != nil || d.Results[0].Outcome != chat.EffectAlreadySettled || told.wakes != before+1 {
		t.Errorf("got %+v, %v, %d wakes", d, err, told.wakes)
	}
}
