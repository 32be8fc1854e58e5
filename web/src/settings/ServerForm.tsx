import { useId, useRef, useState } from 'react'
import { api, ApiError, type ServerInfo } from '../api/client'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { settingsApi } from './api'
import { Field, Radios, sortProblems, useAction } from './parts'
import { draftOf, draftProblems, fieldOfPointer, newSecret, newServerOf, patchOf, type Secret, type ServerDraft } from './serverForm'
import { split } from './shell'
import { TrialView, useTrial } from './Trial'

interface ServerFormProps {
  /** The server that is changed; without one a new one is added. */
  server?: ServerInfo
  onSaved(server: ServerInfo): void
  onCancel(): void
}

const fields = ['/name', '/command', '/dir', '/env', '/url', '/headers']

export function ServerForm({ server, onSaved, onCancel }: ServerFormProps) {
  const [draft, setDraft] = useState(() => draftOf(server))
  const [shown, setShown] = useState(false)
  const saving = useAction()
  const trying = useTrial()
  const form = useRef<HTMLFormElement>(null)
  const own = draftProblems(draft, server)
  const refused = sortProblems(saving.error ?? trying.error, fields, fieldOfPointer)
  const problem = (field: string) => (shown ? own.get(field) : undefined) ?? refused.fields.get(field)
  const change = (part: Partial<ServerDraft>) => {
    setDraft({ ...draft, ...part })
    saving.clear()
  }
  /** Whether the draft can be sent; if not, what is wrong is shown, and the first of it gets the focus. */
  function ready(): boolean {
    setShown(true)
    if (own.size === 0) return true
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus())
    return false
  }
  function save() {
    if (!ready()) return
    saving.run(async () => {
      if (!server) onSaved(await settingsApi.createServer(newServerOf(draft)))
      else {
        const patch = patchOf(draft, server)
        onSaved(Object.keys(patch).length === 0 ? server : await api.updateServer(server.id, { ...patch, ...(server.version > 0 ? { version: server.version } : {}) }))
      }
    })
  }
  function test() {
    if (!ready()) return
    saving.clear()
    trying.start((signal) => (server ? settingsApi.testStored(server.id, patchOf(draft, server), signal) : settingsApi.testNew(newServerOf(draft), signal)))
  }

  return (
    <form
      ref={form}
      className="panel"
      noValidate
      aria-label={server ? `Change ${server.name}` : 'Add a tool server'}
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <Field label="Name" note="Rules see it as server, and models as the first part of a tool’s name." problem={problem('/name')}>
        {(input) => <input {...input} value={draft.name} maxLength={64} autoFocus autoComplete="off" spellCheck={false} placeholder="tickets" onChange={(e) => change({ name: e.target.value })} />}
      </Field>
      {!server && (
        <Radios
          legend="How it is reached"
          value={draft.kind}
          options={[
            { key: 'stdio', label: 'A program on this machine', means: 'Assent starts it, and speaks with it through its standard input and output.' },
            { key: 'http', label: 'An address', means: 'It runs elsewhere, and speaks streamable HTTP.' },
          ]}
          onChange={(kind) => change({ kind })}
        />
      )}
      {draft.kind === 'stdio' ? (
        <>
          <Field label="Command" note={<Preview line={draft.line} />} problem={problem('/command')}>
            {(input) => (
              <textarea {...input} className="code-input grows" rows={Math.min(6, draft.line.split('\n').length)} value={draft.line} spellCheck={false} autoCapitalize="off" dir="ltr" placeholder="npx -y @example/tickets-mcp --readonly" onChange={(e) => change({ line: e.target.value })} />
            )}
          </Field>
          <Secrets label="Environment" one="variable" rows={draft.env} problem={problem('/env')} onChange={(env) => change({ env })} />
          <Field label={<>Folder <small>optional</small></>} note="Where the program runs." problem={problem('/dir')}>
            {(input) => <input {...input} className="code-input" value={draft.dir} autoComplete="off" spellCheck={false} dir="ltr" onChange={(e) => change({ dir: e.target.value })} />}
          </Field>
        </>
      ) : (
        <>
          <Field
            label="Address"
            note={server?.url?.includes('•••') ? '••• stands for what is not shown. As long as the address stays as it is here, what is stored stays too.' : 'Of streamable HTTP. What stands after a question mark is not shown again.'}
            problem={problem('/url')}
          >
            {(input) => <input {...input} className="code-input" type="url" value={draft.url} autoComplete="off" spellCheck={false} dir="ltr" placeholder="https://mcp.example.com/mcp" onChange={(e) => change({ url: e.target.value })} />}
          </Field>
          <Secrets label="Headers" one="header" rows={draft.headers} problem={problem('/headers')} onChange={(headers) => change({ headers })} />
        </>
      )}
      {server && <p className="note">When this is saved, the server is connected anew, and cards of its tools that wait are asked again.</p>}
      <TrialView trying={trying} atFields />
      {refused.rest && (saving.error !== undefined || (trying.error instanceof ApiError && trying.error.status === 422)) && (
        <p className="error" role="alert">
          <Icon name="warning" /> <Visible text={saving.error instanceof ApiError && saving.error.status === 409 && server ? `${refused.rest} Close the form and open it again to see what it is now.` : refused.rest} />
        </p>
      )}
      <div className="buttons">
        <button type="submit" className="primary" aria-disabled={saving.busy}>
          {saving.busy ? 'Saving…' : server ? 'Save' : 'Add server'}
        </button>
        <button type="button" aria-disabled={trying.running} onClick={() => !trying.running && test()}>
          {trying.running ? 'Testing…' : 'Test connection'}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  )
}

