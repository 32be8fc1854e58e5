package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	listTimeout  = 3 * time.Second
	listFor      = 5 * time.Minute
	listAgain    = 15 * time.Second // after a failure
	maxList      = 8 << 20          // bytes of a list that are read
	maxModels    = 2000
	maxModelName = 200
)

// models is the provider's list, asked for if what is known is too old.
// Callers that come together share one request.
func (p *provider) models(ctx context.Context, now func() time.Time) []chat.ModelInfo {
	p.asking.Lock()
	defer p.asking.Unlock()
	if list, fresh := p.known(now()); fresh {
		return list
	}
	ids, err := p.model.list(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.list, p.failed, p.until = p.infos(ids), "", now().Add(listFor)
	case ctx.Err() != nil:
		// The caller left, which says nothing about the provider.
	default:
		p.failed, p.until = err.Message, now().Add(listAgain)
	}
	return p.list
}

func (p *provider) known(now time.Time) (list []chat.ModelInfo, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list, now.Before(p.until)
}

func (p *provider) infos(ids []string) []chat.ModelInfo {
	var out []chat.ModelInfo
	for _, id := range ids {
		if id == "" || len(id) > maxModelName || id != shorten(id) || !chats(id) {
			continue
		}
		out = append(out, chat.ModelInfo{
			Name: p.ID + "/" + id, Provider: p.ID, Title: id + " (" + p.Title + ")", FromEnvironment: p.FromEnvironment,
		})
	}
	slices.SortFunc(out, func(a, b chat.ModelInfo) int { return cmp.Compare(a.Name, b.Name) })
	out = slices.CompactFunc(out, func(a, b chat.ModelInfo) bool { return a.Name == b.Name })
	return out[:min(len(out), maxModels)]
}

// chats is false for models whose names say that they cannot hold a
// conversation. Such a model can still be named by hand.
func chats(id string) bool {
	id = strings.ToLower(id)
	for _, other := range []string{"embed", "whisper", "tts-", "dall-e", "moderation", "transcribe"} {
		if strings.Contains(id, other) {
			return false
		}
	}
	return true
}

// list asks for the names of the provider's models.
func (o *OpenAI) list(ctx context.Context) ([]string, *chat.ModelError) {
	w := watch(ctx, listTimeout, listTimeout)
	defer w.stop()
	whole, cancel := context.WithTimeout(w.ctx, listTimeout)
	defer cancel()
	ids, err := o.get(whole)
	if err == nil {
		return ids, nil
	}
	if ctx.Err() == nil && errors.Is(whole.Err(), context.DeadlineExceeded) {
		return nil, broken(chat.ModelNetwork, "The provider did not list its models within %s.", listTimeout)
	}
	return nil, o.explain(ctx, w, err)
}

func (o *OpenAI) get(ctx context.Context) ([]string, error) {
	req, err := o.request(ctx, http.MethodGet, "models", nil)
	if err != nil {
		return nil, err
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp, "")
	}
	var in struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(&in); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, broken(chat.ModelServer, "The provider's list of models cannot be read.")
	}
	ids := make([]string, 0, len(in.Data))
	for _, m := range in.Data {
		ids = append(ids, m.ID)
	}
	return ids, nil
}
