package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/assent-chat/assent/service/chat"
)

// maxRules bounds the policy: every rule is tried on every call.
const maxRules = 200

// ruleRow is a row of policy_rules as it is read.
type ruleRow struct {
	ID         string  `db:"id"`
	Name       string  `db:"name"`
	Verdict    string  `db:"verdict"`
	Expression string  `db:"expression"`
	Reason     string  `db:"reason"`
	Enabled    bool    `db:"enabled"`
	Position   int     `db:"position"`
	Version    int     `db:"version"`
	CreatedAt  instant `db:"created_at"`
	UpdatedAt  instant `db:"updated_at"`
}

const ruleColumns = `id, name, verdict, expression, reason, enabled, position, version, created_at, updated_at`

func (r ruleRow) rule() chat.Rule {
	return chat.Rule{
		ID: r.ID, Name: r.Name, Verdict: chat.Verdict(r.Verdict), Expression: r.Expression, Reason: r.Reason, Enabled: r.Enabled,
		Position: r.Position, Version: r.Version, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
	}
}

// Rules lists the rules in their order.
func (s *Store) Rules(ctx context.Context) ([]chat.Rule, error) {
	var rules []chat.Rule
	err := s.read.look(ctx, "list the rules", func(ctx context.Context, t *tx) error {
		var err error
		rules, err = t.readRules(ctx, `deleted_at IS NULL`)
		return err
	})
	return rules, err
}

func (t *tx) readRules(ctx context.Context, where string) ([]chat.Rule, error) {
	var rows []ruleRow
	if err := t.all(ctx, &rows, `SELECT `+ruleColumns+` FROM policy_rules WHERE `+where+` ORDER BY position, id`); err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	rules := make([]chat.Rule, len(rows))
	for i, row := range rows {
		rules[i] = row.rule()
	}
	return rules, nil
}

// Rule reads a rule. One that was deleted is chat.ErrGone.
func (s *Store) Rule(ctx context.Context, id string) (chat.Rule, error) {
	var row ruleRow
	err := s.view(ctx, "read a rule", func(ctx context.Context, t *tx) error {
		ok, err := t.find(ctx, &row, `SELECT `+ruleColumns+` FROM policy_rules WHERE id = ? AND deleted_at IS NULL`, id)
		if err == nil && !ok {
			err = t.noRule(ctx, id)
		}
		return err
	})
	return row.rule(), err
}

// noRule says why there is no such rule.
func (t *tx) noRule(ctx context.Context, id string) error {
	var found string
	switch gone, err := t.find(ctx, &found, `SELECT id FROM policy_rules WHERE id = ?`, id); {
	case err != nil:
		return fmt.Errorf("rule %s: %w", id, err)
	case gone:
		return chat.Gone("The rule %s was deleted.", id)
	}
	return chat.NotFound("There is no rule %s.", id)
}

// CreateRule stores a rule as its version 1, with the record of it.
func (s *Store) CreateRule(ctx context.Context, n chat.NewRule, by chat.Decider) (chat.Rule, error) {
	id, err := newID()
	if err != nil {
		return chat.Rule{}, err
	}
	var rule chat.Rule
	err = s.write.run(ctx, s.write.dialect.write, "create a rule", func(ctx context.Context, t *tx) error {
		var count struct {
			N    int     `db:"n"`
			Last int     `db:"last"`
			At   instant `db:"at"`
		}
		if err := t.get(ctx, &count, `SELECT count(*) AS n, COALESCE(max(position), 0) AS last, {now} AS at FROM policy_rules WHERE deleted_at IS NULL`); err != nil {
			return err
		}
		if count.N >= maxRules {
			return chat.Invalid("There are %d rules, which is as many as there can be.", count.N)
		}
		position := count.Last + 1
		if n.Position != nil {
			position = *n.Position
		}
		var row ruleRow
		if err := t.get(ctx, &row, `
			INSERT INTO policy_rules (id, name, verdict, expression, reason, enabled, position, version, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
			RETURNING `+ruleColumns, id, n.Name, n.Verdict, n.Expression, n.Reason, n.Enabled, position, count.At, count.At); err != nil {
			return err
		}
		rule = row.rule()
		return t.recordRule(ctx, chat.ActionCreated, rule, by, row.UpdatedAt)
	})
	return rule, err
}

// UpdateRule changes what a patch names and records the change. A patch that
// changes nothing is no change, and no version is spent on it.
func (s *Store) UpdateRule(ctx context.Context, id string, p chat.RulePatch, by chat.Decider) (chat.Rule, error) {
	return s.changeRule(ctx, "change a rule", id, func(ctx context.Context, t *tx, was chat.Rule, at instant) (chat.Rule, error) {
		if p.Version != nil && *p.Version != was.Version {
			return was, chat.Conflict("The rule is at version %d by now, not %d.", was.Version, *p.Version)
		}
		next, changed := p.Apply(was)
		if !changed {
			return was, errUnchanged
		}
		next.Version = was.Version + 1
		if _, err := t.exec(ctx, `
			UPDATE policy_rules SET name = ?, verdict = ?, expression = ?, reason = ?, enabled = ?, position = ?, version = ? WHERE id = ?`,
			next.Name, next.Verdict, next.Expression, next.Reason, next.Enabled, next.Position, next.Version, id); err != nil {
			return was, err
		}
		return next, t.recordRule(ctx, chat.ActionChanged, next, by, at)
	})
}

