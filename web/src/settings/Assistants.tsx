import { useRef, useState } from 'react'
import { api, type Assistant, explain, type ServerInfo } from '../api/client'
import { Visible } from '../text/Visible'
import { ModelPicker } from '../thread/ModelPicker'
import { Dialog } from '../ui/Dialog'
import { Icon } from '../ui/Icon'
import { type AssistantPatch, type Mode, settingsApi } from './api'
import { useLoaded } from './load'
import { Field, Heading, Loading, Radios, ReadError, sortProblems, useAction } from './parts'
import { list, modes } from './words'

export function Assistants() {
  const { data: assistants, error, reload, set } = useLoaded('assistants', 'list', api.assistants)
  const servers = useLoaded('mcp-servers', 'list', settingsApi.servers)
  const [editing, setEditing] = useState<Assistant | 'new'>()
  const [deleting, setDeleting] = useState<Assistant>()
  const add = useRef<HTMLButtonElement>(null)
  const latest = useRef(assistants)
  latest.current = assistants
  function saved(one: Assistant) {
    const all = latest.current ?? []
    const next = all.some((a) => a.id === one.id) ? all.map((a) => (a.id === one.id ? one : a)) : [...all, one]
    set(next.toSorted((a, b) => a.name.localeCompare(b.name)))
    close()
  }
  function close() {
    setEditing(undefined)
    requestAnimationFrame(() => add.current?.focus())
  }
  const form = (assistant?: Assistant) => (
    <AssistantForm assistant={assistant} servers={servers.data} serversError={servers.error} onSaved={saved} onCancel={close} />
  )
  return (
    <>
      <div className="settings-head">
        <Heading>Assistants</Heading>
        {editing === undefined && (
          <div className="buttons">
            <button ref={add} type="button" className="primary" onClick={() => setEditing('new')}>
              <Icon name="plus" /> Add an assistant
            </button>
          </div>
        )}
      </div>
      <p className="settings-about">What a new topic can start from: a model, what it is told, which tools it may call, and how freely.</p>
      {editing === 'new' && form()}
      <ReadError error={error} has={assistants !== undefined} again={reload} />
      {assistants === undefined && error === undefined && <Loading />}
      {assistants?.length === 0 && editing === undefined && (
        <div className="empty-state">
          <p>There are no assistants yet.</p>
          <p className="note">With one, a new topic has its model, instructions and tools chosen with one click.</p>
        </div>
      )}
      <ul className="server-list">
        {assistants?.map((a) =>
          editing !== 'new' && editing?.id === a.id ? (
            <li key={a.id}>{form(a)}</li>
          ) : (
            <li key={a.id} className="server-row">
              <div className="server-row-head">
                <h3><Visible text={a.name} /></h3>
                {a.mode !== 'default' && <span className={`chip ${a.mode === 'ask-all' ? 'warn' : 'busy'}`}>{modes.find((m) => m.key === a.mode)?.label ?? a.mode}</span>}
              </div>
              {a.description && <p><Visible text={a.description} /></p>}
              <p className="note">
                {a.model ? <code><Visible text={a.model} /></code> : 'the default model'} · <Visible text={toolsOf(a, servers.data)} />
              </p>
              {a.systemPrompt && (
                <details className="history">
                  <summary>
                    <Icon name="chevron" className="line-open" /> Instructions
                  </summary>
                  <pre className="expression" tabIndex={0} aria-label={`Instructions of ${a.name}`}><Visible text={a.systemPrompt} /></pre>
                </details>
              )}
              <div className="buttons">
                <button type="button" aria-label={`Change ${a.name}`} onClick={() => setEditing(a)}>
                  <Icon name="pencil" /> Change
                </button>
                <button type="button" className="quiet" aria-label={`Delete ${a.name}…`} onClick={() => setDeleting(a)}>
                  <Icon name="trash" /> Delete…
                </button>
              </div>
            </li>
          ),
        )}
      </ul>
      {deleting && (
        <DeleteAssistant
          assistant={deleting}
          onClose={() => setDeleting(undefined)}
          onDeleted={() => {
            set((latest.current ?? []).filter((a) => a.id !== deleting.id))
            setDeleting(undefined)
          }}
        />
      )}
    </>
  )
}

function toolsOf({ mcpServerIds }: Assistant, servers: readonly ServerInfo[] | undefined): string {
  if (!mcpServerIds) return 'tools of every server'
  if (mcpServerIds.length === 0) return 'no tools'
  return `tools of ${list(mcpServerIds.map((id) => servers?.find((s) => s.id === id)?.name ?? id))}`
}

interface AssistantFormProps {
  assistant: Assistant | undefined
  servers: readonly ServerInfo[] | undefined
  serversError: unknown
  onSaved(assistant: Assistant): void
  onCancel(): void
}

const fields = ['/name', '/description', '/model', '/systemPrompt', '/mcpServerIds', '/mode']

