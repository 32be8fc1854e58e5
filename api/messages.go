package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/assent-chat/assent/service/chat"
)

const (
	maxText    = 200_000
	maxDataURL = 4 << 20
	maxLink    = 2048
)

type newMessage struct {
	ID       *string            `json:"id" validate:"omitnil,id"`
	Text     *string            `json:"text" validate:"omitnil,max=200000,notblank"`
	Parts    *[]json.RawMessage `json:"parts" validate:"omitnil,min=1,max=50"`
	WhenBusy string             `json:"whenBusy" validate:"omitempty,oneof=queue supersede reject"`
}

type messageEdit struct {
	Text  *string            `json:"text" validate:"omitnil,max=200000,notblank"`
	Parts *[]json.RawMessage `json:"parts" validate:"omitnil,min=1,max=50"`
}

type newText struct {
	Type string `json:"type"`
	Text string `json:"text" validate:"required,max=200000,notblank"`
}

type newFile struct {
	Type      string `json:"type"`
	MediaType string `json:"mediaType" validate:"required,max=200,mediatype"`
	URL       string `json:"url" validate:"required"`
	Filename  string `json:"filename" validate:"max=255"`
}

// history is a chat.Snapshot whose lists are never null.
type history struct {
	Topic    chat.Topic     `json:"topic"`
	Messages []chat.Message `json:"messages"`
	Queued   []chat.Message `json:"queued"`
	Status   chat.Status    `json:"status"`
	Revision int64          `json:"revision"`
	HasMore  bool           `json:"hasMore"`
	Before   string         `json:"before,omitempty"`
}

type tree struct {
	Messages []chat.Message `json:"messages"`
	Revision int64          `json:"revision"`
}

type sent struct {
	Message  chat.Message  `json:"message"`
	Turn     *chat.TurnRef `json:"turn,omitempty"`
	Queued   bool          `json:"queued"`
	Revision int64         `json:"revision"`
}

// messageID is the topic and the message that the path names.
func messageID(r *http.Request) (topic, message string, err error) {
	if topic, err = topicID(r); err != nil {
		return "", "", err
	}
	if message = chi.URLParam(r, "messageId"); !isID(message) {
		return "", "", chat.NotFound("There is no such message.")
	}
	return topic, message, nil
}

func (a *API) listMessages(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	switch q.Get("view") {
	case "", "branch":
	case "tree":
		messages, revision, err := a.svc.Tree(r.Context(), id)
		if err != nil {
			return err
		}
		return a.respond(w, r, http.StatusOK, tree{notNil(messages), revision})
	default:
		return malformed("", "view must be one of branch, tree.")
	}
	limit, err := limitFrom(r)
	if err != nil {
		return err
	}
	before := q.Get("before")
	if q.Has("before") && !isID(before) {
		return malformed("", "before must be the id of a message.")
	}
	snapshot, err := a.svc.Messages(r.Context(), id, limit, before)
	if err != nil {
		return err
	}
	h := history(snapshot)
	h.Messages, h.Queued = notNil(h.Messages), notNil(h.Queued)
	return a.respond(w, r, http.StatusOK, h)
}

func (a *API) sendMessage(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	in, err := decode[newMessage](w, r, maxMessageBody)
	if err != nil {
		return err
	}
	parts, err := partsOf(in.Text, in.Parts)
	if err != nil {
		return err
	}
	m := chat.NewMessage{Parts: parts, WhenBusy: chat.WhenBusy(in.WhenBusy), By: identityFrom(r).principal}
	if in.ID != nil {
		m.ID = *in.ID
	}
	return a.accepted(w, r)(a.svc.Send(r.Context(), id, m))
}

func (a *API) editMessage(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := messageID(r)
	if err != nil {
		return err
	}
	in, err := decode[messageEdit](w, r, maxMessageBody)
	if err != nil {
		return err
	}
	parts, err := partsOf(in.Text, in.Parts)
	if err != nil {
		return err
	}
	return a.accepted(w, r)(a.svc.EditMessage(r.Context(), topic, message, chat.NewMessage{Parts: parts, By: identityFrom(r).principal}))
}

