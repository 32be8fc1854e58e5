package llm

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

// maxDemoCalls is how many calls the demo makes in one step.
const maxDemoCalls = 8

// demoCall is a call that the demo wants to make.
type demoCall struct {
	tool string
	args any
	why  string // the end of "I want to …"
}

func (c demoCall) input() string {
	raw, err := chat.Marshal(c.args)
	if err != nil {
		return "{}" // the arguments are strings and numbers
	}
	return string(raw)
}

type pathArgs struct {
	Path string `json:"path"`
}

type optionalPathArgs struct {
	Path string `json:"path,omitempty"`
}

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type slowArgs struct {
	Seconds int `json:"seconds"`
}

func listCall(path string) demoCall {
	why := "list the files of the workspace"
	if path != "" {
		why = "list the files in " + code(path)
	}
	return demoCall{"workspace__list_files", optionalPathArgs{path}, why}
}

func readCall(path string) demoCall {
	return demoCall{"workspace__read_file", pathArgs{path}, "read " + code(path)}
}

func writeCall(path, content string) demoCall {
	return demoCall{"workspace__write_file", writeArgs{path, content}, "write " + code(path)}
}

func deleteCall(path string) demoCall {
	return demoCall{"workspace__delete_file", pathArgs{path}, "delete " + code(path)}
}

func slowCall(seconds int) demoCall {
	why := "run the slow task for " + strconv.Itoa(seconds) + " seconds"
	return demoCall{"workspace__slow_task", slowArgs{seconds}, why}
}

// defaultContent is what a file gets when nobody said what should be in it.
const defaultContent = "Hello from the demo guide.\n"

// request is what a person's message asks for.
type request struct {
	calls    []demoCall
	think    bool
	markdown bool
	help     bool
	strange  []string // pieces that were not understood
}

var (
	polite = regexp.MustCompile(`(?i)^(?:(?:please|then|also|now|and|can you|could you|would you|will you|i want you to|i'd like you to|let's)[\s,]+)+`)
	thanks = regexp.MustCompile(`(?i)[\s,]+(?:please|thanks|thank you)[\s.!?]*$`)
	// separator is between two things that are asked for.
	separator = regexp.MustCompile(`(?i)\s*(?:,\s*(?:and\s+)?(?:then\s+)?|;\s*|\n+\s*|\s+and\s+(?:then\s+)?|\s+then\s+|\s+&\s+)`)
	opens     = regexp.MustCompile(`(?i)^(?:list|ls|show|read|open|cat|print|display|write|create|make|save|put|delete|remove|rm|run|start|do|wait|sleep|think|help)\b`)
	fileName  = regexp.MustCompile(`^(?:[\w@.-]+/)*[\w@-]*\.?[\w@.-]*\.\w{1,10}$|^(?:[\w@.-]+/)+[\w@.-]+$`)

	listing   = regexp.MustCompile(`(?i)^(?:(?:list|ls)(?:\s+(?:all|the|my))*(?:\s+(?:files?|folders?|directory|workspace))?|(?:show|display|print)(?:\s+me)?(?:\s+(?:all|the|my))*\s+(?:files|folders|directory|workspace))(?:\s+(?:in|of|under)\s+(.+))?$`)
	question  = regexp.MustCompile(`(?i)^(?:what|which)\s+files\b`)
	reading   = regexp.MustCompile(`(?i)^(read|open|cat|show|print|display)(?:\s+me)?(?:\s+(?:the|my))?(?:\s+file)?\s+(.+)$`)
	deleting  = regexp.MustCompile(`(?i)^(?:delete|remove|rm)(?:\s+(?:the|my))?(?:\s+file)?\s+(.+)$`)
	filling   = regexp.MustCompile(`(?is)^(?:write|create|make|save)(?:\s+(?:a|the|my))?(?:\s+new)?(?:\s+file)?(?:\s+(?:called|named))?\s+(\S+?)(?:\s*:\s+|\s+(?:with|containing|saying)(?:\s+(?:the\s+)?(?:content|text|words)\b)?\s*:?\s*)(.+)$`)
	placing   = regexp.MustCompile(`(?is)^(?:write|put|save)\s+(.+)\s+(?:to|into|in|as)(?:\s+(?:the|a|my))?(?:\s+new)?(?:\s+file)?(?:\s+(?:called|named))?\s+(\S+)$`)
	creating  = regexp.MustCompile(`(?i)^(?:write|create|make|save)(?:\s+(?:a|the|my))?(?:\s+new)?(?:\s+file)?(?:\s+(?:called|named))?\s+(\S+)$`)
	slow      = regexp.MustCompile(`(?i)^(?:(?:run|start|do)\s+)?(?:(?:a|the)\s+)?slow\s*task\b\D*(\d{1,6})?\D*$`)
	waiting   = regexp.MustCompile(`(?i)^(?:wait|sleep)(?:\s+for)?\s+(\d{1,6})\s*(?:s|secs?|seconds?)?$`)
	thinking  = regexp.MustCompile(`(?i)^think\b`)
	markdown  = regexp.MustCompile(`(?i)^show(?:\s+me)?(?:\s+(?:the|some))?\s+markdown\b`)
	helping   = regexp.MustCompile(`(?i)^help\b`)
	lastMarks = ".!?"
)

