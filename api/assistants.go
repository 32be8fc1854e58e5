package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/assent-chat/assent/service/chat"
)

type newAssistant struct {
	Name         string     `json:"name" validate:"required,notblank,max=100"`
	Description  string     `json:"description" validate:"max=1000"`
	Model        string     `json:"model" validate:"max=200"`
	SystemPrompt string     `json:"systemPrompt" validate:"max=100000"`
	MCPServerIDs **[]string `json:"mcpServerIds" validate:"omitnil,max=100,dive,min=1,max=64"`
	Mode         *chat.Mode `json:"mode" validate:"omitnil,oneof=ask-all default trusted-read-only"`
}

type assistantPatch struct {
	Name         *string    `json:"name" validate:"omitnil,notblank,max=100"`
	Description  *string    `json:"description" validate:"omitnil,max=1000"`
	Model        *string    `json:"model" validate:"omitnil,max=200"`
	SystemPrompt *string    `json:"systemPrompt" validate:"omitnil,max=100000"`
	MCPServerIDs **[]string `json:"mcpServerIds" validate:"omitnil,max=100,dive,min=1,max=64"`
	Mode         *chat.Mode `json:"mode" validate:"omitnil,oneof=ask-all default trusted-read-only"`
	Version      *int       `json:"version" validate:"omitnil,min=1"`
}

type assistantList struct {
	Assistants []chat.Assistant `json:"assistants"`
}

// assistantID is the assistant that the path names.
func assistantID(r *http.Request) (string, error) {
	id := chi.URLParam(r, "assistantId")
	if !isID(id) {
		return "", chat.NotFound("There is no such assistant.")
	}
	return id, nil
}

// serversOf is a list of servers, or nil for all of them, which is null.
func serversOf(list *[]string) []string {
	if list == nil {
		return nil
	}
	return *list
}

func (a *API) listAssistants(w http.ResponseWriter, r *http.Request) error {
	assistants, err := a.svc.Assistants(r.Context())
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, assistantList{notNil(assistants)})
}

func (a *API) createAssistant(w http.ResponseWriter, r *http.Request) error {
	in, err := decode[newAssistant](w, r, maxBody)
	if err != nil {
		return err
	}
	n := chat.NewAssistant{Name: in.Name, Description: in.Description, Model: in.Model, SystemPrompt: in.SystemPrompt}
	if in.MCPServerIDs != nil {
		n.MCPServerIDs = serversOf(*in.MCPServerIDs)
	}
	if in.Mode != nil {
		n.Mode = *in.Mode
	}
	assistant, err := a.svc.CreateAssistant(r.Context(), n)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/assistants/"+assistant.ID)
	return a.respond(w, r, http.StatusCreated, assistant)
}

func (a *API) getAssistant(w http.ResponseWriter, r *http.Request) error {
	id, err := assistantID(r)
	if err != nil {
		return err
	}
	assistant, err := a.svc.Assistant(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, assistant)
}

func (a *API) updateAssistant(w http.ResponseWriter, r *http.Request) error {
	id, err := assistantID(r)
	if err != nil {
		return err
	}
	in, err := decode[assistantPatch](w, r, maxBody)
	if err != nil {
		return err
	}
	if in == (assistantPatch{Version: in.Version}) {
		return malformed("", "The body names nothing to change.")
	}
	p := chat.AssistantPatch{
		Name: in.Name, Description: in.Description, Model: in.Model, SystemPrompt: in.SystemPrompt, Mode: in.Mode, Version: in.Version,
	}
	if in.MCPServerIDs != nil {
		servers := serversOf(*in.MCPServerIDs)
		p.MCPServerIDs = &servers
	}
	assistant, err := a.svc.UpdateAssistant(r.Context(), id, p)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, assistant)
}

func (a *API) deleteAssistant(w http.ResponseWriter, r *http.Request) error {
	id, err := assistantID(r)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteAssistant(r.Context(), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
