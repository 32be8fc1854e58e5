import { type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { ApiError, explain, type ProblemItem } from '../api/client'
import { Visible } from '../text/Visible'
import { Icon, type IconName } from '../ui/Icon'

/** A heading that takes the focus when what had it has left the page. */
export function Heading({ level = 2, children }: { level?: 2 | 3; children: ReactNode }) {
  const ref = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (document.activeElement === document.body) ref.current?.focus({ preventScroll: true })
  }, [])
  const Tag = `h${level}` as const
  return (
    <Tag ref={ref} tabIndex={-1} className="settings-title">
      {children}
    </Tag>
  )
}

export function Chip({ icon, tone, children }: { icon: IconName; tone: string; children: ReactNode }) {
  return (
    <span className={`chip ${tone}`}>
      <Icon name={icon} /> {children}
    </span>
  )
}

export function Loading() {
  return (
    <p className="note settings-loading" role="status">
      Loading…
    </p>
  )
}

/** Settings could not be read; what is shown, if anything, may be old. */
export function ReadError({ error, has, again }: { error: unknown; has: boolean; again(): void }) {
  if (error === undefined) return null
  return (
    <div className="error with-button" role="alert">
      <span>
        <Icon name="warning" /> {has ? 'What you see may be out of date. ' : ''}
        {explain(error)}
      </span>
      <button type="button" onClick={again}>
        Try again
      </button>
    </div>
  )
}

interface FieldProps {
  label: ReactNode
  note?: ReactNode
  problem?: string | undefined
  /** Gets the attributes that tie the input to its label, note and problem. */
  children(input: { id: string; 'aria-describedby': string | undefined; 'aria-invalid': boolean }): ReactNode
}

export function Field({ label, note, problem, children }: FieldProps) {
  const id = useId()
  const about = [note ? `${id}-note` : '', problem ? `${id}-wrong` : ''].filter(Boolean).join(' ') || undefined
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': about, 'aria-invalid': problem !== undefined })}
      {problem && (
        <p className="field-problem" id={`${id}-wrong`}>
          <Icon name="warning" /> <Visible text={problem} />
        </p>
      )}
      {note && (
        <div className="note" id={`${id}-note`}>
          {note}
        </div>
      )}
    </div>
  )
}

interface RadiosProps<K extends string> {
  legend: ReactNode
  options: readonly { key: K; label: ReactNode; means?: ReactNode }[]
  value: K
  onChange(value: NoInfer<K>): void
  disabled?: boolean
  problem?: string | undefined
}

/** One of a few, each with what it means. */
export function Radios<K extends string>({ legend, options, value, onChange, disabled = false, problem }: RadiosProps<K>) {
  const id = useId()
  return (
    <fieldset className="field radios" aria-describedby={problem ? `${id}-wrong` : undefined}>
      <legend>{legend}</legend>
      {options.map(({ key, label, means }) => (
        <label key={key} className={value === key ? 'chosen' : ''}>
          <input type="radio" name={id} checked={value === key} disabled={disabled} aria-labelledby={`${id}-${key}-label`} aria-describedby={means ? `${id}-${key}` : undefined} onChange={() => onChange(key)} />
          <span>
            <span id={`${id}-${key}-label`}>{label}</span>
            {means && (
              <small id={`${id}-${key}`}>{means}</small>
            )}
          </span>
        </label>
      ))}
      {problem && (
        <p className="field-problem" id={`${id}-wrong`}>
          <Icon name="warning" /> <Visible text={problem} />
        </p>
      )}
    </fieldset>
  )
}

/** A switch that takes effect at once. */
export function Switch({ on, label, busy = false, describedBy, onChange }: { on: boolean; label: ReactNode; busy?: boolean; describedBy?: string; onChange(on: boolean): void }) {
  return (
    <button type="button" role="switch" className="switch" aria-checked={on} aria-disabled={busy} aria-describedby={describedBy} onClick={() => !busy && onChange(!on)}>
      <span className="switch-track" aria-hidden="true" />
      <span>{label}</span>
    </button>
  )
}

/** The problems of a refused request, by field; what belongs to none is in `rest`. */
export function sortProblems(error: unknown, known: readonly string[], fieldOf: (pointer: string) => string): { fields: Map<string, string>; rest: string | undefined } {
  const fields = new Map<string, string>()
  if (error === undefined) return { fields, rest: undefined }
  const items: ProblemItem[] = error instanceof ApiError ? (error.problem.errors ?? []) : []
  const others: string[] = []
  for (const { pointer, message } of items) {
    const field = fieldOf(pointer ?? '')
    if (known.includes(field)) fields.set(field, message ?? explain(error))
    else others.push([pointer, message].filter(Boolean).join(' '))
  }
  const rest = fields.size > 0 && others.length === 0 ? undefined : [explain(error), ...others].join(' ')
  return { fields, rest }
}

/** Runs one thing at a time, and keeps what went wrong. */
export function useAction(): { busy: boolean; error: unknown; run(act: () => Promise<void>): void; clear(): void } {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()
  const running = useRef(false)
  return {
    busy,
    error,
    clear: () => setError(undefined),
    run(act) {
      if (running.current) return
      running.current = true
      setBusy(true)
      setError(undefined)
      act()
        .catch((e: unknown) => setError(e))
        .finally(() => {
          running.current = false
          setBusy(false)
        })
    },
  }
}

export function ActionError({ error, what }: { error: unknown; what: string }) {
  if (error === undefined) return null
  return (
    <p className="error" role="alert">
      <Icon name="warning" /> {what} <Visible text={explain(error)} />
    </p>
  )
}

export function Lines({ lines }: { lines: readonly string[] }) {
  return (
    <pre className="stderr" tabIndex={0} aria-label="The last lines of its standard error">
      <Visible text={lines.join('\n')} />
    </pre>
  )
}
