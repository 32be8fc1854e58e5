package repotest

import (
	"fmt"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assent-chat/assent/service/chat"
)

var assistantTests = map[string]func(*bench){
	"an assistant is read as it was made, and the list is in the order of names": func(b *bench) {
		n := chat.NewAssistant{
			Name: "helper", Description: "€ “for” all\n", Model: "demo/guide", SystemPrompt: "Be brief.", MCPServerIDs: []string{"workspace"}, Mode: chat.ModeAskAll,
		}
		got := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, n))
		want := chat.Assistant{
			ID: got.ID, Name: n.Name, Description: n.Description, Model: n.Model, SystemPrompt: n.SystemPrompt, MCPServerIDs: n.MCPServerIDs,
			Mode: n.Mode, Version: 1, CreatedAt: got.CreatedAt, UpdatedAt: got.CreatedAt,
		}
		b.same("made", want, got)
		if got.ID == "" || got.CreatedAt.IsZero() {
			b.Errorf("got %+v", got)
		}
		b.same("read", got, must[chat.Assistant](b)(b.Assistant(b.ctx, got.ID)))
		all := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "Zoe"}))
		none := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "Ada", MCPServerIDs: []string{}}))
		if all.MCPServerIDs != nil || none.MCPServerIDs == nil || len(none.MCPServerIDs) != 0 || all.Mode != chat.ModeDefault {
			b.Errorf("got %+v and %+v", all, none)
		}
		b.same("listed", []chat.Assistant{none, got, all}, must[[]chat.Assistant](b)(b.Assistants(b.ctx)))
	},
	"a patch changes what it names, and one that changes nothing is no change": func(b *bench) {
		was := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "a", MCPServerIDs: []string{"x"}}))
		change := func(p chat.AssistantPatch) chat.Assistant {
			b.Helper()
			return must[chat.Assistant](b)(b.UpdateAssistant(b.ctx, was.ID, p))
		}
		got := change(chat.AssistantPatch{
			Name: ptr("b"), Description: ptr("d"), Model: ptr("m"), SystemPrompt: ptr("s"), MCPServerIDs: &[]string{}, Mode: ptr(chat.ModeAskAll), Version: ptr(1),
		})
		want := chat.Assistant{
			ID: was.ID, Name: "b", Description: "d", Model: "m", SystemPrompt: "s", MCPServerIDs: []string{}, Mode: chat.ModeAskAll, Version: 2, CreatedAt: was.CreatedAt,
		}
		b.same("changed", want, got, cmpopts.IgnoreFields(chat.Assistant{}, "UpdatedAt"))
		b.same("read", got, must[chat.Assistant](b)(b.Assistant(b.ctx, was.ID)))
		b.same("again", got, change(chat.AssistantPatch{Name: ptr("b"), MCPServerIDs: &[]string{}}))
		b.same("nothing", got, change(chat.AssistantPatch{}))
		_, err := b.UpdateAssistant(b.ctx, was.ID, chat.AssistantPatch{Name: ptr("c"), Version: ptr(1)})
		b.is(err, chat.ErrConflict)
		var every []string
		if got := change(chat.AssistantPatch{MCPServerIDs: &every}); got.MCPServerIDs != nil || got.Version != 3 {
			b.Errorf("every server: %+v", got)
		}
		if got := change(chat.AssistantPatch{MCPServerIDs: &every}); got.Version != 3 {
			b.Errorf("every server again: %+v", got)
		}
	},
	"an assistant that is not there is not found, one that was deleted is gone": func(b *bench) {
		made := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "a", SystemPrompt: "private words"}))
		if err := b.DeleteAssistant(b.ctx, made.ID); err != nil {
			b.Fatal(err)
		}
		b.same("listed", []chat.Assistant{}, must[[]chat.Assistant](b)(b.Assistants(b.ctx)))
		for id, want := range map[string]error{"none": chat.ErrNotFound, made.ID: chat.ErrGone} {
			_, err := b.Assistant(b.ctx, id)
			b.is(err, want)
			_, err = b.UpdateAssistant(b.ctx, id, chat.AssistantPatch{Name: ptr("b")})
			b.is(err, want)
			b.is(b.DeleteAssistant(b.ctx, id), want)
		}
		b.same("what it said", "", b.text(`SELECT system_prompt FROM assistants`))
	},
	"there are only so many assistants": func(b *bench) {
		for i := range 200 {
			must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: fmt.Sprint(i)}))
		}
		_, err := b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "one more"})
		b.is(err, chat.ErrInvalid)
		if err := b.DeleteAssistant(b.ctx, must[[]chat.Assistant](b)(b.Assistants(b.ctx))[0].ID); err != nil {
			b.Fatal(err)
		}
		must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "in its place"}))
	},
	"a topic keeps the assistant that it started from": func(b *bench) {
		for _, n := range []chat.NewTopic{{AssistantID: "a", MCPServerIDs: []string{}}, {MCPServerIDs: []string{"x"}}, {}} {
			topic, c, err := b.CreateTopic(b.ctx, n)
			if err != nil || topic.AssistantID != n.AssistantID || c.Topic.AssistantID != n.AssistantID {
				b.Fatal(topic, err)
			}
			b.same("servers", n.MCPServerIDs, topic.MCPServerIDs)
			b.same("read", topic, must[chat.Topic](b)(b.Topic(b.ctx, topic.ID)))
		}
	},
}
