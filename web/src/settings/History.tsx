import { type ReactNode, useEffect, useState } from 'react'
import { api, explain } from '../api/client'
import { navigate, pathOf } from '../router'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'

interface Change {
  version: number
  by: string
  via: string
  at: string
  approvalId?: string
}

interface HistoryProps<T extends Change> {
  /** The version of what the record is of: a newer one has the record read again. */
  version: number
  load(cursor?: string): Promise<{ versions: T[]; nextCursor?: string }>
  say(change: T): string[]
}

/** Who changed a setting, when and how. It is read when it is unfolded. */
export function History<T extends Change>(props: HistoryProps<T>) {
  const [open, setOpen] = useState(false)
  return (
    <details className="history" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" className="line-open" /> History {props.version > 0 && <small>version {props.version}</small>}
      </summary>
      {open && <Entries {...props} />}
    </details>
  )
}

function Entries<T extends Change>({ version, load, say }: HistoryProps<T>) {
  const [entries, setEntries] = useState<T[]>()
  const [next, setNext] = useState<string>()
  const [error, setError] = useState<string>()
  const more = (cursor?: string) => {
    setError(undefined)
    return load(cursor).then(
      (page) => {
        setEntries((before) => (cursor === undefined ? page.versions : [...(before ?? []), ...page.versions]))
        setNext(page.nextCursor)
      },
      (e: unknown) => setError(explain(e)),
    )
  }
  // The loader is a new function with every drawing; what it reads changes with the version.
  useEffect(() => void more(), [version])
  return (
    <div className="history-body">
      {error && (
        <p className="error" role="alert">
          {error}{' '}
          <button type="button" onClick={() => void more()}>
            Try again
          </button>
        </p>
      )}
      {!entries && !error && <p className="note" role="status">Loading…</p>}
      {entries?.length === 0 && <p className="note">Nothing has been changed yet.</p>}
      <ol>
        {entries?.map((c) => (
          <li key={c.version}>
            <p className="history-who">
              <strong><Visible text={c.by} /></strong> {c.approvalId === undefined ? via(c.via) : <>on <CardLink approvalId={c.approvalId} /></>} · <time dateTime={c.at}>{when(c.at)}</time> · version {c.version}
            </p>
            <ul>
              {say(c).map((words, i) => (
                <li key={i}><Visible text={words} /></li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
      {next !== undefined && (
        <button type="button" className="quiet" onClick={() => void more(next)}>
          Show earlier changes
        </button>
      )}
    </div>
  )
}

const via = (way: string): ReactNode => (way === 'web' ? 'on this page' : `via ${way === 'api' ? 'the API' : way}`)

function when(iso: string): string {
  const date = new Date(iso)
  return Number.isNaN(date.getTime()) ? '' : date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
}

/** Goes to the topic of a card. Where that is, the server knows. */
function CardLink({ approvalId }: { approvalId: string }) {
  const [error, setError] = useState<string>()
  return (
    <>
      <button
        type="button"
        className="link"
        onClick={() => {
          api.explainApproval(approvalId).then(
            ({ topicId }) => navigate(pathOf(topicId)),
            (e: unknown) => setError(explain(e)),
          )
        }}
      >
        a card
      </button>
      {error && <span className="field-problem" role="alert"> {error}</span>}
    </>
  )
}
