//go:build chaos

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assent-chat/assent/service/llm/llmtest"
)

const (
	chaosLease    = 2 * time.Second
	chaosServers  = 3
	chaosTopics   = 4
	chaosDeciders = 16
	chaosRound    = 20 * time.Second // of weather
	chaosMessages = 12               // of a topic and round: a history stays within a page
	chaosHang     = 4 * time.Minute  // of a round, beyond its weather
)

// chaos is a few real servers on one database, those who use them, and what
// they were answered.
type chaos struct {
	*world  // one of the instances, in quiet times
	seed    uint64
	links   *links
	db      *chaosDatabase
	servers []*chaosServer
	logs    string       // folder
	client  *http.Client // leaves early
	slow    *http.Client // waits for longer than any request takes
	began   time.Time
	calm    atomic.Bool // no weather, and nobody stalls

	round    int
	topics   []string // of the round
	scripted string   // topic of the round, which people and deciders leave alone
	people   []*person
	storms   map[string]int // how often, in all rounds

	mu      sync.Mutex
	random  *rand.Rand                             // of the model
	scripts map[string]func(chaosAsk) llmtest.Turn // by turn
	asked   map[string][]chaosAsk                  // by turn
	seen    []chaosCard                            // that deciders saw in this round
	did     map[string]int                         // by people, in all rounds
	ops     map[string][]op                        // by approval
	errors  int                                    // turns that ended in error
	count   int                                    // of the model's requests
}

// TestChaos lets deciders, tabs and people use several servers while those
// are killed, frozen and cut off from their database, and then holds what
// everybody was told against what is committed; see docs/chaos.md.
// ASSENT_CHAOS_SEEDS names the runs, each of which repeats the choices of its
// seed; "random" is a new one. ASSENT_CHAOS_SECONDS is how long each lasts.
func TestChaos(t *testing.T) {
	seconds, err := strconv.Atoi(orElse(os.Getenv("ASSENT_CHAOS_SECONDS"), "20"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(slowEnv, "200ms") // so that the weather finds calls that run
	for _, word := range strings.Fields(orElse(os.Getenv("ASSENT_CHAOS_SEEDS"), "random")) {
		seed := rand.Uint64() >> 32
		if word != "random" {
			if seed, err = strconv.ParseUint(word, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { newChaos(t, seed).run(time.Duration(seconds) * time.Second) })
		if !ok {
			return
		}
	}
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Logf("ASSENT_CHAOS_SEEDS=%d", seed)
	c := &chaos{
		world: &world{t: t}, seed: seed, began: time.Now(), random: rand.New(rand.NewPCG(seed, 0)), storms: map[string]int{}, did: map[string]int{},
		client:  &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}},
		slow:    &http.Client{Timeout: 45 * time.Second, Transport: &http.Transport{}},
		scripts: map[string]func(chaosAsk) llmtest.Turn{},
	}
	var err error
	if c.logs, err = os.MkdirTemp("", "assent-chaos-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(c.logs)
		}
	})
	t.Cleanup(c.client.CloseIdleConnections)
	t.Cleanup(c.slow.CloseIdleConnections)
	c.db = openChaosDatabase(t)
	c.links = openLinks(t, c.logFile("toxiproxy"))
	c.newServers(t.TempDir())
	t.Cleanup(func() {
		if t.Failed() {
			c.tails()
			c.dump()
			t.Logf("round %d of ASSENT_CHAOS_SEEDS=%d; what the servers wrote, and what their goroutines did at the end, is in %s", c.round, seed, c.logs)
		}
	})
	if _, err := c.db.ExecContext(t.Context(), witness); err != nil {
		t.Fatal(err)
	}
	return c
}