/** The program and the arguments that a line stands for. */
function Preview({ line }: { line: string }) {
  const { words, hint } = split(line)
  if (words.length === 0) return <>As you would type it in a terminal; quotes hold spaces together. No shell is run. The owner sees it here, and other users of the machine can: secrets belong in the environment.</>
  return (
    <>
      <span className="words">
        {words.map((word, i) => (
          <span key={i}>
            <small>{i === 0 ? 'program' : i}</small> <code>{word === '' ? '""' : <Visible text={word} />}</code>
          </span>
        ))}
      </span>
      {hint && (
        <span className="warn-text">
          <Icon name="warning" /> {hint}
        </span>
      )}
    </>
  )
}

/** Names with values that can be written but never read back. */
function Secrets({ label, one, rows, problem, onChange }: { label: string; one: string; rows: readonly Secret[]; problem: string | undefined; onChange(rows: Secret[]): void }) {
  const id = useId()
  const added = useRef<number>(undefined)
  const box = useRef<HTMLFieldSetElement>(null)
  const put = (key: number, part: Partial<Secret>) => onChange(rows.map((r) => (r.key === key ? { ...r, ...part } : r)))
  return (
    <fieldset ref={box} className="field secrets" aria-describedby={`${id}-note`}>
      <legend>
        {label} <small>optional</small>
      </legend>
      {rows.map((row) => (
        <div key={row.key} className={row.value === null ? 'secret stored' : 'secret'}>
          {row.value === null ? (
            <>
              <code><Visible text={row.name} /></code>
              <span className="chip quiet">set</span>
              <button type="button" onClick={() => (put(row.key, { value: '' }), (added.current = -row.key))} aria-label={`Replace the value of ${row.name}`}>
                Replace
              </button>
            </>
          ) : (
            <>
              <input
                className="code-input"
                aria-label={`Name of the ${one}`}
                aria-invalid={problem !== undefined}
                value={row.name}
                autoFocus={added.current === row.key}
                autoComplete="off"
                spellCheck={false}
                autoCapitalize="off"
                placeholder={one === 'header' ? 'Authorization' : 'NAME'}
                onChange={(e) => put(row.key, { name: e.target.value })}
              />
              <input
                className="code-input"
                type="password"
                aria-label={`Value of ${row.name || `the ${one}`}`}
                value={row.value}
                autoFocus={added.current === -row.key}
                autoComplete="new-password"
                placeholder="value"
                onChange={(e) => put(row.key, { value: e.target.value })}
              />
            </>
          )}
          <button
            type="button"
            className="quiet icon-button"
            aria-label={`Remove ${row.name || `the ${one}`}`}
            onClick={() => {
              onChange(rows.filter((r) => r.key !== row.key))
              box.current?.querySelector<HTMLElement>('.add-row')?.focus()
            }}
          >
            <Icon name="trash" />
          </button>
        </div>
      ))}
      <button
        type="button"
        className="add-row"
        onClick={() => {
          const row = newSecret()
          added.current = row.key
          onChange([...rows, row])
        }}
      >
        <Icon name="plus" /> Add a {one}
      </button>
      {problem && (
        <p className="field-problem">
          <Icon name="warning" /> <Visible text={problem} />
        </p>
      )}
      <p className="note" id={`${id}-note`}>
        Values are stored encrypted. They can be replaced and removed, but nobody can read them here again.
      </p>
    </fieldset>
  )
}
