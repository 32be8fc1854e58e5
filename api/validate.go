package api

import (
	"errors"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-playground/validator/v10"

	"github.com/assent-chat/assent/service/chat"
)

// malformed says that the member at the pointer is not as the contract has
// it. Without a pointer the message is a whole sentence.
func malformed(pointer, message string) *problem {
	if pointer == "" && !strings.HasSuffix(message, ".") {
		message = "The body " + message + "."
	}
	if pointer == "" {
		return newProblem(http.StatusBadRequest, message)
	}
	p := newProblem(http.StatusBadRequest, describe(pointer)+" "+message+".")
	p.Errors = []chat.InputProblem{{Pointer: pointer, Message: message}}
	return p
}

// maxNamed bounds how much of a name that a client chose is repeated to it.
const maxNamed = 100

// describe names a member for a person: "decisions/0/approved".
func describe(pointer string) string {
	name := strings.TrimPrefix(pointer, "/")
	if len(name) > maxNamed {
		name = strings.ToValidUTF8(name[:maxNamed], "") + "…"
	}
	return name
}

func escapePointer(name string) string {
	if len(name) > maxNamed {
		name = strings.ToValidUTF8(name[:maxNamed], "") + "…"
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

var validate = newValidator()

func newValidator() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(jsonName)
	rules := map[string]func(string) bool{
		"id":        isID,
		"notblank":  func(s string) bool { return strings.TrimSpace(s) != "" },
		"mediatype": isMediaType,
	}
	for tag, ok := range rules {
		if err := v.RegisterValidation(tag, func(f validator.FieldLevel) bool { return ok(f.Field().String()) }); err != nil {
			panic(err) // a tag that cannot be registered is a fault of this file
		}
	}
	return v
}

// check holds v, found at a pointer into the body, against its validate tags
// and names what breaks them.
func check(v any, at string) error {
	err := validate.Struct(v)
	broken, ok := errors.AsType[validator.ValidationErrors](err)
	if !ok {
		return err
	}
	var p *problem
	problems := make([]chat.InputProblem, len(broken))
	for i, f := range broken {
		problems[i] = chat.InputProblem{Pointer: at + pointerOf(f.Namespace()), Message: ruleText(f)}
		if p == nil {
			p = malformed(problems[i].Pointer, problems[i].Message)
		}
	}
	p.Errors = problems
	return p
}

// pointerOf turns a validator's "T.decisions[0].approved" into a pointer.
func pointerOf(namespace string) string {
	_, path, _ := strings.Cut(namespace, ".")
	return "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)
}

func ruleText(f validator.FieldError) string {
	unit := "characters"
	if f.Kind() == reflect.Slice {
		unit = "items"
	}
	if f.Kind() == reflect.Int {
		if f.Tag() == "min" {
			return "must be at least " + f.Param()
		}
		return "must be at most " + f.Param()
	}
	switch f.Tag() {
	case "required":
		return "is required"
	case "max":
		return "must have at most " + f.Param() + " " + unit
	case "min":
		if f.Param() == "1" {
			return "must not be empty"
		}
		return "must have at least " + f.Param() + " " + unit
	case "oneof":
		return "must be one of " + strings.Join(strings.Fields(f.Param()), ", ")
	case "id":
		return "must have 1 to 64 letters, digits, - or _"
	case "notblank":
		return "must not be blank"
	case "mediatype":
		return "must be a media type, as image/png"
	default:
		return "is not valid"
	}
}

// isID reports whether s can be the id of a topic or a message.
func isID(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func isMediaType(s string) bool {
	_, _, err := mime.ParseMediaType(s)
	return err == nil && strings.Count(s, "/") == 1 && !strings.ContainsAny(s, "; ")
}
