package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/assent-chat/assent/service/chat"
)

// fakeServers are a tool server of each source, in each phase.
func fakeServers() []chat.ServerInfo {
	since := at
	state := func(phase chat.ServerPhase) chat.ServerState { return chat.ServerState{Phase: phase, Since: &since} }
	ready := chat.ServerState{Phase: chat.ServerReady, Since: &since, ServerName: "s", ServerVersion: "1", Protocol: "2025-11-25"}
	failed := chat.ServerState{Phase: chat.ServerFailed, Since: &since, Error: "the process ended", Stderr: []string{"oh no"}}
	return []chat.ServerInfo{
		chat.InfoOf(chat.MCPServer{
			ID: "workspace", Name: "workspace", Source: chat.SourceBuiltIn, Transport: chat.TransportBuiltIn, Version: 1,
			Switches: chat.Switches{AutoApproveTools: []string{"read_file"}},
		}, chat.ServerState{Phase: chat.ServerReady}, []chat.Tool{
			{Name: "workspace__read_file", Tool: "read_file", Title: "Read a <file>", Description: "Reads.", Annotations: json.RawMessage(`{"readOnlyHint":true}`), InputSchema: json.RawMessage(`{"type":"object"}`)},
		}),
		chat.InfoOf(chat.MCPServer{ID: "a b", Name: "a b", Source: chat.SourceFile, Transport: chat.TransportStdio, Command: "x"}, failed, nil),
		chat.InfoOf(aServer(), ready, []chat.Tool{{Name: "web__x", Tool: "x"}, {Name: "web__y", Tool: "y"}}),
		chat.InfoOf(chat.MCPServer{ID: "off", Name: "off", Transport: chat.TransportStdio, Command: "x", Env: map[string]string{"KEY": hidden}, Disabled: true, Version: 1, CreatedAt: at, UpdatedAt: at}, state(chat.ServerDisabled), nil),
		chat.InfoOf(chat.MCPServer{ID: "new", Name: "new", Transport: chat.TransportStdio, Command: "x", Version: 1, CreatedAt: at, UpdatedAt: at}, state(chat.ServerStarting), nil),
	}
}

// hidden is what no answer may hold.
const hidden = "Nacht-und-Nebel"

func aServer() chat.MCPServer {
	return chat.MCPServer{
		ID: "s1", Name: "web", Source: chat.SourceSettings, Transport: chat.TransportHTTP, URL: "https://u:" + hidden + "@example.com/mcp?key=" + hidden,
		Headers: map[string]string{"Authorization": hidden}, Version: 2, CreatedAt: at, UpdatedAt: at,
		Switches: chat.Switches{AutoApproveTools: []string{"x"}, AlwaysAskTools: []string{"y"}, DisabledTools: []string{"gone"}, Trusted: true},
	}
}

func aServerInfo() chat.ServerInfo { return fakeServers()[2] }

func aTrial() chat.ServerTrial {
	return chat.ServerTrial{State: aServerInfo().State, Tools: chat.ToolsOf(chat.MCPServer{}, []chat.Tool{{Name: "web__x", Tool: "x", InputSchema: json.RawMessage(`{"type":"object","maximum":12345678901234567890}`)}})}
}

func (f *fake) MCPServers(context.Context) ([]chat.ServerInfo, error) {
	if f.servers != nil {
		return slices.Clone(f.servers), f.did("MCPServers", "")
	}
	return fakeServers(), f.did("MCPServers", "")
}

