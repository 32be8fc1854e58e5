//go:build chaos

package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/llm/llmtest"
)

const (
	chaosLease    = 2 * time.Second
	chaosServers  = 3
	chaosTopics   = 4
	chaosDeciders = 16
	chaosRound    = 20 * time.Second
	chaosMessages = 10 // of a topic and round: a history stays within a page
)

// chaos is a few real servers on one database, those who use them, and what
// they were answered.
type chaos struct {
	*world  // the first instance, in quiet times
	seed    uint64
	servers []*chaosServer
	client  *http.Client
	began   time.Time
	calm    atomic.Bool // no weather, and nobody stalls
	topics  []string    // of the round
	round   int

	mu     sync.Mutex
	random *rand.Rand         // of the model
	asked  map[string][]asked // by turn
	seen   []chaosCard        // that deciders saw in this round
	ops    map[string][]op    // by approval
	errors int                // turns that ended in error
	count  int                // of the model's requests
	frozen []freeze           // of the round
}

// freeze is when a server stood still. Times are since the test began.
type freeze struct {
	server     int
	from, till time.Duration
}

// chaosServer is one of the servers. It may be down.
type chaosServer struct {
	*world
	mu      sync.Mutex
	running *process
}

func (i *chaosServer) at() (base, token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.running.base, i.running.token
}

// up starts the server. A connection that is cut while it starts ends it, as
// it should, and it is started again.
func (i *chaosServer) up() error {
	var err error
	for range 20 {
		var p *process
		if p, err = i.launch(); err == nil {
			i.mu.Lock()
			i.running = p
			i.mu.Unlock()
			return nil
		}
	}
	return err
}

// down kills the server. From then on its address is nobody's: another
// program may be given its port.
func (i *chaosServer) down() {
	i.mu.Lock()
	gone := *i.running
	gone.base = "http://127.0.0.1:0"
	i.running = &gone
	i.mu.Unlock()
	gone.kill()
}

func (i *chaosServer) signal(s syscall.Signal) error { return i.running.cmd.Process.Signal(s) }