// run plays rounds until the time is up. A round that hangs ends with all
// goroutines, of the test and of the servers.
func (c *chaos) run(long time.Duration) {
	t := c.t
	for until := time.Now().Add(long); time.Now().Before(until) && !t.Failed(); {
		c.round++
		weather := min(chaosRound, max(time.Until(until), time.Second))
		hang := time.AfterFunc(weather+chaosHang, func() {
			fmt.Fprintf(os.Stderr, "round %d of ASSENT_CHAOS_SEEDS=%d hangs; the servers' goroutines are in %s\n", c.round, c.seed, c.logs)
			c.dump()
			debug.SetTraceback("all")
			panic("a round of TestChaos hangs")
		})
		c.play(weather)
		hang.Stop()
	}
	for _, i := range c.servers {
		if v := i.model.Violations(); len(v) != 0 {
			t.Errorf("steps: the model was sent calls without results: %v", v)
		}
	}
	t.Logf("weather: %v; people: %v", c.storms, c.did)
}

// dice is a source of choices that depends on the seed, the round and who
// asks alone.
func (c *chaos) dice(who, n int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(c.round)<<32|uint64(who)<<16|uint64(n)))
}

const (
	diceWeather = iota + 1
	diceDecider
	dicePerson
	diceTab
	diceDrizzle
	diceCalm
)

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// from makes a server the one that quiet times ask.
func (c *chaos) from(i *chaosServer) {
	c.world = i.world
	base, _ := i.at()
	c.ready(base)
}

func (c *chaos) everyTopic() []string { return append(slices.Clone(c.topics), c.scripted) }

// play lets the weather rage over fresh topics, waits for rest, and checks.
func (c *chaos) play(weather time.Duration) {
	t := c.t
	c.from(c.servers[0])
	c.topics, c.seen, c.people, c.errors = nil, nil, nil, 0
	c.asked, c.ops = map[string][]chaosAsk{}, map[string][]op{}
	for n := range chaosTopics {
		topic := c.newTopic()
		c.topics = append(c.topics, topic)
		c.people = append(c.people, &person{chaos: c, n: n, topic: topic, random: c.dice(dicePerson, n)})
	}
	c.scripted = c.newTopic()
	c.calm.Store(false)
	watching, leave := context.WithCancel(t.Context())
	var watchers, actors sync.WaitGroup
	defer watchers.Wait()
	defer leave()
	var tabs []*tab
	for n := range 2 * len(c.servers) {
		b := &tab{w: c.servers[0].world, topics: c.everyTopic()}
		tabs = append(tabs, b)
		random := c.dice(diceTab, n)
		watchers.Go(func() { c.watch(watching, b, random) })
	}

	ctx, end := context.WithTimeout(t.Context(), weather)
	defer end()
	for n := range chaosDeciders {
		actors.Go(func() { c.decideOn(ctx, c.dice(diceDecider, n)) })
	}
	for _, p := range c.people {
		actors.Go(func() { p.act(ctx) })
	}
	c.weather(ctx)
	actors.Wait()
	if t.Failed() {
		return
	}

	c.calm.Store(true)
	for _, i := range c.servers {
		i.ready(i.running.base)
	}
	began := time.Now()
	c.settle()
	settled := time.Now()
	c.quietly()
	quiet := time.Now()
	c.standStill(int((c.seed + uint64(c.round)) % inStop)) // another one each round
	c.standStill(inStop)
	still := time.Now()
	c.from(c.servers[0])
	turns := c.turns()
	c.checkLinearizable(turns)
	c.checkToolLog(turns)
	c.checkSteps(turns)
	c.checkFence()
	for _, p := range c.people {
		p.checkQueue()
	}
	for _, b := range tabs {
		for _, topic := range c.everyTopic() {
			b.converge(topic)
		}
	}
	t.Logf("round %d: settled in %.1f s, a quiet turn in %.1f s, two frozen ones in %.1f s, checked in %.1f s", c.round,
		settled.Sub(began).Seconds(), quiet.Sub(settled).Seconds(), still.Sub(quiet).Seconds(), time.Since(still).Seconds())
	n, unknown := 0, 0
	for _, ops := range c.ops {
		for _, o := range ops {
			n++
			if o.outcome == outcomeUnknown {
				unknown++
			}
		}
	}
	t.Logf("round %d: %d turns (%d in error), %d approvals, %d decisions, %d of unknown outcome", c.round, len(turns), c.errors, len(c.ops), n, unknown)
	if n == 0 || len(turns) == 0 {
		t.Error("nothing was decided, so nothing was shown")
	}
}
