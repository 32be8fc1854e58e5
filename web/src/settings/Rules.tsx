import { useRef, useState } from 'react'
import { explain } from '../api/client'
import { Visible } from '../text/Visible'
import { Dialog } from '../ui/Dialog'
import { Icon } from '../ui/Icon'
import { type Rule, settingsApi } from './api'
import { History } from './History'
import { useLoaded } from './load'
import { ActionError, Heading, Loading, ReadError, Switch, useAction } from './parts'
import { RuleForm } from './RuleForm'
import { ruleChanges, verdicts } from './words'

export function Rules() {
  const { data: rules, error, reload, set } = useLoaded('rules', 'list', settingsApi.rules)
  const [editing, setEditing] = useState<Rule | 'new'>()
  const [deleting, setDeleting] = useState<Rule>()
  const add = useRef<HTMLButtonElement>(null)
  const latest = useRef(rules)
  latest.current = rules
  function put(rule: Rule) {
    const all = latest.current ?? []
    set(all.some((r) => r.id === rule.id) ? all.map((r) => (r.id === rule.id ? rule : r)) : [...all, rule])
    reload() // a rule may have another place by now
  }
  function close() {
    setEditing(undefined)
    requestAnimationFrame(() => add.current?.focus())
  }
  return (
    <>
      <div className="settings-head">
        <Heading>Rules</Heading>
        {editing === undefined && (
          <div className="buttons">
            <button ref={add} type="button" className="primary" onClick={() => setEditing('new')}>
              <Icon name="plus" /> Add a rule
            </button>
          </div>
        )}
      </div>
      <p className="settings-about">
        Rules allow, ask or deny by what a call is. Those that deny come first, then those that ask, then those that allow; what nothing decides asks. A rule that cannot be evaluated on a call asks.
      </p>
      {editing === 'new' && (
        <RuleForm
          onCancel={close}
          onSaved={(rule) => {
            put(rule)
            close()
          }}
        />
      )}
      <ReadError error={error} has={rules !== undefined} again={reload} />
      {rules === undefined && error === undefined && <Loading />}
      {rules?.length === 0 && editing === undefined && (
        <div className="empty-state">
          <p>There are no rules yet.</p>
          <p className="note">Without rules the switches of each tool decide. Add a rule to let some calls of a tool run and others not.</p>
        </div>
      )}
      {verdicts.map((v) => {
        const here = (rules ?? []).filter((r) => r.verdict === v.key).sort((a, b) => a.position - b.position)
        if (here.length === 0) return null
        return (
          <section key={v.key} className="settings-section" aria-label={v.heading}>
            <h3 className={`verdict ${v.tone}`}>
              <Icon name={v.icon} /> {v.heading}
            </h3>
            <p className="note">{v.means}</p>
            <ol className="rule-list">
              {here.map((rule) =>
                editing !== 'new' && editing?.id === rule.id ? (
                  <li key={rule.id}>
                    <RuleForm
                      rule={rule}
                      onCancel={close}
                      onSaved={(saved) => {
                        put(saved)
                        close()
                      }}
                    />
                  </li>
                ) : (
                  <RuleRow key={rule.id} rule={rule} onChanged={put} onEdit={() => setEditing(rule)} onDelete={() => setDeleting(rule)} />
                ),
              )}
            </ol>
          </section>
        )
      })}
      {deleting && (
        <DeleteRule
          rule={deleting}
          onClose={() => setDeleting(undefined)}
          onDeleted={() => {
            set((latest.current ?? []).filter((r) => r.id !== deleting.id))
            setDeleting(undefined)
          }}
        />
      )}
    </>
  )
}

function RuleRow({ rule, onChanged, onEdit, onDelete }: { rule: Rule; onChanged(rule: Rule): void; onEdit(): void; onDelete(): void }) {
  const action = useAction()
  return (
    <li className={rule.enabled ? 'rule' : 'rule off'}>
      <div className="rule-head">
        <h4><Visible text={rule.name} /></h4>
        <Switch
          on={rule.enabled}
          label={rule.enabled ? 'On' : 'Off'}
          busy={action.busy}
          onChange={(enabled) => action.run(async () => onChanged(await settingsApi.updateRule(rule.id, { enabled, version: rule.version })))}
        />
      </div>
      <pre className="expression" tabIndex={0} aria-label={`Expression of ${rule.name}`}><Visible text={rule.expression} /></pre>
      {rule.reason && <p className="rule-reason">Says: “<Visible text={rule.reason} />”</p>}
      <ActionError error={action.error} what="That was not changed." />
      <div className="buttons">
        <button type="button" onClick={onEdit} aria-label={`Change ${rule.name}`}>
          <Icon name="pencil" /> Change
        </button>
        <button type="button" className="quiet" onClick={onDelete} aria-label={`Delete ${rule.name}…`}>
          <Icon name="trash" /> Delete…
        </button>
      </div>
      <History version={rule.version} load={(cursor) => settingsApi.ruleVersions(rule.id, cursor)} say={ruleChanges} />
    </li>
  )
}

function DeleteRule({ rule, onClose, onDeleted }: { rule: Rule; onClose(): void; onDeleted(): void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  return (
    <Dialog
      title="Delete this rule?"
      confirm={busy ? 'Deleting…' : 'Delete'}
      tone="danger"
      busy={busy}
      error={error}
      onClose={onClose}
      onConfirm={() => {
        setBusy(true)
        setError(undefined)
        settingsApi.deleteRule(rule.id).then(onDeleted, (e: unknown) => {
          setBusy(false)
          setError(explain(e))
        })
      }}
    >
      <p>
        “<Visible text={rule.name} />” decides nothing from the next call on. Cards that wait stay as they are. What it has decided, and its history, stay on record.
      </p>
    </Dialog>
  )
}
