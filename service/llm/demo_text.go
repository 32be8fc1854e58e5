package llm

import (
	"strconv"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

const demoHello = "Hello! I am the demo guide: a small program that follows rules, **not a language model**. " +
	"I need no key and no network. I can list, read, write and delete files in this server's workspace, and run a slow task. " +
	"Unless a rule says otherwise, you are asked before any of it happens."

const demoHelp = `Here is what I understand. Try one of these:

| you write | I ask to |
|---|---|
| ` + "`list files`" + ` | list the workspace |
| ` + "`write hello to notes.txt`" + ` | write a file |
| ` + "`create a.txt with good morning`" + ` | write a file |
| ` + "`read notes.txt`" + ` | read a file |
| ` + "`delete notes.txt`" + ` | delete a file |
| ` + "`write a.txt and b.txt`" + ` | make two calls at once |
| ` + "`write a.txt and delete b.txt`" + ` | make two different calls at once |
| ` + "`run a slow task for 5 seconds`" + ` | run something that takes a while |

I also know ` + "`show markdown`" + `, ` + "`think`" + ` and ` + "`help`" + `.

When I ask for something, a card shows you exactly what would run. Approve it, change it, or refuse it with a reason; I am told what you decided. You can reload the page or come back tomorrow: the card waits.`

const demoMarkdown = `## A heading

Text can be **bold**, *italic*, ` + "`code`" + ` or a [link](https://commonmark.org).

1. A list
2. with numbers
   - and one inside

- [x] done
- [ ] not yet

| tool | changes files |
|---|:---:|
| read_file | no |
| write_file | yes |

` + "```go\nfunc main() {\n\tfmt.Println(\"hello\")\n}\n```" + `

> A quotation, and the end.`

const demoThought = "This is where a model that reasons would show what it thinks. I follow rules: I look for verbs such as list, read, write and delete, and for the names of files. "

// respond answers a message.
func respond(asked string, tools []chat.ToolSpec) demoReply {
	r := parse(asked)
	var reply demoReply
	if r.think {
		reply.thought = demoThought
	}
	offered := map[string]bool{}
	for _, t := range tools {
		offered[t.Name] = true
	}
	var say []string
	var missing []string
	for _, c := range r.calls {
		switch {
		case !offered[c.tool]:
			missing = append(missing, c.why)
		case len(reply.calls) < maxDemoCalls:
			reply.calls = append(reply.calls, c)
		}
	}
	if r.markdown {
		say = append(say, demoMarkdown)
	}
	if r.help {
		say = append(say, demoHelp)
	}
	if r.think && len(r.calls) == 0 {
		say = append(say, "I have shown you my reasoning above. It is made up, as I only follow rules.")
	}
	if len(missing) > 0 {
		say = append(say, "I cannot "+joined(missing)+": this chat does not offer me the tool for it.")
	}
	if len(r.strange) > 0 && len(r.calls) > 0 {
		say = append(say, "I did not understand this part: "+code(strings.Join(r.strange, " … "))+".")
	}
	if extra := len(r.calls) - len(missing) - len(reply.calls); extra > 0 {
		say = append(say, "That is more than I do at once: I leave out the last "+strconv.Itoa(extra)+".")
	}
	if len(reply.calls) > 0 {
		say = append(say, intention(reply.calls))
	}
	if len(say) == 0 {
		if strings.TrimSpace(asked) != "" {
			say = append(say, "I only follow rules, and none of them fits what you wrote.")
		}
		say = append(say, demoHelp)
	}
	reply.text = strings.Join(say, "\n\n")
	return reply
}

func intention(calls []demoCall) string {
	var whys []string
	for _, c := range calls {
		whys = append(whys, c.why)
	}
	text := "You asked me to " + joined(whys) + "."
	if len(calls) == 1 {
		return text + " That takes one tool call."
	}
	return text + " That takes " + strconv.Itoa(len(calls)) + " tool calls; each of them can be decided on its own."
}

// joined is a list in words.
func joined(items []string) string {
	if n := len(items); n > 1 {
		return strings.Join(items[:n-1], ", ") + " and " + items[n-1]
	}
	return strings.Join(items, "")
}

// code marks s as code in Markdown, on one line, whatever backticks it holds.
func code(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	ticks := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || s == "" {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

// block marks s as a block of code.
func block(s string) string {
	fence := strings.Repeat("`", max(3, longestRun(s)+1))
	return fence + "\n" + strings.TrimRight(s, "\n") + "\n" + fence
}

// longestRun is the length of the longest run of backticks in s.
func longestRun(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
