import { useEffect, useMemo, useRef, useState } from 'react'
import { api, explain } from '../api/client'
import { cardState, decisions, reopen, settleDoubt } from '../approvals/decisions'
import { useFeed } from '../feed'
import type { Detail } from '../live/reduce'
import type { Message as WireMessage, Status, ToolPart, Topic } from '../live/types'
import { isBusy } from '../topics/status'
import { Icon } from '../ui/Icon'
import { Composer } from './Composer'
import { type Actions, Message } from './Message'
import { ModelPicker } from './ModelPicker'
import { openQuestions, pendingParts, ThreadContext } from './pending'
import { Queue } from './Queue'
import { useStickyScroll } from './scroll'

interface ThreadProps {
  topic: Topic
  detail: Detail
  status: Status | undefined
  me: string | undefined
}

const nothing: Actions = {}

export function Thread({ topic, detail, status, me }: ThreadProps) {
  const feed = useFeed()
  const topicId = topic.id
  const box = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const { away, jump } = useStickyScroll(box, content, topicId)
  const busy = isBusy(status)
  const pending = usePending(detail)
  const asking = pending.length > 0 || openQuestions(detail).length > 0
  const info = useMemo(() => ({ topicId, me, pending }), [topicId, me, pending])
  const running = status?.status === 'pending' || status?.status === 'streaming'
  const siblings = useBranches(topicId, detail, running)
  const [modelError, setModelError] = useState<string>()

  useUnlock(detail, pending)

  const last = detail.order.at(-1)
  const lastUser = detail.order.findLast((id) => detail.held[id]?.message.role === 'user')
  const actions = useMemo(() => {
    const all = new Map<string, Actions>()
    for (const id of detail.order) {
      const message = detail.held[id]?.message
      if (!message) continue
      const ended = message.metadata.status === 'error' || message.metadata.status === 'aborted'
      const found: Actions = {}
      if (id === last && message.role === 'assistant' && !busy) {
        found.regenerate = async () => void (await api.regenerate(topicId, id))
        if (ended) found.retry = async () => void (await api.retry(topicId, id))
      }
      if (id === lastUser && !running) found.edit = async (text) => void (await api.edit(topicId, id, text))
      const others = siblings.get(id)
      if (others && others.length > 1 && !running) {
        const at = others.indexOf(id)
        found.branches = { at, of: others.length, go: async (by) => void (await api.select(topicId, others[at + by]!)) }
      }
      if (Object.keys(found).length > 0) all.set(id, found)
    }
    return all
    // The parts of a message change nothing here, and they change with every delta.
  }, [topicId, detail.order, statusKey(detail), last, lastUser, busy, running, siblings])

  return (
    <ThreadContext.Provider value={info}>
      <div className="thread" ref={box}>
        <div className="thread-inner" ref={content}>
          {detail.hasMore && <Older topicId={topicId} before={detail.before} />}
          {detail.order.length === 0 && detail.queued.length === 0 && <p className="note empty">Nothing has been said here yet.</p>}
          {detail.order.map((id) => {
            const held = detail.held[id]
            return held ? <Message key={id} held={held} actions={actions.get(id) ?? nothing} /> : null
          })}
        </div>
      </div>
      <div className="dock">
        {away && (
          <button type="button" className="to-end" onClick={jump}>
            <Icon name="down" /> {asking ? 'To what needs you' : 'To the end'}
          </button>
        )}
        <Queue topicId={topicId} detail={detail} busy={busy} />
        <Composer
          key={topicId}
          place={topicId}
          busy={busy}
          asking={asking}
          onSend={async (id, text) => {
            try {
              await api.send(topicId, id, text)
              jump()
            } catch (e) {
              throw new Error(`The message was not sent. ${explain(e)}`)
            }
          }}
        >
          <ModelPicker
            value={topic.model}
            onChange={(model) => {
              setModelError(undefined)
              api.updateTopic(topicId, { model }).catch((e: unknown) => setModelError(`The model stays as it was. ${explain(e)}`))
            }}
          />
          {modelError && (
            <span className="error" role="alert">
              {modelError}
            </span>
          )}
          <Stop topicId={topicId} busy={busy} onError={() => feed.resync()} />
        </Composer>
      </div>
    </ThreadContext.Provider>
  )
}

