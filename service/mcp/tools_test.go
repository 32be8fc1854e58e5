package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assent-chat/assent/service/chat"
)

func TestToolsThatAreTooMuch(t *testing.T) {
	schema := func(n int) json.RawMessage {
		return fmt.Appendf(nil, `{"type":"object","description":%q}`, strings.Repeat("x", n))
	}
	bomb := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{"d40":{"type":"string"}`
	for i := range 40 {
		bomb += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1)
	}
	t.Run("alone are left out, and it is said why", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, &sdk.Tool{Name: "good", InputSchema: schema(maxSchemaBytes / 2)},
				&sdk.Tool{Name: "large", InputSchema: schema(maxSchemaBytes)},
				&sdk.Tool{Name: "claims", Annotations: &sdk.ToolAnnotations{Title: strings.Repeat("x", maxSchemaBytes)}},
				&sdk.Tool{Name: "bomb", InputSchema: json.RawMessage(bomb + "}}")})
			c := f.start(t, ClientOptions{})
			tools, err := c.Tools(t.Context())
			if diff := cmp.Diff([]string{"fake__good"}, toolNames(tools)); diff != "" || err != nil {
				t.Errorf("tools (-want +got):\n%s%v", diff, err)
			}
			want := []string{
				"The tool bomb is left out: it would take too long to check: one value would be held against more than 10000 parts of the schema.",
				"The tool claims is left out: its schema and its annotations are larger than 1.0 MiB.",
				"The tool large is left out: its schema and its annotations are larger than 1.0 MiB.",
			}
			if diff := cmp.Diff(want, state(c).Stderr); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("together are those of a server that fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			for i := range 2 * maxAllTools / maxSchemaBytes {
				f.add(&sdk.Tool{Name: fmt.Sprint("t", i), InputSchema: schema(maxSchemaBytes * 6 / 10)}, nil)
			}
			c := f.start(t, ClientOptions{})
			synctest.Wait()
			if s := state(c); s.Phase != chat.ServerFailed || !strings.Contains(s.Error, "together they are larger than 16.0 MiB") {
				t.Errorf("state %+v", s)
			}
		})
	})
}

func TestServerWithTooManyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		for i := range maxTools + 1 {
			f.add(&sdk.Tool{Name: fmt.Sprint("t", i)}, nil)
		}
		c := f.start(t, ClientOptions{})
		synctest.Wait()
		if s := state(c); s.Phase != chat.ServerFailed || !strings.Contains(s.Error, "more than 1000") {
			t.Errorf("state: %+v", s)
		}
	})
}
