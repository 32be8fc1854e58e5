package chat

// ModelInfo is a model that can be chosen. Name is "provider/model".
type ModelInfo struct {
	Name            string `json:"name"`
	Provider        string `json:"provider"`
	Title           string `json:"title"`
	FromEnvironment bool   `json:"fromEnvironment"`
}

// ProviderInfo is what may be told of a provider. It holds no key.
type ProviderInfo struct {
	ID              string `json:"id"`
	Title           string `json:"title"`
	BaseURL         string `json:"baseUrl,omitempty"` // without user, password and query
	FromEnvironment bool   `json:"fromEnvironment"`
	// Configured says that the provider can be asked.
	Configured bool `json:"configured"`
	// Error says why it cannot be asked, or why its models could not be listed
	// when that was last tried.
	Error string `json:"error,omitempty"`
}
