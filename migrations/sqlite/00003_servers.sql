-- +goose Up

ALTER TABLE topics ADD COLUMN assistant_id TEXT NOT NULL DEFAULT ''; -- that the topic started from
ALTER TABLE decisions ADD COLUMN remember TEXT NOT NULL DEFAULT '';  -- what was decided for good along with it
ALTER TABLE parts ADD COLUMN question_id TEXT;                       -- the open question of a call that runs
-- For the status of a topic, which counts them, and for the list of all of them.
CREATE INDEX parts_question ON parts (topic_id, message_id) WHERE question_id IS NOT NULL;
ALTER TABLE parts ADD COLUMN expires_at TEXT;                        -- of an approval that does not wait for ever
CREATE INDEX parts_expiring ON parts (expires_at) WHERE state = 'approval-requested' AND expires_at IS NOT NULL;

CREATE TABLE mcp_servers (
    id                 TEXT NOT NULL PRIMARY KEY,
    name               TEXT NOT NULL,
    source             TEXT NOT NULL CHECK (source IN ('built-in', 'file', 'settings')),
    transport          TEXT NOT NULL,
    sealed             TEXT NOT NULL,           -- the connection, encrypted; '' of what is not connected by settings
    program            TEXT NOT NULL DEFAULT '', -- of a server in a file: a keyed digest of what is started or asked
    disabled           INTEGER NOT NULL CHECK (disabled IN (0, 1)),
    disabled_tools     TEXT NOT NULL,           -- this and the next two are JSON arrays
    auto_approve_tools TEXT NOT NULL,
    always_ask_tools   TEXT NOT NULL,
    trusted            INTEGER NOT NULL CHECK (trusted IN (0, 1)),
    version            INTEGER NOT NULL,
    created_at         TEXT NOT NULL,
    updated_at         TEXT NOT NULL,
    deleted_at         TEXT
) STRICT;
CREATE UNIQUE INDEX mcp_servers_name ON mcp_servers (name) WHERE deleted_at IS NULL;

-- Rows are added; none is ever changed or removed. They outlive the server.
CREATE TABLE mcp_server_versions (
    server_id   TEXT NOT NULL,
    version     INTEGER NOT NULL,
    action      TEXT NOT NULL,
    changed_by  TEXT NOT NULL,
    via         TEXT NOT NULL,
    changed_at  TEXT NOT NULL,
    approval_id TEXT NOT NULL,                  -- the card on which a tool was allowed for good, or ''
    secrets     INTEGER NOT NULL CHECK (secrets IN (0, 1)),
    settings    TEXT,                           -- after the change, in JSON, without the connection; NULL once it is deleted
    sealed      TEXT NOT NULL,                  -- what may be shown of the connection, encrypted, or ''
    PRIMARY KEY (server_id, version)
) STRICT;

INSERT INTO mcp_servers (id, name, source, transport, sealed, disabled, disabled_tools, auto_approve_tools, always_ask_tools, trusted, version, created_at, updated_at)
SELECT 'workspace', 'workspace', 'built-in', 'built-in', '', FALSE, '[]', '["list_files","read_file"]', '[]', FALSE, 1, n.at, n.at
FROM (SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS at) AS n;
INSERT INTO mcp_server_versions (server_id, version, action, changed_by, via, changed_at, approval_id, secrets, settings, sealed)
SELECT id, version, 'created', 'assent', 'rule', created_at, '', FALSE,
    '{"id":"workspace","name":"workspace","source":"built-in","transport":"built-in","disabled":false,"disabledTools":[],"autoApproveTools":["list_files","read_file"],"alwaysAskTools":[],"trusted":false,"version":1}', ''
FROM mcp_servers WHERE id = 'workspace';

CREATE TABLE assistants (
    id             TEXT NOT NULL PRIMARY KEY,
    name           TEXT NOT NULL,
    description    TEXT NOT NULL,
    model          TEXT NOT NULL,
    system_prompt  TEXT NOT NULL,
    mcp_server_ids TEXT,                        -- a JSON array; NULL is every server
    mode           TEXT NOT NULL,               -- holds for the topics that started from it, also when it is deleted
    version        INTEGER NOT NULL,
    created_at     TEXT NOT NULL,
    updated_at     TEXT NOT NULL,
    deleted_at     TEXT
) STRICT;
