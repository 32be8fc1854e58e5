// Package livetest has a client that follows docs/events.md to the letter, for
// tests that ask whether a tab would show the right thing.
package livetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/assent-chat/assent/service/chat"
)

// Message is a message as the client holds it.
type Message struct {
	ID       string     `json:"id"`
	Role     chat.Role  `json:"role"`
	Parts    chat.Parts `json:"parts"`
	Metadata Metadata   `json:"metadata"`

	revision int64   // of the last message event
	partRevs []int64 // of each part
}

// Metadata is a message's metadata as the client holds it.
type Metadata struct {
	ParentID  string             `json:"parentId"`
	Status    chat.MessageStatus `json:"status"`
	Model     string             `json:"model"`
	TurnID    string             `json:"turnId"`
	Epoch     int64              `json:"epoch"`
	Error     *chat.TurnError    `json:"error"`
	CreatedAt time.Time          `json:"createdAt"`
	UpdatedAt time.Time          `json:"updatedAt"`
	Revision  int64              `json:"revision"`
}

// Topic is a topic in detail as the client holds it.
type Topic struct {
	Topic    chat.Topic
	Messages []Message // the active branch, oldest first
	Queued   []Message
	Status   chat.Status
	Removed  bool
	// Progress is the last word of calls that run, by message and position.
	Progress map[string]string

	revision int64 // of the snapshot or topic event
}

// Client applies events as docs/events.md says. The zero value is a client
// that has not received anything. It is not safe for concurrent use.
type Client struct {
	// Topics are those that were received in detail.
	Topics map[string]*Topic
	// Statuses are the newest statuses of all topics that were heard of.
	Statuses map[string]chat.Status
	// Titles are the titles of the topics in the list of all topics.
	Titles map[string]string
	// LastID is what goes back as Last-Event-ID.
	LastID string
	// Reopen says why the client must open the stream anew without an id; ""
	// if it need not. A snapshot of everything clears what was held.
	Reopen string
	// Events counts what was received, by name.
	Events map[string]int
	// Settings counts how often settings of each kind were said to have changed.
	Settings map[chat.SettingsKind]int

	titleRevs map[string]int64
}

type envelope struct {
	TopicID   string          `json:"topicId"`
	Revision  int64           `json:"revision"`
	MessageID string          `json:"messageId"`
	Message   json.RawMessage `json:"message"`
	Topic     chat.Topic      `json:"topic"`
	Topics    []chat.Topic    `json:"topics"`
	Messages  []Message       `json:"messages"`
	Queued    []Message       `json:"queued"`
	Epoch     int64           `json:"epoch"`
	Position  int             `json:"position"`
	Part      json.RawMessage `json:"part"` // an object, or a delta's position
	Field     string          `json:"field"`
	Offset    int             `json:"offset"`
	Text      string          `json:"text"`
	Start     json.RawMessage `json:"start"`
}

