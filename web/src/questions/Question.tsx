import { type KeyboardEvent, type MouseEvent, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { useStore } from 'zustand'
import { byKeyboard, cardsMoved, newGuard } from '../approvals/guard'
import { InputView } from '../approvals/InputView'
import { toolNames } from '../approvals/words'
import type { Question as WireQuestion, ToolPart } from '../live/types'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { clock, span, useNow } from '../ui/time'
import { answer, forgetAnswer, questions, questionState, setValue } from './answers'
import { contentOf, fieldsOf, type Field, problemsOf, type Value, valueOf } from './form'

interface QuestionsProps {
  topicId: string
  messageId: string
  part: ToolPart
  me: string | undefined
}

/** What a call's server asked of the person while the call ran. */
export function Questions({ topicId, messageId, part, me }: QuestionsProps) {
  const list = part.toolMetadata?.questions
  if (!list || list.length === 0) return null
  return list.map((q) =>
    q.action === undefined ? (
      <OpenQuestion key={q.id} topicId={topicId} messageId={messageId} part={part} question={q} />
    ) : (
      <AnsweredQuestion key={`${q.id} answered`} question={q} part={part} me={me} />
    ),
  )
}

function OpenQuestion({ topicId, messageId, part, question }: Omit<QuestionsProps, 'me'> & { question: WireQuestion }) {
  const { id } = question
  const state = useStore(questions, (all) => questionState(all, id))
  const fields = useMemo(() => fieldsOf(question.schema), [question.schema])
  const [guard] = useState(newGuard)
  const [tried, setTried] = useState(false)
  const box = useRef<HTMLElement>(null)
  const titleId = useId()
  const now = useNow()
  const { server, tool } = toolNames(part)
  const own = problemsOf(fields, state.values)
  const locked = state.sending !== undefined || state.taken === true

  useLayoutEffect(() => {
    cardsMoved()
    const element = box.current
    return () => {
      cardsMoved()
      // Whoever was at work here goes on at the line that it becomes.
      if (element?.contains(document.activeElement)) {
        queueMicrotask(() => document.querySelector<HTMLElement>(`[data-answered="${CSS.escape(id)}"]`)?.focus())
      }
    }
  }, [id])

  const closed = useRef<HTMLParagraphElement>(null)
  useEffect(() => {
    // The buttons are gone, and with them the focus of whoever pressed one.
    if (state.closed !== undefined && document.activeElement === document.body) closed.current?.focus()
  }, [state.closed])

  function send(action: 'accept' | 'decline' | 'cancel') {
    if (locked) return
    setTried(true)
    const first = [...own.keys()][0]
    if (action === 'accept' && first !== undefined) {
      box.current?.querySelector<HTMLElement>(`[data-field="${CSS.escape(first)}"]`)?.focus()
      return
    }
    void answer({ topicId, messageId, questionId: id }, action, action === 'accept' && fields.length > 0 ? contentOf(fields, state.values) : undefined)
  }
  const guarded = (act: () => void) => (event: MouseEvent) => {
    if (byKeyboard(event) ? guard.keyboardAllowed() : guard.pointerAllowed()) act()
  }
  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== 'Enter' || event.nativeEvent.isComposing) return
    const target = event.target as HTMLElement
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault()
      if (!event.repeat && guard.keyboardAllowed()) send('accept')
    } else if (target instanceof HTMLInputElement || (event.repeat && target.closest('button'))) {
      // Enter in a field answers nothing: the other fields may not have been read yet.
      event.preventDefault()
    }
  }

  const said = (field: Field) => state.problems?.[field.name] ?? (tried || state.values[field.name] !== undefined ? own.get(field.name) : undefined)
  if (state.closed !== undefined) {
    return (
      <p ref={closed} className="question-closed note" role="status" tabIndex={-1} data-answered={id}>
        <Icon name="stop" /> Your answer came later and was not used. <Visible text={state.closed} />
      </p>
    )
  }
  return (
    <article
      ref={box}
      className={`card question ${locked ? 'locked' : ''}`}
      aria-labelledby={titleId}
      aria-keyshortcuts="Alt+A"
      data-question={id}
      tabIndex={-1}
      onKeyDown={onKeyDown}
      onFocus={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) guard.entered()
      }}
    >
      <header className="card-head">
        <span className="card-icon">
          <Icon name="question" />
        </span>
        <div className="card-names">
          <h3 id={titleId}>{server ? <><Visible text={server} /> asks you</> : 'A question'}</h3>
          <p className="card-by">
            Asked by {server ? <strong><Visible text={server} /></strong> : 'the tool’s server'}, while <code><Visible text={tool} /></code> runs
          </p>
        </div>
        <div className="card-wait">
          <span title={`since ${clock(question.askedAt)}`}>
            <Icon name="clock" /> waiting {span(Math.max(0, now - new Date(question.askedAt).getTime()))}
          </span>
        </div>
      </header>
      <div className="question-body">
        <p className="question-message"><Visible text={question.message} /></p>
        {fields.map((field) => (
          <FieldView key={field.name} field={field} value={valueOf(field, state.values)} problem={said(field)} disabled={locked} onChange={(value) => !locked && setValue(id, field.name, value)} />
        ))}
      </div>
      <footer className="card-actions">
        {state.error && (
          <div className="error" role="alert">
            <Icon name="warning" /> <Visible text={state.error} />
          </div>
        )}
        <div className="buttons">
          <button type="button" className="primary" aria-disabled={locked} onClick={guarded(() => send('accept'))}>
            {state.sending === 'accept' ? 'Sending…' : 'Answer'} <kbd aria-hidden="true">Ctrl ↵</kbd>
          </button>
          <button type="button" aria-disabled={locked} onClick={guarded(() => send('decline'))}>
            {state.sending === 'decline' ? 'Sending…' : 'Decline'}
          </button>
          <button type="button" className="quiet" aria-disabled={locked} title="Neither yes nor no: the tool decides what to do without an answer" onClick={guarded(() => send('cancel'))}>
            {state.sending === 'cancel' ? 'Sending…' : 'Cancel'}
          </button>
          <p className={state.taken ? 'note taken' : 'note'} role={state.taken ? 'status' : undefined}>
            {state.taken ? 'The server has your answer.' : <>What you answer goes to {server ? <Visible text={server} /> : 'the tool’s server'}.</>}
          </p>
        </div>
      </footer>
    </article>
  )
}

