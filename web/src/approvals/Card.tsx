import { type KeyboardEvent, type MouseEvent, type ReactNode, useEffect, useId, useLayoutEffect, useRef, useState } from 'react'
import { useStore } from 'zustand'
import { prettyText } from '../json/parse'
import type { ToolPart } from '../live/types'
import { visibleText } from '../text/visible'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { Menu } from '../ui/Menu'
import { clock, isNear, span, useNow } from '../ui/time'
import { AlwaysAllowPanel, useOffer } from './AlwaysAllow'
import { cardState, decide, decisions, emptyDraft, setDraft } from './decisions'
import { Edit, inputProblems } from './Edit'
import { byKeyboard, cardsMoved, inSight, newGuard, ruleInSight } from './guard'
import { InputView } from './InputView'
import { claims, toolNames } from './words'

interface CardProps {
  topicId: string
  part: ToolPart
  /** Its place among the cards that wait, from 1. */
  place: number
  total: number
}

const nothingRan = 'Nothing has run yet. Survives a reload or restart.'

/** Whether the server claims that a call destroys something beyond this machine: never by a chord or in a batch. */
export function irreversible(part: ToolPart): boolean {
  const a = part.toolMetadata?.annotations
  return a?.destructiveHint === true && a.openWorldHint === true
}

/**
 * Moves the focus from a card that folds: to the next one that waits if this tab
 * has decided it, else to the line that it became. Whoever is typing a reason
 * while somebody else decides must not type on into another card.
 */
function handOver(card: HTMLElement): void {
  const id = card.dataset.approval
  const own = cardState(decisions.getState(), id ?? '')
  const mine = own.sending !== undefined || own.taken !== undefined
  const cards = [...document.querySelectorAll<HTMLElement>('[data-approval]')]
  const at = cards.indexOf(card)
  const next = mine ? [...cards.slice(at + 1), ...cards.slice(0, at)].find((c) => c !== card) : undefined
  queueMicrotask(() => {
    const target = next?.isConnected ? next : document.querySelector<HTMLElement>(`[data-decided="${CSS.escape(id ?? '')}"]`)
    target?.focus({ preventScroll: false })
  })
}