// Apply applies one event. An error is a breach of the contract by the sender.
func (c *Client) Apply(ev chat.LiveEvent) error {
	if c.Topics == nil {
		c.Topics, c.Statuses = map[string]*Topic{}, map[string]chat.Status{}
		c.Titles, c.titleRevs, c.Events = map[string]string{}, map[string]int64{}, map[string]int{}
		c.Settings = map[chat.SettingsKind]int{}
	}
	c.LastID = ev.ID
	c.Events[ev.Name]++
	switch ev.Name {
	case "status":
		return c.status(ev.Data)
	case "settings":
		return c.settings(ev.Data)
	}
	var e struct {
		envelope
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		return fmt.Errorf("%s event: %w", ev.Name, err)
	}
	if e.TopicID == "" {
		return fmt.Errorf("%s event names no topic", ev.Name)
	}
	switch ev.Name {
	case "snapshot":
		if e.TopicID == "*" {
			c.list(e.Topics)
			return nil
		}
		var st chat.Status
		if err := json.Unmarshal(e.Status, &st); err != nil {
			return fmt.Errorf("status of a snapshot: %w", err)
		}
		t := &Topic{Topic: e.Topic, Messages: e.Messages, Queued: e.Queued, Status: st, revision: e.Revision, Progress: map[string]string{}}
		for _, list := range [][]Message{t.Messages, t.Queued} {
			for i := range list {
				list[i].revision = e.Revision
				list[i].partRevs = slices.Repeat([]int64{e.Revision}, len(list[i].Parts))
			}
		}
		c.Topics[e.TopicID] = t
		c.title(e.Topic, e.Revision)
		c.keep(st)
		return nil
	case "topic":
		c.title(e.Topic, e.Revision)
		if t := c.Topics[e.TopicID]; t != nil && e.Revision > t.revision {
			t.Topic, t.revision = e.Topic, e.Revision
		}
		return nil
	case "topic.removed":
		delete(c.Statuses, e.TopicID)
		delete(c.Titles, e.TopicID)
		delete(c.titleRevs, e.TopicID)
		if t := c.Topics[e.TopicID]; t != nil {
			c.Topics[e.TopicID] = &Topic{Removed: true}
		}
		return nil
	case "ping", "bye":
		return nil
	}
	t := c.Topics[e.TopicID]
	if t == nil {
		return fmt.Errorf("%s event of topic %s, which began with no snapshot", ev.Name, e.TopicID)
	}
	if t.Removed {
		return nil
	}
	switch ev.Name {
	case "message":
		return c.message(t, e.envelope)
	case "message.removed":
		gone := func(m Message) bool { return m.ID == e.MessageID }
		t.Messages = slices.DeleteFunc(t.Messages, gone)
		t.Queued = slices.DeleteFunc(t.Queued, gone)
		return nil
	case "part":
		return c.part(t, e.envelope)
	case "delta":
		return c.delta(t, e.envelope)
	}
	return fmt.Errorf("unknown event %q", ev.Name)
}

func (c *Client) list(topics []chat.Topic) {
	titles, revisions, statuses := c.Titles, c.titleRevs, c.Statuses
	c.Titles, c.titleRevs, c.Statuses = map[string]string{}, map[string]int64{}, map[string]chat.Status{}
	for _, t := range topics {
		c.Titles[t.ID], c.titleRevs[t.ID] = titles[t.ID], revisions[t.ID]
		c.title(t, t.Revision)
		if st, ok := statuses[t.ID]; ok {
			c.keep(st)
		}
		c.keep(t.Status)
	}
}

func (c *Client) title(t chat.Topic, revision int64) {
	if revision > c.titleRevs[t.ID] {
		c.Titles[t.ID], c.titleRevs[t.ID] = t.Title, revision
	}
}

func (c *Client) status(data []byte) error {
	var st chat.Status
	if err := json.Unmarshal(data, &st); err != nil {
		return fmt.Errorf("status event: %w", err)
	}
	c.keep(st)
	return nil
}

