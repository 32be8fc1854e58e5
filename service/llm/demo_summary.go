package llm

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assent-chat/assent/service/chat"
)

// heard says what became of a call, in the words of [chat.Hearing].
type heard struct {
	begins string // what the result begins with
	says   string // what the demo makes of it
}

// refusals are the ways in which a call did not run or was lost. The texts
// are asked of chat, so that they cannot drift apart from it.
var refusals = func() []heard {
	no := false
	denied := func(why chat.Resolution) string {
		text, _ := chat.Hearing(chat.ToolCall{State: chat.CallOutputDenied, Approval: &chat.Approval{Approved: &no, Resolution: why}})
		return text
	}
	at := time.Unix(0, 0)
	ended := func(c chat.ToolCall) string {
		c, _ = chat.Close(c, chat.ResolutionCancelled, at)
		text, _ := chat.Hearing(c)
		return text
	}
	// Only the first words: what a run was lost to is told in many ways.
	unknown, _, _ := strings.Cut(ended(chat.ToolCall{State: chat.CallInputAvailable, ToolMetadata: &chat.ToolMetadata{StartedAt: &at}}), ":")
	return []heard{
		{denied(""), "you refused it, so it was **not run**"},
		{denied(chat.ResolutionPolicy), "a rule of this server refused it, so it was **not run**"},
		{denied(chat.ResolutionExpired), "nobody decided in time, so it was **not run**"},
		{denied(chat.ResolutionCancelled), "it was stopped before anybody decided, so it was **not run**"},
		{denied(chat.ResolutionSuperseded), "you went on without deciding, so it was **not run**"},
		{unknown, "**unknown**: it was started, and nobody saw how it ended. It may or may not have taken effect; please look for yourself"},
		{ended(chat.ToolCall{State: chat.CallInputAvailable}), "it was stopped before it started, so it was **not run**"},
	}
}()

// reasonMark is what comes before the reason of a refusal.
var reasonMark = func() string {
	no := false
	text, _ := chat.Hearing(chat.ToolCall{State: chat.CallOutputDenied, Approval: &chat.Approval{Approved: &no, Reason: "x"}})
	return strings.TrimSuffix(strings.TrimPrefix(text, refusals[0].begins), "x")
}()

// changedPrefix is what the result of an edited call begins with.
var changedPrefix = func() string {
	text, _ := chat.Hearing(chat.ToolCall{
		State: chat.CallOutputAvailable, Input: json.RawMessage("{}"), Output: json.RawMessage(`""`),
		Approval: &chat.Approval{OriginalInput: json.RawMessage("{}")},
	})
	return strings.TrimSuffix(text, "{}\n")
}()

// summary tells what became of the calls whose results end the history.
func summary(messages []chat.PromptMessage) string {
	results := messages[len(messages)-1].Parts
	inputs := map[string]json.RawMessage{}
	if len(messages) > 1 {
		for _, p := range messages[len(messages)-2].Parts {
			if p.Kind == chat.PromptToolCall {
				inputs[p.CallID] = p.Input
			}
		}
	}
	var lines []string
	done := 0
	for _, r := range results {
		if r.Kind != chat.PromptToolResult {
			continue
		}
		if !r.IsError {
			done++
		}
		lines = append(lines, callTitle(r.Name, inputs[r.CallID])+": "+verdict(r))
	}
	switch {
	case len(lines) == 1:
		return lines[0]
	case done == len(lines):
		return "All " + strconv.Itoa(done) + " calls are done:\n\n- " + strings.Join(lines, "\n- ")
	}
	return "Of " + strconv.Itoa(len(lines)) + " calls, " + strconv.Itoa(done) + " succeeded:\n\n- " + strings.Join(lines, "\n- ")
}

// callTitle names a call by its tool and what it was about.
func callTitle(name string, input json.RawMessage) string {
	title := name
	if own, ok := strings.CutPrefix(name, "workspace__"); ok {
		title = strings.ReplaceAll(own, "_", " ")
	}
	var in struct {
		Path    string
		Seconds json.Number
	}
	_ = json.Unmarshal(input, &in) // without them the name is all there is to say
	switch {
	case in.Path != "":
		return "**" + title + "** " + code(in.Path)
	case in.Seconds != "":
		return "**" + title + "** of " + in.Seconds.String() + " s"
	}
	return "**" + title + "**"
}

// verdict says what became of one call.
func verdict(r chat.PromptPart) string {
	if !r.IsError {
		if rest, ok := strings.CutPrefix(r.Text, changedPrefix); ok {
			input, output, _ := strings.Cut(rest, "\n")
			return "done, but you changed it before it ran. It ran with " + code(clip(input, 300)) + "." + shown(output)
		}
		return "done." + shown(r.Text)
	}
	for _, h := range refusals {
		rest, ok := strings.CutPrefix(r.Text, h.begins)
		if !ok {
			continue
		}
		if reason, ok := strings.CutPrefix(rest, reasonMark); ok {
			return h.says + ". The reason given: " + code(clip(reason, 300))
		}
		return h.says + "."
	}
	return "it **failed**." + shown(r.Text)
}

// shown is a result as it came, indented so that it stays inside of a list.
func shown(output string) string {
	if strings.TrimSpace(output) == "" {
		return ""
	}
	const most = 2000
	text := block(clip(output, most))
	return "\n\n  " + strings.ReplaceAll(text, "\n", "\n  ") + "\n"
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + " …"
}
