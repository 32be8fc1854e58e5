package api

import (
	"fmt"
	"net/http"

	"github.com/assent-chat/assent/service/chat"
)

type health struct {
	Status string `json:"status"`
}

func healthz(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"status":"ok"}`)) // the prober has left; nobody to tell
	return nil
}

// readyz asks the database. It says why it is of no use in a sentence for
// anybody; the error itself is for the log.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) error {
	if a.leaving.Load() {
		w.Header().Set("Retry-After", "5")
		return newProblem(http.StatusServiceUnavailable, "The server is leaving.")
	}
	if err := a.svc.Ping(r.Context()); err != nil {
		w.Header().Set("Retry-After", "5")
		return fmt.Errorf("ask the database: %w: %w", chat.ErrUnavailable, err)
	}
	return a.respond(w, r, http.StatusOK, health{"ok"})
}

func (a *API) getContract(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(a.contract) // the client has left; nobody to tell
	return nil
}

type modelList struct {
	Models []chat.ModelInfo `json:"models"`
}

func (a *API) listModels(w http.ResponseWriter, r *http.Request) error {
	return a.respond(w, r, http.StatusOK, modelList{notNil(a.models.Models(r.Context()))})
}

type providerList struct {
	Providers []chat.ProviderInfo `json:"providers"`
}

func (a *API) listProviders(w http.ResponseWriter, r *http.Request) error {
	return a.respond(w, r, http.StatusOK, providerList{notNil(a.models.Providers())})
}