func (c *Client) settings(data []byte) error {
	var s struct {
		Changed chat.SettingsKind `json:"changed"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("settings event: %w", err)
	}
	if s.Changed == "" {
		return fmt.Errorf("settings event says nothing: %s", data)
	}
	c.Settings[s.Changed]++
	return nil
}

func (c *Client) keep(st chat.Status) {
	if st.Revision > c.Statuses[st.TopicID].Revision {
		c.Statuses[st.TopicID] = st
	}
	if t := c.Topics[st.TopicID]; t != nil && !t.Removed && st.Revision > t.Status.Revision {
		t.Status = st
	}
}

func find(list []Message, id string) *Message {
	i := slices.IndexFunc(list, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &list[i]
}

func (t *Topic) find(id string) *Message {
	if m := find(t.Messages, id); m != nil {
		return m
	}
	return find(t.Queued, id)
}

func (c *Client) message(t *Topic, e envelope) error {
	var m Message
	if err := json.Unmarshal(e.Message, &m); err != nil {
		return fmt.Errorf("message event: %w", err)
	}
	held := t.find(m.ID)
	if held != nil && e.Revision <= held.revision {
		return nil
	}
	m.revision = e.Revision
	if m.Parts == nil { // only the metadata
		if held == nil {
			return nil // of another branch
		}
		m.Parts, m.partRevs = held.Parts, held.partRevs
	} else {
		m.partRevs = slices.Repeat([]int64{e.Revision}, len(m.Parts))
	}
	queued := m.Metadata.Status == chat.MessageQueued
	if held != nil && queued == (find(t.Queued, m.ID) != nil) {
		*held = m
		return nil
	}
	t.Queued = slices.DeleteFunc(t.Queued, func(q Message) bool { return q.ID == m.ID })
	if queued {
		t.Queued = append(t.Queued, m)
		return nil
	}
	last := ""
	if n := len(t.Messages); n > 0 {
		last = t.Messages[n-1].ID
	}
	if m.Metadata.ParentID == last { // else it is of another branch
		t.Messages = append(t.Messages, m)
	}
	return nil
}

func (c *Client) part(t *Topic, e envelope) error {
	p, err := chat.DecodePart(e.Part)
	if err != nil {
		return fmt.Errorf("part event: %w", err)
	}
	m := t.find(e.MessageID)
	switch {
	case m == nil: // of another branch
		return nil
	case e.Position > len(m.Parts):
		c.Reopen = fmt.Sprintf("part %d of message %s, which has %d", e.Position, m.ID, len(m.Parts))
		return nil
	case e.Position == len(m.Parts):
		m.Parts, m.partRevs = append(m.Parts, p), append(m.partRevs, e.Revision)
	case e.Revision <= m.partRevs[e.Position]:
		return nil
	default:
		m.Parts[e.Position], m.partRevs[e.Position] = p, e.Revision
	}
	m.Metadata.Epoch = max(m.Metadata.Epoch, e.Epoch)
	return nil
}

func (c *Client) delta(t *Topic, e envelope) error {
	var position int
	if err := json.Unmarshal(e.Part, &position); err != nil {
		return fmt.Errorf("part of a delta: %w", err)
	}
	m := t.find(e.MessageID)
	if m == nil || e.Epoch < m.Metadata.Epoch { // of another branch, or rule 1
		return nil
	}
	if e.Field == "progress" { // rule 3
		t.Progress[fmt.Sprintf("%s/%d", m.ID, position)] = e.Text
		return nil
	}
	if e.Epoch > m.Metadata.Epoch {
		c.Reopen = fmt.Sprintf("delta of epoch %d for message %s of epoch %d", e.Epoch, m.ID, m.Metadata.Epoch)
		return nil
	}
	if e.Start != nil && position == len(m.Parts) { // rule 2
		start, err := chat.DecodePart(e.Start)
		if err != nil {
			return fmt.Errorf("start of a delta: %w", err)
		}
		m.Parts, m.partRevs = append(m.Parts, start), append(m.partRevs, 0)
	}
	if position >= len(m.Parts) {
		c.Reopen = fmt.Sprintf("delta of part %d of message %s, which has %d", position, m.ID, len(m.Parts))
		return nil
	}
	text, set := field(m.Parts[position], e.Field)
	length := chat.UTF16Len(text)
	if e.Offset > length { // rule 5
		c.Reopen = fmt.Sprintf("delta at %d of part %d of message %s, which has %d", e.Offset, position, m.ID, length)
		return nil
	}
	if beyond := cut(e.Text, length-e.Offset); beyond != "" { // rule 4
		m.Parts[position] = set(text + beyond)
	}
	return nil
}

// field returns the growing text of a part, and what makes the part with
// another one.
func field(p chat.Part, name string) (string, func(string) chat.Part) {
	switch p := p.(type) {
	case chat.Text:
		if name == "text" {
			return p.Text, func(s string) chat.Part { p.Text = s; return p }
		}
	case chat.Reasoning:
		if name == "text" {
			return p.Text, func(s string) chat.Part { p.Text = s; return p }
		}
	case chat.ToolCall:
		if name == "input" {
			return p.RawInput, func(s string) chat.Part { p.RawInput = s; return p }
		}
	case chat.File, chat.StepStart, chat.Other:
	}
	return "", func(string) chat.Part { return p }
}

// cut drops the first n UTF-16 units of s.
func cut(s string, n int) string {
	for i, r := range s {
		if n <= 0 {
			return s[i:]
		}
		n -= chat.UTF16Len(string(r))
	}
	return ""
}
