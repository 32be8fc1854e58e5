//go:build chaos

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// weather plays storms, one after the other, over links that are now slow and
// now not, until ctx ends. It leaves every server running and every link whole.
func (c *chaos) weather(ctx context.Context) {
	c.slowCommits(0.2)
	defer c.slowCommits(0)
	var slow sync.WaitGroup
	defer slow.Wait()
	slow.Go(func() { c.drizzle(ctx, c.dice(diceDrizzle, 0)) })
	random := c.dice(diceWeather, 0)
	for pause(ctx, between(random, 200*time.Millisecond, 900*time.Millisecond)) {
		i := c.servers[random.IntN(len(c.servers))]
		long := between(random, 0, time.Second)
		what, err := c.storm(ctx, random, i, long)
		c.storms[what]++
		if err != nil {
			c.t.Errorf("%s of %s: %v", what, i.name, err)
			return
		}
	}
}

// storm lets one bad thing happen to a server, or to the database.
func (c *chaos) storm(ctx context.Context, random *rand.Rand, i *chaosServer, long time.Duration) (what string, err error) {
	past := chaosLease + 500*time.Millisecond + long // its lease, so that others take over what it was doing
	dice := random.IntN(20)
	if dice == 0 && c.db.own == nil {
		dice = 12
	}
	switch {
	case dice == 0:
		// As a crash of it would. It is nobody's but ours, so it may be restarted.
		return "restart of the database", c.db.own.Restart()
	case dice < 4:
		i.down()
		pause(ctx, long)
		return "kill", i.up()
	case dice < 9:
		if err := i.signal(syscall.SIGSTOP); err != nil {
			return "freeze", err
		}
		c.wait(past)
		return "freeze", i.signal(syscall.SIGCONT)
	case dice < 11: // nobody is told of it: data go nowhere, one way or the other
		return "partition", c.suffer(i, toxic{Type: "timeout", Stream: either(random)}, past)
	case dice < 13:
		if err := c.links.cut(i.name); err != nil {
			return "cut", err
		}
		c.wait(long)
		return "cut", c.links.mend(i.name)
	case dice < 15:
		return "reset", c.suffer(i, toxic{Type: "reset_peer", Stream: either(random), Toxicity: 0.5,
			Attributes: map[string]int{"timeout": random.IntN(200)}}, long)
	case dice < 17: // in the middle of whatever is being said
		return "break", c.suffer(i, toxic{Type: "limit_data", Stream: either(random), Toxicity: 0.5,
			Attributes: map[string]int{"bytes": random.IntN(20_000)}}, long)
	default:
		n := 1 + random.IntN(3)
		return "termination", c.db.do(context.WithoutCancel(ctx), `
			SELECT pg_terminate_backend(pid) FROM (
				SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY state = 'idle', random() LIMIT $1
			) AS chosen`, n)
	}
}

// drizzle makes one link after the other slow.
func (c *chaos) drizzle(ctx context.Context, random *rand.Rand) {
	for pause(ctx, between(random, 100*time.Millisecond, time.Second)) {
		i := c.servers[random.IntN(len(c.servers))]
		long := between(random, 500*time.Millisecond, 3*time.Second)
		x := toxic{Stream: either(random)}
		switch random.IntN(4) {
		case 0:
			x.Type, x.Attributes = "bandwidth", map[string]int{"rate": 20 + random.IntN(200)} // kB/s
		case 1:
			x.Type, x.Attributes = "slow_close", map[string]int{"delay": random.IntN(2000)}
		default:
			ms := 2 + random.IntN(60)
			x.Type, x.Attributes = "latency", map[string]int{"latency": ms, "jitter": ms}
		}
		if err := c.suffer(i, x, long); err != nil {
			c.t.Errorf("%s of %s: %v", x.Type, i.name, err)
			return
		}
	}
}

func either(random *rand.Rand) string { return []string{"upstream", "downstream"}[random.IntN(2)] }

// suffer lets a server's link suffer for a while.
func (c *chaos) suffer(i *chaosServer, x toxic, long time.Duration) error {
	x.Name = fmt.Sprintf("%s-%s", x.Type, x.Stream)
	if x.Toxicity == 0 {
		x.Toxicity = 1
	}
	if err := c.links.add(i.name, x); err != nil {
		return err
	}
	c.wait(long)
	return c.links.remove(i.name, x)
}

// wait is pause for what goes on to its end after the weather has ended.
func (c *chaos) wait(long time.Duration) { pause(context.WithoutCancel(c.t.Context()), long) }
