package turn_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

func TestTheTimeOfAToolStandsStillWhileItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const limit = 10 * time.Minute
		b.opt.ToolTimeout, b.opt.Poll, b.opt.Heartbeat, b.opt.Lease = limit, time.Hour, 15*time.Minute, time.Hour
		var worked time.Duration
		b.asking = func(ctx context.Context, ask ask) chat.Result {
			work := func(d time.Duration) {
				began := time.Now()
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				worked += time.Since(began)
			}
			for range 2 {
				work(4 * time.Minute)
				if _, err := ask(ctx, which); err != nil {
					t.Error(err)
				}
			}
			work(time.Hour) // two minutes are left
			return heard(ctx, chat.Answer{}, nil)
		}
		b.start()
		topic := b.send("p/m")
		for range 2 {
			time.Sleep(4*time.Minute + time.Second) // it works, then it asks
			b.open(topic)
			time.Sleep(5 * time.Hour) // and the person sleeps
			b.engine.Answered(b.answer(topic, chat.Answer{Action: chat.AnswerDecline}).ID)
		}
		time.Sleep(3 * time.Minute)
		call, _ := b.call(b.until(topic, chat.TopicDone))
		if call.ToolMetadata.Outcome != chat.OutcomeUnknown || worked != limit {
			t.Errorf("after %v of work the call is %+v", worked, call.ToolMetadata.Outcome)
		}
	})
}
