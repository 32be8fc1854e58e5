package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

const (
	// defaultHeaderTimeout is long because a local server may load a model of
	// many gigabytes before it says anything.
	defaultHeaderTimeout = 5 * time.Minute
	defaultIdleTimeout   = 2 * time.Minute
	// lastWords is how long a reply that is complete waits for its usage and
	// its end mark.
	lastWords = 5 * time.Second
)

// OpenAIOptions configures an OpenAI. Only BaseURL is required.
type OpenAIOptions struct {
	// BaseURL is where chat/completions lies, such as https://api.openai.com/v1.
	BaseURL string
	// APIKey is sent as a bearer token; empty sends none.
	APIKey string
	// HeaderTimeout bounds the wait for the first byte of the reply; 0 is 5 minutes.
	HeaderTimeout time.Duration
	// IdleTimeout bounds the silence within a reply; 0 is 2 minutes.
	IdleTimeout time.Duration
	// OmitUsage leaves stream_options out of requests, for servers that refuse it.
	OmitUsage bool
	// Transport is what requests go through; nil is a plain HTTP transport
	// that honours the proxy variables of the environment.
	Transport http.RoundTripper
}

// OpenAI speaks the chat-completions dialect, as OpenAI, Ollama, vLLM,
// llama.cpp, LM Studio and many others do. It is safe for concurrent use.
type OpenAI struct {
	base   *url.URL
	opt    OpenAIOptions
	client *http.Client
}

// NewOpenAI returns a model at opt.BaseURL. It makes no request.
func NewOpenAI(opt OpenAIOptions) (*OpenAI, error) {
	base, err := parseBase(opt.BaseURL)
	if err != nil {
		return nil, err
	}
	if opt.HeaderTimeout <= 0 {
		opt.HeaderTimeout = defaultHeaderTimeout
	}
	if opt.IdleTimeout <= 0 {
		opt.IdleTimeout = defaultIdleTimeout
	}
	if opt.Transport == nil {
		opt.Transport = newTransport()
	}
	return &OpenAI{base: base, opt: opt, client: newClient(opt.Transport)}, nil
}

func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true // a compressed stream arrives in lumps
	return t
}

// newClient has no timeout of its own, since a good reply may take an hour,
// and follows no redirect: a prompt and a key go where they were sent.
func newClient(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func parseBase(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		return nil, errors.New("the base URL of the provider is not a URL") // the text may hold a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the base URL of the provider must begin with http:// or https:// and name a host")
	}
	return u, nil
}

// Stream implements [Model].
func (o *OpenAI) Stream(ctx context.Context, p chat.Prompt, emit func(chat.StreamEvent)) (chat.Reply, error) {
	body, err := encodeRequest(p, !o.opt.OmitUsage)
	if err != nil {
		return chat.Reply{}, &chat.ModelError{Kind: chat.ModelBadRequest, Message: "The request cannot be written as JSON.", Cause: err}
	}
	w := watch(ctx, o.opt.HeaderTimeout, o.opt.IdleTimeout)
	defer w.stop()
	reply, err := o.ask(w, p.Model, body, emit)
	if err != nil {
		return chat.Reply{}, o.explain(ctx, w, err)
	}
	return reply, nil
}

func (o *OpenAI) ask(w *watchdog, model string, body []byte, emit func(chat.StreamEvent)) (chat.Reply, error) {
	req, err := o.request(w.ctx, http.MethodPost, "chat/completions", body)
	if err != nil {
		return chat.Reply{}, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := o.client.Do(req)
	if err != nil {
		return chat.Reply{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return chat.Reply{}, statusError(resp, model)
	}
	if mt, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mt == "application/json" || mt == "text/html" {
		return chat.Reply{}, notAStream(resp, mt)
	}
	return decodeStream(w, resp.Body, emit)
}

// request builds a request below the base URL, whose own query it keeps.
func (o *OpenAI) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, o.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	req.Header.Set("User-Agent", "assent")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if o.opt.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+o.opt.APIKey)
	}
	return req, nil
}

// explain makes err the *chat.ModelError that the caller is told. What ended
// the call outranks what it broke: a canceled request fails in many ways.
func (o *OpenAI) explain(ctx context.Context, w *watchdog, err error) *chat.ModelError {
	if ctx.Err() != nil {
		return &chat.ModelError{Kind: chat.ModelCanceled, Message: "The model call was canceled.", Cause: context.Cause(ctx)}
	}
	if silent := w.fired(); silent != nil {
		return silent
	}
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.fit(o.opt.APIKey)
	}
	var me *chat.ModelError
	if errors.As(err, &me) {
		return me
	}
	return &chat.ModelError{Kind: chat.ModelNetwork, Message: "The provider cannot be reached: " + networkText(err), Cause: bare(err)}
}

// bare takes the method and the URL off err; the URL may hold a key.
func bare(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func networkText(err error) string { return shorten(bare(err).Error()) + "." }

// requestBody is the body of POST chat/completions.
type requestBody struct {
	Model         string          `json:"model"`
	Messages      []wireMessage   `json:"messages"`
	Tools         []wireTool      `json:"tools,omitempty"`
	Stream        bool            `json:"stream"`
	StreamOptions json.RawMessage `json:"stream_options,omitempty"`
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func encodeRequest(p chat.Prompt, usage bool) ([]byte, error) {
	body := requestBody{Model: p.Model, Messages: wireMessages(p), Stream: true}
	if usage {
		body.StreamOptions = json.RawMessage(`{"include_usage":true}`)
	}
	for _, t := range p.Tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		body.Tools = append(body.Tools, wireTool{"function", wireFunction{t.Name, t.Description, schema}})
	}
	return chat.Marshal(body)
}