// DeleteRule removes a rule. The record of it stays.
func (s *Store) DeleteRule(ctx context.Context, id string, by chat.Decider) error {
	_, err := s.changeRule(ctx, "delete a rule", id, func(ctx context.Context, t *tx, was chat.Rule, at instant) (chat.Rule, error) {
		was.Version++
		if _, err := t.exec(ctx, `UPDATE policy_rules SET deleted_at = ?, version = ? WHERE id = ?`, at, was.Version, id); err != nil {
			return was, err
		}
		return was, t.recordRule(ctx, chat.ActionDeleted, was, by, at)
	})
	return err
}

// changeRule runs fn in a transaction that holds the rule's row, with the time
// of the transaction.
func (s *Store) changeRule(ctx context.Context, doing, id string, fn func(context.Context, *tx, chat.Rule, instant) (chat.Rule, error)) (chat.Rule, error) {
	var rule chat.Rule
	err := s.write.run(ctx, s.write.dialect.write, doing, func(ctx context.Context, t *tx) error {
		var was ruleRow
		ok, err := t.find(ctx, &was, `UPDATE policy_rules SET updated_at = {now} WHERE id = ? AND deleted_at IS NULL RETURNING `+ruleColumns, id)
		if err != nil {
			return fmt.Errorf("lock rule %s: %w", id, err)
		}
		if !ok {
			return t.noRule(ctx, id)
		}
		rule, err = fn(ctx, t, was.rule(), was.UpdatedAt)
		return err
	})
	if errors.Is(err, errUnchanged) {
		return s.Rule(ctx, id)
	}
	return rule, err
}

// recordRule adds to the record of a rule.
func (t *tx) recordRule(ctx context.Context, action chat.Action, r chat.Rule, by chat.Decider, at instant) error {
	var after *string
	if action != chat.ActionDeleted {
		raw, err := chat.Marshal(r)
		if err != nil {
			return fmt.Errorf("record rule %s: %w", r.ID, err)
		}
		text := string(raw)
		after = &text
	}
	if _, err := t.exec(ctx, `
		INSERT INTO policy_rule_versions (rule_id, version, action, changed_by, via, changed_at, rule) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		r.ID, r.Version, action, clean(by.Name), by.Via, at, after); err != nil {
		return fmt.Errorf("record rule %s: %w", r.ID, err)
	}
	return nil
}

type ruleChangeRow struct {
	RuleID    string  `db:"rule_id"`
	Version   int     `db:"version"`
	Action    string  `db:"action"`
	ChangedBy string  `db:"changed_by"`
	Via       string  `db:"via"`
	ChangedAt instant `db:"changed_at"`
	Rule      *string `db:"rule"`
}

func (r ruleChangeRow) change() (chat.RuleChange, error) {
	c := chat.RuleChange{
		RuleID: r.RuleID, Version: r.Version, Action: chat.Action(r.Action), By: r.ChangedBy, Via: chat.Via(r.Via), At: r.ChangedAt.Time,
	}
	if r.Rule != nil {
		if err := json.Unmarshal([]byte(*r.Rule), &c.After); err != nil {
			return c, fmt.Errorf("version %d of rule %s: %w", r.Version, r.RuleID, err)
		}
	}
	return c, nil
}

// RuleVersions lists what was done to a rule, the newest first. It answers
// for deleted rules too.
func (s *Store) RuleVersions(ctx context.Context, id string, p chat.Page) ([]chat.RuleChange, string, error) {
	query, args := `SELECT rule_id, version, action, changed_by, via, changed_at, rule FROM policy_rule_versions WHERE rule_id = ?`, []any{id}
	if p.Cursor != "" {
		version, err := strconv.Atoi(p.Cursor)
		if err != nil {
			return nil, "", errCursor
		}
		query, args = query+` AND version < ?`, append(args, version)
	}
	var rows []ruleChangeRow
	err := s.view(ctx, "read the record of a rule", func(ctx context.Context, t *tx) error {
		rows = nil
		if err := t.all(ctx, &rows, query+` ORDER BY version DESC LIMIT ?`, append(args, p.Limit+1)...); err != nil {
			return err
		}
		if len(rows) == 0 && p.Cursor == "" {
			return t.noRule(ctx, id)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	changes := make([]chat.RuleChange, len(rows))
	for i, row := range rows {
		if changes[i], err = row.change(); err != nil {
			return nil, "", err
		}
		if i > 0 {
			changes[i-1].Before = changes[i].After
		}
	}
	if len(changes) > p.Limit {
		changes = changes[:p.Limit]
		return changes, strconv.Itoa(changes[p.Limit-1].Version), nil
	}
	return changes, "", nil
}
