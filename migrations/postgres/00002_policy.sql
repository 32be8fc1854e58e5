-- +goose Up

ALTER TABLE topics ADD COLUMN mode TEXT NOT NULL DEFAULT 'default';
ALTER TABLE messages ADD COLUMN sent_by TEXT NOT NULL DEFAULT ''; -- the principal, of a user message

CREATE TABLE policy_rules (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    verdict    TEXT NOT NULL CHECK (verdict IN ('allow', 'ask', 'deny')),
    expression TEXT NOT NULL,
    reason     TEXT NOT NULL,
    enabled    BOOLEAN NOT NULL,
    position   INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    deleted_at TIMESTAMPTZ
);

-- Rows are added; none is ever changed or removed. They outlive the rule.
CREATE TABLE policy_rule_versions (
    rule_id    TEXT NOT NULL,
    version    INTEGER NOT NULL,
    action     TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    via        TEXT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL,
    rule       TEXT,                            -- as it was after the change, in JSON; NULL once it is deleted
    PRIMARY KEY (rule_id, version)
);