func (a *API) deleteMessage(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := messageID(r)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteMessage(r.Context(), topic, message); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) sendQueued(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := bareMessage(w, r)
	if err != nil {
		return err
	}
	return a.accepted(w, r)(a.svc.SendQueued(r.Context(), topic, message))
}

func (a *API) regenerate(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := bareMessage(w, r)
	if err != nil {
		return err
	}
	return a.accepted(w, r)(a.svc.Regenerate(r.Context(), topic, message))
}

func (a *API) retry(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := bareMessage(w, r)
	if err != nil {
		return err
	}
	return a.accepted(w, r)(a.svc.Retry(r.Context(), topic, message))
}

func (a *API) selectMessage(w http.ResponseWriter, r *http.Request) error {
	topic, message, err := bareMessage(w, r)
	if err != nil {
		return err
	}
	changed, err := a.svc.Select(r.Context(), topic, message)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, changed)
}

// bareMessage reads a request that says nothing but which message it is about.
func bareMessage(w http.ResponseWriter, r *http.Request) (topic, message string, err error) {
	if topic, message, err = messageID(r); err != nil {
		return "", "", err
	}
	return topic, message, noBody(w, r)
}

// accepted answers with what the service made of a message.
func (a *API) accepted(w http.ResponseWriter, r *http.Request) func(chat.Sent, error) error {
	return func(s chat.Sent, err error) error {
		if err != nil {
			return err
		}
		return a.respond(w, r, http.StatusAccepted, sent{s.Message, s.Turn, s.Queued, s.Revision})
	}
}

// partsOf is what a person sends: text, or text and files. Nothing else is
// taken from a client, whatever it claims: calls, approvals and results are
// the server's.
func partsOf(text *string, raws *[]json.RawMessage) (chat.Parts, error) {
	switch {
	case text != nil && raws != nil:
		return nil, malformed("", "The body must have text or parts, not both.")
	case text != nil:
		return chat.Parts{chat.Text{Text: *text}}, nil
	case raws == nil:
		return nil, malformed("", "The body must have text or parts.")
	}
	parts := make(chat.Parts, len(*raws))
	length := 0
	for i, raw := range *raws {
		p, err := partOf(raw, "/parts/"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		if t, ok := p.(chat.Text); ok {
			length += utf8.RuneCountInString(t.Text)
		}
		parts[i] = p
	}
	if length > maxText {
		return nil, malformed("/parts", "must have at most "+strconv.Itoa(maxText)+" characters of text")
	}
	return parts, nil
}

func partOf(raw json.RawMessage, at string) (chat.Part, error) {
	var kind *string
	err := members(raw, at, func(name string, value json.RawMessage) error {
		if name != "type" {
			return nil
		}
		var s string
		if value[0] != '"' || json.Unmarshal(value, &s) != nil {
			return malformed(at+"/type", "must be a string")
		}
		kind = &s
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch {
	case kind == nil:
		return nil, malformed(at+"/type", "is required")
	case *kind == "text":
		in, err := decodeAt[newText](raw, at)
		return chat.Text{Text: in.Text}, err
	case *kind == "file":
		in, err := decodeAt[newFile](raw, at)
		if err != nil {
			return nil, err
		}
		return chat.File{MediaType: in.MediaType, URL: in.URL, Filename: in.Filename}, checkURL(in.URL, at+"/url")
	default:
		p := newProblem(http.StatusUnprocessableEntity,
			"A part of the type "+strconv.Quote(describe(*kind))+" is not taken from a client; send text and file parts.")
		p.Errors = []chat.InputProblem{{Pointer: at + "/type", Message: "must be one of text, file"}}
		return nil, p
	}
}

// checkURL takes what a browser can show and a model can be sent: a small
// file in the URL itself, or a link.
func checkURL(s, at string) error {
	if data, ok := strings.CutPrefix(s, "data:"); ok {
		switch {
		case len(s) > maxDataURL:
			return malformed(at, "must have at most "+strconv.Itoa(maxDataURL)+" characters")
		case !strings.Contains(data, ","):
			return malformed(at, "must be a data: URL with data")
		}
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(s) > maxLink {
		return malformed(at, "must be a data: URL, or an https: URL of at most "+strconv.Itoa(maxLink)+" characters")
	}
	return nil
}