function AssistantForm({ assistant, servers, serversError, onSaved, onCancel }: AssistantFormProps) {
  const [name, setName] = useState(assistant?.name ?? '')
  const [description, setDescription] = useState(assistant?.description ?? '')
  const [model, setModel] = useState(assistant?.model)
  const [prompt, setPrompt] = useState(assistant?.systemPrompt ?? '')
  const [which, setWhich] = useState<'all' | 'these' | 'none'>(assistant?.mcpServerIds ? (assistant.mcpServerIds.length > 0 ? 'these' : 'none') : 'all')
  const [chosen, setChosen] = useState<readonly string[]>(assistant?.mcpServerIds ?? [])
  const [mode, setMode] = useState<Mode>(assistant?.mode ?? 'default')
  const [shown, setShown] = useState(false)
  const saving = useAction()
  const form = useRef<HTMLFormElement>(null)
  const own = new Map<string, string>()
  if (name.trim() === '') own.set('/name', 'A name is needed.')
  if (which === 'these' && chosen.length === 0) own.set('/mcpServerIds', 'Choose a server, or none of them above.')
  const refused = sortProblems(saving.error, fields, (pointer) => `/${pointer.split('/')[1] ?? ''}`)
  const problem = (field: string) => (shown ? own.get(field) : undefined) ?? refused.fields.get(field)
  const ids = which === 'all' ? null : which === 'none' ? [] : [...chosen]
  // A server that was deleted can be left in the list or taken out of it.
  const offered = [...(servers ?? []).map((s) => ({ id: s.id, name: s.name })), ...chosen.filter((id) => !servers?.some((s) => s.id === id)).map((id) => ({ id, name: `${id} (not here now)` }))]

  function save() {
    setShown(true)
    if (own.size > 0) {
      requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"], .radios input')?.focus())
      return
    }
    const text = { name: name.trim(), description: description.trim(), systemPrompt: prompt }
    saving.run(async () => {
      if (!assistant) {
        onSaved(await settingsApi.createAssistant({ ...text, ...(model === undefined ? {} : { model }), mcpServerIds: ids, mode }))
        return
      }
      const patch: AssistantPatch = {}
      if (text.name !== assistant.name) patch.name = text.name
      if (text.description !== (assistant.description ?? '')) patch.description = text.description
      if (text.systemPrompt !== (assistant.systemPrompt ?? '')) patch.systemPrompt = text.systemPrompt
      if (model !== undefined && model !== assistant.model) patch.model = model
      if (mode !== assistant.mode) patch.mode = mode
      if (JSON.stringify(ids) !== JSON.stringify(assistant.mcpServerIds ?? null)) patch.mcpServerIds = ids
      onSaved(Object.keys(patch).length === 0 ? assistant : await settingsApi.updateAssistant(assistant.id, { ...patch, version: assistant.version }))
    })
  }

  return (
    <form
      ref={form}
      className="panel"
      noValidate
      aria-label={assistant ? `Change ${assistant.name}` : 'Add an assistant'}
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <Field label="Name" problem={problem('/name')}>
        {(input) => <input {...input} value={name} maxLength={100} autoFocus autoComplete="off" placeholder="Release manager" onChange={(e) => setName(e.target.value)} />}
      </Field>
      <Field label={<>Description <small>optional</small></>} note="For whoever chooses it." problem={problem('/description')}>
        {(input) => <input {...input} value={description} maxLength={1000} autoComplete="off" onChange={(e) => setDescription(e.target.value)} />}
      </Field>
      <div className="field">
        <span className="field-label" aria-hidden="true">Model</span>
        <ModelPicker value={model} onChange={setModel} />
        {problem('/model') && <p className="field-problem"><Icon name="warning" /> {problem('/model')}</p>}
      </div>
      <Field label={<>Instructions <small>optional</small></>} note="The model reads them before everything else. They allow nothing: what may run, the rules and the switches say." problem={problem('/systemPrompt')}>
        {(input) => <textarea {...input} rows={Math.min(14, Math.max(4, prompt.split('\n').length))} value={prompt} maxLength={100_000} onChange={(e) => setPrompt(e.target.value)} />}
      </Field>
      <Radios
        legend="Tools"
        value={which}
        onChange={setWhich}
        problem={problem('/mcpServerIds')}
        options={[
          { key: 'all', label: 'Of every server', means: 'Also of those that are added later.' },
          { key: 'these', label: 'Of these servers' },
          { key: 'none', label: 'None' },
        ]}
      />
      {which === 'these' && (
        <fieldset className="field indent">
          <legend className="off-screen">Servers</legend>
          {!servers && serversError === undefined && <p className="note">Loading…</p>}
          {serversError !== undefined && <p className="note">The servers could not be listed. {explain(serversError)}</p>}
          {offered.map((s) => (
            <label key={s.id} className="check">
              <input type="checkbox" checked={chosen.includes(s.id)} onChange={(e) => setChosen(e.target.checked ? [...chosen, s.id] : chosen.filter((id) => id !== s.id))} /> <Visible text={s.name} />
            </label>
          ))}
        </fieldset>
      )}
      <Radios legend="How freely its calls run" options={modes} value={mode} onChange={setMode} problem={problem('/mode')} />
      {assistant && <p className="note">Topics that started from it keep the model, the instructions and the tools that they started with. How freely calls run changes for them too, at once.</p>}
      {refused.rest && (
        <p className="error" role="alert">
          <Icon name="warning" /> <Visible text={refused.rest} />
        </p>
      )}
      <div className="buttons">
        <button type="submit" className="primary" aria-disabled={saving.busy}>
          {saving.busy ? 'Saving…' : assistant ? 'Save' : 'Add assistant'}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  )
}

function DeleteAssistant({ assistant, onClose, onDeleted }: { assistant: Assistant; onClose(): void; onDeleted(): void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  return (
    <Dialog
      title="Delete this assistant?"
      confirm={busy ? 'Deleting…' : 'Delete'}
      tone="danger"
      busy={busy}
      error={error}
      onClose={onClose}
      onConfirm={() => {
        setBusy(true)
        setError(undefined)
        settingsApi.deleteAssistant(assistant.id).then(onDeleted, (e: unknown) => {
          setBusy(false)
          setError(explain(e))
        })
      }}
    >
      <p>
        No new topic can start from “<Visible text={assistant.name} />”. Topics that did go on as they are, and how freely its calls may run goes on to hold for them.
      </p>
    </Dialog>
  )
}
