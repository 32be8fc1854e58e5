package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service/bus"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/turn"
)

// waitingTimeout bounds the one query of a scrape: without an answer the
// numbers are left out.
const waitingTimeout = 2 * time.Second

// numbers tells operators what the parts of the server count. They know
// nothing of it. docs/operations.md says what to do about which.
type numbers struct {
	store  *repository.Store
	engine *turn.Engine
	hub    *live.Hub
	peers  *bus.Postgres // nil on SQLite
}

// number is a metric: its name, what it says, and its labels.
type number struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) number {
	return number{prometheus.NewDesc("assent_"+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) number {
	return number{prometheus.NewDesc("assent_"+name, help, labels, nil), prometheus.GaugeValue}
}

var (
	turnsRunning   = gauge("turns_running", "Turns that run in this process.")
	turnsClaimed   = counter("turns_claimed_total", "Turns that this process began or went on with.")
	turnsTakenOver = counter("turns_taken_over_total", "Of these, turns that another process had left running.")
	turnsLost      = counter("turns_lost_total", "Turns that a heartbeat found stopped or taken over by another process.")
	heartbeats     = counter("heartbeats_failed_total", "Heartbeats that could not be written.")

	decisions = counter("decisions_total", "Decisions that were asked for here, by what became of each.", "outcome")
	pending   = gauge("approvals_pending", "Calls that wait for a person, in the whole database.")
	oldest    = gauge("approvals_oldest_seconds", "How long the first of them has waited.")

	connsOpen   = gauge("database_connections", "Connections to the database that are open, by pool and use.", "pool", "state")
	connsMax    = gauge("database_connections_max", "How many there may be.", "pool")
	connsWaits  = counter("database_waits_total", "Times that something waited for a connection.", "pool")
	connsWaited = counter("database_wait_seconds_total", "How long, in all.", "pool")

	liveReaders   = gauge("live_readers", "Topics, and lists of all topics, that clients of this process watch; each client counts.")
	liveSnapshots = counter("live_snapshots_total", "States that were read for clients that began, or began anew.")
	liveHealed    = counter("live_healed_total", "Topics whose clients began anew, since a change of another process had not been heard of.")
	liveLosses    = counter("live_losses_total", "Times that signals of other processes may have been missed.")
	liveTooLarge  = counter("live_signals_too_large_total", "Changes that other processes must read for themselves.")

	busUp       = gauge("bus_up", "1 if this process can be heard by others and hears itself.")
	busAlone    = gauge("bus_alone", "1 if no other process is there.")
	busSent     = counter("bus_signals_sent_total", "Signals that were sent to other processes.")
	busBatches  = counter("bus_notifications_total", "Notifications that carried them, signs of life among them.")
	busReceived = counter("bus_signals_received_total", "Signals of other processes.")
	busUnsent   = counter("bus_signals_unsent_total", "Signals that nobody was there to hear.")
	busDropped  = counter("bus_signals_dropped_total", "Signals that were given up: too many waited, or the database was away.")
	busForeign  = counter("bus_notifications_foreign_total", "Notifications that were not made with the key of this process.")
)

// Describe is for the registry: what there is depends on the database.
func (numbers) Describe(chan<- *prometheus.Desc) {}

// Collect is for the registry.
func (n numbers) Collect(out chan<- prometheus.Metric) {
	tell := func(m number, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	}
	t := n.engine.Stats()
	tell(turnsRunning, float64(t.Running))
	tell(turnsClaimed, float64(t.Claimed))
	tell(turnsTakenOver, float64(t.TakenOver))
	tell(turnsLost, float64(t.Lost))
	tell(heartbeats, float64(t.Unbeaten))

	d := n.store.DecisionStats()
	for outcome, count := range map[string]int64{
		"approved": d.Approved, "denied": d.Denied, "repeated": d.Repeated, "refused": d.Refused, "failed": d.Failed,
	} {
		tell(decisions, float64(count), outcome)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitingTimeout)
	defer cancel()
	if waiting, age, err := n.store.Waiting(ctx); err == nil {
		tell(pending, float64(waiting))
		tell(oldest, age.Seconds())
	}
	for pool, c := range n.store.Connections() {
		tell(connsOpen, float64(c.InUse), pool, "used")
		tell(connsOpen, float64(c.Idle), pool, "idle")
		tell(connsMax, float64(c.MaxOpenConnections), pool)
		tell(connsWaits, float64(c.WaitCount), pool)
		tell(connsWaited, c.WaitDuration.Seconds(), pool)
	}

	l := n.hub.Stats()
	tell(liveReaders, float64(l.Readers))
	tell(liveSnapshots, float64(l.Snapshots))
	if n.peers == nil {
		return
	}
	tell(liveHealed, float64(l.Healed))
	tell(liveLosses, float64(l.Losses))
	tell(liveTooLarge, float64(l.TooLarge))
	b := n.peers.Stats()
	tell(busUp, one(b.Up))
	tell(busAlone, one(b.Alone))
	tell(busSent, float64(b.Sent))
	tell(busBatches, float64(b.Batches))
	tell(busReceived, float64(b.Received))
	tell(busUnsent, float64(b.Unsent))
	tell(busDropped, float64(b.Dropped))
	tell(busForeign, float64(b.Foreign))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