// parse reads a message. Things that are asked for together are all found, up
// to the most that one step may ask.
func parse(text string) request {
	var r request
	var verb func(name string) demoCall // what a bare file name goes on with
	for _, piece := range split(text) {
		piece = polite.ReplaceAllString(piece, "")
		if piece == "" {
			continue
		}
		call, again, rest, ok := parseOne(piece)
		switch {
		case ok:
			r.calls = append(r.calls, call)
			verb = again
			if rest != "" {
				r.strange = append(r.strange, rest)
			}
		case markdown.MatchString(piece):
			r.markdown = true
		case thinking.MatchString(piece):
			r.think = true
		case helping.MatchString(piece):
			r.help = true
		case verb != nil && isFile(piece):
			r.calls = append(r.calls, verb(clean(piece)))
		default:
			r.strange = append(r.strange, piece)
		}
	}
	return r
}

// parseOne reads one piece. again is what the same verb does to another file,
// rest is what was not understood of the piece.
func parseOne(piece string) (call demoCall, again func(string) demoCall, rest string, ok bool) {
	bare := strings.TrimRight(thanks.ReplaceAllString(piece, ""), lastMarks)
	if m := slow.FindStringSubmatch(bare); m != nil {
		return slowCall(seconds(m[1])), nil, "", true
	}
	if m := waiting.FindStringSubmatch(bare); m != nil {
		return slowCall(seconds(m[1])), nil, "", true
	}
	if m := listing.FindStringSubmatch(bare); m != nil {
		path := clean(m[1])
		if strings.EqualFold(path, "the workspace") || strings.EqualFold(path, "workspace") {
			path = ""
		}
		return listCall(path), nil, "", true
	}
	if question.MatchString(bare) {
		return listCall(""), nil, "", true
	}
	if m := reading.FindStringSubmatch(bare); m != nil {
		// "show" and its like take more than files; "read" does not.
		plain := strings.EqualFold(m[1], "read") || strings.EqualFold(m[1], "cat")
		if path, rest, ok := target(m[2]); ok && (plain || isFile(path)) {
			return readCall(path), readCall, rest, true
		}
	}
	if m := deleting.FindStringSubmatch(bare); m != nil {
		if path, rest, ok := target(m[1]); ok {
			return deleteCall(path), deleteCall, rest, true
		}
	}
	writeOn := func(content string) func(string) demoCall {
		return func(path string) demoCall { return writeCall(path, content) }
	}
	if m := filling.FindStringSubmatch(piece); m != nil && isFile(m[1]) {
		content := unquote(m[2])
		return writeCall(clean(m[1]), content), writeOn(content), "", true
	}
	if m := placing.FindStringSubmatch(bare); m != nil && isFile(m[2]) {
		content := unquote(m[1])
		return writeCall(clean(m[2]), content), writeOn(content), "", true
	}
	if m := creating.FindStringSubmatch(bare); m != nil && isFile(m[1]) {
		return writeCall(clean(m[1]), defaultContent), writeOn(defaultContent), "", true
	}
	return demoCall{}, nil, "", false
}

// target is the one file that s names, and what comes after it. A name with
// spaces in it must stand in quotation marks.
func target(s string) (path, rest string, ok bool) {
	s = strings.TrimSpace(s)
	first := s
	if sep := separator.FindStringIndex(hideQuotes(s)); sep != nil {
		first, rest = s[:sep[0]], s[sep[1]:]
	}
	path = clean(first)
	quoted := path != strings.TrimRight(first, lastMarks)
	return path, rest, path != "" && (quoted || !strings.ContainsAny(path, " \t"))
}

// split cuts a message where something else is asked for: before a verb, or
// before another file name. A comma or an "and" anywhere else, and all that
// stands in quotation marks, belongs to what is written.
func split(text string) []string {
	text = strings.TrimSpace(text)
	hidden := hideQuotes(text)
	var out []string
	from := 0
	for _, at := range separator.FindAllStringIndex(hidden, -1) {
		if at[0] < from || at[0] == at[1] {
			continue
		}
		rest := polite.ReplaceAllString(strings.TrimSpace(hidden[at[1]:]), "")
		next := rest
		if sep := separator.FindStringIndex(rest); sep != nil {
			next = rest[:sep[0]]
		}
		if opens.MatchString(rest) || isFile(next) || question.MatchString(rest) {
			out = append(out, strings.TrimSpace(text[from:at[0]]))
			from = at[1]
		}
	}
	return append(out, strings.TrimSpace(text[from:]))
}

// hideQuotes gives text with what stands in quotation marks made opaque, byte
// for byte, so that positions stay the same.
func hideQuotes(text string) string {
	b := []byte(text)
	for i := 0; i < len(b); i++ {
		q := b[i]
		if q != '"' && q != '`' && (q != '\'' || i > 0 && b[i-1] != ' ') {
			continue
		}
		end := strings.IndexByte(text[i+1:], q)
		if end < 0 {
			continue
		}
		for j := i + 1; j < i+1+end; j++ {
			if b[j] == ' ' || b[j] == ',' || b[j] == ';' || b[j] == '\n' {
				b[j] = '_'
			}
		}
		i += end + 1
	}
	return string(b)
}

func isFile(s string) bool { return fileName.MatchString(clean(s)) }

// clean takes quotation marks and the marks at the end of a sentence off a name.
func clean(s string) string {
	return unquote(strings.TrimRight(strings.TrimSpace(s), lastMarks+","))
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && s[0] == s[n-1] && strings.IndexByte("\"'`", s[0]) >= 0 {
		return s[1 : n-1]
	}
	return s
}

func seconds(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return 5
}