/** A tool call that waits for a person. It is drawn for `approval-requested` and for nothing else. */
export function Card({ topicId, part, place, total }: CardProps) {
  const approval = part.approval!
  const { id } = approval
  const state = useStore(decisions, (all) => cardState(all, id))
  const draft = state.draft ?? emptyDraft
  const { mode } = draft
  const [tab, setTab] = useState<'fields' | 'json'>('fields')
  const [guard] = useState(newGuard)
  const [asked, setAsked] = useState(false)
  const card = useRef<HTMLElement>(null)
  const approve = useRef<HTMLButtonElement>(null)
  const titleId = useId()
  const now = useNow()

  useLayoutEffect(() => {
    cardsMoved()
    const element = card.current
    return () => {
      cardsMoved()
      if (element?.contains(document.activeElement)) handOver(element)
    }
  }, [])

  const names = toolNames(part)
  const meta = part.toolMetadata
  const said = claims(meta?.annotations)
  const original = part.inputText ?? part.rawInput ?? ''
  const edited = draft.input ?? prettyText(original)
  const problems = mode === 'edit' ? inputProblems(edited, meta?.inputSchema) : []
  const locked = state.sending !== undefined || state.taken !== undefined
  const final = irreversible(part)
  // Tools that no stored server offers cannot be allowed for good.
  const lasting = meta?.serverId !== undefined && meta.gone !== true
  const [wanted, setWanted] = useState(false)
  const offer = useOffer(id, lasting && (wanted || mode === 'always'))
  const requested = approval.requestedAt

  /** Nobody says yes to what cannot be seen: if it is not, show it first, and wait for the hand to come again. */
  function seen(inView: (card: HTMLElement) => boolean): boolean {
    if (!card.current || inView(card.current)) return true
    if (inView === ruleInSight) card.current.querySelector('.always')?.scrollIntoView({ block: 'end' })
    else card.current.scrollIntoView({ block: 'start' })
    cardsMoved()
    guard.entered()
    return false
  }

  function go(to: 'ask' | 'deny' | 'edit' | 'always') {
    if (locked) return
    if (to === 'always' && !seen(inSight)) return
    setAsked(true)
    setDraft(id, { mode: to, ...(to === 'edit' && draft.input === undefined ? { input: edited } : {}) })
    if (to === 'ask') card.current?.focus({ preventScroll: true })
    if (to === 'always') {
      // The button that confirms may appear where the hand has just clicked.
      guard.entered()
      cardsMoved()
    }
  }
  function send(approved: boolean) {
    if (locked) return
    if (approved && !seen(mode === 'always' ? ruleInSight : inSight)) return
    if (!approved) void decide(topicId, [{ approvalId: id, approved, reason: draft.reason }])
    else if (mode === 'always') {
      // Never without having shown what it changes.
      if (offer.state === 'ready') void decide(topicId, [{ approvalId: id, approved, remember: 'always-allow' }])
    } else if (mode !== 'edit') void decide(topicId, [{ approvalId: id, approved }])
    else if (problems.length === 0) void decide(topicId, [{ approvalId: id, approved, inputText: edited }])
  }

  function onKeyDown(event: KeyboardEvent) {
    const { key, target } = event
    const typing = target instanceof HTMLTextAreaElement
    const onButton = target instanceof HTMLElement && target.closest('button') !== null
    const chord = key === 'Enter' && (event.ctrlKey || event.metaKey)
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey
    const ours = chord || key === 'Escape' || (!typing && plain && /^[de]$/i.test(key))
    const presses = onButton && (key === 'Enter' || key === ' ')
    if (event.repeat || !guard.keyboardAllowed()) {
      if (ours || presses) event.preventDefault()
      return
    }
    if (!ours || event.nativeEvent.isComposing) return
    event.preventDefault()
    if (chord) {
      if (mode === 'deny') send(false)
      else if ((final || mode === 'always') && target !== approve.current) approve.current?.focus()
      else send(true)
    } else if (key === 'Escape') {
      if (mode !== 'ask') go('ask')
    } else if (mode === 'ask' && /^[de]$/i.test(key)) {
      go(/d/i.test(key) ? 'deny' : 'edit')
    }
  }

  const guarded = (act: () => void) => (event: MouseEvent) => {
    if (byKeyboard(event) ? guard.keyboardAllowed() : guard.pointerAllowed()) act()
  }

  return (
    <article
      ref={card}
      className={`card ${final ? 'grave' : ''} ${locked ? 'locked' : ''}`}
      aria-labelledby={titleId}
      aria-keyshortcuts="Alt+A"
      data-approval={id}
      tabIndex={-1}
      onKeyDown={onKeyDown}
      onFocus={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) guard.entered()
      }}
    >
      <header className="card-head">
        <span className="card-icon">
          <Icon name={final ? 'warning' : 'hand'} />
        </span>
        <div className="card-names">
          <h3 id={titleId}>
            <Visible text={names.title} />
          </h3>
          <span className="tool-name">
            {names.server && (
              <>
                <Visible text={names.server} /> <span aria-hidden="true">›</span>{' '}
              </>
            )}
            <Visible text={names.tool} />
          </span>
          <p className="card-by">
            Asked by <strong><Visible text={meta?.model ?? 'the model'} /></strong>
            {meta?.step !== undefined && <> · step {meta.step}<span className="wide"> of this turn</span></>}
          </p>
        </div>
        <div className="card-wait">
          {requested && (
            <span title={`since ${clock(requested)}`}>
              <Icon name="clock" /> waiting {span(Math.max(0, now - new Date(requested).getTime()))}
            </span>
          )}
          {approval.expiresAt && <Expiry expiresAt={approval.expiresAt} requestedAt={requested} now={now} title={names.title} />}
          {total > 1 && (
            <span className="place">
              {place} of {total}
            </span>
          )}
        </div>
      </header>

      {meta?.changed && (
        <p className="changed">
          <Icon name="warning" />
          <span>
            <strong>{meta.gone ? 'Asked again: the tool is gone.' : 'Asked again, since something changed.'}</strong> <Visible text={meta.changed} />
          </span>
        </p>
      )}
      {meta?.gone && !meta.changed && (
        <p className="changed">
          <Icon name="warning" />
          <span>
            <strong>The tool is gone.</strong> Its server does not offer it now. If the call is approved, it fails, unless the tool has come back by then.
          </span>
        </p>
      )}

      <Claims said={said} />

      {mode === 'edit' ? (
        <div className="card-input">
          <Edit text={edited} schema={meta?.inputSchema} disabled={locked} autoFocus={asked} onChange={(input) => setDraft(id, { input })} />
        </div>
      ) : (
        <>
          <Tabs value={tab} onChange={setTab} name={titleId} />
          <div className="card-input" role="tabpanel" id={`${titleId}-panel`} aria-labelledby={`${titleId}-${tab}`} tabIndex={0}>
            <InputView text={original} as={tab} />
          </div>
        </>
      )}

      {mode === 'always' && <AlwaysAllowPanel offer={offer} id={`${titleId}-always`} focus={asked} />}
      <p className="note note-above">{nothingRan}</p>
      <footer className="card-actions">
        {state.error && <CardProblem error={state.error} />}
        {mode === 'deny' && (
          <div className="why">
            <label htmlFor={`${titleId}-why`}>
              Why not? <small>Optional; the model reads it.</small>
            </label>
            <textarea
              id={`${titleId}-why`}
              value={draft.reason}
              onChange={(event) => setDraft(id, { reason: event.target.value })}
              readOnly={locked}
              autoFocus={asked}
              rows={2}
            />
          </div>
        )}
        <div className="buttons">
          {mode === 'ask' && (
            <>
              <span className={lasting ? 'split' : ''}>
                <button ref={approve} type="button" className="primary" aria-disabled={locked} onClick={guarded(() => send(true))}>
                  {state.sending === 'approve' ? 'Sending…' : 'Approve once'} {!final && <Keys keys="Ctrl ↵" />}
                </button>
                {lasting && (
                  <Menu
                    label="More ways to approve"
                    className="up"
                    button="primary"
                    disabled={locked}
                    onOpen={() => setWanted(true)}
                    items={offer.state === 'ready' ? [{ icon: 'always', label: 'Always allow…', act: () => go('always') }] : []}
                    empty={offer.state === 'none' ? `This tool cannot be allowed for good. ${offer.error ?? ''}` : offer.state === 'failed' ? offer.error : 'Asking the server…'}
                  >
                    <Icon name="chevron" className="up-down" />
                  </Menu>
                )}
              </span>
              <button type="button" aria-disabled={locked} onClick={guarded(() => go('deny'))}>
                {state.sending === 'deny' ? 'Sending…' : 'Deny…'} <Keys keys="D" />
              </button>
              <button type="button" aria-disabled={locked} onClick={guarded(() => go('edit'))}>
                Edit<span className="tucked"> input</span> <Keys keys="E" />
              </button>
            </>
          )}
          {mode === 'deny' && (
            <button type="button" className="danger" aria-disabled={locked} onClick={guarded(() => send(false))}>
              {state.sending ? 'Sending…' : 'Deny'} <Keys keys="Ctrl ↵" />
            </button>
          )}
          {mode === 'edit' && (
            <button ref={approve} type="button" className="primary" aria-disabled={locked || problems.length > 0} onClick={guarded(() => send(true))}>
              {state.sending ? 'Sending…' : 'Approve with changes'} {!final && <Keys keys="Ctrl ↵" />}
            </button>
          )}
          {mode === 'always' && (
            <button
              ref={approve}
              type="button"
              className="primary"
              aria-disabled={locked || offer.state !== 'ready'}
              aria-describedby={`${titleId}-always`}
              onClick={guarded(() => send(true))}
            >
              {state.sending ? 'Sending…' : 'Approve and always allow'}
            </button>
          )}
          {mode !== 'ask' && (
            <button type="button" aria-disabled={locked} onClick={guarded(() => go('ask'))}>
              Back <Keys keys="Esc" />
            </button>
          )}
          {mode === 'edit' && edited !== prettyText(original) && (
            <button type="button" className="quiet" aria-disabled={locked} onClick={guarded(() => setDraft(id, { input: prettyText(original) }))}>
              Undo the changes
            </button>
          )}
          <p className={state.taken ? 'note taken' : 'note'} role={state.taken ? 'status' : undefined}>
            {state.taken ? 'The server has your answer.' : nothingRan}
          </p>
        </div>
      </footer>
    </article>
  )
}

