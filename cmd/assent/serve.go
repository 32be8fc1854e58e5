package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/assent-chat/assent"
	"github.com/assent-chat/assent/api"
	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/llm"
	"github.com/assent-chat/assent/service/mcp"
	"github.com/assent-chat/assent/service/policy"
	"github.com/assent-chat/assent/service/turn"
	"github.com/assent-chat/assent/web"
)

const owner = "owner" // the principal of the token that the first start makes

func runServe(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	c, rest, err := loadConfig("serve", args, getenv, stderr)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("serve takes no arguments, got %q", rest)}
	}
	return serve(ctx, c, llm.Environment(getenv), stdout, c.logger(stderr))
}

// serve runs the server until ctx ends, then lets what it can end well. The
// extra tool servers stand beside the built-in one.
func serve(ctx context.Context, c config, providers []llm.Provider, stdout io.Writer, log *slog.Logger, extra ...mcp.Server) (err error) {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := apart(c); err != nil {
		return err
	}
	models := llm.NewRegistry(llm.RegistryOptions{Providers: providers})
	if err := (modelNames{models}).check(c.Model); err != nil {
		return usageError{fmt.Errorf("-model: %w", err)}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen (another address can be chosen with -addr): %w", err)
	}
	defer ln.Close() // the HTTP server closes it too; twice is harmless
	key, err := secretKey(c)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, c, key, true, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	workspace, err := mcp.OpenWorkspace(c.Workspace, mcp.WorkspaceOptions{})
	if err != nil {
		return err
	}
	defer workspace.Close()  // read-only by now
	var svc *service.Service // set before Start, which is the first to connect anything
	manager := mcp.NewManager(mcp.ClientOptions{Logger: log, Version: version(), OnState: func(string, chat.ServerState) { svc.ToolsChanged() }})
	defer manager.Close() // the engine has ended by then
	catalogue, err := mcp.NewCatalogue()
	if err != nil {
		return err
	}
	servers := &toolServers{workspace: workspace, extra: extra, manager: manager, catalogue: catalogue, log: log}

	peers, err := openBus(c, key, log)
	if err != nil {
		return err
	}
	if peers != nil {
		defer peers.Close() // the hub is closed by then
	}
	hub := live.New(store, live.Options{Logger: log})
	defer hub.Close()
	tools := topicTools{catalogue, log}
	judge := policy.New(store, log)
	engine := turn.New(store, modelNames{models}, tools, judge, hub, turn.Options{
		Lease: c.Lease, MaxSteps: c.MaxSteps, ToolTimeout: c.ToolTimeout, ShutdownGrace: c.ShutdownGrace, Expiry: c.Expiry, Logger: log,
		GivenBack: hub.Wake,
	})
	for i := range c.MCPServers {
		c.MCPServers[i].Identity = store.Identity(c.MCPServers[i])
	}
	svc = service.New(
		service.Deps{Store: store, Engine: engines{engine, hub}, Live: hub, Tools: tools, Servers: servers, Policy: judge},
		service.Options{DefaultModel: c.Model, CheckModel: modelNames{models}.check, FileServers: c.MCPServers, Logger: log},
	)
	if peers != nil {
		hub.Join(peers, store, instance{engine, svc})
	}
	if err := svc.Start(ctx); err != nil {
		return fmt.Errorf("start the tool servers: %w", err)
	}
	if err := ownToken(ctx, c, svc); err != nil {
		return err
	}
	base, public, err := publicURL(c, ln)
	if err != nil {
		return err
	}
	handler := api.New(api.Options{
		Service: svc, Models: models, Events: eventSource{hub}, Page: web.Handler(), Contract: assent.Contract,
		Logger: log, Hosts: hosts(c, ln), PublicURL: public, NoAuth: c.NoAuth,
		Collectors: []prometheus.Collector{numbers{store, engine, hub, peers}},
	})

	link := base + "/"
	if !c.NoAuth {
		secret, err := svc.NewLogin(ctx, owner)
		if err != nil {
			return fmt.Errorf("make a login link: %w", err)
		}
		link = base + "/login?token=" + url.QueryEscape(secret)
	}
	fmt.Fprintf(stdout, "Assent %s is ready on %s\n\n  Open this link in a browser (it logs you in, once):\n  %s\n\n  Data: %s\n  The built-in tools work in: %s\n",
		version(), base, link, c.where(), c.Workspace)
	if len(providers) == 0 {
		fmt.Fprintf(stdout, "  Model: %s, which is rules and no language model. Set OPENAI_API_KEY, OPENAI_BASE_URL or OLLAMA_HOST for a real one.\n", c.Model)
	} else {
		fmt.Fprintf(stdout, "  Model of new topics: %s\n", c.Model)
	}
	log.InfoContext(ctx, "serving", slog.Any("config", c), slog.String("version", version()))

	// Turns are given back from the first moment on, while requests are still
	// answered: what those begin is for others.
	running, stop := context.WithCancel(ctx)
	defer stop()
	aside, stopAside := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAside()
	var parts sync.WaitGroup
	parts.Go(func() { engine.Run(running) })
	parts.Go(func() { svc.Run(aside) })
	err = listen(ctx, ln, handler, c.ShutdownDelay, log)
	stop()
	stopAside()
	parts.Wait()
	return err
}

