-- +goose Up

-- What is open has one index on each table, however it is asked for: a
-- decision has the fewer to write.
CREATE INDEX parts_open ON parts (requested_at, expires_at, question_id, approval_id)
    WHERE state = 'approval-requested' OR question_id IS NOT NULL;
DROP INDEX parts_pending;
DROP INDEX parts_question;
DROP INDEX parts_expiring;
CREATE INDEX turns_open ON turns (updated_at)
    WHERE state IN ('queued', 'running') OR owner <> '';
DROP INDEX turns_claimable;
DROP INDEX turns_owner;
