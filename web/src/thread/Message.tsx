import { memo, useContext, useRef, useState } from 'react'
import { useStore } from 'zustand'
import { BatchBar } from '../approvals/Batch'
import { Card } from '../approvals/Card'
import { cardState, decisions } from '../approvals/decisions'
import { Line } from '../approvals/Line'
import type { Held } from '../live/reduce'
import { type FilePart, isText, isTool, type Message as WireMessage, type Part, type ToolPart } from '../live/types'
import { Questions } from '../questions/Question'
import { Markdown, safeUrl } from '../text/Markdown'
import { Visible } from '../text/Visible'
import { copyText } from '../ui/copy'
import { Icon } from '../ui/Icon'
import { Boundary } from '../ui/Boundary'
import { clock } from '../ui/time'
import { ThreadContext } from './pending'

/** What a person can do with a message. Each member is absent where it cannot be done. */
export interface Actions {
  retry?: () => Promise<void>
  regenerate?: () => Promise<void>
  edit?: (text: string) => Promise<void>
  branches?: { at: number; of: number; go(by: number): Promise<void> }
}

export const Message = memo(function Message({ held, actions }: { held: Held; actions: Actions }) {
  const { message } = held
  const { metadata, role } = message
  const [editing, setEditing] = useState(false)
  const text = plainText(message)
  if (editing && actions.edit) return <EditMessage text={text} onDone={() => setEditing(false)} onSend={actions.edit} />
  const label = role === 'user' ? 'You' : role === 'assistant' ? (metadata.model ?? 'Assistant') : 'System'
  const empty = message.parts.every((p) => p.type === 'step-start')
  return (
    <section className={`message ${role}`} aria-label={label}>
      <h2 className="off-screen">{label}</h2>
      <div className="bubble">
        {message.parts.map((part, i) => (
          <Boundary key={keyOf(part, i)} what="A part of this message">
            <PartView part={part} role={role} messageId={message.id} progress={held.progress[i]} />
          </Boundary>
        ))}
        {empty && metadata.status === 'pending' && (
          <p className="thinking" role="status">
            <span aria-hidden="true" className="dots" /> Working…
          </p>
        )}
      </div>
      {metadata.status === 'error' && (
        <p className="error" role="alert">
          <Icon name="warning" /> The turn failed{metadata.error ? <>: <Visible text={metadata.error.message} /></> : '.'}
        </p>
      )}
      {metadata.status === 'success' && metadata.error && (
        // What came is whole as far as it goes: nothing failed, and there is nothing to retry.
        <p className="ended">
          <Visible text={metadata.error.message} />
        </p>
      )}
      {metadata.status === 'aborted' && (
        <p className="ended">
          <Icon name="stop" /> Stopped.
        </p>
      )}
      <MessageActions message={message} text={text} actions={actions} onEdit={() => setEditing(true)} />
    </section>
  )
})

function keyOf(part: Part, position: number): string {
  // A call that is asked for anew gets a card of its own.
  return isTool(part) ? `${part.toolCallId}/${part.approval?.id ?? ''}` : String(position)
}

function plainText(message: WireMessage): string {
  return message.parts
    .filter((p) => p.type === 'text' && isText(p))
    .map((p) => (p as { text: string }).text)
    .join('\n\n')
}

const PartView = memo(function PartView({ part, role, messageId, progress }: { part: Part; role: string; messageId: string; progress: string | undefined }) {
  if (isText(part)) {
    if (part.type === 'reasoning') return <Reasoning text={part.text} streaming={part.state === 'streaming'} />
    if (role === 'user') return <p className="said">{part.text}</p>
    return <Markdown text={part.text} streaming={part.state === 'streaming'} />
  }
  if (isTool(part)) return <Tool part={part} messageId={messageId} progress={progress} />
  if (part.type === 'file') return <File part={part as FilePart} />
  if (part.type === 'source-url') {
    const { url, title } = part as unknown as { url?: string; title?: string }
    const safe = safeUrl(url ?? '')
    return safe ? <p><a href={safe} target="_blank" rel="noopener noreferrer nofollow">{title || safe}</a></p> : null
  }
  // step-start says nothing to a person; newer kinds of parts are not ours to draw.
  return null
})

function File({ part }: { part: FilePart }) {
  const safe = safeUrl(part.url)
  const name = part.filename || part.mediaType
  return (
    <p className="file">
      <Icon name="copy" /> {safe ? <a href={safe} target="_blank" rel="noopener noreferrer nofollow"><Visible text={name} /></a> : <Visible text={name} />}
    </p>
  )
}

