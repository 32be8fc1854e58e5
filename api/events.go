package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const maxStreamTopics = 50

func (a *API) streamTopic(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	return a.stream(w, r, []string{id}, false)
}

func (a *API) streamAll(w http.ResponseWriter, r *http.Request) error {
	topics := slices.Compact(slices.Sorted(slices.Values(r.URL.Query()["topic"])))
	if len(topics) > maxStreamTopics {
		return malformed("", "A stream follows at most "+strconv.Itoa(maxStreamTopics)+" topics in detail.")
	}
	return a.stream(w, r, topics, true)
}

// stream follows the topics until somebody ends it. What can be answered by a
// problem is found out before the stream begins: afterwards it is too late.
func (a *API) stream(w http.ResponseWriter, r *http.Request, topics []string, statuses bool) error {
	if err := a.checkTopics(r, topics); err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		return nil
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("last")
	}
	a.metrics.streams.Inc()
	defer a.metrics.streams.Dec()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		a.untilRefused(ctx, r)
	}()
	reader := a.events.Subscribe(topics, statuses, last)
	a.streams.serve(w, r.WithContext(ctx), reader, identityFrom(r).principal)
	cancel()
	<-watched
	return nil
}

// recheckEvery is how long a stream may outlive the session or the token that
// it was opened with.
const recheckEvery = 5 * time.Minute

// untilRefused returns when the request's credentials are not valid any more,
// or ctx has ended. A database that does not answer refuses nobody.
func (a *API) untilRefused(ctx context.Context, r *http.Request) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			asking, cancel := context.WithTimeout(ctx, requestTimeout)
			_, err := a.identify(asking, r)
			cancel()
			if errors.Is(err, chat.ErrNotFound) {
				return
			}
		}
	}
}

// checkTopics says if one of the topics is not there.
func (a *API) checkTopics(r *http.Request, topics []string) error {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	for _, id := range topics {
		if !isID(id) {
			return chat.NotFound("There is no such topic.")
		}
		if _, err := a.svc.Status(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
