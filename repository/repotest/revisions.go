package repotest

import (
	"fmt"
	"maps"

	"github.com/assent-chat/assent/service/chat"
)

// title gives a topic another title.
func (b *bench) title(id, title string) chat.Topic {
	b.Helper()
	topic, _, err := b.UpdateTopic(b.ctx, id, chat.TopicPatch{Title: &title})
	if err != nil {
		b.Fatal(err)
	}
	return topic
}

var revisionTests = map[string]func(*bench){
	"revisions are those of the topics that are named and of those that changed last": func(b *bench) {
		old, gone, last := b.topic(), b.topic(), b.topic()
		_, c, err := b.DeleteTopic(b.ctx, gone.ID)
		if err != nil {
			b.Fatal(err)
		}
		first, title := b.title(last.ID, "0"), 0
		for !last.UpdatedAt.After(first.UpdatedAt) { // until the clock has gone on
			title++
			last = b.title(last.ID, fmt.Sprint(title))
		}
		want := chat.TopicRevision{TopicID: last.ID, Revision: last.Revision}
		read := func(n int, ids ...string) map[chat.TopicRevision]bool {
			all := map[chat.TopicRevision]bool{}
			for _, r := range must[[]chat.TopicRevision](b)(b.Revisions(b.ctx, ids, n)) {
				if all[r] {
					b.Errorf("%s comes twice", r.TopicID)
				}
				all[r] = true
			}
			return all
		}
		named := chat.TopicRevision{TopicID: old.ID, Revision: old.Revision}
		removed := chat.TopicRevision{TopicID: gone.ID, Revision: c.Revision, Removed: true}
		b.same("the newest", map[chat.TopicRevision]bool{want: true}, read(1))
		b.same("and a named one", map[chat.TopicRevision]bool{want: true, named: true}, read(1, old.ID, last.ID, "none"))
		b.same("all", map[chat.TopicRevision]bool{want: true, named: true, removed: true}, read(3, old.ID, gone.ID))
	},
	"a mark of settings changes with every change of its kind, and with no other": func(b *bench) {
		marks := must[map[chat.SettingsKind]string](b)(b.SettingsMarks(b.ctx))
		seen := map[chat.SettingsKind]map[string]bool{}
		changed := func(what chat.SettingsKind) {
			b.Helper()
			now := must[map[chat.SettingsKind]string](b)(b.SettingsMarks(b.ctx))
			want := maps.Clone(marks)
			want[what] = now[what]
			b.same("marks", want, now)
			if seen[what] == nil {
				seen[what] = map[string]bool{marks[what]: true}
			}
			if seen[what][now[what]] {
				b.Errorf("the mark of %s is %s once more", what, now[what])
			}
			seen[what][now[what]] = true
			marks = now
		}
		rule := b.rule("one", chat.VerdictAsk)
		changed(chat.SettingsRules)
		must[chat.Rule](b)(b.UpdateRule(b.ctx, rule.ID, chat.RulePatch{Name: ptr("two")}, ada))
		changed(chat.SettingsRules)
		if err := b.DeleteRule(b.ctx, rule.ID, ada); err != nil {
			b.Fatal(err)
		}
		changed(chat.SettingsRules)

		server := b.server(remote("one"))
		changed(chat.SettingsServers)
		b.edit(server.ID, chat.MCPServerPatch{Name: ptr("two")})
		changed(chat.SettingsServers)
		if err := b.DeleteMCPServer(b.ctx, server.ID, ada); err != nil {
			b.Fatal(err)
		}
		changed(chat.SettingsServers)

		assistant := must[chat.Assistant](b)(b.CreateAssistant(b.ctx, chat.NewAssistant{Name: "one"}))
		changed(chat.SettingsAssistants)
		must[chat.Assistant](b)(b.UpdateAssistant(b.ctx, assistant.ID, chat.AssistantPatch{Name: ptr("two")}))
		changed(chat.SettingsAssistants)
		if err := b.DeleteAssistant(b.ctx, assistant.ID); err != nil {
			b.Fatal(err)
		}
		changed(chat.SettingsAssistants)
	},
}
