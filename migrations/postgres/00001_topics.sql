-- +goose Up

CREATE TABLE topics (
    id                TEXT PRIMARY KEY,
    title             TEXT NOT NULL,
    model             TEXT NOT NULL,
    system_prompt     TEXT NOT NULL,
    mcp_server_ids    TEXT,                     -- a JSON array; NULL is every server
    revision          BIGINT NOT NULL,          -- rises with every transaction that a tab may see
    active_leaf       TEXT NOT NULL DEFAULT '', -- the message at the end of the selected branch
    last_completed_at TIMESTAMPTZ,
    created_at        TIMESTAMPTZ NOT NULL,
    updated_at        TIMESTAMPTZ NOT NULL,
    deleted_at        TIMESTAMPTZ
) WITH (fillfactor = 50);
-- Rows that every decision rewrites leave room on their page for the next version (fillfactor).
-- There is no index on updated_at: each decision would have to write it, for the sake of a list
-- whose few thousand rows are sorted in milliseconds.

CREATE TABLE messages (
    topic_id       TEXT NOT NULL REFERENCES topics (id),
    id             TEXT NOT NULL,               -- chosen by clients, so unique in its topic only
    parent_id      TEXT NOT NULL DEFAULT '',
    group_id       TEXT NOT NULL DEFAULT '',
    role           TEXT NOT NULL,
    model          TEXT NOT NULL DEFAULT '',
    status         TEXT NOT NULL,
    turn_id        TEXT NOT NULL DEFAULT '',
    epoch          BIGINT NOT NULL DEFAULT 0,
    error          TEXT,                        -- JSON
    body_digest    TEXT NOT NULL DEFAULT '',    -- of the parts as they were first sent
    queue_position BIGINT,
    sequence       BIGINT NOT NULL,             -- order of creation; parents are before children
    created_at     TIMESTAMPTZ NOT NULL,
    updated_at     TIMESTAMPTZ NOT NULL,
    revision       BIGINT NOT NULL,
    deleted_at     TIMESTAMPTZ,
    PRIMARY KEY (topic_id, id)
);
CREATE INDEX messages_children ON messages (topic_id, parent_id, sequence);
CREATE INDEX messages_queue ON messages (topic_id, queue_position) WHERE status = 'queued';

-- The payload is TEXT, not JSONB: the bytes of an input or an output are kept as they are.
CREATE TABLE parts (
    topic_id     TEXT NOT NULL,
    message_id   TEXT NOT NULL,
    position     INTEGER NOT NULL,
    type         TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT '',      -- of a tool call
    tool_call_id TEXT,
    approval_id  TEXT UNIQUE,
    requested_at TIMESTAMPTZ,
    updated_at   TIMESTAMPTZ NOT NULL,
    revision     BIGINT NOT NULL,
    payload      TEXT NOT NULL,
    PRIMARY KEY (topic_id, message_id, position),
    FOREIGN KEY (topic_id, message_id) REFERENCES messages (topic_id, id)
) WITH (fillfactor = 70);
CREATE INDEX parts_pending ON parts (requested_at, approval_id) WHERE state = 'approval-requested';

-- lz4 costs a third of the time that the default takes; not every build has it.
-- +goose StatementBegin
DO $$
BEGIN
    ALTER TABLE parts ALTER COLUMN payload SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'lz4 is not available; large parts use the default compression';
END
$$;
-- +goose StatementEnd

CREATE TABLE turns (
    id              TEXT PRIMARY KEY,
    topic_id        TEXT NOT NULL REFERENCES topics (id),
    message_id      TEXT NOT NULL,
    group_id        TEXT NOT NULL,
    model           TEXT NOT NULL,
    state           TEXT NOT NULL,
    owner           TEXT NOT NULL DEFAULT '',
    lease_until     TIMESTAMPTZ,
    epoch           BIGINT NOT NULL DEFAULT 0,
    steps           INTEGER NOT NULL DEFAULT 0,
    first_output_at TIMESTAMPTZ,
    broken_at       INTEGER NOT NULL DEFAULT -1,
    stopped_at      TIMESTAMPTZ,
    created_at      TIMESTAMPTZ NOT NULL,
    updated_at      TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX turns_message ON turns (topic_id, message_id);
CREATE INDEX turns_claimable ON turns (updated_at) WHERE state IN ('queued', 'running');
CREATE INDEX turns_owner ON turns (owner) WHERE owner <> '';

-- Rows are added, and their last three columns written; none is ever removed.
-- They outlive the message and the topic, so nothing is referenced.
CREATE TABLE decisions (
    id             TEXT PRIMARY KEY,
    approval_id    TEXT NOT NULL UNIQUE,        -- an approval is decided, or closed, once
    topic_id       TEXT NOT NULL,
    anchor_id      TEXT NOT NULL,
    tool_call_id   TEXT NOT NULL,
    tool_name      TEXT NOT NULL,
    server         TEXT NOT NULL,
    approved       BOOLEAN NOT NULL,
    resolution     TEXT NOT NULL,
    reason         TEXT NOT NULL,
    decided_by     TEXT NOT NULL,
    via            TEXT NOT NULL,
    decided_at     TIMESTAMPTZ NOT NULL,
    original_input TEXT,
    executed_input TEXT,
    input_digest   TEXT NOT NULL,
    started_at     TIMESTAMPTZ,
    finished_at    TIMESTAMPTZ,
    outcome        TEXT NOT NULL DEFAULT ''
);
CREATE INDEX decisions_topic ON decisions (topic_id, id); -- ids sort by time

CREATE TABLE tokens (
    digest     TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    principal  TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ
);
