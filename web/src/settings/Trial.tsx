import { useEffect, useRef, useState } from 'react'
import { ApiError, explain } from '../api/client'
import { claims } from '../approvals/words'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import type { ServerTrial } from './api'
import { Lines } from './parts'

export interface Trying {
  running: boolean
  trial?: ServerTrial
  error?: unknown
  start(call: (signal: AbortSignal) => Promise<ServerTrial>): void
  stop(): void
}

/** A trial connection, one at a time. It ends with the form. */
export function useTrial(): Trying {
  const [state, setState] = useState<{ running: boolean; trial?: ServerTrial; error?: unknown }>({ running: false })
  const control = useRef<AbortController>(undefined)
  useEffect(() => () => control.current?.abort(), [])
  return {
    ...state,
    start(call) {
      control.current?.abort()
      const mine = new AbortController()
      control.current = mine
      setState({ running: true })
      call(mine.signal).then(
        (trial) => !mine.signal.aborted && setState({ running: false, trial }),
        (error: unknown) => !mine.signal.aborted && setState({ running: false, error }),
      )
    },
    stop() {
      control.current?.abort()
      setState({ running: false })
    },
  }
}

/** What came of it. `atFields` says that the problems of a refused request stand at the fields already. */
export function TrialView({ trying, atFields = false }: { trying: Trying; atFields?: boolean }) {
  const { running, trial, error } = trying
  return (
    <div className="trial" aria-live="polite">
      {running && (
        <div className="trial-running">
          <span className="dots" aria-hidden="true" />
          <p role="status">Connecting… A program that must be installed first can take a minute.</p>
          <button type="button" className="quiet" onClick={trying.stop}>
            Stop waiting
          </button>
        </div>
      )}
      {error !== undefined && !(atFields && error instanceof ApiError && error.status === 422) && (
        <p className="error">
          <Icon name="warning" /> It could not be tried. <Visible text={explain(error)} />
        </p>
      )}
      {trial && <Outcome trial={trial} />}
    </div>
  )
}

function Outcome({ trial }: { trial: ServerTrial }) {
  const { state, tools } = trial
  if (state.phase !== 'ready') {
    return (
      <div className="error">
        <p>
          <Icon name="warning" /> No connection. <Visible text={state.error ?? ''} />
        </p>
        {state.stderr && state.stderr.length > 0 && <Lines lines={state.stderr} />}
      </div>
    )
  }
  return (
    <div className="trial-good">
      <p>
        <Icon name="check" /> <strong>Connected{state.serverName ? <> to <Visible text={`${state.serverName} ${state.serverVersion ?? ''}`.trim()} /></> : ''}.</strong>{' '}
        {tools.length === 0 ? 'It offers no tools.' : `It offers ${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}:`}
      </p>
      {tools.length > 0 && (
        <ul className="trial-tools" tabIndex={0} aria-label="Tools found">
          {tools.map((t) => (
            <li key={t.name}>
              <code><Visible text={t.name} /></code> {t.title && <Visible text={t.title} />}
              {claims(t.annotations as Record<string, unknown> | undefined).slice(0, 2).map((c) => (
                <span key={c.hint} className="claim"><Icon name={c.icon} /> {c.words}</span>
              ))}
            </li>
          ))}
        </ul>
      )}
      <p className="note">The words after a sign are the server’s own claims. Nothing was stored.</p>
    </div>
  )
}
