import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { newMessageId } from '../api/client'
import { Icon } from '../ui/Icon'

interface ComposerProps {
  /** Drafts of different places are kept apart. */
  place: string
  /** The message will wait for the end of the turn. */
  busy: boolean
  /** Whether what is busy waits for the person. */
  asking?: boolean
  placeholder?: string
  autoFocus?: boolean
  /** Sends; an error is thrown with words for the person. */
  onSend(id: string, text: string): Promise<void>
  children?: ReactNode
}

const prefix = 'assent.composer.'

function load(place: string): string {
  try {
    return sessionStorage.getItem(prefix + place) ?? ''
  } catch {
    return ''
  }
}

/** Keeps a draft across reloads and visits to other topics. */
export function storeDraft(place: string, text: string): void {
  try {
    if (text === '') sessionStorage.removeItem(prefix + place)
    else sessionStorage.setItem(prefix + place, text)
  } catch {
    // Then it lives as long as the page.
  }
}

let carryOver = false

/** Has the next composer take the focus: the person was writing, and goes on. */
export function carryFocus(): void {
  carryOver = true
}

function carried(): boolean {
  const was = carryOver
  carryOver = false
  return was
}

/** Where a person writes. Nothing that is written here ever decides an approval. */
export function Composer({ place, busy, asking = false, placeholder, autoFocus = false, onSend, children }: ComposerProps) {
  const [text, setText] = useState(() => load(place))
  const [sending, setSending] = useState(false)
  const [error, setError] = useState<string>()
  const [focused] = useState(() => carried() || autoFocus)
  const area = useRef<HTMLTextAreaElement>(null)
  // The id stays until the message is through, so that sending it again after a
  // lost answer cannot make two of it.
  const attempt = useRef<{ id: string; text: string }>(undefined)

  useLayoutEffect(() => {
    const element = area.current
    if (!element) return
    element.style.height = 'auto'
    element.style.height = `${Math.min(element.scrollHeight + 2, 220)}px`
  }, [text])
  useEffect(() => storeDraft(place, text), [place, text])

  async function send() {
    const wanted = text.trim()
    if (wanted === '' || sending) return
    if (attempt.current?.text !== wanted) attempt.current = { id: newMessageId(), text: wanted }
    setSending(true)
    setError(undefined)
    try {
      await onSend(attempt.current.id, wanted)
      attempt.current = undefined
      storeDraft(place, '')
      setText((now) => (now.trim() === wanted ? '' : now))
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e))
    } finally {
      setSending(false)
    }
  }

  const label = busy ? 'Queue' : 'Send'
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault()
        void send()
      }}
    >
      {error && (
        <p className="error" role="alert">
          <Icon name="warning" /> {error}
        </p>
      )}
      <div className="composer-box">
        <textarea
          ref={area}
          value={text}
          rows={1}
          autoFocus={focused}
          aria-label="Message"
          aria-describedby={asking ? `${place}-asking` : undefined}
          placeholder={placeholder ?? (busy ? 'Write the next message' : 'Write a message')}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey || event.altKey || event.nativeEvent.isComposing) return
            event.preventDefault()
            if (!event.repeat) void send()
          }}
        />
        <div className="composer-foot">
          {children}
          <button type="submit" className="primary" aria-disabled={text.trim() === '' || sending}>
            <Icon name={busy ? 'queue' : 'send'} /> {sending ? 'Sending…' : label}
          </button>
        </div>
      </div>
      {asking && text.trim() !== '' && (
        <p className="note" id={`${place}-asking`}>
          This is queued as your next message. It decides nothing: answer on the card.
        </p>
      )}
    </form>
  )
}
