package chat

// LiveEvent is one event for a watching client, encoded once for all of them.
type LiveEvent struct {
	// ID is where the client stands after this event, to be given back when it
	// returns. It is empty while there is no such place.
	ID   string
	Name string
	Data []byte // one line of JSON; shared, never written to
}