interface FieldProps {
  field: Field
  value: Value
  problem: string | undefined
  disabled: boolean
  onChange(value: Value): void
}

function FieldView({ field, value, problem, disabled, onChange }: FieldProps) {
  const id = useId()
  const about = [field.description ? `${id}-about` : '', problem ? `${id}-wrong` : ''].filter(Boolean).join(' ') || undefined
  const label = (
    <>
      <Visible text={field.title} /> {!field.required && <small>optional</small>}
    </>
  )
  const notes = (
    <>
      {field.description && <p className="note" id={`${id}-about`}><Visible text={field.description} /></p>}
      {problem && (
        <p className="field-problem" id={`${id}-wrong`} role="alert">
          <Icon name="warning" /> <Visible text={problem} />
        </p>
      )}
    </>
  )
  // Not disabled while the answer is on its way: the focus would be lost.
  const common = { 'aria-describedby': about, 'aria-invalid': problem !== undefined, 'aria-disabled': disabled, 'data-field': field.name }
  if (field.kind === 'boolean' || field.kind === 'several') {
    const options = field.kind === 'boolean' ? [{ json: 'true', label: 'Yes' }, { json: 'false', label: 'No' }, ...(field.required ? [] : [{ json: '', label: 'No answer' }])] : field.options
    return (
      <fieldset className="field" aria-describedby={about}>
        <legend>{label}</legend>
        <div className="options">
          {options.map(({ json, label: words }, i) => {
            const chosen = Array.isArray(value) ? value.includes(json) : value === json
            return (
              <label key={json}>
                <input
                  type={field.kind === 'boolean' ? 'radio' : 'checkbox'}
                  name={id}
                  checked={chosen}
                  aria-disabled={disabled}
                  data-field={i === 0 ? field.name : undefined}
                  onChange={() => {
                    if (!Array.isArray(value)) onChange(json)
                    else onChange(chosen ? value.filter((v) => v !== json) : (field as Extract<Field, { kind: 'several' }>).options.map((o) => o.json).filter((v) => v === json || value.includes(v)))
                  }}
                />{' '}
                <Visible text={words} />
              </label>
            )
          })}
        </div>
        {notes}
      </fieldset>
    )
  }
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {field.kind === 'choice' ? (
        <select id={id} value={value as string} {...common} onChange={(event) => onChange(event.target.value)}>
          <option value="">{field.required ? 'Choose…' : 'No answer'}</option>
          {field.options.map((o) => (
            <option key={o.json} value={o.json}>
              {o.label}
            </option>
          ))}
        </select>
      ) : field.kind === 'text' && (field.maxLength === undefined || field.maxLength > 200) && field.format === undefined ? (
        <textarea id={id} rows={Math.min(8, (value as string).split('\n').length)} value={value as string} {...common} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input
          id={id}
          type={field.kind === 'text' ? (({ email: 'email', uri: 'url', date: 'date' } as Record<string, string>)[field.format ?? ''] ?? 'text') : 'text'}
          inputMode={field.kind === 'integer' ? 'numeric' : field.kind === 'number' ? 'decimal' : undefined}
          placeholder={field.kind === 'text' && field.format === 'date-time' ? '2026-11-30T12:00:00Z' : undefined}
          autoComplete="off"
          value={value as string}
          {...common}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {notes}
    </div>
  )
}

function AnsweredQuestion({ question, part, me }: { question: WireQuestion; part: ToolPart; me: string | undefined }) {
  const [open, setOpen] = useState(false)
  const { id, action, resolution, contentText, answeredBy, answeredAt, via } = question
  useLayoutEffect(() => forgetAnswer(id), [id])
  const { server, tool } = toolNames(part)
  const by = answeredBy === undefined ? 'Somebody' : answeredBy === me ? 'You' : answeredBy
  const from = server ?? 'the tool’s server'
  const words =
    resolution !== undefined
      ? `A question of ${from} was closed unanswered: ${tool} ended`
      : action === 'accept'
        ? `${by} answered ${from}`
        : action === 'decline'
          ? `${by} declined to answer ${from}`
          : `${by} cancelled the question of ${from}`
  const look = resolution !== undefined ? (['stop', 'quiet'] as const) : action === 'accept' ? (['check', 'good'] as const) : (['cross', 'quiet'] as const)
  const right = [via !== undefined && via !== 'web' ? `via ${via === 'api' ? 'API' : via}` : '', answeredAt ? clock(answeredAt) : ''].filter(Boolean).join(' · ')
  return (
    <details className={`line ${look[1]}`} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary data-answered={id}>
        <Icon name={look[0]} className="line-icon" />
        <span className="line-words">
          <span className="line-what"><Visible text={words} /></span>
        </span>
        <span className="line-right">{right}</span>
        <Icon name="chevron" className="line-open" />
      </summary>
      {open && (
        <div className="line-body">
          <section>
            <p className="label">What was asked</p>
            <p className="question-message"><Visible text={question.message} /></p>
          </section>
          {contentText !== undefined && (
            <section>
              <p className="label">The answer</p>
              <InputView text={contentText} as="fields" />
            </section>
          )}
        </div>
      )}
    </details>
  )
}
