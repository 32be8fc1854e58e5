package repotest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

// waitingFor is a topic whose turn waits for decisions on tools of a server.
func (b *bench) waitingFor(serverID string, tools ...string) (chat.Topic, claimed, []string) {
	b.Helper()
	asked := make([]chat.ToolMetadata, len(tools))
	for i, tool := range tools {
		asked[i] = chat.ToolMetadata{ServerID: serverID, Tool: tool}
	}
	return b.waitingOn(asked...)
}

// waitingOn is a topic whose turn waits for a decision on each of the tools.
func (b *bench) waitingOn(tools ...chat.ToolMetadata) (chat.Topic, claimed, []string) {
	b.Helper()
	topic, f := b.start()
	ids := make([]string, len(tools))
	for i := range ids {
		ids[i] = rand.Text()
	}
	must[chat.Change](b)(b.CommitStep(b.ctx, f.Fence, chat.Step{Build: func(at time.Time) (parts chat.Parts) {
		for i, m := range tools {
			c := call("call-" + m.ServerID + m.Tool)
			m.Server, m.Verdict = "files", chat.VerdictAsk
			c.ToolMetadata = &m
			parts = append(parts, chat.Ask(c, ids[i], at))
		}
		return parts
	}}))
	b.park(f)
	return topic, f, ids
}

func always(id string) chat.Decision {
	return chat.Decision{ApprovalID: id, Approved: true, Remember: chat.RememberAlwaysAllow}
}

