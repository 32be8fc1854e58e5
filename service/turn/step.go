package turn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// step asks the model once and commits its reply whole. It reports whether
// the turn goes on, which it does if the reply has calls.
func (r *run) step() (bool, error) {
	if r.turn.Steps >= r.e.opt.MaxSteps {
		err := r.fail(chat.TurnError{Kind: "step_limit", Message: fmt.Sprintf("The turn reached its limit of %d steps. Retry lets it go on.", r.e.opt.MaxSteps)})
		return false, err
	}
	tools, err := r.e.tools.Tools(r.asking, r.topic)
	if err != nil {
		return false, fmt.Errorf("list tools: %w", err)
	}
	model, bare, err := r.e.models.Resolve(r.turn.Model)
	if err != nil {
		return false, r.fail(chat.TurnError{Kind: "model", Message: err.Error()})
	}

	position := len(r.anchor.Parts)
	r.e.live.Begin(r.fence, r.rev.Load(), position)
	draft, reply, err := r.ask(model, r.prompt(bare, tools), position)
	if err != nil {
		return false, r.broken(err, draft)
	}
	return r.commit(position, draft, reply, tools)
}

func (r *run) prompt(bare string, tools []chat.Tool) chat.Prompt {
	p := chat.Prompt{Model: bare, System: r.topic.SystemPrompt}
	p.Messages = chat.History(append(r.history[:len(r.history):len(r.history)], r.anchor))
	for _, t := range tools {
		if !t.Policy.Disabled {
			p.Tools = append(p.Tools, chat.ToolSpec{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
		}
	}
	return p
}

// ask streams one reply into a draft and the live log.
func (r *run) ask(model Model, p chat.Prompt, position int) (*chat.Draft, chat.Reply, error) {
	var draft chat.Draft
	var shown sync.WaitGroup
	first := true
	reply, err := model.Stream(r.asking, p, func(ev chat.StreamEvent) {
		d, ok := draft.Apply(ev)
		if !ok {
			return
		}
		if first {
			first = false
			// Beside the stream: text must not wait for the database.
			shown.Go(func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), storeTimeout)
				defer cancel()
				c, err := r.e.store.FirstOutput(ctx, r.fence)
				if err != nil && !errors.Is(err, chat.ErrLost) { // the status says "pending" a little longer
					r.log.WarnContext(ctx, "the first output was not recorded", slog.Any("error", err))
				}
				r.e.live.Publish(ctx, c)
			})
		}
		d.Part += position + 1 // after the step-start
		r.e.live.Delta(r.fence, d)
	})
	shown.Wait() // so that it cannot mark the step after this one
	return &draft, reply, err
}

// broken ends a step whose reply did not complete. Its words are kept, none of
// its calls is. The words of a stopped turn are kept when it is let go.
func (r *run) broken(err error, draft *chat.Draft) error {
	r.keep(draft)
	if context.Cause(r.asking) != nil { // stopped, or the server leaves: not a failure of the turn
		return nil
	}
	why := chat.TurnError{Kind: "model", Message: "The model could not be asked."}
	var me *chat.ModelError
	if errors.As(err, &me) {
		why = chat.TurnError{Kind: string(me.Kind), Message: me.Message}
	}
	return r.fail(why)
}

func (r *run) keep(draft *chat.Draft) {
	if words := draft.Text(); len(words) > 0 {
		r.partial = append(chat.Parts{chat.StepStart{}}, words...)
	}
}

// commit writes a complete reply, each call with its verdict.
func (r *run) commit(position int, draft *chat.Draft, reply chat.Reply, tools []chat.Tool) (bool, error) {
	taken := map[string]bool{}
	for _, c := range r.anchor.Parts.Calls() {
		taken[c.Call.ToolCallID] = true
	}
	parts := append(chat.Parts{chat.StepStart{}}, draft.Complete(taken)...)
	verdicts := make([]verdict, len(parts))
	calls := 0
	for i, p := range parts {
		if call, ok := p.(chat.ToolCall); ok {
			calls++
			var err error
			if parts[i], verdicts[i], err = r.judge(call, tools); err != nil {
				r.e.live.End(r.fence)
				r.keep(draft)
				return false, err
			}
		}
	}
	var built chat.Parts
	step := chat.Step{Position: position, Done: calls == 0, Notice: notice(reply), Build: func(at time.Time) chat.Parts {
		built = make(chat.Parts, len(parts))
		for i, p := range parts {
			built[i] = verdicts[i].apply(p, at)
		}
		return built
	}}
	tries := 0
	err := r.write(func(ctx context.Context) (chat.Change, error) {
		tries++
		c, err := r.e.store.CommitStep(ctx, r.fence, step)
		if errors.Is(err, chat.ErrConflict) && tries > 1 {
			return chat.Change{}, nil // an earlier try was committed, its answer lost
		}
		return c, err
	})
	r.e.live.End(r.fence)
	if err != nil {
		r.keep(draft) // stopped between the reply's last word and its commit
		return false, err
	}
	r.turn.Steps++
	r.log.DebugContext(r.ctx, "step committed", slog.String("finish", string(reply.Finish)), slog.Int("calls", calls),
		slog.Int("input_tokens", reply.Usage.InputTokens), slog.Int("output_tokens", reply.Usage.OutputTokens))
	r.anchor.Parts = append(r.anchor.Parts, built...)
	return calls > 0, nil
}

