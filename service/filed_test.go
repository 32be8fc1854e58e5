package service_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
)

func TestServersOfAFile(t *testing.T) {
	t.Parallel()
	_, store, _ := newService(t)
	filed := func(name string) chat.MCPServer {
		s := address(name)
		s.ID, s.Source = name, chat.SourceFile
		s.Identity = store.Identity(s)
		return s
	}
	with := func(servers ...chat.MCPServer) (*service.Service, *told) {
		told := newTold()
		return beside(store, told, func(_ *service.Deps, o *service.Options) { o.FileServers = servers }), told
	}
	svc, told := with(filed("mine"), filed("ours"))
	if err := svc.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"workspace", "mine", "ours"}, told.names()); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
	if _, err := svc.UpdateMCPServer(t.Context(), "mine", chat.MCPServerPatch{AlwaysAskTools: &[]string{"t"}}, ada); err != nil {
		t.Fatal(err)
	}
	if s, _ := told.Connected("mine"); s.URL != "http://mine.test/" || !slices.Equal(s.AlwaysAskTools, []string{"t"}) || s.Version != 2 {
		t.Errorf("the file's connection and the person's switches came to %+v", s)
	}
	if err := svc.DeleteMCPServer(t.Context(), "mine", ada); !errors.Is(err, chat.ErrConflict) {
		t.Errorf("deleted: %v", err)
	}

	// Another process was started with less.
	other, othersTold := with(filed("ours"))
	if list, err := other.MCPServers(t.Context()); err != nil || len(list) != 2 || list[1].Name != "ours" {
		t.Errorf("got %+v, %v", list, err)
	}
	for name, try := range map[string]func() error{
		"read": func() error { _, err := other.MCPServer(t.Context(), "mine"); return err },
		"change": func() error {
			_, err := other.UpdateMCPServer(t.Context(), "mine", chat.MCPServerPatch{Trusted: ptr(true)}, ada)
			return err
		},
		"tools":   func() error { _, err := other.MCPServerTools(t.Context(), "mine"); return err },
		"restart": func() error { _, err := other.RestartMCPServer(t.Context(), "mine"); return err },
		"test": func() error {
			_, err := other.TestStoredMCPServer(t.Context(), "mine", chat.MCPServerPatch{})
			return err
		},
	} {
		if err := try(); !errors.Is(err, chat.ErrNotFound) || !strings.Contains(err.Error(), "not in the file") {
			t.Errorf("%s of what is not in the file: %v", name, err)
		}
	}
	if len(othersTold.applied) != 0 || len(othersTold.restarts) != 0 {
		t.Error("it was done")
	}
	// A name that a person's server has keeps the program from starting.
	if _, err := svc.CreateMCPServer(t.Context(), address("third"), ada); err != nil {
		t.Fatal(err)
	}
	if third, _ := with(filed("third")); !errors.Is(third.Start(t.Context()), chat.ErrConflict) {
		t.Error("it started")
	}
}
