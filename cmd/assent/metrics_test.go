package main

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

// readNumbers reads what /metrics says, by names with their labels.
func readNumbers(t testing.TB, text []byte) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[line[:at]] = value
	}
	return found
}

func TestMetricsTellOfTurnsDecisionsAndTheDatabase(t *testing.T) {
	eachDatabase(t, func(t *testing.T, w *world) {
		w.says(llmtest.Calls(call("note", "a"), call("note", "b")), llmtest.Text("done"))
		w.start()
		topic := w.topic()
		w.send(topic, "go")
		w.until(topic, chat.TopicAwaitingApproval)
		id := w.card(topic, "a").ApprovalID
		waiting := readNumbers(t, w.want(200, "GET", "/metrics", nil).body)
		if waiting["assent_approvals_pending"] != 2 || waiting["assent_turns_running"] != 0 {
			t.Errorf("%v wait and %v run", waiting["assent_approvals_pending"], waiting["assent_turns_running"])
		}
		w.approve(topic, "a")
		w.want(200, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": true})
		w.want(409, "POST", "/topics/"+topic+"/approvals", map[string]any{"approvalId": id, "approved": false})
		w.deny(topic, "b", "no")
		w.until(topic, chat.TopicDone)
		got := readNumbers(t, w.want(200, "GET", "/metrics", nil).body)
		for name, want := range map[string]float64{
			`assent_decisions_total{outcome="approved"}`: 1, `assent_decisions_total{outcome="denied"}`: 1,
			`assent_decisions_total{outcome="repeated"}`: 1, `assent_decisions_total{outcome="refused"}`: 1,
			`assent_decisions_total{outcome="failed"}`: 0, "assent_approvals_pending": 0, "assent_approvals_oldest_seconds": 0,
			"assent_turns_claimed_total": 2, "assent_turns_taken_over_total": 0, "assent_turns_lost_total": 0, "assent_heartbeats_failed_total": 0,
		} {
			if value, ok := got[name]; !ok || value != want {
				t.Errorf("%s is %v (there: %v), want %v", name, value, ok, want)
			}
		}
		pool := "write"
		_, up := got["assent_bus_up"]
		if w.databaseURL != "" {
			pool = "main"
		}
		if up != (w.databaseURL != "") {
			t.Errorf("it tells of the bus: %v", up)
		}
		if got[`assent_database_connections_max{pool="`+pool+`"}`] < 1 {
			t.Errorf("the pool is not told of: %v", got)
		}
	})
}
