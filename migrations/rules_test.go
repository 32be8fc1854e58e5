package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/assent-chat/assent/migrations"
)

// ruled is the first number that the rules of README.md hold for: the files
// before it came with the first releases, onto small databases.
const ruled = "00004"

var (
	comment   = regexp.MustCompile(`(?m)--.*$`)
	text      = regexp.MustCompile(`'(?:[^']|'')*'`)
	space     = regexp.MustCompile(`\s+`)
	created   = regexp.MustCompile(`^create table (\w+) `)
	altered   = regexp.MustCompile(`^alter table (\w+) (.*)$`)
	indexed   = regexp.MustCompile(`^create (?:unique )?index (concurrently )?(\w+) on (\w+) `)
	unindexed = regexp.MustCompile(`^drop index (concurrently )?(if exists )?(\w+)$`)
	inserted  = regexp.MustCompile(`^insert into `)
	column    = regexp.MustCompile(`^add column \w+ `)
	scanned   = regexp.MustCompile(`\b(references|unique|primary key|check|generated)\b`)
	constant  = regexp.MustCompile(`\bdefault (''|-?\d+|true|false|null)(?:$| )`)
	harmless  = regexp.MustCompile(`^(set \(|alter column \w+ (set|drop) default|alter column \w+ drop not null|alter column \w+ set (compression|storage|statistics) |validate constraint |add constraint .* not valid$)`)
)

// complaints says which rules of README.md a migration breaks.
func complaints(database, sql string) (found []string) {
	complain := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if !strings.HasPrefix(sql, "-- +goose Up\n") && !strings.HasPrefix(sql, "-- +goose NO TRANSACTION\n-- +goose Up\n") && !strings.HasPrefix(sql, "-- +goose Up\n-- +goose NO TRANSACTION\n") {
		complain("it does not begin with -- +goose Up")
	}
	if strings.Contains(sql, "+goose Down") {
		complain("there is no way down")
	}
	alone := strings.Contains(sql, "+goose NO TRANSACTION")
	if alone && database == "sqlite" {
		complain("SQLite: every migration is one transaction, so that a kill in the middle leaves nothing")
	}
	own := map[string]bool{}
	dropped := ""
	for statement := range strings.SplitSeq(text.ReplaceAllString(comment.ReplaceAllString(sql, ""), "''"), ";") {
		statement = strings.ToLower(strings.TrimSpace(space.ReplaceAllString(statement, " ")))
		if statement == "" {
			continue
		}
		before := dropped
		dropped = ""
		if m := created.FindStringSubmatch(statement); m != nil && !alone {
			own[m[1]] = true
		} else if m := unindexed.FindStringSubmatch(statement); m != nil {
			if alone && (m[1] == "" || m[2] == "") {
				complain("%s: without a transaction it must be DROP INDEX CONCURRENTLY IF EXISTS, to be run twice", m[3])
			}
			dropped = m[3]
		} else if m := indexed.FindStringSubmatch(statement); m != nil {
			switch {
			case database == "sqlite" || own[m[3]]:
			case m[1] == "" || !alone:
				complain("%s: an index of a table that is there is made CONCURRENTLY, in a file of its own with NO TRANSACTION, or nobody writes meanwhile", m[2])
			case before != m[2]:
				complain("%s: DROP INDEX CONCURRENTLY IF EXISTS %s comes first, for one that was cut short is not valid", m[2], m[2])
			}
		} else if m := altered.FindStringSubmatch(statement); m != nil && !alone {
			if !own[m[1]] {
				found = append(found, alteration(m[1], m[2])...)
			}
		} else if !inserted.MatchString(statement) || alone {
			complain("%.40q is not known to be harmless while others read and write", statement)
		}
	}
	return found
}

// alteration judges one ALTER TABLE of a table that is there.
func alteration(table, what string) []string {
	switch {
	case harmless.MatchString(what):
		return nil
	case !column.MatchString(what) || strings.Contains(what, ", add ") || strings.Contains(what, ", alter ") || strings.Contains(what, ", drop "):
		return []string{fmt.Sprintf("%s: %.40q would read or write the whole table, or break the release before", table, what)}
	case scanned.MatchString(what):
		return []string{table + ": a column with a constraint makes the whole table be read"}
	case strings.Contains(what, "not null") && !strings.Contains(what, "default"):
		return []string{table + ": a column that is NOT NULL needs a DEFAULT, for the rows that are there and for the release before"}
	case strings.Contains(what, "default") && !constant.MatchString(what):
		return []string{table + ": a default that is no constant makes the whole table be written"}
	}
	return nil
}

func each(t *testing.T, do func(database, name, sql string)) {
	t.Helper()
	for database, open := range map[string]func() (fs.FS, error){"postgres": migrations.Postgres, "sqlite": migrations.SQLite} {
		files, err := open()
		if err != nil {
			t.Fatal(err)
		}
		names, err := fs.Glob(files, "*.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			sql, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			do(database, name, string(sql))
		}
	}
}