// notice says what is to be known of a reply that is complete by its protocol
// and was ended early.
func notice(reply chat.Reply) *chat.TurnError {
	switch reply.Finish {
	case chat.FinishLength:
		return &chat.TurnError{Kind: "length", Message: "The model stopped at its length limit; the answer may not be whole."}
	case chat.FinishContentFilter:
		return &chat.TurnError{Kind: "content-filter", Message: "The provider's content filter ended the answer; it may not be whole."}
	case chat.FinishStop, chat.FinishToolCalls, chat.FinishOther, "":
	}
	return nil
}

// verdict is what is to be done with a call, but for the time at which.
type verdict struct {
	chat.Judgement
	approvalID string
	expiry     time.Duration // of the question; 0 is never
}

func (v verdict) apply(p chat.Part, at time.Time) chat.Part {
	call, ok := p.(chat.ToolCall)
	if !ok {
		return p
	}
	switch v.Verdict {
	case chat.VerdictAsk:
		return chat.ExpireAfter(chat.Ask(call, v.approvalID, at), v.expiry)
	case chat.VerdictDeny:
		return chat.Refuse(call, v.approvalID, v.Judgement, at)
	case chat.VerdictAllow:
	}
	return call
}

// judge adds to a call what a person needs to know about its tool, and gives
// the verdict. A call that cannot be run whatever anybody says (no such tool,
// input that breaks the schema) comes back settled, without a verdict.
func (r *run) judge(call chat.ToolCall, tools []chat.Tool) (chat.ToolCall, verdict, error) {
	meta := chat.ToolMetadata{Model: r.turn.Model, Step: r.anchor.Parts.Steps() + 1, Principal: r.principal()}
	if call.ToolMetadata != nil {
		meta.Outcome = call.ToolMetadata.Outcome
	}
	call.ToolMetadata = &meta
	var tool chat.Tool
	known := false
	for _, t := range tools {
		if t.Name == call.ToolName {
			tool, known = t, true
			break
		}
	}
	if known {
		call = chat.Describe(call, tool)
	}
	refuse := func(o chat.Outcome, text string) (chat.ToolCall, verdict, error) {
		call.State, call.ErrorText, call.ToolMetadata.Outcome = chat.CallOutputError, text, o
		return call, verdict{}, nil
	}
	if call.State.Settled() { // its arguments were not JSON
		return call, verdict{}, nil
	}
	if !known {
		return refuse(chat.OutcomeUnavailable, fmt.Sprintf("There is no tool named %q. The call was not run.", call.ToolName))
	}
	if err := r.e.tools.Validate(tool, call.Input); err != nil {
		return refuse(chat.OutcomeInvalid, "The call was not run: "+sentence(err))
	}
	j, err := r.judgement(tool, call)
	if err != nil {
		return call, verdict{}, err
	}
	v := verdict{Judgement: j, expiry: r.e.opt.Expiry}
	if v.Verdict != chat.VerdictAllow {
		v.approvalID = rand.Text()
	}
	return chat.Judged(call, j), v, nil
}

// judgement asks the policy. While the database does not answer there is no
// verdict, and the turn waits: a call that nobody judged neither runs nor asks.
func (r *run) judgement(tool chat.Tool, call chat.ToolCall) (chat.Judgement, error) {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		ctx, cancel := context.WithTimeout(r.ctx, storeTimeout)
		j, err := r.e.policy.Judge(ctx, r.fence.TopicID, r.principal(), tool, call)
		cancel()
		switch {
		case err == nil:
			return j, nil
		case errors.Is(err, chat.ErrNotFound), errors.Is(err, chat.ErrGone):
			return chat.Judgement{}, chat.ErrLost // the topic has taken the turn with it
		case r.ctx.Err() != nil, !errors.Is(err, chat.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
			return chat.Judgement{}, fmt.Errorf("judge a call: %w", err)
		}
		r.log.WarnContext(r.ctx, "the policy cannot be read; trying again", slog.Any("error", err))
		if !r.pause(wait) {
			return chat.Judgement{}, fmt.Errorf("judge a call: %w", err)
		}
	}
}

// principal is who sent the message that the turn answers.
func (r *run) principal() string {
	for _, m := range slices.Backward(r.history) {
		if m.Role == chat.RoleUser {
			return m.SentBy
		}
	}
	return ""
}
