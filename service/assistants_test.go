package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/chat"
)

var assistantsChanged = []chat.SettingsKind{chat.SettingsAssistants}

func TestAssistantsAreAddedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	server, _ := box(t, svc, told)
	hinted := func() {
		t.Helper()
		if got := told.hints(); !slices.Equal(got, assistantsChanged) {
			t.Errorf("watchers were told of %v", got)
		}
	}
	a, err := svc.CreateAssistant(t.Context(), chat.NewAssistant{Name: "b", MCPServerIDs: []string{server.ID, "workspace"}})
	if err != nil || a.Model != "" || a.Mode != chat.ModeDefault || a.Version != 1 {
		t.Fatalf("got %+v, %v", a, err)
	}
	hinted()
	changed, err := svc.UpdateAssistant(t.Context(), a.ID, chat.AssistantPatch{Model: ptr("demo/other"), MCPServerIDs: ptr([]string(nil)), Mode: ptr(chat.ModeAskAll)})
	want := a
	want.Model, want.MCPServerIDs, want.Mode, want.Version = "demo/other", nil, chat.ModeAskAll, 2
	if diff := cmp.Diff(want, changed, cmpopts.IgnoreFields(chat.Assistant{}, "UpdatedAt")); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	hinted()
	if got, err := svc.Assistant(t.Context(), a.ID); err != nil || cmp.Diff(changed, got) != "" {
		t.Errorf("read: %+v, %v", got, err)
	}
	first, err := svc.CreateAssistant(t.Context(), chat.NewAssistant{Name: "a", Model: "demo/other"})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := svc.Assistants(t.Context()); err != nil || cmp.Diff([]chat.Assistant{first, changed}, list) != "" {
		t.Errorf("listed: %+v, %v", list, err)
	}
	told.hints()

	for name, tt := range map[string]struct {
		try  func() error
		want error
	}{
		"an unknown model": {func() error {
			_, err := svc.CreateAssistant(t.Context(), chat.NewAssistant{Name: "c", Model: "no/model"})
			return err
		}, chat.ErrInvalid},
		"an unknown server": {func() error {
			_, err := svc.CreateAssistant(t.Context(), chat.NewAssistant{Name: "c", MCPServerIDs: []string{"none"}})
			return err
		}, chat.ErrInvalid},
		"a change to such a model": {func() error {
			_, err := svc.UpdateAssistant(t.Context(), a.ID, chat.AssistantPatch{Model: ptr("no/model")})
			return err
		}, chat.ErrInvalid},
		"a change to such a server": {func() error {
			_, err := svc.UpdateAssistant(t.Context(), a.ID, chat.AssistantPatch{MCPServerIDs: &[]string{"none"}})
			return err
		}, chat.ErrInvalid},
		"a change at another version": {func() error {
			_, err := svc.UpdateAssistant(t.Context(), a.ID, chat.AssistantPatch{Name: ptr("x"), Version: ptr(1)})
			return err
		}, chat.ErrConflict},
		"a change of none": {func() error {
			_, err := svc.UpdateAssistant(t.Context(), "none", chat.AssistantPatch{Name: ptr("x")})
			return err
		}, chat.ErrNotFound},
		"none, deleted": {func() error { return svc.DeleteAssistant(t.Context(), "none") }, chat.ErrNotFound},
	} {
		if err := tt.try(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got := told.hints(); got != nil {
		t.Errorf("watchers were told of %v", got)
	}

	if err := svc.DeleteAssistant(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	hinted()
	if _, err := svc.Assistant(t.Context(), a.ID); !errors.Is(err, chat.ErrGone) {
		t.Errorf("read after it was deleted: %v", err)
	}
	if err := svc.DeleteAssistant(t.Context(), a.ID); !errors.Is(err, chat.ErrGone) || told.hints() != nil {
		t.Errorf("deleted twice: %v", err)
	}
}

// unassisted is a store that cannot read assistants.
type unassisted struct{ *repository.Store }

func (unassisted) Assistant(context.Context, string) (chat.Assistant, error) {
	return chat.Assistant{}, chat.Unavailable("The database is away.")
}

func TestATopicStartsFromAnAssistant(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	a, err := svc.CreateAssistant(t.Context(), chat.NewAssistant{Name: "a", Model: "demo/other", SystemPrompt: "Be brief.", MCPServerIDs: []string{"workspace"}})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := svc.CreateTopic(t.Context(), chat.NewTopic{AssistantID: a.ID})
	if err != nil || topic.AssistantID != a.ID || topic.Model != "demo/other" || topic.SystemPrompt != "Be brief." || !slices.Equal(topic.MCPServerIDs, []string{"workspace"}) {
		t.Errorf("got %+v, %v", topic, err)
	}
	topic, err = svc.CreateTopic(t.Context(), chat.NewTopic{AssistantID: a.ID, Model: "demo/mine", MCPServerIDs: []string{}})
	if err != nil || topic.Model != "demo/mine" || topic.MCPServerIDs == nil || len(topic.MCPServerIDs) != 0 {
		t.Errorf("got %+v, %v", topic, err)
	}
	if err := svc.DeleteAssistant(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	told.changes = nil
	for _, id := range []string{a.ID, "none"} {
		if _, err := svc.CreateTopic(t.Context(), chat.NewTopic{AssistantID: id}); !errors.Is(err, chat.ErrInvalid) {
			t.Errorf("from %s: %v", id, err)
		}
	}
	if _, err := beside(unassisted{store}, told, nil).CreateTopic(t.Context(), chat.NewTopic{AssistantID: a.ID}); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if told.changes != nil {
		t.Errorf("watchers were told of %+v", told.changes)
	}
}
