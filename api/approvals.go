package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/assent-chat/assent/service/chat"
)

// decision is one decision as a client sends it.
type decision struct {
	ApprovalID   string          `json:"approvalId" validate:"required,max=200"`
	Approved     *bool           `json:"approved" validate:"required"`
	Reason       string          `json:"reason" validate:"max=4000"`
	UpdatedInput json.RawMessage `json:"updatedInput"`
	AnchorID     *string         `json:"anchorId" validate:"omitnil,id"`
	Remember     json.RawMessage `json:"remember"`
}

const maxDecisions = 100

// decodeDecide reads the body of a decide request: one decision, or several
// under "decisions". batch says which of the two.
func decodeDecide(w http.ResponseWriter, r *http.Request) (ds []chat.Decision, batch bool, err error) {
	raw, err := readBody(w, r, maxBody)
	if err != nil {
		return nil, false, err
	}
	var several json.RawMessage
	others := false
	err = members(raw, "", func(name string, value json.RawMessage) error {
		if name == "decisions" {
			several = value
		} else {
			others = true
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, false, err
	case several == nil && !others:
		return nil, false, malformed("", "The body holds no decision.")
	case several == nil:
		d, err := decodeDecision(raw, "")
		return []chat.Decision{d}, false, err
	case others:
		return nil, false, malformed("", "The body must have decisions, or the members of one decision, not both.")
	}
	items, err := bindAt[[]json.RawMessage](several, "/decisions")
	switch {
	case err != nil:
		return nil, false, err
	case len(items) == 0:
		return nil, false, malformed("/decisions", "must not be empty")
	case len(items) > maxDecisions:
		return nil, false, malformed("/decisions", "must have at most "+strconv.Itoa(maxDecisions)+" items")
	}
	seen := map[string]bool{}
	for i, item := range items {
		at := "/decisions/" + strconv.Itoa(i)
		d, err := decodeDecision(item, at)
		if err != nil {
			return nil, false, err
		}
		if seen[d.ApprovalID] {
			return nil, false, malformed(at+"/approvalId", "is decided twice in this request")
		}
		seen[d.ApprovalID] = true
		ds = append(ds, d)
	}
	return ds, true, nil
}

func decodeDecision(raw json.RawMessage, at string) (chat.Decision, error) {
	in, err := decodeAt[decision](raw, at)
	if err != nil {
		return chat.Decision{}, err
	}
	d := chat.Decision{ApprovalID: in.ApprovalID, Approved: *in.Approved, Reason: in.Reason}
	if in.AnchorID != nil {
		d.AnchorID = *in.AnchorID
	}
	if d.Remember, err = rememberOf(in.Remember, d.Approved, at+"/remember"); err != nil {
		return chat.Decision{}, err
	}
	if in.UpdatedInput == nil {
		return d, nil
	}
	switch {
	case in.UpdatedInput[0] != '{':
		return chat.Decision{}, malformed(at+"/updatedInput", "must be an object")
	case !d.Approved:
		return chat.Decision{}, malformed(at+"/updatedInput", "goes with approved true only")
	}
	// The input is kept as text, not as values: every digit reaches the tool.
	if d.UpdatedInput, err = chat.CheckInput(string(in.UpdatedInput)); err != nil {
		return chat.Decision{}, malformed(at+"/updatedInput", "cannot be run: "+err.Error())
	}
	return d, nil
}

// rememberOf reads what is to be decided for good. What a later release may
// take is a rule of this one, and so not malformed.
func rememberOf(raw json.RawMessage, approved bool, at string) (chat.Remember, error) {
	if raw == nil {
		return "", nil
	}
	var r chat.Remember
	wrong := ""
	switch err := json.Unmarshal(raw, &r); {
	case err != nil || r != chat.RememberAlwaysAllow:
		wrong = "must be " + string(chat.RememberAlwaysAllow)
	case !approved:
		wrong = "goes with approved true only"
	default:
		return r, nil
	}
	p := newProblem(http.StatusUnprocessableEntity, describe(at)+" "+wrong+".")
	p.Errors = []chat.InputProblem{{Pointer: at, Message: wrong}}
	return "", p
}

func (a *API) decide(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	ds, batch, err := decodeDecide(w, r)
	if err != nil {
		return err
	}
	decided, err := a.svc.Decide(r.Context(), id, ds, decider(r))
	if b, ok := errors.AsType[*chat.BatchError](err); ok && !batch && len(b.Items) == 1 {
		return b.Items[0].Err // a single decision is answered for itself
	}
	if err != nil {
		return err
	}
	decided.Results = notNil(decided.Results)
	return a.respond(w, r, http.StatusOK, decided)
}

type approvalList struct {
	Approvals []chat.ApprovalItem `json:"approvals"`
	Next      string              `json:"nextCursor,omitempty"`
}

// listTopicApprovals lists those of one topic. The topic is read first: the
// list of a topic that is not there is not an empty one.
func (a *API) listTopicApprovals(w http.ResponseWriter, r *http.Request) error {
	id, err := topicID(r)
	if err != nil {
		return err
	}
	if _, err := a.svc.Status(r.Context(), id); err != nil {
		return err
	}
	return a.answerApprovals(w, r, chat.ApprovalFilter{TopicID: id})
}

func (a *API) listApprovals(w http.ResponseWriter, r *http.Request) error {
	topic, err := topicFilter(r)
	if err != nil {
		return err
	}
	return a.answerApprovals(w, r, chat.ApprovalFilter{TopicID: topic})
}

func (a *API) answerApprovals(w http.ResponseWriter, r *http.Request, f chat.ApprovalFilter) error {
	switch r.URL.Query().Get("state") {
	case "", "all":
	case "pending":
		f.Pending = true
	case "settled":
		f.Settled = true
	default:
		return malformed("", "state must be one of pending, settled, all.")
	}
	page, err := pageFrom(r)
	if err != nil {
		return err
	}
	approvals, next, err := a.svc.Approvals(r.Context(), f, page)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, approvalList{notNil(approvals), next})
}

type auditList struct {
	Entries []chat.AuditEntry `json:"entries"`
	Next    string            `json:"nextCursor,omitempty"`
}

func (a *API) listAudit(w http.ResponseWriter, r *http.Request) error {
	topic, err := topicFilter(r)
	if err != nil {
		return err
	}
	page, err := pageFrom(r)
	if err != nil {
		return err
	}
	entries, next, err := a.svc.Audit(r.Context(), topic, page)
	if err != nil {
		return err
	}
	return a.respond(w, r, http.StatusOK, auditList{notNil(entries), next})
}

func topicFilter(r *http.Request) (string, error) {
	q := r.URL.Query()
	if id := q.Get("topicId"); !q.Has("topicId") || isID(id) {
		return id, nil
	}
	return "", malformed("", "topicId must be the id of a topic.")
}
