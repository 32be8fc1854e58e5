package chat

// SettingsKind names settings that are read as a whole.
type SettingsKind string

// The kinds of settings.
const (
	SettingsServers    SettingsKind = "mcp-servers" // also: how they are doing
	SettingsRules      SettingsKind = "rules"
	SettingsAssistants SettingsKind = "assistants"
)

// LiveEvent is one event for a watching client, encoded once for all of them.
type LiveEvent struct {
	// ID is where the client stands after this event, to be given back when it
	// returns. It is empty while there is no such place.
	ID   string
	Name string
	Data []byte // one line of JSON; shared, never written to
}
