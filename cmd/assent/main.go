// Command assent is a self-hosted chat server in which a model's tool calls
// can wait for a person.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `Assent: a chat server in which a model's tool calls can wait for a person.

  assent [serve] [flags]     serve until interrupted (the default)
  assent token [flags]       print the owner's token, for curl
  assent token new NAME      make a token for another principal
  assent demo [--yes]        play the main job here: park, decide, kill, go on
  assent health [flags]      exit 0 if the server at the address is ready
  assent version             print the version

Run "assent serve -h" for the flags of serve.
`

// run is the whole program. It returns the exit code: 0, 1 for a failure, 2
// for a wrong command line or configuration.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	command := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "serve":
		err = runServe(ctx, args, getenv, stdout, stderr)
	case "token":
		err = runToken(ctx, args, getenv, stdout, stderr)
	case "demo":
		err = runDemo(ctx, args, stdin, stdout, stderr)
	case "health":
		err = runHealth(ctx, args, getenv, stdout, stderr)
	case "version":
		_, err = fmt.Fprintln(stdout, "assent", version())
	case "help":
		_, err = io.WriteString(stdout, usage)
	default:
		err = usageError{fmt.Errorf("there is no command %q\n\n%s", command, usage)}
	}
	var wrong usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(stderr, "assent:", err)
		return 2
	default:
		fmt.Fprintln(stderr, "assent:", err)
		return 1
	}
}

// usageError is a mistake in the command line or the configuration.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }
