package service_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

func address(name string) chat.MCPServer {
	return chat.MCPServer{Name: name, Transport: chat.TransportHTTP, URL: "http://" + name + ".test/"}
}

var serversChanged = []chat.SettingsKind{chat.SettingsServers}

// unchanged holds that what was refused is neither applied nor told.
func unchanged(t *testing.T, told *told, applied int) {
	t.Helper()
	if hints := told.hints(); hints != nil || len(told.applied) != applied {
		t.Errorf("watchers were told of %v, and settings were applied %d times, want %d", hints, len(told.applied), applied)
	}
}

// names are those of the servers that were applied last.
func (t *told) names() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.applied[len(t.applied)-1] {
		names = append(names, s.Name)
	}
	return names
}

func TestAServerThatIsAddedAsksForEverything(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	bold := address("bold")
	bold.Switches = chat.Switches{AutoApproveTools: []string{"t"}, DisabledTools: []string{"u"}, Trusted: true}
	info, err := svc.CreateMCPServer(t.Context(), bold, ada)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "bold" || info.Source != chat.SourceSettings || info.State.Phase != chat.ServerReady || info.Version != 1 {
		t.Errorf("got %+v", info)
	}
	stored, err := store.MCPServer(t.Context(), info.ID)
	if diff := cmp.Diff(chat.Switches{}, stored.Switches, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"workspace", "bold"}, told.names()); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(serversChanged, told.hints()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if history, _, err := svc.MCPServerVersions(t.Context(), info.ID, chat.Page{Limit: 10}); err != nil || len(history) != 1 || history[0].By != "ada" {
		t.Errorf("recorded: %+v, %v", history, err)
	}

	applied := len(told.applied)
	for name, tt := range map[string]struct {
		server chat.MCPServer
		want   error
	}{
		"wrong":          {chat.MCPServer{Name: "wrong", Transport: chat.TransportHTTP, URL: "ftp://x/"}, chat.ErrInvalid},
		"a name taken":   {address("bold"), chat.ErrConflict},
		"as if built-in": {address("Workspace"), chat.ErrInvalid},
	} {
		if _, err := svc.CreateMCPServer(t.Context(), tt.server, ada); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	unchanged(t, told, applied)
}

func TestUpdateOfAServer(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, _ := box(t, svc, told, "read", "write")

	got, err := svc.UpdateMCPServer(t.Context(), server.ID, chat.MCPServerPatch{DisabledAutoApproveTools: &[]string{"write"}}, ada)
	if err != nil || !slices.Equal(got.AutoApproveTools, []string{"read"}) || !slices.Equal(got.DisabledAutoApproveTools, []string{"write"}) || got.Version != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff(serversChanged, told.hints()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if s, _ := told.Connected(server.ID); !slices.Equal(s.AutoApproveTools, []string{"read"}) {
		t.Errorf("applied %+v", s.Switches)
	}
	// A tool that came since the list was read is none of those that may run.
	told.offer(server.ID, tool(server.ID, "box", "read"), tool(server.ID, "box", "write"), tool(server.ID, "box", "drop"))
	got, err = svc.UpdateMCPServer(t.Context(), server.ID, chat.MCPServerPatch{DisabledAutoApproveTools: &[]string{}, KnownTools: &[]string{"read", "write"}}, ada)
	if err != nil || !slices.Equal(got.AutoApproveTools, []string{"read", "write"}) || !slices.Equal(got.DisabledAutoApproveTools, []string{"drop"}) {
		t.Errorf("got %+v, %v", got.Switches, err)
	}
	told.hints()

	gone, err := svc.CreateMCPServer(t.Context(), address("gone"), ada)
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.DeleteMCPServer(t.Context(), gone.ID, ada); err != nil {
		t.Fatal(err)
	}
	told.hints()
	applied := len(told.applied)
	for name, tt := range map[string]struct {
		id    string
		patch chat.MCPServerPatch
		want  error
	}{
		"at another version":      {server.ID, chat.MCPServerPatch{Trusted: ptr(true), Version: ptr(1)}, chat.ErrConflict},
		"to what is wrong":        {server.ID, chat.MCPServerPatch{URL: ptr("ftp://x/")}, chat.ErrInvalid},
		"of what is built in":     {"workspace", chat.MCPServerPatch{Disabled: ptr(true)}, chat.ErrConflict},
		"of one that is not":      {"none", chat.MCPServerPatch{Trusted: ptr(true)}, chat.ErrNotFound},
		"of one that was deleted": {gone.ID, chat.MCPServerPatch{Trusted: ptr(true)}, chat.ErrGone},
	} {
		if _, err := svc.UpdateMCPServer(t.Context(), tt.id, tt.patch, ada); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	unchanged(t, told, applied)
	if s, err := store.MCPServer(t.Context(), server.ID); err != nil || s.Version != 3 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestDeleteOfAServer(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	server, _ := box(t, svc, told)
	if err := svc.DeleteMCPServer(t.Context(), server.ID, ada); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(serversChanged, told.hints()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"workspace"}, told.names()); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	applied := len(told.applied)
	for id, want := range map[string]error{server.ID: chat.ErrGone, "none": chat.ErrNotFound, "workspace": chat.ErrConflict} {
		if err := svc.DeleteMCPServer(t.Context(), id, ada); !errors.Is(err, want) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	unchanged(t, told, applied)
	if _, err := svc.MCPServer(t.Context(), server.ID); !errors.Is(err, chat.ErrGone) {
		t.Errorf("read: %v", err)
	}
	if history, _, err := svc.MCPServerVersions(t.Context(), server.ID, chat.Page{Limit: 10}); err != nil || len(history) != 2 {
		t.Errorf("recorded: %+v, %v", history, err)
	}
}

func TestRestartOfAServer(t *testing.T) {
	t.Parallel()
	svc, store, told := newService(t)
	server, _ := box(t, svc, told)
	off := address("off")
	off.Disabled = true
	stored, err := store.CreateMCPServers(t.Context(), []chat.MCPServer{off, {Name: "wrong", Transport: "pigeon"}}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := svc.RestartMCPServer(t.Context(), server.ID); err != nil || info.ID != server.ID || !slices.Equal(told.restarts, []string{server.ID}) {
		t.Errorf("got %+v, %v; restarted %v", info, err, told.restarts)
	}
	for id, tt := range map[string]struct {
		want error
		says string
	}{
		"workspace": {chat.ErrConflict, "part of this program"}, stored[0].ID: {chat.ErrConflict, "switched off"}, stored[1].ID: {chat.ErrConflict, "transport"}, "none": {chat.ErrNotFound, "none"},
	} {
		if _, err := svc.RestartMCPServer(t.Context(), id); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	if len(told.restarts) != 1 {
		t.Errorf("restarted %v", told.restarts)
	}
	told.refuses = chat.NotFound("It is not connected.")
	if _, err := svc.RestartMCPServer(t.Context(), server.ID); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestToolsOfAServer(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	server, _ := box(t, svc, told, "t", "u")
	info, err := svc.MCPServer(t.Context(), server.ID)
	if err != nil || len(info.Tools) != 2 || info.Tools[0].InputSchema != nil {
		t.Errorf("got %+v, %v", info, err)
	}
	if tools, err := svc.MCPServerTools(t.Context(), server.ID); err != nil || len(tools) != 2 || string(tools[0].InputSchema) != `{}` {
		t.Errorf("got %+v, %v", tools, err)
	}
	all, err := svc.MCPServers(t.Context())
	if err != nil || len(all) != 2 || cmp.Diff(info, all[1]) != "" {
		t.Errorf("got %+v, %v", all, err)
	}
	told.phase(server.ID, chat.ServerFailed)
	if tools, err := svc.MCPServerTools(t.Context(), server.ID); err != nil || len(tools) != 0 {
		t.Errorf("of a server that is lost: %+v, %v", tools, err)
	}
	if _, err := svc.MCPServerTools(t.Context(), "none"); !errors.Is(err, chat.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
