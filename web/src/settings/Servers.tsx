import { useRef, useState } from 'react'
import type { ServerInfo } from '../api/client'
import { choiceOf } from '../api/switches'
import { navigate, settingsPath } from '../router'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { settingsApi } from './api'
import { Import } from './Import'
import { useLoaded } from './load'
import { Chip, Heading, Lines, Loading, ReadError } from './parts'
import { ServerForm } from './ServerForm'
import { join } from './shell'
import { phases, sources } from './words'

export function Servers({ owner }: { owner: boolean }) {
  const { data: servers, error, reload } = useLoaded('mcp-servers', 'list', settingsApi.servers)
  const [form, setForm] = useState<'add' | 'import'>()
  const add = useRef<HTMLButtonElement>(null)
  function close() {
    setForm(undefined)
    requestAnimationFrame(() => add.current?.focus())
  }
  const own = servers?.filter((s) => s.source !== 'built-in') ?? []
  return (
    <>
      <div className="settings-head">
        <Heading>Tool servers</Heading>
        {owner && form === undefined && (
          <div className="buttons">
            <button ref={add} type="button" className="primary" onClick={() => setForm('add')}>
              <Icon name="plus" /> Add a server
            </button>
            <button type="button" onClick={() => setForm('import')}>
              <Icon name="upload" /> Import
            </button>
          </div>
        )}
      </div>
      <p className="settings-about">Where the tools come from that models may call. All tools of a new server ask, until you say otherwise.</p>
      {!owner && <OwnerOnly />}
      {form === 'add' && <ServerForm onCancel={close} onSaved={(server) => navigate(settingsPath('servers', server.id))} />}
      {form === 'import' && <Import onImported={reload} onClose={close} />}
      <ReadError error={error} has={servers !== undefined} again={reload} />
      {servers === undefined && error === undefined && <Loading />}
      <ul className="server-list">
        {servers?.map((server) => (
          <Row key={server.id} server={server} />
        ))}
      </ul>
      {servers && own.length === 0 && form === undefined && (
        <div className="empty-state">
          <p>There are no servers but the built-in one yet.</p>
          {owner && <p className="note">Add one by its command or its address, or import the settings file of a program that has some.</p>}
        </div>
      )}
    </>
  )
}

export function OwnerOnly() {
  return (
    <p className="settings-note">
      <Icon name="lock" /> Only the owner of this installation can add servers and change how they are reached, since a server is a program that runs with the owner’s rights. Which of their tools ask, you can say.
    </p>
  )
}

/** Where a server is reached, as far as it may be shown. */
export function wayOf(server: ServerInfo): string {
  if (server.command !== undefined) return join([server.command, ...(server.args ?? [])])
  return server.url ?? ''
}

export function PhaseChip({ server }: { server: ServerInfo }) {
  const look = phases[server.state.phase]
  if (!look) return null
  const n = server.tools.length
  return (
    <Chip icon={look.icon} tone={look.tone}>
      {look.words}
      {server.state.phase === 'ready' && ` · ${n} ${n === 1 ? 'tool' : 'tools'}`}
    </Chip>
  )
}

export function Failure({ state }: { state: ServerInfo['state'] }) {
  if (state.phase !== 'failed') return null
  return (
    <div className="failure">
      <p>
        <Visible text={state.error ?? 'It is not known why.'} />
      </p>
      {state.stderr && state.stderr.length > 0 && (
        <details>
          <summary>
            <Icon name="chevron" className="line-open" /> The last {state.stderr.length === 1 ? 'line' : `${state.stderr.length} lines`} that it wrote
          </summary>
          <Lines lines={state.stderr} />
        </details>
      )}
    </div>
  )
}

function Row({ server }: { server: ServerInfo }) {
  const way = wayOf(server)
  const free = server.tools.filter((t) => choiceOf(server, t.name) === 'auto-approve').length
  const off = server.tools.filter((t) => choiceOf(server, t.name) === 'off').length
  const facts = [free > 0 ? `${free} ${free === 1 ? 'runs' : 'run'} without asking` : '', off > 0 ? `${off} off` : '', server.trusted ? 'claims trusted' : ''].filter(Boolean)
  return (
    <li className={`server-row ${server.state.phase}`}>
      <div className="server-row-head">
        <PageLink to={settingsPath('servers', server.id)} className="server-name">
          <Visible text={server.name} />
        </PageLink>
        <PhaseChip server={server} />
        <small>{sources[server.source]}</small>
      </div>
      {way && <p className="way"><Visible text={way} /></p>}
      {facts.length > 0 && <p className="note">{facts.join(' · ')}</p>}
      <Failure state={server.state} />
    </li>
  )
}
