package api

import (
	"net/http"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/assent-chat/assent/service/chat"
)

type newRule struct {
	Name       string       `json:"name" validate:"required,notblank,max=100"`
	Verdict    chat.Verdict `json:"verdict" validate:"required,oneof=allow ask deny"`
	Expression string       `json:"expression" validate:"required,max=4000"`
	Reason     string       `json:"reason" validate:"max=1000"`
	Enabled    *bool        `json:"enabled"`
	Position   *int         `json:"position" validate:"omitnil,min=-1000000,max=1000000"`
}

type rulePatch struct {
	Name       *string       `json:"name" validate:"omitnil,notblank,max=100"`
	Verdict    *chat.Verdict `json:"verdict" validate:"omitnil,oneof=allow ask deny"`
	Expression *string       `json:"expression" validate:"omitnil,min=1,max=4000"`
	Reason     *string       `json:"reason" validate:"omitnil,max=1000"`
	Enabled    *bool         `json:"enabled"`
	Position   *int          `json:"position" validate:"omitnil,min=-1000000,max=1000000"`
	Version    *int          `json:"version" validate:"omitnil,min=1"`
}

type ruleTrial struct {
	Verdict    chat.Verdict `json:"verdict" validate:"required,oneof=allow ask deny"`
	Expression string       `json:"expression" validate:"required,max=4000"`
}

type ruleList struct {
	Rules []chat.Rule `json:"rules"`
}

type ruleVersionList struct {
	Versions []chat.RuleChange `json:"versions"`
	Next     string            `json:"nextCursor,omitempty"`
}

// ruleID is the rule that the path names.
func ruleID(r *http.Request) (string, error) {
	id := chi.URLParam(r, "ruleId")
	if !isID(id) {
		return "", chat.NotFound("There is no such rule.")
	}
	return id, nil
}

func (a *API) listRules(w http.ResponseWriter, r *http.Request) error {
	rules, err := a.svc.Rules(r.Context())
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, ruleList{notNil(rules)})
}

func (a *API) createRule(w http.ResponseWriter, r *http.Request) error {
	in, err := decode[newRule](w, r, maxBody)
	if err != nil {
		return err
	}
	rule, err := a.svc.CreateRule(r.Context(), chat.NewRule{
		Name: in.Name, Verdict: in.Verdict, Expression: in.Expression, Reason: in.Reason,
		Enabled: in.Enabled == nil || *in.Enabled, Position: in.Position,
	}, decider(r))
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/policy/rules/"+rule.ID)
	return a.respond(w, r, http.StatusCreated, rule)
}

func (a *API) getRule(w http.ResponseWriter, r *http.Request) error {
	id, err := ruleID(r)
	if err != nil {
		return err
	}
	rule, err := a.svc.Rule(r.Context(), id)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, rule)
}

func (a *API) updateRule(w http.ResponseWriter, r *http.Request) error {
	id, err := ruleID(r)
	if err != nil {
		return err
	}
	in, err := decode[rulePatch](w, r, maxBody)
	if err != nil {
		return err
	}
	if (rulePatch{Version: in.Version}) == in {
		return malformed("", "The body names nothing to change.")
	}
	rule, err := a.svc.UpdateRule(r.Context(), id, chat.RulePatch(in), decider(r))
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, rule)
}

func (a *API) deleteRule(w http.ResponseWriter, r *http.Request) error {
	id, err := ruleID(r)
	if err != nil {
		return err
	}
	if err := a.svc.DeleteRule(r.Context(), id, decider(r)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) listRuleVersions(w http.ResponseWriter, r *http.Request) error {
	id, err := ruleID(r)
	if err != nil {
		return err
	}
	page, err := pageFrom(r)
	if err != nil {
		return err
	}
	versions, next, err := a.svc.RuleVersions(r.Context(), id, page)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, ruleVersionList{notNil(versions), next})
}

func (a *API) tryRule(w http.ResponseWriter, r *http.Request) error {
	in, err := decode[ruleTrial](w, r, maxBody)
	if err != nil {
		return err
	}
	trial, err := a.svc.TryRule(r.Context(), in.Verdict, in.Expression)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, trial)
}

// explain takes an approval's id, or a topic's and a call's.
func (a *API) explain(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	approval, topic, call := q.Get("approvalId"), q.Get("topicId"), q.Get("toolCallId")
	var e chat.Explanation
	var err error
	switch {
	case len(approval) > 200 || len(call) > 200 || !utf8.ValidString(approval+call):
		err = malformed("", "approvalId and toolCallId must be ids that this server gave.")
	case approval != "" && topic == "" && call == "":
		e, err = a.svc.ExplainApproval(r.Context(), approval)
	case approval == "" && isID(topic) && call != "":
		e, err = a.svc.ExplainCall(r.Context(), topic, call)
	default:
		err = malformed("", "Name a call by approvalId, or by topicId and toolCallId.")
	}
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, e)
}
