import { type ReactNode, useState } from 'react'
import { api, ApiError, explain, type ServerInfo } from '../api/client'
import { navigate, settingsPath } from '../router'
import { Visible } from '../text/Visible'
import { Dialog } from '../ui/Dialog'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { clock } from '../ui/time'
import { settingsApi } from './api'
import { History } from './History'
import { useLoaded } from './load'
import { ActionError, Heading, Loading, ReadError, Switch, useAction } from './parts'
import { ServerForm } from './ServerForm'
import { Failure, OwnerOnly, PhaseChip, wayOf } from './Servers'
import { Tools } from './Tools'
import { TrialView, useTrial } from './Trial'
import { serverChanges, sources } from './words'

export function Server({ id, owner }: { id: string; owner: boolean }) {
  const { data: server, error, reload, set } = useLoaded('mcp-servers', id, () => api.server(id))
  const [editing, setEditing] = useState(false)
  const [deleting, setDeleting] = useState(false)
  const gone = error instanceof ApiError && (error.status === 404 || error.status === 410)
  return (
    <>
      <p className="crumb">
        <PageLink to={settingsPath('servers')}>
          <Icon name="chevron" className="flip" /> All tool servers
        </PageLink>
      </p>
      {gone ? (
        <div className="empty-state">
          <Heading>This server is not here</Heading>
          <p>It was deleted, or the address is wrong.</p>
          <History version={0} load={(cursor) => settingsApi.serverVersions(id, cursor)} say={serverChanges} />
        </div>
      ) : (
        <>
          <ReadError error={error} has={server !== undefined} again={reload} />
          {server === undefined && error === undefined && <Loading />}
          {server && (
            <>
              <div className="settings-head">
                <Heading>
                  <Visible text={server.name} />
                </Heading>
                <PhaseChip server={server} />
                <small className="note">{sources[server.source]}</small>
              </div>
              <Failure state={server.state} />
              {editing ? (
                <ServerForm
                  key={server.id}
                  server={server}
                  onCancel={() => setEditing(false)}
                  onSaved={(changed) => {
                    set(changed)
                    setEditing(false)
                  }}
                />
              ) : (
                <Connection server={server} owner={owner} onChanged={set} onEdit={() => setEditing(true)} onDelete={() => setDeleting(true)} />
              )}
              <Tools server={server} onChanged={set} />
              <Trust server={server} onChanged={set} />
              <History version={server.version} load={(cursor) => settingsApi.serverVersions(id, cursor)} say={serverChanges} />
            </>
          )}
        </>
      )}
      {deleting && server && <DeleteServer server={server} onClose={() => setDeleting(false)} />}
    </>
  )
}

interface ConnectionProps {
  server: ServerInfo
  owner: boolean
  onChanged(server: ServerInfo): void
  onEdit(): void
  onDelete(): void
}