/** Until when the question can be answered. That it is near is said to a screen reader once, at that point. */
function Expiry({ expiresAt, requestedAt, now, title }: { expiresAt: string; requestedAt: string | undefined; now: number; title: string }) {
  const end = new Date(expiresAt).getTime()
  if (Number.isNaN(end)) return null
  const near = isNear(end, requestedAt === undefined ? end : new Date(requestedAt).getTime(), now)
  return (
    <>
      <span className={near ? 'expires near' : 'expires'} title={`at ${clock(expiresAt)}; then the call is denied`}>
        {near && <Icon name="warning" />} {end <= now ? 'Expires now' : `Expires in ${span(end - now)}`}
      </span>
      <span className="off-screen" role="status">
        {near && `${visibleText(title)}: this question expires at ${clock(expiresAt)}, and the call is denied then.`}
      </span>
    </>
  )
}

function Claims({ said }: { said: ReturnType<typeof claims> }) {
  if (said.length === 0) return null
  return (
    <ul className="claims" aria-label="What the tool’s server claims">
      <li className="claims-label">The server claims:</li>
      {said.map((c) => (
        <li key={c.hint} title={`${c.hint} (a claim, not a guarantee)`}>
          <Icon name={c.icon} /> {c.words}
        </li>
      ))}
    </ul>
  )
}