var rememberTests = map[string]func(*bench){
	"a yes for good lets the tool run from now on, and the records say on which card": func(b *bench) {
		server := b.server(stdio("files"))
		server = b.edit(server.ID, chat.MCPServerPatch{AlwaysAskTools: &[]string{"write"}, AutoApproveTools: &[]string{"read"}})
		topic, f, approvals := b.waitingFor(server.ID, "write", "other")
		d := b.decide(topic.ID, always(approvals[0]))
		if d.Results[0].Outcome != chat.EffectApplied || d.Pending != 1 || d.Continuation != chat.ContinuationWaiting {
			b.Errorf("%+v", d)
		}
		got := b.stored(server.ID)
		b.same("asked for always", []string{}, got.AlwaysAskTools)
		b.same("runs without asking", []string{"read", "write"}, got.AutoApproveTools)
		want := server
		want.Switches, want.Version, want.UpdatedAt = got.Switches, 3, got.UpdatedAt
		b.same("server", want, got)
		if calls := b.calls(topic.ID, f.MessageID); calls[0].Approval.Remember != chat.RememberAlwaysAllow || calls[1].Approval.Remember != "" {
			b.Errorf("calls %+v", calls)
		}
		entry, _ := b.auditOf(approvals[0])
		b.same("audit", chat.RememberAlwaysAllow, entry.Remember)
		record := b.history(server.ID)
		b.same("record", chat.ServerChange{
			ServerID: server.ID, Version: 3, Action: chat.ActionChanged, By: "ada", Via: chat.ViaAPI, At: *b.calls(topic.ID, f.MessageID)[0].Approval.DecidedAt,
			ApprovalID: approvals[0], Before: shown(server), After: shown(got),
		}, record[0])
		if record[1].ApprovalID != "" {
			b.Errorf("a change in the settings is of card %s", record[1].ApprovalID)
		}
		// The same again, and a yes for this call alone that was for good.
		for _, again := range []chat.Decision{always(approvals[0]), yes(approvals[0])} {
			if d := b.decide(topic.ID, again); d.Results[0].Outcome != chat.EffectAlreadySettled || d.Continuation != chat.ContinuationNone {
				b.Errorf("again: %+v", d)
			}
		}
		b.decide(topic.ID, yes(approvals[1]))
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[1])}, ada)
		b.is(err, chat.ErrConflict)
		b.same("after repeats", got, b.stored(server.ID))
	},
	"a tool that runs without asking already is no new version": func(b *bench) {
		one, _, first := b.waitingFor("workspace", "write_file", "write_file")
		two, _, second := b.waitingFor("workspace", "write_file")
		b.decide(one.ID, always(first[0]), always(first[1]))
		want := b.stored("workspace")
		b.same("tools", []string{"list_files", "read_file", "write_file"}, want.AutoApproveTools)
		b.same("version", 2, want.Version)
		b.decide(two.ID, always(second[0]))
		b.same("after another", want, b.stored("workspace"))
		if entry, _ := b.auditOf(second[0]); entry.Remember != chat.RememberAlwaysAllow {
			b.Errorf("audit: %+v", entry)
		}
	},
	"a no changes no list, whatever it asks to remember": func(b *bench) {
		topic, _, approvals := b.waitingFor("workspace", "write_file")
		b.decide(topic.ID, chat.Decision{ApprovalID: approvals[0], Remember: chat.RememberAlwaysAllow})
		b.same("version", 1, b.stored("workspace").Version)
		if entry, _ := b.auditOf(approvals[0]); entry.Remember != "" || entry.Approved {
			b.Errorf("audit: %+v", entry)
		}
	},
	"a batch may allow several tools of a server for good": func(b *bench) {
		server := b.server(stdio("files"))
		topic, f, approvals := b.waitingFor(server.ID, "write", "move")
		b.decide(topic.ID, always(approvals[0]), always(approvals[1]))
		got := b.stored(server.ID)
		b.same("tools", []string{"write", "move"}, got.AutoApproveTools)
		record := b.history(server.ID)
		b.same("cards", []string{approvals[1], approvals[0], ""}, []string{record[0].ApprovalID, record[1].ApprovalID, record[2].ApprovalID})
		b.same("before", record[1].After, record[0].Before)
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
	"a batch may allow tools of several servers for good": func(b *bench) {
		one, two := b.server(stdio("one")), b.server(remote("two"))
		topic, f, approvals := b.waitingOn(
			chat.ToolMetadata{ServerID: two.ID, Tool: "write"}, chat.ToolMetadata{ServerID: one.ID, Tool: "write"}, chat.ToolMetadata{ServerID: two.ID, Tool: "move"})
		b.decide(topic.ID, always(approvals[0]), always(approvals[1]), always(approvals[2]))
		b.same("tools of one", []string{"write"}, b.stored(one.ID).AutoApproveTools)
		b.same("tools of the other", []string{"write", "move"}, b.stored(two.ID).AutoApproveTools)
		b.same("card of one", approvals[1], b.history(one.ID)[0].ApprovalID)
		record := b.history(two.ID)
		b.same("cards of the other", []string{approvals[2], approvals[0], ""}, []string{record[0].ApprovalID, record[1].ApprovalID, record[2].ApprovalID})
		b.same("claimable", []string{f.TurnID}, b.claimable())
	},
	"a tool of another connection than the card was shown for is not allowed for good, and nothing is decided": func(b *bench) {
		server, other := b.server(stdio("files")), b.server(stdio("other"))
		shown := chat.ToolMetadata{ServerID: server.ID, Tool: "write", ServerIdentity: server.Identity}
		topic, f, approvals := b.waitingOn(chat.ToolMetadata{ServerID: other.ID, Tool: "move", ServerIdentity: other.Identity}, shown)
		want := b.edit(server.ID, chat.MCPServerPatch{Args: &[]string{"--elsewhere"}})
		if want.Identity == server.Identity {
			b.Fatal("another connection has the same identity")
		}
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0]), always(approvals[1])}, ada)
		b.is(err, chat.ErrGone)
		var batch *chat.BatchError
		if !errors.As(err, &batch) || len(batch.Items) != 1 || batch.Items[0].ApprovalID != approvals[1] {
			b.Errorf("got %v", err)
		}
		b.same("server", want, b.stored(server.ID))
		b.same("the other server", other, b.stored(other.ID))
		for _, c := range b.calls(topic.ID, f.MessageID) {
			if _, ok := b.auditOf(c.Approval.ID); !c.Pending() || ok {
				b.Errorf("it was decided: %+v", c.Approval)
			}
		}
		// The connection that it was shown for is there again, and so is what it says.
		b.edit(server.ID, chat.MCPServerPatch{Args: &server.Args})
		b.decide(topic.ID, always(approvals[0]), always(approvals[1]))
		b.same("tools", []string{"write"}, b.stored(server.ID).AutoApproveTools)
	},
	"a tool whose server is not stored cannot be allowed for good, and nothing is decided": func(b *bench) {
		gone := b.server(stdio("gone"))
		if err := b.DeleteMCPServer(b.ctx, gone.ID, ada); err != nil {
			b.Fatal(err)
		}
		for _, serverID := range []string{"", "none", gone.ID} {
			topic, f, approvals := b.waitingFor(serverID, "write")
			_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada)
			b.is(err, chat.ErrInvalid)
			var batch *chat.BatchError
			if !errors.As(err, &batch) || len(batch.Items) != 1 || batch.Items[0].ApprovalID != approvals[0] {
				b.Errorf("got %v", err)
			}
			if c := b.calls(topic.ID, f.MessageID)[0]; !c.Pending() {
				b.Errorf("it was decided: %+v", c)
			}
			b.decide(topic.ID, yes(approvals[0]))
		}
		topic, _, approvals := b.waitingFor("workspace", "write_file", "")
		_, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0]), always(approvals[1])}, ada)
		b.is(err, chat.ErrInvalid)
		b.same("version", 1, b.stored("workspace").Version)
	},
	"a decision that fails leaves the lists untouched": func(b *bench) {
		topic, _, approvals := b.waitingFor("workspace", "write_file", "delete_file")
		b.decide(topic.ID, no(approvals[0]))
		want := b.stored("workspace")
		for _, ds := range [][]chat.Decision{
			{always(approvals[0])}, {always(approvals[1]), yes(approvals[0])}, {always(approvals[1]), yes("none")},
		} {
			_, _, err := b.Decide(b.ctx, topic.ID, ds, ada)
			b.is(err, chat.ErrConflict)
		}
		b.same("server", want, b.stored("workspace"))
		if entry, ok := b.auditOf(approvals[1]); ok {
			b.Errorf("recorded: %+v", entry)
		}
	},
	"the decision, the switch and its record are one commit": func(b *bench) {
		topic, f, approvals := b.waitingFor("workspace", "write_file")
		want, revision := b.stored("workspace"), b.status(topic.ID).Revision
		// The last of the writes cannot be made.
		b.run(`INSERT INTO mcp_server_versions (server_id, version, action, changed_by, via, changed_at, approval_id, secrets, sealed)
			SELECT server_id, 2, action, changed_by, via, changed_at, approval_id, secrets, sealed FROM mcp_server_versions`)
		if _, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada); err == nil || chat.Refused(err) {
			b.Errorf("got %v", err)
		}
		b.same("server", want, b.stored("workspace"))
		b.same("revision", revision, b.status(topic.ID).Revision)
		if c := b.calls(topic.ID, f.MessageID)[0]; !c.Pending() {
			b.Errorf("it was decided: %+v", c)
		}
		if _, ok := b.auditOf(approvals[0]); ok {
			b.Error("it is on record")
		}
		// Nor can the record of the decision, when the switch is written.
		b.run(`DELETE FROM mcp_server_versions WHERE version = 2`)
		b.run(`INSERT INTO decisions (id, approval_id, topic_id, anchor_id, tool_call_id, tool_name, server, approved, resolution, reason, decided_by, via, decided_at, input_digest)
			SELECT 'x', '` + approvals[0] + `', id, '', '', '', '', (1 = 1), '', '', '', '', updated_at, '' FROM topics`)
		if _, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada); err == nil || chat.Refused(err) {
			b.Errorf("got %v", err)
		}
		b.same("server", want, b.stored("workspace"))
		b.same("record", 1, len(b.history("workspace")))
		b.run(`DELETE FROM decisions`)
		b.decide(topic.ID, always(approvals[0]))
		b.same("version", 2, b.stored("workspace").Version)
	},
	"two tools of one server that are allowed for good at once are both kept": func(b *bench) {
		for round := range rounds {
			var fns []func()
			var want []string
			for i := range 3 {
				tool := fmt.Sprint("tool ", round, " ", i)
				topic, _, approvals := b.waitingFor("workspace", tool)
				want = append(want, tool)
				fns = append(fns, func() {
					if _, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada); err != nil {
						b.Error(err)
					}
				})
			}
			atOnce(fns...)
			got := b.stored("workspace")
			for _, tool := range want {
				if !slices.Contains(got.AutoApproveTools, tool) {
					b.Errorf("%s is lost: %v", tool, got.AutoApproveTools)
				}
			}
			b.same("version", 1+3*(round+1), got.Version)
		}
	},
	"a tool that is allowed for good while the lists are changed is kept, and so is the change": func(b *bench) {
		for round := range rounds {
			topic, _, approvals := b.waitingFor("workspace", fmt.Sprint("allowed ", round))
			atOnce(
				func() {
					if _, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada); err != nil {
						b.Error(err)
					}
				},
				func() {
					if _, err := b.UpdateMCPServer(b.ctx, "workspace", func(s chat.MCPServer) (chat.MCPServer, error) {
						s.DisabledTools = append(slices.Clone(s.DisabledTools), fmt.Sprint("disabled ", round))
						return s, nil
					}, grace); err != nil {
						b.Error(err)
					}
				},
			)
			got := b.stored("workspace")
			if !slices.Contains(got.AutoApproveTools, fmt.Sprint("allowed ", round)) || !slices.Contains(got.DisabledTools, fmt.Sprint("disabled ", round)) {
				b.Fatalf("got %+v", got.Switches)
			}
		}
		b.same("version", 1+2*rounds, b.stored("workspace").Version)
	},
	"batches that name servers in different orders do not stand in each other's way": func(b *bench) {
		one, two := b.server(stdio("one")), b.server(stdio("two"))
		for round := range rounds {
			var fns []func()
			for _, order := range [][]string{{one.ID, two.ID}, {two.ID, one.ID}} {
				tool := fmt.Sprint(order[0], " ", round)
				topic, _, ids := b.waitingOn(chat.ToolMetadata{ServerID: order[0], Tool: tool}, chat.ToolMetadata{ServerID: order[1], Tool: tool})
				fns = append(fns, func() {
					if _, _, err := b.Decide(b.ctx, topic.ID, []chat.Decision{always(ids[0]), always(ids[1])}, ada); err != nil {
						b.Error(err)
					}
				})
			}
			atOnce(fns...)
		}
		for _, id := range []string{one.ID, two.ID} {
			b.same("version", 1+2*rounds, b.stored(id).Version)
		}
	},
	"a card may be allowed for good with another key: its tool is switched, and the connection stays": func(b *bench) {
		server, other := b.server(stdio("files")), b.beside(key(2))
		topic, _, approvals := b.waitingFor(server.ID, "write")
		if _, _, err := other.Decide(b.ctx, topic.ID, []chat.Decision{always(approvals[0])}, ada); err != nil {
			b.Fatal(err)
		}
		want := server
		want.AutoApproveTools, want.Version = []string{"write"}, 2
		b.same("server", want, b.stored(server.ID), cmpopts.IgnoreFields(chat.MCPServer{}, "UpdatedAt"))
	},
}