// TestChaos lets deciders, tabs and senders use several servers while those
// are killed, frozen and cut off from their database, and then holds what
// everybody was told against what is committed; see docs/chaos.md.
// ASSENT_CHAOS_SEED repeats a run's choices, ASSENT_CHAOS_SECONDS sets how
// long the weather lasts.
func TestChaos(t *testing.T) {
	seconds, err := strconv.Atoi(orElse(os.Getenv("ASSENT_CHAOS_SECONDS"), "20"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(orElse(os.Getenv("ASSENT_CHAOS_SEED"), strconv.FormatUint(rand.Uint64(), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ASSENT_CHAOS_SEED=%d", seed)
	t.Setenv(slowEnv, "200ms") // so that the weather finds calls that run
	c := newChaos(t, seed)
	for left := time.Duration(seconds) * time.Second; left > 0 && !t.Failed(); left -= chaosRound {
		c.round++
		c.play(min(left, chaosRound))
	}
	for _, i := range c.servers {
		if v := i.model.Violations(); len(v) != 0 {
			t.Errorf("the model was sent calls without results: %v", v)
		}
	}
	if t.Failed() {
		t.Logf("round %d of ASSENT_CHAOS_SEED=%d", c.round, seed)
	}
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{
		seed: seed, began: time.Now(), random: rand.New(rand.NewPCG(seed, 0)),
		client: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}},
	}
	t.Cleanup(c.client.CloseIdleConnections)
	dir := t.TempDir()
	log, err := newProbe(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	url := pgtest.URL(t)
	for range chaosServers {
		w := &world{t: t, dir: t.TempDir(), databaseURL: url, probe: log, flags: []string{"-key-file", key, "-lease", chaosLease.String()}}
		c.servers = append(c.servers, &chaosServer{world: w})
	}
	c.world = c.servers[0].world
	for k, i := range c.servers {
		i.answers(func(_ int, r llmtest.Request) llmtest.Turn { return c.reply(k, r) })
		if err := i.up(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { i.running.kill() })
	}
	return c
}

// dice is a source of choices that depends on the seed, the round and who
// asks alone.
func (c *chaos) dice(who, n int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(c.round)<<32|uint64(who)<<16|uint64(n)))
}

const (
	diceWeather = iota + 1
	diceDecider
	diceSender
	diceTab
)

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

// play lets the weather rage over fresh topics, waits for rest, and checks.
func (c *chaos) play(long time.Duration) {
	t := c.t
	c.ready(c.servers[0].running.base)
	c.topics, c.seen, c.frozen = nil, nil, nil
	c.asked, c.ops = map[string][]asked{}, map[string][]op{}
	for range chaosTopics {
		c.topics = append(c.topics, c.topic())
	}
	c.calm.Store(false)
	watching, leave := context.WithCancel(t.Context())
	var watchers, actors sync.WaitGroup
	defer watchers.Wait()
	defer leave()
	var tabs []*tab
	for n := range 2 * len(c.servers) {
		b := &tab{w: c.world, topics: c.topics}
		tabs = append(tabs, b)
		random := c.dice(diceTab, n)
		watchers.Go(func() { c.watch(watching, b, random) })
	}

	ctx, end := context.WithTimeout(t.Context(), long)
	defer end()
	for n := range chaosDeciders {
		actors.Go(func() { c.decideOn(ctx, c.dice(diceDecider, n)) })
	}
	for n, topic := range c.topics {
		actors.Go(func() { c.sendOn(ctx, n, topic, c.dice(diceSender, n)) })
	}
	c.weather(ctx, c.dice(diceWeather, 0))
	actors.Wait()
	if t.Failed() {
		return
	}

	c.calm.Store(true)
	for _, i := range c.servers {
		i.ready(i.running.base)
	}
	c.settle()
	c.quietly()
	turns := c.turns()
	c.checkLinearizable(turns)
	c.checkToolLog(turns)
	c.checkSteps(turns)
	for _, b := range tabs {
		for _, topic := range c.topics {
			b.converge(topic)
		}
	}
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

// weather kills, freezes and cuts, one after the other, until ctx ends. It
// leaves every server running.
func (c *chaos) weather(ctx context.Context, random *rand.Rand) {
	db, err := sql.Open("postgres", c.databaseURL)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer db.Close()
	for pause(ctx, between(random, 200*time.Millisecond, 900*time.Millisecond)) {
		k := random.IntN(len(c.servers))
		i := c.servers[k]
		long := between(random, 0, time.Second)
		what := "cut"
		switch random.IntN(4) {
		case 0:
			what = "kill"
			i.down()
			pause(ctx, long)
			err = i.up()
		case 1, 2:
			what = "freeze" // past its lease, so that others take over what it was doing
			if err = i.signal(syscall.SIGSTOP); err == nil {
				f := freeze{server: k, from: time.Since(c.began)}
				pause(context.WithoutCancel(ctx), chaosLease+500*time.Millisecond+long)
				f.till = time.Since(c.began)
				c.mu.Lock()
				c.frozen = append(c.frozen, f)
				c.mu.Unlock()
				err = i.signal(syscall.SIGCONT)
			}
		default:
			_, err = db.ExecContext(context.WithoutCancel(ctx), `
				SELECT pg_terminate_backend(pid) FROM (
					SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT $1
				) AS chosen`, 1+random.IntN(3))
		}
		if err != nil {
			c.t.Errorf("%s: %v", what, err)
			return
		}
	}
}

// settle waits until nothing moves, decides what still waits, which must be
// possible, and so on until every topic is at its end.
func (c *chaos) settle() {
	c.t.Helper()
	for range chaosMessages * 4 {
		waiting := 0
		for _, topic := range c.topics {
			var s chat.Status
			c.eventually(func() bool {
				s = c.status(topic)
				return s.Status != chat.TopicPending && s.Status != chat.TopicStreaming && s.QueuedMessages == 0
			}, func() string { return fmt.Sprintf("stuck after the weather: %+v", s) })
			if s.Status != chat.TopicAwaitingApproval {
				continue
			}
			cards := c.pending(topic)
			if len(cards) == 0 {
				c.t.Fatalf("stuck after the weather, nothing to decide: %+v", s)
			}
			for _, a := range cards {
				o := c.decideAt(c.servers[0], chaosCard{topic, a.ApprovalID, ""}, "approve")
				if o != "applied" {
					c.t.Fatalf("stuck after the weather: a waiting card says %q", o)
				}
				waiting++
			}
		}
		if waiting == 0 {
			return
		}
	}
	c.t.Fatal("stuck after the weather: the topics never come to an end")
}

// quietly plays one more turn in every topic. Without weather each step must
// be asked for once, however many decide at once and wherever.
func (c *chaos) quietly() {
	c.t.Helper()
	for n, topic := range c.topics {
		turn := fmt.Sprintf("r%dt%dcalm", c.round, n)
		c.send(topic, turn)
		for step := range 2 {
			c.until(topic, chat.TopicAwaitingApproval)
			var wg sync.WaitGroup
			for _, a := range c.pending(topic) {
				for k := range 2 * len(c.servers) {
					wg.Go(func() { c.decideAt(c.servers[k%len(c.servers)], chaosCard{topic, a.ApprovalID, ""}, "approve") })
				}
			}
			wg.Wait()
			c.eventually(func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.asked[turn]) > step+1
			}, func() string {
				return "stuck without weather: the turn does not go on after step " + strconv.Itoa(step)
			})
		}
		c.until(topic, chat.TopicDone)
		c.mu.Lock()
		steps := map[int]int{}
		for _, a := range c.asked[turn] {
			steps[a.step]++
		}
		c.mu.Unlock()
		for step, times := range steps {
			if times != 1 {
				c.t.Errorf("continuations: step %d of %s was asked for %d times without weather", step, turn, times)
			}
		}
	}
}
