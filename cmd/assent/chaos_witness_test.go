//go:build chaos

package main

import (
	"context"
	"database/sql"
)

// witness is what the database itself sees: which server claimed a turn, and
// which writes to it while it runs. A session's name is that of its server. The
// checks that are made here need no clock and no luck: each write is judged in
// its own transaction.
const witness = `
CREATE TABLE chaos_claims (id bigserial, turn_id text NOT NULL, epoch bigint NOT NULL, server text NOT NULL, took_over boolean NOT NULL);
CREATE INDEX ON chaos_claims (turn_id, id);
CREATE TABLE chaos_trespasses (what text NOT NULL);

CREATE FUNCTION chaos_me() RETURNS text LANGUAGE sql AS $$ SELECT current_setting('application_name') $$;

CREATE FUNCTION chaos_judge(turn text, what text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	last chaos_claims;
BEGIN
	SELECT * INTO last FROM chaos_claims WHERE turn_id = turn ORDER BY id DESC LIMIT 1;
	IF FOUND AND last.server <> chaos_me() THEN
		INSERT INTO chaos_trespasses VALUES (chaos_me() || ' ' || what || ' of turn ' || turn || ', which is at epoch ' || last.epoch || ' of ' || coalesce(nullif(last.server, ''), 'nobody'));
	END IF;
END $$;

CREATE FUNCTION chaos_turn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.epoch <> OLD.epoch THEN
		IF NEW.owner <> '' AND OLD.state = 'running' AND OLD.lease_until > clock_timestamp() THEN
			INSERT INTO chaos_trespasses VALUES (chaos_me() || ' claimed turn ' || NEW.id || ' within the lease of another');
		END IF;
		INSERT INTO chaos_claims (turn_id, epoch, server, took_over)
		VALUES (NEW.id, NEW.epoch, CASE WHEN NEW.owner = '' THEN '' ELSE chaos_me() END, OLD.state = 'running');
	ELSIF OLD.state = 'running' AND NEW.state <> 'aborted' THEN
		PERFORM chaos_judge(NEW.id, 'wrote the row (' || NEW.state || ', step ' || NEW.steps || ')');
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_turn AFTER UPDATE ON turns FOR EACH ROW EXECUTE FUNCTION chaos_turn();

CREATE FUNCTION chaos_part() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	turn turns;
	did text;
BEGIN
	SELECT * INTO turn FROM turns WHERE topic_id = NEW.topic_id AND message_id = NEW.message_id;
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	IF TG_OP = 'INSERT' THEN
		did := 'added part ' || NEW.position;
	ELSIF NEW.state = 'output-available' AND OLD.state <> NEW.state THEN
		did := 'gave the result in part ' || NEW.position;
	ELSIF NEW.payload LIKE '%"startedAt"%' AND OLD.payload NOT LIKE '%"startedAt"%' THEN
		did := 'started the call in part ' || NEW.position;
	ELSE
		RETURN NULL;
	END IF;
	PERFORM chaos_judge(turn.id, did);
	IF NEW.tool_call_id IS NOT NULL AND turn.state <> 'running' THEN
		INSERT INTO chaos_trespasses VALUES (chaos_me() || ' ' || did || ' of turn ' || turn.id || ', which is ' || turn.state);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_part AFTER INSERT OR UPDATE ON parts FOR EACH ROW EXECUTE FUNCTION chaos_part();

CREATE TABLE chaos_weather (slow float8 NOT NULL);
INSERT INTO chaos_weather VALUES (0);
CREATE FUNCTION chaos_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF random() < (SELECT slow FROM chaos_weather) THEN
		PERFORM pg_sleep(0.15);
	END IF;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER chaos_commit AFTER INSERT OR UPDATE ON parts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION chaos_commit();
`

// slowCommits makes commits take their time, so that the weather finds them.
func (c *chaos) slowCommits(share float64) {
	if err := c.db.do(context.WithoutCancel(c.t.Context()), `UPDATE chaos_weather SET slow = $1`, share); err != nil {
		c.t.Error(err)
	}
}

// checkFence reports the writes that were not their server's to make.
func (c *chaos) checkFence() {
	c.t.Helper()
	err := c.db.sure(c.t.Context(), func(ctx context.Context) error {
		rows, err := c.db.QueryContext(ctx, `DELETE FROM chaos_trespasses RETURNING what`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var what string
			if err := rows.Scan(&what); err != nil {
				return err
			}
			c.t.Errorf("fence: %s", what)
		}
		return rows.Err()
	})
	if err != nil {
		c.t.Error(err)
	}
}

// claims counts how often a turn was claimed in all, and how often from an
// owner whose lease was over.
func (c *chaos) claims(turnID string) (all, takeovers int) {
	c.t.Helper()
	err := c.db.sure(c.t.Context(), func(ctx context.Context) error {
		return c.db.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE took_over) FROM chaos_claims WHERE turn_id = $1 AND server <> ''`, turnID).Scan(&all, &takeovers)
	})
	if err != nil {
		c.t.Error(err)
	}
	return all, takeovers
}

// session tells whether a session of the server is as the condition says.
func (c *chaos) session(server, condition string) bool {
	var one int
	err := c.db.QueryRowContext(c.t.Context(), `SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND `+condition+` LIMIT 1`, server).Scan(&one)
	if err != nil && err != sql.ErrNoRows {
		c.t.Error(err)
	}
	return err == nil
}
