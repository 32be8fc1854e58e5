package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxToolName is the longest tool name that every provider takes.
const maxToolName = 64

// ToolName is the name under which models know a server's tool:
// "server__tool", made of letters, digits, "_" and "-", at most 64 bytes long.
// Where that takes a change, the name ends in a digest of the true names, so
// that two tools never share one; the catalogue leads back from it.
func ToolName(server, tool string) string {
	name := clean(server) + "__" + clean(tool)
	// The first "__" must be ours, or two pairs could share a name.
	if name == server+"__"+tool && len(name) <= maxToolName && strings.Index(name, "__") == len(server) {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	tail := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxToolName-len(tail))] + tail
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}
