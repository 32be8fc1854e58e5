import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { useStore } from 'zustand'
import type { ToolPart } from '../live/types'
import { Visible } from '../text/Visible'
import { Dialog } from '../ui/Dialog'
import { Icon } from '../ui/Icon'
import { irreversible } from './Card'
import { cardState, decide, decisions } from './decisions'
import { byKeyboard, newGuard } from './guard'
import { InputView } from './InputView'
import { claims, toolNames } from './words'

interface BatchProps {
  topicId: string
  parts: readonly ToolPart[]
}

/** One answer to all the cards that wait: one request, which applies to all or to none. */
export function BatchBar({ topicId, parts }: BatchProps) {
  return parts.length < 2 ? null : <Bar topicId={topicId} parts={parts} />
}

function Bar({ topicId, parts }: BatchProps) {
  const bar = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const element = bar.current
    return () => {
      if (!element?.contains(document.activeElement)) return
      // The bar goes with its cards; whoever used it goes on at the last of them.
      queueMicrotask(() => {
        const rest = document.querySelectorAll<HTMLElement>('[data-approval]')
        const decided = document.querySelectorAll<HTMLElement>('[data-decided]')
        ;(rest[0] ?? decided[decided.length - 1])?.focus()
      })
    }
  }, [])
  const all = useStore(decisions)
  const [chosen, setChosen] = useState<readonly ToolPart[]>()
  const [guard] = useState(newGuard)
  const open = parts.filter((p) => {
    const s = cardState(all, p.approval!.id)
    return !s.sending && !s.taken && !s.lost && s.closed === undefined
  })
  const grave = open.some(irreversible)
  const editing = open.some((p) => cardState(all, p.approval!.id).draft?.mode === 'edit')
  // What the dialog lists is what is sent; if one was decided meanwhile, ask anew.
  const stale = chosen?.some((c) => !open.some((p) => p.approval!.id === c.approval!.id)) ?? false
  useEffect(() => {
    if (stale) setChosen(undefined)
  }, [stale])

  const why = editing ? 'One input is being edited. Approve it with its changes, or go back.' : grave ? 'One of them cannot be undone; look at it on its own.' : undefined
  const n = open.length
  return (
    <div ref={bar} className="batch" role="group" aria-label="All cards that wait">
      <h3>
        {parts.length} actions need your approval <small>Alt+A jumps to the first</small>
      </h3>
      <div className="buttons">
        <button
          type="button"
          aria-disabled={n === 0}
          onClick={(event) => {
            if (n === 0 || !(byKeyboard(event) || guard.pointerAllowed())) return
            const now = decisions.getState()
            // Each call is denied with the reason on its own card, if it has one.
            void decide(
              topicId,
              open.map((p) => {
                const draft = cardState(now, p.approval!.id).draft
                return { approvalId: p.approval!.id, approved: false, ...(draft?.mode === 'deny' ? { reason: draft.reason } : {}) }
              }),
            )
          }}
        >
          Deny all
        </button>
        <button
          type="button"
          aria-disabled={n === 0 || why !== undefined}
          title={why}
          onClick={() => {
            if (n > 0 && why === undefined) setChosen(open)
          }}
        >
          Approve all {n}…
        </button>
      </div>
      {why && <p className="note">{why}</p>}
      {chosen && !stale && (
        <Dialog
          title={`Approve ${chosen.length === 1 ? 'this action' : `these ${chosen.length} actions`}?`}
          confirm={`Approve ${chosen.length === 1 ? '1' : `all ${chosen.length}`}`}
          onClose={() => setChosen(undefined)}
          onConfirm={() => {
            setChosen(undefined)
            void decide(topicId, chosen.map((p) => ({ approvalId: p.approval!.id, approved: true })))
          }}
        >
          <ol className="batch-list">
            {chosen.map((p) => (
              <li key={p.approval!.id}>
                <BatchItem part={p} />
              </li>
            ))}
          </ol>
        </Dialog>
      )}
    </div>
  )
}

function BatchItem({ part }: { part: ToolPart }) {
  const { title, server, tool } = toolNames(part)
  return (
    <>
      <strong><Visible text={title} /></strong>{' '}
      <span className="tool-name">
        {server && <><Visible text={server} /> › </>}
        <Visible text={tool} />
      </span>
      {claims(part.toolMetadata?.annotations)
        .slice(0, 1)
        .map((c) => (
          <span key={c.hint} className="claim">
            <Icon name={c.icon} /> {c.words}
          </span>
        ))}
      <InputView text={part.inputText ?? ''} as="fields" />
    </>
  )
}
