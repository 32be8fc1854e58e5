//go:build chaos

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/assent-chat/assent/service/llm/llmtest"
)

// chaosAsk is a request to the model: by which server and when, for which step,
// and the numbers of the requests whose answers it holds as the steps before.
type chaosAsk struct {
	n, step, server int
	at              time.Duration
	before          []int
}

// serial is the number that every call carries of the request that made it.
func serial(text string) int {
	base, _, _ := strings.Cut(text, "~")
	n, err := strconv.Atoi(base[strings.LastIndexByte(base, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}

// answer is the model of a server. It says two gated calls and a free one, one
// more gated call, the end, and takes its time, so that the weather finds it
// speaking.
func (c *chaos) answer(server int) func(int, llmtest.Request) llmtest.Turn {
	return func(_ int, r llmtest.Request) llmtest.Turn {
		a, turn := chaosAsk{server: server, at: time.Since(c.began)}, ""
		for _, m := range r.Messages {
			switch m.Role {
			case "user":
				turn, a.before = m.Text(), nil
			case "assistant":
				if len(m.ToolCalls) > 0 {
					a.before = append(a.before, serial(m.ToolCalls[0].ID))
				}
			}
		}
		a.step = len(a.before)
		c.mu.Lock()
		c.count++
		a.n = c.count
		c.asked[turn] = append(c.asked[turn], a)
		think := between(c.random, 0, 2*time.Second)
		script := c.scripts[turn]
		c.mu.Unlock()
		if script != nil {
			return script(a)
		}
		if c.calm.Load() {
			think /= 50
		}
		gate := make(chan struct{})
		time.AfterFunc(think, func() { close(gate) })
		named := func(letter string) string { return fmt.Sprintf("%s.%s.%d", turn, letter, a.n) }
		switch a.step {
		case 0:
			return llmtest.Text("some ", "words ").Then(llmtest.Gate(gate)).Then(
				llmtest.Calls(call("note", named("a")), call("peek", named("b")), call("note", named("c"))))
		case 1:
			return llmtest.Text("more ").Then(llmtest.Gate(gate)).Then(llmtest.Calls(call("note", named("d"))))
		default:
			return llmtest.Text("the ").Then(llmtest.Gate(gate)).Then(llmtest.Text(fmt.Sprintf("end.%d", a.n)))
		}
	}
}

// asks are the requests that were made for a turn, in their order.
func (c *chaos) asks(turn string) []chaosAsk {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]chaosAsk{}, c.asked[turn]...)
}