func TestMigrationsKeepTheRules(t *testing.T) {
	each(t, func(database, name, sql string) {
		if name < ruled {
			return
		}
		for _, complaint := range complaints(database, sql) {
			t.Errorf("%s/%s: %s (see README.md)", database, name, complaint)
		}
	})
}

// TestWhatWasReleasedIsNotChanged holds the files against released.sha256, to
// which each release adds its own.
func TestWhatWasReleasedIsNotChanged(t *testing.T) {
	digests, err := os.ReadFile("released.sha256")
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]string{}
	each(t, func(database, name, sql string) {
		now[database+"/"+name] = fmt.Sprintf("%x", sha256.Sum256([]byte(sql)))
	})
	for line := range strings.Lines(string(digests)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || now[name] != digest {
			t.Errorf("%q: databases have it by now, so it cannot change; write a new file", name)
		}
	}
}

func TestTheRules(t *testing.T) {
	const up, alone = "-- +goose Up\n", "-- +goose NO TRANSACTION\n-- +goose Up\n"
	for sql, ok := range map[string]struct{ postgres, sqlite bool }{
		up + "ALTER TABLE turns ADD COLUMN a TEXT; -- why":                                                                  {true, true},
		up + "ALTER TABLE turns ADD COLUMN a TEXT NOT NULL DEFAULT '';":                                                     {true, true},
		up + "ALTER TABLE turns ADD COLUMN a INTEGER NOT NULL DEFAULT -1;":                                                  {true, true},
		up + "CREATE TABLE a (b TEXT CHECK (b <> ''));\nCREATE INDEX c ON a (b);\nINSERT INTO a (b) SELECT id FROM topics;": {true, true},
		up + "DROP INDEX turns_owner;":                                                                                      {true, true},
		up + "CREATE INDEX a ON turns (b);":                                                                                 {false, true},
		alone + "DROP INDEX CONCURRENTLY IF EXISTS a;\nCREATE UNIQUE INDEX CONCURRENTLY a ON turns (b);":                    {true, false},
		alone + "DROP INDEX CONCURRENTLY IF EXISTS a;":                                                                      {true, false},
		alone + "CREATE INDEX CONCURRENTLY a ON turns (b);":                                                                 {false, false},
		alone + "DROP INDEX CONCURRENTLY IF EXISTS c; CREATE INDEX CONCURRENTLY a ON turns (b);":                            {false, false},
		alone + "DROP INDEX a;":                                                                       {false, false},
		alone + "ALTER TABLE turns ADD COLUMN a TEXT;":                                                {false, false},
		up + "CREATE INDEX CONCURRENTLY a ON turns (b);":                                              {false, true},
		up + "ALTER TABLE turns ADD COLUMN a TEXT NOT NULL;":                                          {},
		up + "ALTER TABLE turns ADD COLUMN a TEXT DEFAULT clock_timestamp();":                         {},
		up + "ALTER TABLE turns ADD COLUMN a TEXT REFERENCES topics (id);":                            {},
		up + "ALTER TABLE turns ADD COLUMN a TEXT UNIQUE;":                                            {},
		up + "ALTER TABLE turns ADD COLUMN a TEXT, DROP COLUMN b;":                                    {},
		up + "ALTER TABLE turns ALTER COLUMN a TYPE BIGINT;":                                          {},
		up + "ALTER TABLE turns ALTER COLUMN a SET NOT NULL;":                                         {},
		up + "ALTER TABLE turns ALTER COLUMN a DROP NOT NULL;":                                        {true, true},
		up + "ALTER TABLE turns SET (fillfactor = 60);":                                               {true, true},
		up + "ALTER TABLE turns ADD CONSTRAINT a CHECK (b > 0) NOT VALID;":                            {true, true},
		up + "ALTER TABLE turns ADD CONSTRAINT a CHECK (b > 0);":                                      {},
		up + "ALTER TABLE turns DROP COLUMN a;":                                                       {},
		up + "ALTER TABLE turns RENAME TO runs;":                                                      {},
		up + "DROP TABLE turns;":                                                                      {},
		up + "UPDATE turns SET a = 1;":                                                                {},
		up + "DELETE FROM turns;":                                                                     {},
		up + "SET lock_timeout = 0;":                                                                  {},
		up + "COMMIT; BEGIN;":                                                                         {},
		up + "LOCK TABLE turns;":                                                                      {},
		up + "PRAGMA foreign_keys = off;":                                                             {},
		up + "VACUUM FULL;":                                                                           {},
		up + "ALTER TABLE turns ADD COLUMN a TEXT;\n-- +goose Down\nALTER TABLE turns DROP COLUMN a;": {},
		"ALTER TABLE turns ADD COLUMN a TEXT;":                                                        {},
	} {
		for database, ok := range map[string]bool{"postgres": ok.postgres, "sqlite": ok.sqlite} {
			if got := complaints(database, sql); (len(got) == 0) != ok {
				t.Errorf("%s: %q: %q", database, sql, got)
			}
		}
	}
}