func (f *fake) read() chat.ServerInfo {
	if f.servers != nil {
		return f.servers[0]
	}
	return aServerInfo()
}
func (f *fake) MCPServer(_ context.Context, id string) (chat.ServerInfo, error) {
	return f.read(), f.did("MCPServer "+id, "")
}
func (f *fake) MCPServerTools(_ context.Context, id string) ([]chat.ServerTool, error) {
	return aTrial().Tools, f.did("MCPServerTools "+id, "")
}
func (f *fake) CreateMCPServer(_ context.Context, s chat.MCPServer, by chat.Decider) (chat.ServerInfo, error) {
	f.server, f.by = s, by
	return aServerInfo(), f.did("CreateMCPServer", "")
}
func (f *fake) ImportMCPServers(_ context.Context, file []byte, skip bool, by chat.Decider) ([]chat.ServerInfo, []string, error) {
	f.file, f.by = string(file), by
	if !skip {
		return nil, nil, f.did("ImportMCPServers", "")
	}
	return []chat.ServerInfo{aServerInfo()}, []string{"off"}, f.did("ImportMCPServers skip", "")
}
func (f *fake) UpdateMCPServer(_ context.Context, id string, p chat.MCPServerPatch, by chat.Decider) (chat.ServerInfo, error) {
	f.serverPatch, f.by = p, by
	return f.read(), f.did("UpdateMCPServer "+id, "")
}
func (f *fake) DeleteMCPServer(_ context.Context, id string, by chat.Decider) error {
	f.by = by
	return f.did("DeleteMCPServer "+id, "")
}
func (f *fake) RestartMCPServer(_ context.Context, id string) (chat.ServerInfo, error) {
	return aServerInfo(), f.did("RestartMCPServer "+id, "")
}
func (f *fake) TestMCPServer(ctx context.Context, s chat.MCPServer) (chat.ServerTrial, error) {
	f.server = s
	f.deadline, _ = ctx.Deadline()
	if f.hang {
		<-ctx.Done()
		return chat.ServerTrial{}, fmt.Errorf("connect: %w", ctx.Err())
	}
	return aTrial(), f.did("TestMCPServer", "")
}
func (f *fake) TestStoredMCPServer(ctx context.Context, id string, p chat.MCPServerPatch) (chat.ServerTrial, error) {
	f.serverPatch = p
	f.deadline, _ = ctx.Deadline()
	return chat.ServerTrial{State: chat.ServerState{Phase: chat.ServerFailed, Error: "the process ended", Stderr: []string{"no"}}}, f.did("TestStoredMCPServer "+id, "")
}
func (f *fake) MCPServerVersions(_ context.Context, id string, p chat.Page) ([]chat.ServerChange, string, error) {
	before, after := f.read().ServerSettings, f.read().ServerSettings
	before.AutoApproveTools, before.Version = []string{}, 1
	return []chat.ServerChange{
		{ServerID: "s1", Version: 3, Action: chat.ActionDeleted, By: "owner", Via: chat.ViaWeb, At: at, Before: &after},
		{ServerID: "s1", Version: 2, Action: chat.ActionChanged, By: "ada", Via: chat.ViaAPI, At: at, ApprovalID: "a1", Before: &before, After: &after, Secrets: true},
		{ServerID: "s1", Version: 1, Action: chat.ActionCreated, By: "owner", Via: chat.ViaWeb, At: at, After: &before},
	}, "1", f.did(fmt.Sprintf("MCPServerVersions %s %d %s", id, p.Limit, p.Cursor), "")
}

func anAssistant() chat.Assistant {
	return chat.Assistant{ID: "as1", Name: "A <helper>", Description: "d", Model: "demo/guide", SystemPrompt: "p", MCPServerIDs: []string{}, Mode: chat.ModeAskAll, Version: 1, CreatedAt: at, UpdatedAt: at}
}
func (f *fake) Assistants(context.Context) ([]chat.Assistant, error) {
	every := anAssistant()
	every.MCPServerIDs = nil
	return []chat.Assistant{anAssistant(), every}, f.did("Assistants", "")
}
func (f *fake) Assistant(_ context.Context, id string) (chat.Assistant, error) {
	return anAssistant(), f.did("Assistant "+id, "")
}
func (f *fake) CreateAssistant(_ context.Context, n chat.NewAssistant) (chat.Assistant, error) {
	f.newAssistant = n
	return anAssistant(), f.did("CreateAssistant", "")
}
func (f *fake) UpdateAssistant(_ context.Context, id string, p chat.AssistantPatch) (chat.Assistant, error) {
	f.assistantPatch = p
	return anAssistant(), f.did("UpdateAssistant "+id, "")
}
func (f *fake) DeleteAssistant(_ context.Context, id string) error {
	return f.did("DeleteAssistant "+id, "")
}
func (f *fake) AnswerQuestion(_ context.Context, id, message, question string, a chat.Answer, by chat.Decider) (chat.Answered, error) {
	f.answer, f.by = a, by
	return chat.Answered{QuestionID: question, Outcome: chat.EffectApplied, AnsweredBy: by.Name, AnsweredAt: at, Revision: 4}, f.did("AnswerQuestion "+message+" "+question, id)
}
func (f *fake) Questions(_ context.Context, p chat.Page) ([]chat.QuestionItem, string, error) {
	err := f.did(fmt.Sprintf("Questions %d %s", p.Limit, p.Cursor), "")
	if p.Cursor == "end" {
		return nil, "", err
	}
	q := chat.Question{ID: "q1", Message: "Where <to>?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567890}}}`), AskedAt: at}
	return []chat.QuestionItem{{TopicID: topic1, TopicTitle: "A topic", MessageID: "m2", ToolCallID: "c1", ToolName: "x__y", Question: q}}, "more", err
}