function Reasoning({ text, streaming }: { text: string; streaming: boolean }) {
  const [open, setOpen] = useState(false)
  return (
    <details className="reasoning" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" className="line-open" /> {streaming ? 'Thinking…' : 'Thought about it'}
      </summary>
      {open && <Markdown text={text} streaming={streaming} />}
    </details>
  )
}

function Tool({ part, messageId, progress }: { part: ToolPart; messageId: string; progress: string | undefined }) {
  const { topicId, me, pending } = useContext(ThreadContext)
  const id = part.approval?.id
  const answered = useStore(decisions, (all) => {
    if (id === undefined) return false
    const state = cardState(all, id)
    return state.lost !== undefined || state.closed !== undefined
  })
  const place = pending.findIndex((p) => p.approval?.id === id)
  // Buttons are for `approval-requested` and for nothing else.
  if (part.state !== 'approval-requested' || id === undefined || answered) {
    return (
      <>
        {place === 0 && part.state === 'approval-requested' && <BatchBar topicId={topicId} parts={pending} />}
        <Line part={part} me={me} progress={progress} />
        <Questions topicId={topicId} messageId={messageId} part={part} me={me} />
      </>
    )
  }
  return (
    <>
      {place === 0 && <BatchBar topicId={topicId} parts={pending} />}
      <Card topicId={topicId} part={part} place={place + 1} total={pending.length} />
    </>
  )
}

function MessageActions({ message, text, actions, onEdit }: { message: WireMessage; text: string; actions: Actions; onEdit(): void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  const [copied, setCopied] = useState(false)
  const running = useRef(false)
  if (message.metadata.status === 'pending' && !actions.branches) return null

  async function run(act: () => Promise<void>) {
    if (running.current) return
    running.current = true
    setBusy(true)
    setError(undefined)
    try {
      await act()
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e))
    } finally {
      running.current = false
      setBusy(false)
    }
  }
  const { retry, regenerate, edit, branches } = actions
  return (
    <>
      {error && (
        <p className="error" role="alert">
          <Icon name="warning" /> {error}
        </p>
      )}
      <div className="message-actions">
        {branches && branches.of > 1 && (
          <span className="branches">
            <button type="button" className="quiet icon-button" aria-label="Previous version" disabled={busy || branches.at === 0} onClick={() => void run(() => branches.go(-1))}>
              <Icon name="chevron" className="flip" />
            </button>
            <span>
              {branches.at + 1} of {branches.of}
            </span>
            <button type="button" className="quiet icon-button" aria-label="Next version" disabled={busy || branches.at === branches.of - 1} onClick={() => void run(() => branches.go(1))}>
              <Icon name="chevron" />
            </button>
          </span>
        )}
        {retry && (
          <button type="button" aria-disabled={busy} onClick={() => void run(retry)}>
            <Icon name="retry" /> Retry
          </button>
        )}
        {text !== '' && (
          <button type="button" className="quiet" onClick={() => void copyText(text).then(setCopied)}>
            <Icon name={copied ? 'check' : 'copy'} /> {copied ? 'Copied' : 'Copy'}
          </button>
        )}
        {regenerate && (
          <button type="button" className="quiet" aria-disabled={busy} onClick={() => void run(regenerate)}>
            <Icon name="retry" /> Regenerate
          </button>
        )}
        {edit && (
          <button type="button" className="quiet" onClick={onEdit}>
            <Icon name="pencil" /> Edit
          </button>
        )}
        <time dateTime={message.metadata.createdAt}>{clock(message.metadata.createdAt)}</time>
      </div>
    </>
  )
}

function EditMessage({ text, onDone, onSend }: { text: string; onDone(): void; onSend(text: string): Promise<void> }) {
  const [value, setValue] = useState(text)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  async function send() {
    const wanted = value.trim()
    if (wanted === '' || busy) return
    setBusy(true)
    setError(undefined)
    try {
      await onSend(wanted)
      onDone()
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e))
      setBusy(false)
    }
  }
  return (
    <form
      className="edit-message"
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      <textarea
        aria-label="Edit the message"
        value={value}
        rows={Math.min(10, value.split('\n').length + 1)}
        autoFocus
        onChange={(event) => setValue(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onDone()
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send()
        }}
      />
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
      <div className="buttons">
        <button type="submit" className="primary" aria-disabled={busy || value.trim() === ''}>
          {busy ? 'Sending…' : 'Send again'}
        </button>
        <button type="button" onClick={onDone}>
          Cancel
        </button>
        <p className="note">The answers so far are kept as another version.</p>
      </div>
    </form>
  )
}