const (
	requestsTime = 15 * time.Second // for requests that are under way when the server leaves
	farewellTime = 3 * time.Second  // for event streams; a tab that does not read is cut
)

// listen serves HTTP until ctx ends, and for a delay more, in which it says
// that it leaves. Then event streams are told so, and requests may finish.
func listen(ctx context.Context, ln net.Listener, handler *api.API, delay time.Duration, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           handler.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       api.ConnContext,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	handler.Leave()
	if delay > 0 {
		select {
		case err := <-served:
			return fmt.Errorf("serve: %w", err)
		case <-time.After(delay):
		}
	}
	last := context.WithoutCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	streams.Go(func() { // beside the listener's end, so that nobody comes back here
		grace, cancel := context.WithTimeout(last, farewellTime)
		defer cancel()
		if err := handler.Shutdown(grace); err != nil {
			log.WarnContext(last, "event streams were cut", slog.Any("error", err))
		}
	})
	grace, cancel := context.WithTimeout(last, requestsTime)
	defer cancel()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		log.WarnContext(last, "requests were cut")
		err = srv.Close()
	}
	if err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}

// apart sees to it that the tools cannot reach the server's own data: the
// workspace may lie in the data folder, but never around it.
func apart(c config) error {
	if err := os.MkdirAll(c.Workspace, 0o700); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	data, err := filepath.EvalSymlinks(c.DataDir)
	if err != nil {
		return fmt.Errorf("find the data folder: %w", err)
	}
	workspace, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil {
		return fmt.Errorf("find the workspace: %w", err)
	}
	if inner, err := filepath.Rel(workspace, data); err == nil && filepath.IsLocal(inner) {
		return usageError{fmt.Errorf("-workspace: the data folder %s is inside the workspace %s, so that a model could read the owner's token; choose another folder", data, workspace)}
	}
	return nil
}

// openStore opens the database. Without a key what is sealed in it stays so.
func openStore(ctx context.Context, c config, key []byte, exclusive bool, log *slog.Logger) (*repository.Store, error) {
	o := repository.Options{URL: c.DatabaseURL, NoPrepare: !c.Prepare, Exclusive: exclusive, Key: key, Logger: log}
	if c.Lease > 0 { // a machine that is busy takes a second for anything
		o.SpareTimeout = max(time.Second, min(3*time.Second, c.Lease*3/10))
	}
	if c.DatabaseURL == "" {
		o.Path = filepath.Join(c.DataDir, "assent.db")
	}
	store, err := repository.Open(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return store, nil
}

func (c config) where() string {
	if c.DatabaseURL != "" {
		return "PostgreSQL, and " + c.DataDir
	}
	return filepath.Join(c.DataDir, "assent.db")
}

// hosts are the names by which the server may be called: the one it was told
// to listen on, and the address that became of it.
func hosts(c config, ln net.Listener) []string {
	names := []string{}
	for _, addr := range []string{c.Addr, ln.Addr().String()} {
		if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
			names = append(names, host)
		}
	}
	return names
}

// publicURL is where browsers find the server: what is configured, or else
// where it listens. The second value is nil where nothing is configured.
func publicURL(c config, ln net.Listener) (string, *url.URL, error) {
	if c.PublicURL == "" {
		return "http://" + ln.Addr().String(), nil, nil
	}
	u, err := url.Parse(c.PublicURL)
	return c.PublicURL, u, err
}

// modelNames fits the registry to the engine.
type modelNames struct{ *llm.Registry }

func (m modelNames) Resolve(name string) (turn.Model, string, error) { return m.Registry.Resolve(name) }

func (m modelNames) check(name string) error {
	_, _, err := m.Registry.Resolve(name)
	return err
}

// eventSource fits the hub to the API.
type eventSource struct{ *live.Hub }

func (e eventSource) Subscribe(topics []string, statuses bool, lastID string) api.EventReader {
	return e.Hub.Subscribe(topics, statuses, lastID)
}
