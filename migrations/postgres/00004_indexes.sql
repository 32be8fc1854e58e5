-- +goose NO TRANSACTION
-- +goose Up

-- A decision changes the state of a part and of a turn, and every index on
-- either is one more to be looked at and locked. So what is open has one index
-- on each table, however it is asked for.
DROP INDEX CONCURRENTLY IF EXISTS parts_open; -- of a build that was cut off
CREATE INDEX CONCURRENTLY parts_open ON parts (requested_at, expires_at, question_id, approval_id)
    WHERE state = 'approval-requested' OR question_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS parts_pending;
DROP INDEX CONCURRENTLY IF EXISTS parts_question;
DROP INDEX CONCURRENTLY IF EXISTS parts_expiring;
DROP INDEX CONCURRENTLY IF EXISTS turns_open;
CREATE INDEX CONCURRENTLY turns_open ON turns (updated_at)
    WHERE state IN ('queued', 'running') OR owner <> '';
DROP INDEX CONCURRENTLY IF EXISTS turns_claimable;
DROP INDEX CONCURRENTLY IF EXISTS turns_owner;
