//go:build race

package live_test

// raceEnabled says that the race detector watches.
const raceEnabled = true
