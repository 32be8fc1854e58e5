package live

import (
	"context"

	"github.com/assent-chat/assent/service/chat"
)

// Next waits until there is something to take, and takes it.
func (r *Reader) Next(ctx context.Context) ([]chat.LiveEvent, error) {
	ready := make(chan struct{}, 1)
	r.OnReady(func() {
		select {
		case ready <- struct{}{}:
		default:
		}
	})
	for {
		if events, err := r.Take(nil); err != nil || len(events) > 0 {
			return events, err
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
