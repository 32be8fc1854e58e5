package main

import (
	"log/slog"

	"github.com/assent-chat/assent/repository"
	"github.com/assent-chat/assent/service"
	"github.com/assent-chat/assent/service/bus"
	"github.com/assent-chat/assent/service/chat"
	"github.com/assent-chat/assent/service/live"
	"github.com/assent-chat/assent/service/turn"
)

// openBus connects instances that share a database. A SQLite file has one
// process, and so no bus.
func openBus(c config, key []byte, log *slog.Logger) (*bus.Postgres, error) {
	if c.DatabaseURL == "" {
		return nil, nil
	}
	return bus.OpenPostgres(bus.PostgresOptions{URL: c.DatabaseURL, Dialer: repository.Dialer(0), Key: key, Logger: log})
}

// engines are the engine of this instance and those of the others: each is told
// of what it may do, and the one here first.
type engines struct {
	here *turn.Engine
	hub  *live.Hub
}

func (e engines) Wake() {
	e.here.Wake()
	e.hub.Wake()
}

func (e engines) Cancel(stopped chat.Epochs) {
	e.here.Cancel(stopped)
	e.hub.Cancel(stopped)
}

func (e engines) Answered(questionID string) {
	e.here.Answered(questionID)
	e.hub.Answered(questionID)
}

// instance is told what happened on others.
type instance struct {
	*turn.Engine
	svc *service.Service
}

func (i instance) SettingsChanged(what chat.SettingsKind) {
	if what == chat.SettingsServers { // the others are read whenever they are needed
		i.svc.Reload()
	}
}
