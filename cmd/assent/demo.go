package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/assent-chat/assent/service/chat"
)

const demoRequest = "write report.txt and secrets.txt"

// runDemo plays the main job against a server process of its own: two calls
// park, one is decided, the server is killed and started again, the other is
// decided, and the turn goes on, once.
func runDemo(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("assent demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	yes := flags.Bool("yes", false, "do not ask: approve the first call, deny the second")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("demo takes no arguments, got %q", flags.Args())}
	}
	dir, err := os.MkdirTemp("", "assent-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // a temporary folder; what stays is the system's to clear
	d := &demo{ctx: ctx, dir: dir, yes: *yes, in: bufio.NewScanner(stdin), out: stdout, errs: stderr}
	defer func() { d.server.kill() }()
	return d.play()
}

type demo struct {
	ctx    context.Context
	dir    string
	yes    bool
	in     *bufio.Scanner
	out    io.Writer
	errs   io.Writer
	server *process
}

func (d *demo) say(format string, a ...any) { fmt.Fprintf(d.out, format+"\n", a...) }

func (d *demo) play() error {
	d.say("Assent %s, the main job. A server process is started on a free port, with a database of its own.\n", version())
	if err := d.start(); err != nil {
		return err
	}
	d.say("1. You ask the demo model (rules, no language model): %q", demoRequest)
	var topic chat.Topic
	if err := d.server.call(d.ctx, "POST", "/topics", map[string]any{"title": "Demo"}, &topic); err != nil {
		return err
	}
	if err := d.server.call(d.ctx, "POST", "/topics/"+topic.ID+"/messages", map[string]any{"text": demoRequest}, nil); err != nil {
		return err
	}
	if err := d.wait(topic.ID, chat.TopicAwaitingApproval); err != nil {
		return err
	}
	cards, err := d.pending(topic.ID)
	if err != nil {
		return err
	}
	if len(cards) != 2 {
		return fmt.Errorf("two calls should wait, %d do", len(cards))
	}
	d.say("2. The model made two calls. Both wait for you; nothing has run:")
	for _, c := range cards {
		d.say("     %s  %s %s", c.ApprovalID, c.ToolName, c.Input)
	}

	decisions := map[string]bool{}
	d.say("3. You decide the first:")
	answer, err := d.decide(cards[0], true)
	if err != nil {
		return err
	}
	decisions[cards[0].ToolCallID] = answer.approved
	d.say("     continuation: %q, %d still open: the model is not asked and the call does not run yet.", answer.Continuation, answer.Pending)

	d.say("4. The server process %d is killed (SIGKILL) and started again.", d.server.pid())
	d.server.kill()
	if err := d.start(); err != nil {
		return err
	}
	again, err := d.pending(topic.ID)
	if err != nil {
		return err
	}
	if len(again) != 1 || again[0].ApprovalID != cards[1].ApprovalID {
		return fmt.Errorf("after the restart %s should be the one that waits: %+v", cards[1].ApprovalID, again)
	}
	d.say("     Process %d shows the same card: %s still waits, the first decision is kept.", d.server.pid(), again[0].ApprovalID)

	d.say("5. You decide the second:")
	if answer, err = d.decide(again[0], false); err != nil {
		return err
	}
	decisions[again[0].ToolCallID] = answer.approved
	d.say("     continuation: %q.", answer.Continuation)
	if err := d.wait(topic.ID, chat.TopicDone); err != nil {
		return err
	}
	return d.account(topic.ID, decisions)
}

// account shows what became of it all, and fails if it is not what was promised.
func (d *demo) account(topicID string, decisions map[string]bool) error {
	var history struct {
		Messages []wireMessage `json:"messages"`
	}
	if err := d.server.call(d.ctx, "GET", "/topics/"+topicID+"/messages", nil, &history); err != nil {
		return err
	}
	if len(history.Messages) != 2 {
		return fmt.Errorf("the topic should hold a question and its answer, it holds %d messages", len(history.Messages))
	}
	reply := history.Messages[len(history.Messages)-1]
	d.say("6. The turn went on. The model, told of both outcomes, says:\n")
	for _, line := range strings.Split(reply.lastText(), "\n") {
		d.say("     | %s", line)
	}
	d.say("")

	var audit struct {
		Entries []chat.AuditEntry `json:"entries"`
	}
	if err := d.server.call(d.ctx, "GET", "/audit?topicId="+topicID, nil, &audit); err != nil {
		return err
	}
	d.say("7. The audit:")
	started := map[string]int{}
	for _, e := range audit.Entries {
		word, ran := "denied  ", "never ran"
		if e.Approved {
			word = "approved"
		}
		if e.StartedAt != nil {
			started[e.ToolCallID]++
			ran = fmt.Sprintf("started %s, outcome %s", e.StartedAt.Format("15:04:05.000"), e.Outcome)
		}
		d.say("     %s by %s at %s: %s %s: %s", word, e.DecidedBy, e.DecidedAt.Format("15:04:05.000"), e.ToolName, e.OriginalInput, ran)
	}
	d.say("")

	var errs []error
	check := func(ok bool, format string, a ...any) {
		mark := "ok  "
		if !ok {
			mark = "FAIL"
			errs = append(errs, fmt.Errorf(format, a...))
		}
		d.say("   %s  %s", mark, fmt.Sprintf(format, a...))
	}
	check(len(audit.Entries) == len(decisions), "each decision is in the audit, once")
	check(reply.Metadata.Epoch == 2, "the turn was taken up twice: to ask, and for one continuation")
	for id, approved := range decisions {
		file := reply.path(id)
		_, err := os.Stat(filepath.Join(d.dir, "workspace", filepath.Clean(file)))
		if approved {
			check(started[id] == 1 && err == nil, "%s was approved: it ran once", file)
		} else {
			check(started[id] == 0 && errors.Is(err, fs.ErrNotExist), "%s was denied: it never ran", file)
		}
	}
	return errors.Join(errs...)
}

func (d *demo) start() (err error) {
	d.server, err = startProcess(d.ctx, d.dir, d.errs)
	return err
}

func (d *demo) wait(topicID string, want chat.TopicState) error {
	return d.server.wait(d.ctx, topicID, want)
}

func (d *demo) pending(topicID string) ([]chat.ApprovalItem, error) {
	var list struct {
		Approvals []chat.ApprovalItem `json:"approvals"`
	}
	err := d.server.call(d.ctx, "GET", "/topics/"+topicID+"/approvals?state=pending", nil, &list)
	return list.Approvals, err
}

type answer struct {
	approved bool
	chat.Decided
}

// decide asks the reader, or does as planned with -yes or at the end of input.
func (d *demo) decide(card chat.ApprovalItem, planned bool) (answer, error) {
	a := answer{approved: planned}
	if !d.yes {
		fmt.Fprintf(d.out, "     %s %s  [a]pprove or [d]eny? ", card.ToolName, card.Input)
		answered := false
		for !answered && d.in.Scan() {
			answered = true
			switch strings.ToLower(strings.TrimSpace(d.in.Text())) {
			case "a", "approve", "y", "yes":
				a.approved = true
			case "d", "deny", "n", "no":
				a.approved = false
			default:
				answered = false
				fmt.Fprint(d.out, "     a or d? ")
			}
		}
		if err := d.in.Err(); err != nil {
			return a, err
		}
		if !answered {
			d.say("nobody answers, so the demo does")
		}
	}
	body := map[string]any{"approvalId": card.ApprovalID, "approved": a.approved}
	word := "approve"
	if !a.approved {
		word = "deny"
		body["reason"] = "not while the demo watches"
	}
	d.say("     POST /topics/…/approvals: %s %s", word, card.ApprovalID)
	return a, d.server.call(d.ctx, "POST", "/topics/"+card.TopicID+"/approvals", body, &a.Decided)
}
