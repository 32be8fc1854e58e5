// Package assent holds the contract of the HTTP interface.
package assent

import _ "embed"

// Contract is openapi.yaml: what the server promises to its clients. It must
// not be modified.
//
//go:embed openapi.yaml
var Contract []byte
