package service_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestATrialStoresNothing(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, tools := box(t, svc, told, "t")
	applied := len(told.applied)
	told.trial, told.trialOf = chat.ServerState{Phase: chat.ServerFailed, Error: "It ended.", Stderr: []string{"no"}}, tools
	want := chat.ServerTrial{State: told.trial, Tools: chat.ToolsOf(chat.MCPServer{}, tools)}

	got, err := svc.TestMCPServer(t.Context(), address("new"))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = svc.TestStoredMCPServer(t.Context(), server.ID, chat.MCPServerPatch{URL: ptr("http://other.test/")})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if len(told.tried) != 2 || told.tried[0].Name != "new" || told.tried[1].ID != server.ID || told.tried[1].URL != "http://other.test/" {
		t.Errorf("tried %+v", told.tried)
	}
	for id, tt := range map[string]struct {
		patch chat.MCPServerPatch
		want  error
	}{
		"workspace": {chat.MCPServerPatch{}, chat.ErrConflict}, "none": {chat.MCPServerPatch{}, chat.ErrNotFound}, server.ID: {chat.MCPServerPatch{URL: ptr("ftp://x/")}, chat.ErrInvalid},
	} {
		if _, err := svc.TestStoredMCPServer(t.Context(), id, tt.patch); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	if len(told.tried) != 2 {
		t.Errorf("tried %+v", told.tried)
	}
	told.refuses = chat.Unavailable("There are too many trials.")
	if _, err := svc.TestMCPServer(t.Context(), address("new")); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	unchanged(t, told, applied)
	if s, err := store.MCPServer(t.Context(), server.ID); err != nil || s.URL != "http://box.test/" || s.Version != 1 {
		t.Errorf("stored %+v, %v", s, err)
	}
}
