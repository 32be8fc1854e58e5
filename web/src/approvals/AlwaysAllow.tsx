import { useEffect, useRef, useState } from 'react'
import { api, ApiError, type Explanation, explain } from '../api/client'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'

type AlwaysAllow = NonNullable<Explanation['alwaysAllow']>

export interface Offer {
  state: 'loading' | 'ready' | 'none' | 'failed'
  allow?: AlwaysAllow
  error?: string
  again(): void
}

/** Asks what allowing the tool for good would change, once it is wanted. */
export function useOffer(approvalId: string, wanted: boolean): Offer {
  const [found, setFound] = useState<Omit<Offer, 'again'>>({ state: 'loading' })
  const [attempt, setAttempt] = useState(0)
  useEffect(() => {
    if (!wanted) return
    let alive = true
    setFound({ state: 'loading' })
    api.explainApproval(approvalId).then(
      ({ alwaysAllow }) => alive && setFound(alwaysAllow ? { state: 'ready', allow: alwaysAllow } : { state: 'none' }),
      (e: unknown) => alive && setFound(e instanceof ApiError && e.status >= 400 && e.status < 500 ? { state: 'none', error: e.message } : { state: 'failed', error: explain(e) }),
    )
    return () => {
      alive = false
    }
  }, [approvalId, wanted, attempt])
  return { ...found, again: () => setAttempt((n) => n + 1) }
}

/** The exact rule that is about to be made, before anybody confirms it. */
export function AlwaysAllowPanel({ offer, id, focus }: { offer: Offer; id: string; focus: boolean }) {
  const { state, allow, error } = offer
  const box = useRef<HTMLDivElement>(null)
  // The focus goes to what must be read, and not to the button that confirms it.
  useEffect(() => {
    if (!focus) return
    box.current?.focus({ preventScroll: true })
    box.current?.scrollIntoView({ block: 'nearest' })
  }, [focus, state])
  return (
    <div ref={box} className="always" id={id} role="group" tabIndex={0} aria-label="Always allow" aria-busy={state === 'loading'}>
      {state === 'loading' && <p role="status" className="note">Asking the server what this would change…</p>}
      {state === 'failed' && (
        <p className="error" role="alert">
          {error} <button type="button" onClick={offer.again}>Try again</button>
        </p>
      )}
      {state === 'none' && <p className="note" role="status">This tool cannot be allowed for good. {error}</p>}
      {allow && (
        <>
          <p className="always-title">
            <strong>What this changes</strong>
          </p>
          <blockquote><Visible text={allow.rule} /></blockquote>
          <p className={allow.effective ? 'always-effect' : 'always-effect warn'}>
            <Icon name={allow.effective ? 'check' : 'warning'} />{' '}
            <span>
              {allow.effective ? 'Nothing else keeps calls like this one waiting. ' : 'Calls like this one will be asked for even so. '}
              <Visible text={allow.why} />
            </span>
          </p>
          {allow.others > 0 && (
            <p className="always-effect">
              <Icon name="run" />{' '}
              <span>
                {allow.others === 1 ? 'Another call that waits now runs with it, without being asked for.' : `${allow.others} other calls that wait now run with it, without being asked for.`}
              </span>
            </p>
          )}
          <p className="note">You can take it back at any time, in the settings of the server.</p>
        </>
      )}
    </div>
  )
}
