import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react'
import { explain, type ServerInfo } from '../api/client'
import { changeSwitches, type Choice, choiceOf, withChoice } from '../api/switches'
import { claims } from '../approvals/words'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import type { ServerTool } from './api'
import { choices, list } from './words'

interface ToolsProps {
  server: ServerInfo
  onChanged(server: ServerInfo): void
}

export function Tools({ server, onChanged }: ToolsProps) {
  const offered = new Set(server.tools.map((t) => t.name))
  const unknown = [...new Set([...server.disabledTools, ...server.autoApproveTools, ...server.alwaysAskTools])].filter((name) => !offered.has(name)).sort()
  const free = server.autoApproveTools
  const [error, setError] = useState<string>()
  const [busy, setBusy] = useState(false)
  return (
    <section className="settings-section" aria-labelledby="tools-title">
      <h3 id="tools-title">Tools</h3>
      {server.tools.length > 0 || unknown.length > 0 ? (
        <details className="legend">
          <summary>
            <Icon name="chevron" className="line-open" /> What the choices mean
          </summary>
          <dl>
            {choices.map((c) => (
              <div key={c.key}>
                <dt>{c.label}</dt>
                <dd>{c.means}</dd>
              </div>
            ))}
          </dl>
        </details>
      ) : (
        <p className="note">
          {server.state.phase === 'ready' ? 'The server offers no tools.' : server.state.phase === 'starting' ? 'Its tools are shown as soon as it is ready.' : 'Its tools are shown while it is connected.'}
        </p>
      )}
      {free.length > 0 && (
        <div className="free">
          <p>
            <Icon name="always" /> <span><Visible text={list(free)} /> {free.length === 1 ? 'runs' : 'run'} without asking.</span>
          </p>
          <button
            type="button"
            aria-disabled={busy}
            onClick={() => {
              if (busy) return
              setBusy(true)
              setError(undefined)
              changeSwitches(server, (lists) => ({ ...lists, autoApproveTools: [] }))
                .then(onChanged, (e: unknown) => setError(explain(e)))
                .finally(() => setBusy(false))
            }}
          >
            Ask for {free.length === 1 ? 'it' : 'all of them'} again
          </button>
          {error && <p className="error" role="alert">{error}</p>}
        </div>
      )}
      <ul className="tool-list">
        {server.tools.map((tool) => (
          <ToolRow key={tool.name} name={tool.name} tool={tool} server={server} onChanged={onChanged} />
        ))}
      </ul>
      {unknown.length > 0 && (
        <>
          <h4>Not offered now</h4>
          <p className="note">Something was said about these, but the server does not offer them at the moment. If they come back, it holds again.</p>
          <ul className="tool-list">
            {unknown.map((name) => (
              <ToolRow key={name} name={name} server={server} onChanged={onChanged} />
            ))}
          </ul>
        </>
      )}
    </section>
  )
}

function ToolRow({ name, tool, server, onChanged }: { name: string; tool?: ServerTool } & ToolsProps) {
  const now = choiceOf(server, name)
  const [busy, setBusy] = useState<Choice>()
  const [error, setError] = useState<string>()
  const [before, setBefore] = useState<Choice>()
  const running = useRef(false)
  const id = useId()
  const said = claims(tool?.annotations as Record<string, unknown> | undefined)
  const choice = choices.find((c) => c.key === now)!
  function change(to: Choice) {
    if (running.current || to === now) return
    running.current = true
    setBusy(to)
    setError(undefined)
    changeSwitches(server, (lists) => withChoice(lists, name, to))
      .then(
        (changed) => {
          setBefore(to === before ? undefined : now)
          onChanged(changed)
        },
        (e: unknown) => setError(explain(e)),
      )
      .finally(() => {
        running.current = false
        setBusy(undefined)
      })
  }
  const undo = before === undefined ? undefined : choices.find((c) => c.key === before)
  return (
    <li className={`tool ${now}`}>
      <div className="tool-about">
        <h4 id={`${id}-name`}>
          <code><Visible text={name} /></code> {tool?.title && <span><Visible text={tool.title} /></span>}
        </h4>
        {tool?.description && <Description text={tool.description} />}
        {said.length > 0 && (
          <ul className="claims" aria-label="What the server claims">
            <li className="claims-label">The server claims:</li>
            {said.map((c) => (
              <li key={c.hint} title={`${c.hint} (a claim, not a guarantee)`}>
                <Icon name={c.icon} /> {c.words}
              </li>
            ))}
          </ul>
        )}
      </div>
      <Choices value={now} busy={busy} labelledBy={`${id}-name`} describedBy={`${id}-means`} onChoose={change} />
      <p className="note choice-means" id={`${id}-means`} role="status">
        {choice.means}{' '}
        {undo && (
          <button type="button" className="link" onClick={() => change(undo.key)}>
            Undo: {undo.label}
          </button>
        )}
      </p>
      {error && (
        <p className="error" role="alert">
          <Icon name="warning" /> Nothing was changed. <Visible text={error} />
        </p>
      )}
    </li>
  )
}

const shortest = 160

/** What a server writes for the model: as text, and not more of it than a person asks for. */
function Description({ text }: { text: string }) {
  const [all, setAll] = useState(false)
  const plain = text.trim()
  const long = plain.length > shortest || plain.includes('\n')
  const first = plain.split('\n')[0]!
  return (
    <p className={all ? 'tool-text all' : 'tool-text'}>
      <Visible text={all || !long ? plain : `${first.slice(0, shortest).trimEnd()}…`} />{' '}
      {long && (
        <button type="button" className="link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? 'Less' : 'More'}
        </button>
      )}
    </p>
  )
}

/**
 * The four choices. Arrow keys move the focus and choose nothing: on the way
 * from “Ask” to “Off” no tool may be let run for a moment.
 */
function Choices({ value, busy, labelledBy, describedBy, onChoose }: { value: Choice; busy: Choice | undefined; labelledBy: string; describedBy: string; onChoose(choice: Choice): void }) {
  const box = useRef<HTMLDivElement>(null)
  const [at, setAt] = useState(value)
  useEffect(() => setAt(value), [value])
  function onKeyDown(event: KeyboardEvent) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    const next = (choices.findIndex((c) => c.key === at) + by + choices.length) % choices.length
    setAt(choices[next]!.key)
    box.current?.querySelectorAll<HTMLElement>('button')[next]?.focus()
  }
  return (
    <div ref={box} className="choices" role="radiogroup" aria-labelledby={labelledBy} aria-describedby={describedBy} aria-busy={busy !== undefined} onKeyDown={onKeyDown}>
      {choices.map((c) => (
        <button
          key={c.key}
          type="button"
          role="radio"
          className={c.key}
          aria-checked={value === c.key}
          tabIndex={at === c.key ? 0 : -1}
          onFocus={() => setAt(c.key)}
          onKeyDown={(event) => {
            if (event.repeat && (event.key === 'Enter' || event.key === ' ')) event.preventDefault()
          }}
          onClick={() => onChoose(c.key)}
        >
          {busy === c.key ? 'Saving…' : c.label}
        </button>
      ))}
    </div>
  )
}
