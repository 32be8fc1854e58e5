package service_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assent-chat/assent/service/chat"
)

func TestImport(t *testing.T) {
	t.Parallel()
	svc, _, told := newService(t)
	told.parse = func(file []byte) (servers []chat.MCPServer, err error) {
		for name := range strings.SplitSeq(string(file), " ") {
			if name == "!" {
				return nil, chat.Invalid("The file cannot be read.")
			}
			servers = append(servers, address(name))
		}
		return servers, nil
	}
	named := func(infos []chat.ServerInfo) (names []string) {
		for _, info := range infos {
			names = append(names, info.Name)
		}
		return names
	}
	for _, tt := range []struct {
		name, file     string
		skip           bool
		added, skipped []string
		err            error
	}{
		{"new ones", "a b", false, []string{"a", "b"}, nil, nil},
		{"one of which there is, is all of them", "c a", false, nil, nil, chat.ErrConflict},
		{"one of which there is, is passed over", "c a d", true, []string{"c", "d"}, []string{"a"}, nil},
		{"none of which is new", "d c", true, nil, []string{"d", "c"}, nil},
		{"what cannot be read", "!", true, nil, nil, chat.ErrInvalid},
		{"the same name twice", "e e", true, nil, nil, chat.ErrConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			applied := len(told.applied)
			added, skipped, err := svc.ImportMCPServers(t.Context(), []byte(tt.file), tt.skip, ada)
			if !errors.Is(err, tt.err) || !slices.Equal(named(added), tt.added) || !slices.Equal(skipped, tt.skipped) {
				t.Fatalf("added %v, skipped %v, %v", named(added), skipped, err)
			}
			if tt.added == nil {
				unchanged(t, told, applied)
				return
			}
			if diff := cmp.Diff(serversChanged, told.hints()); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			if names := told.names(); !slices.Equal(names[len(names)-len(tt.added):], tt.added) {
				t.Errorf("applied %v", names)
			}
		})
	}
}
