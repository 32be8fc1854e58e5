package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
)

func TestTopicsTakeTheDefaultModelAndRefuseUnknownOnes(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
	if err != nil || topic.Model != "demo/guide" || len(told.changes) != 1 {
		t.Errorf("got %+v, %v, %d changes", topic, err, len(told.changes))
	}
	unknown := "no/model"
	if _, err := svc.CreateTopic(t.Context(), chat.NewTopic{Model: unknown}); !errors.Is(err, chat.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := svc.UpdateTopic(t.Context(), topic.ID, chat.TopicPatch{Model: &unknown}); !errors.Is(err, chat.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if len(told.changes) != 1 {
		t.Error("a refused change was announced")
	}
}

func TestTheFirstMessageNamesTheTopic(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"  write   a file\nand more", "write a file"},
		{strings.Repeat("é", 100), strings.Repeat("é", 59) + "…"},
		{"\n\t ", ""},
	} {
		svc, _, told := newService(t)
		topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := svc.Send(t.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.File{MediaType: "a/b", URL: "data:,"}, chat.Text{Text: tt.text}}}); err != nil {
			t.Fatal(err)
		}
		if topic, err = svc.Topic(t.Context(), topic.ID); err != nil || topic.Title != tt.want {
			t.Errorf("got %q, %v, want %q", topic.Title, err, tt.want)
		}
		if told.wakes != 1 {
			t.Errorf("the engine was woken %d times", told.wakes)
		}
	}
}

func TestStopAndDeleteTellTheEngine(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	topic, _ := waiting(t, svc, store)
	if s, err := svc.Stop(t.Context(), topic); err != nil || s.Status != chat.TopicAborted || len(told.canceled) != 1 {
		t.Errorf("got %+v, %v, %v", s, err, told.canceled)
	}
	topic, _ = waiting(t, svc, store)
	if err := svc.DeleteTopic(t.Context(), topic); err != nil || len(told.canceled) != 2 {
		t.Errorf("got %v, %v", err, told.canceled)
	}
	topic, _ = waiting(t, svc, store)
	history, err := svc.Messages(t.Context(), topic, 10, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.DeleteMessage(t.Context(), topic, history.Messages[0].ID); err != nil || len(told.canceled) != 3 {
		t.Errorf("got %v, %v", err, told.canceled)
	}
}
