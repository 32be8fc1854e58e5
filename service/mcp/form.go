package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
)

// nesting are the keywords of JSON Schema that hold schemas, or refer to some.
// In a form they have no place but where checkForm says.
var nesting = []string{
	"$defs", "$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema",
	"definitions", "dependencies", "dependentSchemas", "else", "if", "items", "not", "oneOf", "patternProperties", "prefixItems", "properties",
	"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}

// checkForm says why a schema is not one that a person can be asked to fill
// in, as the protocol has it: an object of texts, numbers, truths and choices,
// none of which holds another object.
func checkForm(raw json.RawMessage) error {
	if len(raw) > maxForm {
		return unaskable{"the requested schema is larger than " + size(maxForm)}
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil || root == nil {
		return unaskable{"the requested schema is not an object"}
	}
	if root["type"] != "object" {
		return unaskable{`the requested schema must have the type "object"`}
	}
	allowed := []string{"properties"}
	if _, ok := root["additionalProperties"].(bool); ok {
		allowed = append(allowed, "additionalProperties")
	}
	if keyword := nests(root, allowed...); keyword != "" {
		return unaskable{"the requested schema must not have " + keyword}
	}
	fields, ok := root["properties"].(map[string]any)
	if !ok && root["properties"] != nil {
		return unaskable{"the properties of the requested schema are not an object"}
	}
	for name, field := range fields {
		schema, ok := field.(map[string]any)
		if !ok || !isField(schema) {
			return unaskable{fmt.Sprintf("the property %q of the requested schema is not a text, a number, a truth or a choice", shorten(name, maxProblemText))}
		}
	}
	if _, err := compile(raw); err != nil { // or no answer could be held against it
		return unaskable{"the requested schema cannot be used: " + shorten(err.Error(), maxProblemText)}
	}
	return nil
}

// isField reports whether a schema is that of one field of a form.
func isField(schema map[string]any) bool {
	switch schema["type"] {
	case "string":
		if schema["oneOf"] != nil {
			return nests(schema, "oneOf") == "" && areTitles(schema["oneOf"])
		}
		return nests(schema) == ""
	case "number", "integer", "boolean":
		return nests(schema) == ""
	case "array": // a choice of several
		items, ok := schema["items"].(map[string]any)
		if !ok || nests(schema, "items") != "" {
			return false
		}
		if items["anyOf"] != nil {
			return nests(items, "anyOf") == "" && areTitles(items["anyOf"])
		}
		_, ok = items["enum"].([]any)
		return ok && items["type"] == "string" && nests(items) == ""
	default:
		return false
	}
}

// areTitles reports whether schemas are texts to choose from, as they are
// written where each has a title.
func areTitles(schemas any) bool {
	list, ok := schemas.([]any)
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool {
		choice, ok := item.(map[string]any)
		_, text := choice["const"].(string)
		return !ok || !text || nests(choice) != ""
	})
}

// nests returns a keyword that makes a schema more than flat, "" if there is
// none.
func nests(schema map[string]any, allowed ...string) string {
	for _, keyword := range nesting {
		if _, ok := schema[keyword]; ok && !slices.Contains(allowed, keyword) {
			return keyword
		}
	}
	return ""
}
