package repository_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/repository/pgtest"
	"github.com/assent-chat/assent/service/chat"
)

func TestOpenTakesOneDatabase(t *testing.T) {
	tests := []struct {
		name string
		o    repository.Options
		want string
	}{
		{"none", repository.Options{}, "give the URL"},
		{"two", repository.Options{URL: "postgres://x", Path: "y"}, "give the URL"},
		{"another kind", repository.Options{URL: "mysql://root:hunter2@x/y"}, "postgres://"},
		{"a URL that is none", repository.Options{URL: "postgres://root:hunter2@x:port/y"}, "not valid"},
		{"a key of another size", repository.Options{Path: "y", Key: []byte("hunter2")}, "7 bytes"},
		{"a key that is empty", repository.Options{Path: "y", Key: []byte{}}, "0 bytes"},
		{"a folder that is not there", repository.Options{Path: filepath.Join(t.TempDir(), "none", "a.db")}, "lock file"},
		{"the same, to serve", repository.Options{Path: filepath.Join(t.TempDir(), "none", "a.db"), Exclusive: true}, "lock file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := repository.Open(t.Context(), tt.o)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOpenSaysThatTheDatabaseDoesNotAnswer(t *testing.T) {
	_, err := repository.Open(t.Context(), repository.Options{URL: "postgres://postgres@127.0.0.1:1/x?sslmode=disable"})
	if !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestOpenRefusesAFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := repository.Open(t.Context(), repository.Options{Path: path})
	if err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
}

func TestOneServerServesAFile(t *testing.T) {
	o := sqliteOptions(t)
	first := open(t, o)
	_, err := repository.Open(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "another server") {
		t.Fatalf("a second server: %v", err)
	}
	o.Exclusive = false
	tool := open(t, o) // beside the server
	if err := tool.PutToken(t.Context(), chat.Token{Digest: "d", Kind: chat.TokenBearer, Principal: "ada"}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := first.FindToken(t.Context(), "d", chat.TokenBearer); err != nil {
		t.Errorf("the server does not see what the tool wrote: %v", err)
	}
}

func TestTheNextServerOfAFileClaimsAtOnce(t *testing.T) {
	o := sqliteOptions(t)
	first, err := repository.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f := running(t, first)
	stopped := running(t, first)
	if _, _, err := first.Stop(t.Context(), stopped.TopicID); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := open(t, o)
	found, err := next.Claimable(t.Context(), 10)
	if err != nil || len(found) != 1 || found[0].TurnID != f.TurnID {
		t.Errorf("claimable: %v, %v", found, err)
	}
	if _, err := next.KeepPartial(t.Context(), stopped, 0, nil); !errors.Is(err, chat.ErrLost) {
		t.Errorf("the dead owner's epoch still holds: %v", err)
	}
}

// running is a turn with a lease that does not end.
func running(t testing.TB, s *repository.Store) chat.Fence {
	t.Helper()
	topic, _, err := s.CreateTopic(t.Context(), chat.NewTopic{Model: "demo/guide"})
	if err != nil {
		t.Fatal(err)
	}
	sent, _, err := s.Send(t.Context(), topic.ID, chat.NewMessage{Parts: chat.Parts{chat.Text{Text: "hello"}}})
	if err != nil {
		t.Fatal(err)
	}
	work, _, ok, err := s.Claim(t.Context(), chat.Candidate{TopicID: topic.ID, TurnID: sent.Turn.ID}, "owner", time.Hour)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return chat.Fence{TopicID: topic.ID, TurnID: sent.Turn.ID, MessageID: sent.Turn.MessageID, Epoch: work.Turn.Epoch}
}

// waiting parks a turn on the named approvals.
func waiting(t testing.TB, s *repository.Store, approvals ...string) chat.Fence {
	t.Helper()
	f := running(t, s)
	if _, err := s.CommitStep(t.Context(), f, chat.Step{Build: func(at time.Time) chat.Parts {
		var parts chat.Parts
		for _, id := range approvals {
			parts = append(parts, chat.Ask(chat.ToolCall{ToolName: "t", ToolCallID: id, Input: []byte(`{}`)}, id, at))
		}
		return parts
	}}); err != nil {
		t.Fatal(err)
	}
	if parked, _, _, err := s.Park(t.Context(), f); err != nil || !parked {
		t.Fatal(parked, err)
	}
	return f
}

func decide(ctx context.Context, s *repository.Store, f chat.Fence, id string) (chat.Decided, error) {
	d, _, err := s.Decide(ctx, f.TopicID, []chat.Decision{{ApprovalID: id, Approved: true}}, chat.Decider{Name: "ada", Via: chat.ViaAPI})
	return d, err
}

func TestSeveralProcessesStartAtOnce(t *testing.T) {
	for name, options := range map[string]func(t *testing.T) repository.Options{
		"sqlite": func(t *testing.T) repository.Options {
			return repository.Options{Path: filepath.Join(t.TempDir(), "a.db")}
		},
		"postgres": func(t *testing.T) repository.Options { return repository.Options{URL: pgtest.URL(t), MaxConns: 2} },
	} {
		t.Run(name, func(t *testing.T) {
			for range 8 {
				o := options(t)
				var wg sync.WaitGroup
				errs := make([]error, 4)
				for i := range errs {
					wg.Go(func() {
						s, err := repository.Open(t.Context(), o)
						if err == nil {
							_, _, err = s.CreateTopic(t.Context(), chat.NewTopic{})
							err = errors.Join(err, s.Close())
						}
						errs[i] = err
					})
				}
				wg.Wait()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				s := open(t, o)
				if topics, _, err := s.Topics(t.Context(), chat.Page{Limit: 10}); err != nil || len(topics) != 4 {
					t.Fatalf("%d topics, %v", len(topics), err)
				}
			}
		})
	}
}

// TestASchemaThatGrowsLeavesCardsDecidable changes the schema under a server
// that has its statements prepared, as a newer release that starts beside it
// does.
func TestASchemaThatGrowsLeavesCardsDecidable(t *testing.T) {
	for name, options := range map[string]func() (repository.Options, string, string){
		"sqlite": func() (repository.Options, string, string) {
			path := filepath.Join(t.TempDir(), "a.db")
			return repository.Options{Path: path}, "sqlite", "file:" + path + "?_pragma=busy_timeout(5000)"
		},
		"postgres": func() (repository.Options, string, string) {
			url := pgtest.URL(t)
			return repository.Options{URL: url}, "postgres", url
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, driver, dsn := options()
			s := open(t, o)
			f := waiting(t, s, name+"1", name+"2", name+"3")
			if _, err := decide(t.Context(), s, f, name+"1"); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, table := range []string{"topics", "messages", "parts", "turns", "decisions"} {
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`ALTER TABLE %s ADD COLUMN later TEXT NOT NULL DEFAULT 'x'`, table)); err != nil {
					t.Fatal(err)
				}
			}
			if d, err := decide(t.Context(), s, f, name+"2"); err != nil || d.Continuation != chat.ContinuationWaiting {
				t.Fatalf("%+v, %v", d, err)
			}
			if d, err := decide(t.Context(), open(t, o), f, name+"3"); err != nil || d.Continuation != chat.ContinuationScheduled {
				t.Fatalf("after a start: %+v, %v", d, err)
			}
		})
	}
}

func TestADatabaseThatCannotBeWrittenIsNotMigrated(t *testing.T) {
	t.Parallel()
	dsn := pgtest.URL(t)
	_, err := repository.Open(t.Context(), repository.Options{URL: dsn + "&default_transaction_read_only=on"})
	told, ok := errors.AsType[*chat.Error](err)
	if !ok || !strings.Contains(told.Detail, "only be read") {
		t.Errorf("got %v", err)
	}
}
