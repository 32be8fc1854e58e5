package api

import (
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v4"
)

// contractReader reads the contract in the order in which it is written.
type contractReader struct{ root *yaml.Node }

// at finds what stands under the keys; nil if nothing does. It follows
// references on its way.
func (c contractReader) at(n *yaml.Node, keys ...string) *yaml.Node {
	n = c.resolve(n)
	for _, key := range keys {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var found *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				found = n.Content[i+1]
			}
		}
		n = c.resolve(found)
	}
	return n
}

// resolve follows YAML aliases and $ref.
func (c contractReader) resolve(n *yaml.Node) *yaml.Node {
	for n != nil {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
			continue
		}
		ref := refOf(n)
		if ref == "" {
			return n
		}
		n = c.at(c.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return nil
}

func refOf(n *yaml.Node) string {
	if n != nil && n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "$ref" {
		return n.Content[1].Value
	}
	return ""
}

func (c contractReader) text(n *yaml.Node, keys ...string) string {
	if n = c.at(n, keys...); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// eachMember calls do with the members of a mapping, in order and unresolved.
func eachMember(n *yaml.Node, do func(key string, value *yaml.Node)) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		do(n.Content[i].Value, n.Content[i+1])
	}
}

func elements(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

func (c contractReader) view() docsView {
	v := docsView{
		Title: c.text(c.root, "info", "title"), Summary: c.text(c.root, "info", "summary"),
		Description: c.text(c.root, "info", "description"),
	}
	group := map[string]int{}
	for _, tag := range elements(c.at(c.root, "tags")) {
		group[c.text(tag, "name")] = len(v.Groups)
		v.Groups = append(v.Groups, docsGroup{Name: c.text(tag, "name"), Description: c.text(tag, "description")})
	}
	eachMember(c.at(c.root, "paths"), func(path string, node *yaml.Node) {
		eachMember(node, func(method string, op *yaml.Node) {
			tags := elements(c.at(op, "tags"))
			if len(tags) == 0 { // the parameters of the path
				return
			}
			g := &v.Groups[group[tags[0].Value]]
			g.Operations = append(g.Operations, c.operation(path, method, node, op))
		})
	})
	eachMember(c.at(c.root, "components", "schemas"), func(name string, node *yaml.Node) {
		v.Schemas = append(v.Schemas, c.schema(name, node))
	})
	return v
}

func (c contractReader) operation(path, method string, shared, op *yaml.Node) docsOperation {
	o := docsOperation{
		ID: c.text(op, "operationId"), Method: strings.ToUpper(method), Path: path,
		Summary: c.text(op, "summary"), Description: c.text(op, "description"),
	}
	security := c.at(op, "security")
	o.Open = security != nil && len(security.Content) == 0
	for _, from := range []*yaml.Node{shared, op} {
		for _, p := range elements(c.at(from, "parameters")) {
			p = c.resolve(p)
			schema := member(p, "schema")
			o.Params = append(o.Params, docsField{
				Name: c.text(p, "name"), In: c.text(p, "in"), Description: c.text(p, "description"),
				Required: c.text(p, "required") == "true", Type: c.typeOf(schema),
			})
		}
	}
	if body := c.at(op, "requestBody"); body != nil {
		content := c.content("", body)
		o.Body = &content
	}
	eachMember(c.at(op, "responses"), func(status string, answer *yaml.Node) {
		o.Answers = append(o.Answers, c.content(status, c.resolve(answer)))
	})
	eachMember(c.at(op, "x-events"), func(name string, schema *yaml.Node) {
		o.Events = append(o.Events, docsField{Name: name, Type: c.typeOf(schema), Description: c.text(schema, "description")})
	})
	return o
}

// content reads a body; if it may be of several media types, the first.
func (c contractReader) content(status string, node *yaml.Node) docsContent {
	out := docsContent{Status: status, Description: c.text(node, "description")}
	eachMember(c.at(node, "content"), func(mediaType string, media *yaml.Node) {
		if out.MediaType != "" {
			return
		}
		out.MediaType = mediaType
		out.Type = c.typeOf(member(media, "schema"))
		eachMember(c.at(media, "examples"), func(_ string, example *yaml.Node) {
			value := c.at(example, "value")
			text := ""
			if value != nil && value.Kind == yaml.ScalarNode {
				text = value.Value
			} else if value != nil {
				var b strings.Builder
				writeJSON(&b, value, "")
				text = b.String()
			}
			out.Examples = append(out.Examples, docsExample{c.text(example, "summary"), text})
		})
	})
	return out
}

func (c contractReader) schema(schemaName string, node *yaml.Node) docsSchema {
	s := docsSchema{Name: schemaName, Description: c.text(node, "description")}
	required := map[string]bool{}
	for _, r := range elements(c.at(node, "required")) {
		required[r.Value] = true
	}
	eachMember(c.at(node, "properties"), func(name string, schema *yaml.Node) {
		s.Fields = append(s.Fields, docsField{
			Name: name, Required: required[name], Type: c.typeOf(schema), Description: c.text(schema, "description"),
		})
	})
	if len(s.Fields) == 0 {
		s.Type = c.typeOf(node)
	}
	return s
}

// member finds a member without following references.
func member(n *yaml.Node, key string) *yaml.Node {
	var found *yaml.Node
	eachMember(n, func(k string, v *yaml.Node) {
		if k == key {
			found = v
		}
	})
	return found
}

// typeOf describes a schema in a few words.
func (c contractReader) typeOf(n *yaml.Node) []docsWord {
	if ref := refOf(n); ref != "" {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		return []docsWord{{name, name}}
	}
	if n == nil {
		return nil
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		var words []docsWord
		for _, option := range elements(member(n, key)) {
			if of := c.typeOf(option); len(of) > 0 {
				if len(words) > 0 {
					words = append(words, docsWord{Text: " or "})
				}
				words = append(words, of...)
			}
		}
		if len(words) > 0 {
			return words
		}
	}
	if v := member(n, "const"); v != nil {
		return []docsWord{{Text: "“" + v.Value + "”"}}
	}
	if enum := elements(member(n, "enum")); len(enum) > 0 {
		values := make([]string, len(enum))
		for i, e := range enum {
			values[i] = e.Value
		}
		return []docsWord{{Text: strings.Join(values, " · ")}}
	}
	kind, null := c.text(n, "type"), ""
	for _, one := range elements(member(n, "type")) {
		if one.Value == "null" {
			null = " or null"
		} else {
			kind = one.Value
		}
	}
	if kind == "array" {
		words := append([]docsWord{{Text: "array of "}}, c.typeOf(member(n, "items"))...)
		if null != "" {
			words = append(words, docsWord{Text: null})
		}
		return words
	}
	if values := member(n, "additionalProperties"); kind == "object" && values != nil && values.Kind == yaml.MappingNode {
		return append([]docsWord{{Text: "object, each value a "}}, c.typeOf(values)...)
	}
	if kind == "" && member(n, "required") == nil {
		kind = "any JSON"
	}
	if kind == "" {
		return nil
	}
	return []docsWord{{Text: kind + null + c.bounds(n)}}
}

func (c contractReader) bounds(n *yaml.Node) string {
	var out string
	for _, b := range []struct{ key, text string }{
		{"minimum", ", from "}, {"maximum", ", to "}, {"maxLength", ", at most "}, {"default", ", default "},
	} {
		if v := c.text(n, b.key); v != "" {
			out += b.text + v
			if b.key == "maxLength" {
				out += " characters"
			}
		}
	}
	return out
}

// writeJSON writes an example as JSON, members in the order of the contract
// and short values on one line.
func writeJSON(b *strings.Builder, n *yaml.Node, indent string) {
	switch n.Kind {
	case yaml.AliasNode:
		writeJSON(b, n.Alias, indent)
	case yaml.MappingNode:
		writeMembers(b, n, '{', '}', 2, indent)
	case yaml.SequenceNode:
		writeMembers(b, n, '[', ']', 1, indent)
	default:
		if n.Tag == "!!str" || n.Tag == "!!timestamp" {
			text, err := json.Marshal(n.Value)
			if err == nil {
				b.Write(text)
			}
			return
		}
		b.WriteString(n.Value)
	}
}

func writeMembers(b *strings.Builder, n *yaml.Node, open, end byte, step int, indent string) {
	const short = 90
	var line strings.Builder
	flat := indent == flatIndent
	if !flat {
		writeMembers(&line, n, open, end, step, flatIndent)
		if line.Len() <= short {
			b.WriteString(line.String())
			return
		}
	}
	b.WriteByte(open)
	inner := flatIndent
	if !flat {
		inner = indent + "  "
	}
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			b.WriteByte(',')
		}
		switch {
		case !flat:
			b.WriteString("\n" + inner)
		case i > 0:
			b.WriteByte(' ')
		}
		if step == 2 {
			writeJSON(b, n.Content[i], inner)
			b.WriteString(": ")
		}
		writeJSON(b, n.Content[i+step-1], inner)
	}
	if !flat {
		b.WriteString("\n" + indent)
	}
	b.WriteByte(end)
}

// flatIndent marks what is written on one line.
const flatIndent = "flat"