function Tabs({ value, onChange, name }: { value: 'fields' | 'json'; onChange(tab: 'fields' | 'json'): void; name: string }) {
  const tabs = [['fields', 'Input'], ['json', 'JSON']] as const
  const refs = useRef<Record<string, HTMLButtonElement | null>>({})
  return (
    <div
      className="tabs"
      role="tablist"
      aria-label="Ways to see the input"
      onKeyDown={(event) => {
        if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return
        event.preventDefault()
        const other = value === 'fields' ? 'json' : 'fields'
        onChange(other)
        refs.current[other]?.focus()
      }}
    >
      {tabs.map(([key, label]) => (
        <button
          key={key}
          ref={(element) => void (refs.current[key] = element)}
          type="button"
          role="tab"
          id={`${name}-${key}`}
          aria-selected={value === key}
          aria-controls={`${name}-panel`}
          tabIndex={value === key ? 0 : -1}
          onClick={() => onChange(key)}
        >
          {label}
        </button>
      ))}
    </div>
  )
}

function CardProblem({ error }: { error: { text: string; problems?: { pointer?: string; message?: string }[] } }) {
  return (
    <div className="error" role="alert">
      <Icon name="warning" /> <Visible text={error.text} />
      {error.problems && error.problems.length > 0 && (
        <ul>
          {error.problems.map((p, i) => (
            <li key={i}>
              {p.pointer && <code>{p.pointer}</code>} {p.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

function Keys({ keys }: { keys: string }): ReactNode {
  return <kbd aria-hidden="true">{keys}</kbd>
}

/** Alt+A, anywhere: the focus goes to the first card or question that waits, to the card and not to a button. */
export function useCardShortcut(): void {
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey || event.repeat) return
      // With Alt some keyboards write another letter; then the place of the key counts.
      if (event.key.toLowerCase() !== 'a' && event.code !== 'KeyA') return
      const first = document.querySelector<HTMLElement>('[data-approval], [data-question]')
      if (!first || document.querySelector('dialog[open]')) return
      event.preventDefault()
      first.focus()
      first.scrollIntoView({ block: 'nearest' })
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
}