function Connection({ server, owner, onChanged, onEdit, onDelete }: ConnectionProps) {
  const action = useAction()
  const trying = useTrial()
  const editable = owner && server.source === 'settings'
  const { state } = server
  const facts: [string, ReactNode][] = []
  const way = wayOf(server)
  if (way) facts.push([server.transport === 'http' ? 'Address' : 'Command', <code key="way"><Visible text={way} /></code>])
  if (server.dir) facts.push(['Folder', <code key="dir"><Visible text={server.dir} /></code>])
  const secrets = Object.keys(server.env ?? server.headers ?? {}).sort()
  if (secrets.length > 0) {
    facts.push([
      server.env ? 'Environment' : 'Headers',
      <span key="secrets" className="set-list">
        {secrets.map((name) => (
          <span key={name}>
            <code><Visible text={name} /></code> <span className="chip quiet">set</span>
          </span>
        ))}
      </span>,
    ])
  }
  if (state.serverName) facts.push(['Calls itself', <Visible key="name" text={`${state.serverName} ${state.serverVersion ?? ''}`.trim()} />])
  if (state.protocol) facts.push(['Protocol', `MCP ${state.protocol}`])
  if (state.since) facts.push([{ ready: 'Ready since', failed: 'Failed since', starting: 'Starting since', disabled: 'Off since' }[state.phase] ?? 'Since', clock(state.since)])
  return (
    <section className="settings-section" aria-label="Connection">
      {server.source === 'built-in' && <p className="settings-note"><Icon name="home" /> This server is part of Assent: its tools work in the folder of the workspace. Only which of them ask can be said here.</p>}
      {server.source === 'file' && <p className="settings-note"><Icon name="lock" /> How this server is reached stands in the file that Assent was started with, and is changed there. Which of its tools ask is said here.</p>}
      {server.source === 'settings' && !owner && <OwnerOnly />}
      {facts.length > 0 && (
        <dl className="fields">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {owner && server.source !== 'built-in' && (
        <div className="buttons">
          {editable && (
            <button type="button" onClick={onEdit}>
              <Icon name="pencil" /> Change
            </button>
          )}
          <button type="button" aria-disabled={trying.running} onClick={() => !trying.running && trying.start((signal) => settingsApi.testStored(server.id, {}, signal))}>
            <Icon name="run" /> {trying.running ? 'Testing…' : 'Test connection'}
          </button>
          <button type="button" aria-disabled={action.busy || server.disabled} onClick={() => !server.disabled && action.run(async () => onChanged(await settingsApi.restartServer(server.id)))}>
            <Icon name="retry" /> Restart
          </button>
          {editable && (
            <>
              <Switch
                on={!server.disabled}
                label="Connected"
                busy={action.busy}
                onChange={(on) => action.run(async () => onChanged(await api.updateServer(server.id, { disabled: !on, version: server.version })))}
              />
              <button type="button" className="quiet" onClick={onDelete}>
                <Icon name="trash" /> Delete…
              </button>
            </>
          )}
        </div>
      )}
      <ActionError error={action.error} what="That was not done." />
      <TrialView trying={trying} />
    </section>
  )
}

function Trust({ server, onChanged }: { server: ServerInfo; onChanged(server: ServerInfo): void }) {
  const action = useAction()
  return (
    <section className="settings-section" aria-label="Trust">
      <h3>What the server says of its tools</h3>
      <Switch
        on={server.trusted}
        label="Trust this server’s claims"
        busy={action.busy}
        describedBy="about-trust"
        onChange={(trusted) => action.run(async () => onChanged(await api.updateServer(server.id, { trusted, ...(server.version > 0 ? { version: server.version } : {}) })))}
      />
      <p className="note" id="about-trust">
        A server says of each tool whether it only reads or may destroy something. Nobody checks that. By itself this switch allows nothing: only in chats whose mode lets trusted tools read, tools that claim to only read then run without asking.
      </p>
      <ActionError error={action.error} what="That was not changed." />
    </section>
  )
}

function DeleteServer({ server, onClose }: { server: ServerInfo; onClose(): void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  return (
    <Dialog
      title="Delete this tool server?"
      confirm={busy ? 'Deleting…' : 'Delete'}
      tone="danger"
      busy={busy}
      error={error}
      onClose={onClose}
      onConfirm={() => {
        setBusy(true)
        setError(undefined)
        settingsApi.deleteServer(server.id).then(
          () => {
            onClose()
            navigate(settingsPath('servers'))
          },
          (e: unknown) => {
            setBusy(false)
            setError(explain(e))
          },
        )
      }}
    >
      <p>
        “<Visible text={server.name} />” is disconnected, and its settings go for good, with the values that are stored for it. Its history stays.
      </p>
      <p>Cards of its tools that wait stay open, and say that the tool is gone: they can still be denied, and one that is approved fails. Calls that run now end with an unknown outcome.</p>
    </Dialog>
  )
}
