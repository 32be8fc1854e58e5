package repository

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// instantText is one width for every instant, so that text sorts by time.
const instantText = "2006-01-02T15:04:05.000Z"

// instant is the one type by which times go to the database and come back:
// UTC, in milliseconds. The zero instant is NULL.
type instant struct{ time.Time }

// Value is text that both databases read and that sorts in SQLite.
func (i instant) Value() (driver.Value, error) {
	if i.IsZero() {
		return nil, nil
	}
	return i.UTC().Format(instantText), nil
}

// Scan reads a timestamp, text of the one width, or NULL.
func (i *instant) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		i.Time = time.Time{}
		return nil
	case time.Time:
		i.Time = v.UTC()
		return nil
	case string:
		t, err := time.Parse(instantText, v)
		if err != nil {
			return fmt.Errorf("instant: %w", err)
		}
		i.Time = t.UTC()
		return nil
	}
	return fmt.Errorf("instant: cannot read %T", src)
}

// ptr is the instant as the vocabulary has it; nil for NULL.
func (i instant) ptr() *time.Time {
	if i.IsZero() {
		return nil
	}
	return &i.Time
}

func instantOf(t *time.Time) instant {
	if t == nil {
		return instant{}
	}
	return instant{*t}
}
