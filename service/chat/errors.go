package chat

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// The kinds of failure a caller can act on. Everything else is a bug or an
// outage, and is reported to a client only as an internal error.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")
	ErrGone        = errors.New("gone")
	ErrInvalid     = errors.New("invalid")     // well formed, but against the rules
	ErrMalformed   = errors.New("malformed")   // cannot be understood as a request
	ErrUnavailable = errors.New("unavailable") // the database does not answer; try again
	ErrForbidden   = errors.New("forbidden")   // another principal may do it
	// ErrLost tells the owner of a turn that it owns it no longer: its lease
	// was taken over, or the turn was stopped. Nothing was written.
	ErrLost = errors.New("turn is no longer owned")
)

// Error is a failure with a sentence that may be shown to the client. It is
// one of the kinds above.
type Error struct {
	Kind   error
	Detail string
}

func (e *Error) Error() string { return e.Detail }

// Unwrap makes the error one of its kind.
func (e *Error) Unwrap() error { return e.Kind }

// NotFound says that what was asked for does not exist here.
func NotFound(format string, a ...any) error { return &Error{ErrNotFound, fmt.Sprintf(format, a...)} }

// Conflict says that the state of things does not allow what was asked for.
func Conflict(format string, a ...any) error { return &Error{ErrConflict, fmt.Sprintf(format, a...)} }

// Gone says that what was asked for existed and is closed for good.
func Gone(format string, a ...any) error { return &Error{ErrGone, fmt.Sprintf(format, a...)} }

// Invalid says that a well-formed request breaks a rule.
func Invalid(format string, a ...any) error { return &Error{ErrInvalid, fmt.Sprintf(format, a...)} }

// Malformed says that a request cannot be understood.
func Malformed(format string, a ...any) error { return &Error{ErrMalformed, fmt.Sprintf(format, a...)} }

// Unavailable says that what was asked for cannot be had now, and may be later.
func Unavailable(format string, a ...any) error {
	return &Error{ErrUnavailable, fmt.Sprintf(format, a...)}
}

// Sentence is what an error says, with one full stop at its end.
func Sentence(err error) string { return strings.TrimRight(err.Error(), ".") + "." }

// DecidedError says that a different decision was made before this one.
type DecidedError struct {
	ApprovalID string    `json:"approvalId"`
	Approved   bool      `json:"approved"`
	Reason     string    `json:"reason,omitempty"`
	DecidedBy  string    `json:"decidedBy,omitempty"`
	DecidedAt  time.Time `json:"decidedAt"`
	Via        Via       `json:"via,omitempty"`
}

func (e *DecidedError) Error() string {
	word := "denied"
	if e.Approved {
		word = "approved"
	}
	return fmt.Sprintf("approval %s was already %s by %s", e.ApprovalID, word, e.DecidedBy)
}

// Unwrap makes every DecidedError an ErrConflict.
func (e *DecidedError) Unwrap() error { return ErrConflict }

// BatchError says that a batch of decisions was not applied, and which of
// them stood in the way. None of the batch was applied.
type BatchError struct {
	Items []BatchItem
}

// BatchItem is one decision that stood in the way of its batch.
type BatchItem struct {
	ApprovalID string
	Err        error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("%d of the decisions cannot be applied; none was", len(e.Items))
}

// Unwrap makes a batch a conflict, whatever its items are, and leads to what
// stood in the way.
func (e *BatchError) Unwrap() []error {
	errs := []error{ErrConflict}
	for _, item := range e.Items {
		errs = append(errs, item.Err)
	}
	return errs
}

// Refused reports whether an error says that what was asked for cannot be
// done as things stand, and not that the server could not do it.
func Refused(err error) bool {
	for _, kind := range []error{ErrNotFound, ErrConflict, ErrGone, ErrInvalid, ErrMalformed, ErrForbidden} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Missing reports whether an error says that what was asked for is not there,
// or not there any more.
func Missing(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) }

// PanicText tells what a panic was without what its value may quote: the
// runtime's own errors hold no input of a tool or a person, others may.
func PanicText(value any) string {
	if err, ok := value.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", value)
}

// InputError says where a tool's input breaks the tool's schema.
type InputError struct {
	Problems []InputProblem
}

// InputProblem is one violation; Pointer is a JSON pointer (RFC 6901) into
// the input.
type InputProblem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

func (e *InputError) Error() string {
	if len(e.Problems) == 0 {
		return "the input is not valid"
	}
	text := "the input breaks the tool's schema:"
	for i, p := range e.Problems {
		if i > 0 {
			text += ";"
		}
		at := p.Pointer
		if at == "" {
			at = "input"
		}
		text += " " + at + ": " + p.Message
	}
	return text
}

// Unwrap makes every InputError an ErrInvalid.
func (e *InputError) Unwrap() error { return ErrInvalid }

// ModelErrorKind says what a failed model call died of.
type ModelErrorKind string

// The kinds of model failure.
const (
	ModelRateLimit  ModelErrorKind = "rate_limit"
	ModelOverloaded ModelErrorKind = "overloaded"
	ModelAuth       ModelErrorKind = "auth"
	ModelBadRequest ModelErrorKind = "bad_request"
	ModelServer     ModelErrorKind = "server"
	ModelNetwork    ModelErrorKind = "network"
	ModelIncomplete ModelErrorKind = "incomplete" // the reply ended before its protocol says so
	ModelCanceled   ModelErrorKind = "canceled"
)

// ModelError is a failed model call. Message is fit to be shown: it holds no
// key and no request.
type ModelError struct {
	Kind       ModelErrorKind
	Status     int           // HTTP status, 0 if there was none
	RetryAfter time.Duration // 0 if the provider did not say
	Message    string
	Cause      error
}

func (e *ModelError) Error() string { return e.Message }

func (e *ModelError) Unwrap() error { return e.Cause }