/** The cards that wait; the very same array for as long as they are the same. */
function usePending(detail: Detail): readonly ToolPart[] {
  const last = useRef<readonly ToolPart[]>([])
  return useMemo(() => {
    const now = pendingParts(detail)
    const same = now.length === last.current.length && now.every((p, i) => p === last.current[i])
    if (!same) last.current = now
    return last.current
  }, [detail])
}

function statusKey(detail: Detail): string {
  return detail.order.map((id) => detail.held[id]?.message.metadata.status ?? '').join()
}

/** Gives a card its buttons back, or takes its doubt away, if the server, in a later state than its answer, still asks. */
function useUnlock(detail: Detail, pending: readonly ToolPart[]): void {
  useEffect(() => {
    const all = decisions.getState()
    for (const part of pending) {
      const { taken, error } = cardState(all, part.approval!.id)
      if (taken && detail.revision > taken.revision) reopen(part.approval!.id)
      if (error?.unsure) settleDoubt(part.approval!.id)
    }
  }, [detail, pending])
}

/** The versions of each message that has more than one, oldest first. They are asked for when nothing runs. */
function useBranches(topicId: string, detail: Detail, running: boolean): Map<string, string[]> {
  const [found, setFound] = useState<Map<string, string[]>>(new Map())
  const order = detail.order.join()
  const ready = detail.order.length > 0 && !running
  useEffect(() => {
    if (!ready) return
    let alive = true
    api.branches(topicId).then(
      (messages) => alive && setFound(versions(messages)),
      // Only the switch between versions is missing then.
      () => undefined,
    )
    return () => {
      alive = false
    }
  }, [topicId, order, ready])
  return found
}

/** Groups the messages of a tree that answer the same message in the same role. */
export function versions(messages: readonly WireMessage[]): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const m of messages) {
    if (m.metadata.status === 'queued') continue
    const key = `${m.metadata.parentId ?? ''} ${m.role}`
    groups.set(key, [...(groups.get(key) ?? []), m.id])
  }
  const byId = new Map<string, string[]>()
  for (const ids of groups.values()) if (ids.length > 1) for (const id of ids) byId.set(id, ids)
  return byId
}

function Stop({ topicId, busy, onError }: { topicId: string; busy: boolean; onError(): void }) {
  const [sending, setSending] = useState(false)
  const [error, setError] = useState<string>()
  if (!busy) return null
  return (
    <>
      {error && (
        <span className="error" role="alert">
          {error}
        </span>
      )}
      <button
        type="button"
        aria-disabled={sending}
        onClick={() => {
          if (sending) return
          setSending(true)
          setError(undefined)
          api
            .stop(topicId)
            .catch((e: unknown) => {
              setError(explain(e))
              onError()
            })
            .finally(() => setSending(false))
        }}
      >
        <Icon name="stop" /> Stop
      </button>
    </>
  )
}

function Older({ topicId, before }: { topicId: string; before: string | undefined }) {
  const feed = useFeed()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  return (
    <div className="older">
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
      <button
        type="button"
        aria-disabled={busy}
        onClick={() => {
          if (busy || before === undefined) return
          setBusy(true)
          setError(undefined)
          api
            .olderMessages(topicId, before)
            .then((page) => feed.addOlder(topicId, page))
            .catch((e: unknown) => setError(explain(e)))
            .finally(() => setBusy(false))
        }}
      >
        {busy ? 'Loading…' : 'Show earlier messages'}
      </button>
    </div>
  )
}
