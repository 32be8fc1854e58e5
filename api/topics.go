package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/assent-chat/assent/service/chat"
)

type newTopic struct {
	Title        string     `json:"title" validate:"max=200"`
	Model        string     `json:"model" validate:"max=200"`
	SystemPrompt string     `json:"systemPrompt" validate:"max=100000"`
	MCPServerIDs []string   `json:"mcpServerIds" validate:"max=100,dive,min=1,max=64"`
	Mode         *chat.Mode `json:"mode" validate:"omitnil,oneof=ask-all default trusted-read-only"`
	AssistantID  *string    `json:"assistantId" validate:"omitnil,id"`
}

type topicPatch struct {
	Title        *string    `json:"title" validate:"omitnil,max=200"`
	Model        *string    `json:"model" validate:"omitnil,min=1,max=200"`
	SystemPrompt *string    `json:"systemPrompt" validate:"omitnil,max=100000"`
	Mode         *chat.Mode `json:"mode" validate:"omitnil,oneof=ask-all default trusted-read-only"`
}

type topicList struct {
	Topics []chat.Topic `json:"topics"`
	Next   string       `json:"nextCursor,omitempty"`
}

// topicID is the topic that the path names. What cannot be an id is the id of
// no topic.
func topicID(r *http.Request) (string, error) {
	id := chi.URLParam(r, "topicId")
	if !isID(id) {
		return "", chat.NotFound("There is no such topic.")
	}
	return id, nil
}

func (a *API) listTopics(w http.ResponseWriter, r *http.Request) error {
	page, err := pageFrom(r)
	if err != nil {
		return err
	}
	topics, next, err := a.svc.Topics(r.Context(), page)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, topicList{notNil(topics), next})
}

func (a *API) createTopic(w http.ResponseWriter, r *http.Request) error {
	in, err := decode[newTopic](w, r, maxBody)
	if err != nil {
		return err
	}
	n := chat.NewTopic{Title: in.Title, Model: in.Model, SystemPrompt: in.SystemPrompt, MCPServerIDs: in.MCPServerIDs}
	if in.Mode != nil {
		n.Mode = *in.Mode
	}
	if in.AssistantID != nil {
		n.AssistantID = *in.AssistantID
	}
	topic, err := a.svc.CreateTopic(r.Context(), n)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/topics/"+topic.ID)
	return a.respond(w, r, http.StatusCreated, topic)
}

func (a *API) getTopic(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	topic, err := a.svc.Topic(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, topic)
}

func (a *API) updateTopic(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	in, err := decode[topicPatch](w, r, maxBody)
	if err != nil {
		return err
	}
	if in == (topicPatch{}) {
		return malformed("", "The body names nothing to change.")
	}
	topic, err := a.svc.UpdateTopic(r.Context(), id, chat.TopicPatch(in))
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, topic)
}

func (a *API) deleteTopic(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteTopic(r.Context(), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) getStatus(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	status, err := a.svc.Status(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, status)
}

func (a *API) stopTopic(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	status, err := a.svc.Stop(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, status)
}
