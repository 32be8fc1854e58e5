import {
  type Delta,
  isText,
  isTool,
  type Message,
  type Part,
  type ServerEvent,
  type Status,
  type Topic,
  type TopicSnapshot,
} from './types'

/** A message as this tab holds it, with the revisions that it is at. */
export interface Held {
  message: Message
  /** Of the metadata. */
  metaRevision: number
  /** Of all parts that partRevisions does not name. */
  partsRevision: number
  partRevisions: Readonly<Record<number, number>>
  epoch: number
  /** How far running calls have come, by position; never stored by the server. */
  progress: Readonly<Record<number, string>>
}

/** A topic in detail: what the thread draws. */
export interface Detail {
  revision: number
  held: Readonly<Record<string, Held>>
  /** The active branch, oldest first. */
  order: readonly string[]
  queued: readonly string[]
  hasMore: boolean
  before: string | undefined
  /** Messages that deltas named and a fresh snapshot did not have: other branches. */
  strangers: readonly string[]
}

/** All that is known of the server's state. It is never written to, only replaced. */
export interface LiveState {
  topics: Readonly<Record<string, Topic>>
  statuses: Readonly<Record<string, Status>>
  details: Readonly<Record<string, Detail>>
  /** Whether a list of topics has arrived, and whether it was all of them. */
  listed: boolean
  complete: boolean
  /** Topics that were here and are gone. */
  gone: Readonly<Record<string, true>>
}

export const emptyState: LiveState = { topics: {}, statuses: {}, details: {}, listed: false, complete: true, gone: {} }

export interface Reduced {
  state: LiveState
  /** Something was missed: the stream must be opened anew, without a last id. */
  resync: boolean
}

/** Applies one event. It follows docs/events.md: older never overwrites newer, and what cannot be explained asks for a snapshot. */
export function reduce(state: LiveState, event: ServerEvent): Reduced {
  switch (event.name) {
    case 'snapshot':
      return done('topics' in event.data ? withList(state, event.data.topics, event.data.complete) : withSnapshot(state, event.data))
    case 'status':
      return done(withStatus(state, event.data))
    case 'topic':
      return done(withTopic(state, event.data.topic, event.data.revision))
    case 'topic.removed':
      return done(withoutTopic(state, event.data.topicId))
  }
  const topicId = event.data.topicId
  const detail = state.details[topicId]
  // Another tab watches this topic, or its snapshot is still on the way.
  if (!detail) return done(state)
  const next = inDetail(detail, event)
  if (next.detail === detail) return { state, resync: next.resync }
  return { state: { ...state, details: { ...state.details, [topicId]: next.detail } }, resync: next.resync }
}

const done = (state: LiveState): Reduced => ({ state, resync: false })

function withList(state: LiveState, list: Topic[], complete: boolean): LiveState {
  let next: LiveState = { ...state, listed: true, complete }
  if (complete) {
    const present = new Set(list.map((t) => t.id))
    next = {
      ...next,
      topics: pick(state.topics, present),
      statuses: pick(state.statuses, present),
    }
    for (const id of Object.keys(state.details)) if (!present.has(id)) next = withoutTopic(next, id)
  }
  for (const topic of list) next = addTopic(next, topic)
  return next
}

/** Adds a topic that a page of the list brought, unless a newer one is held. */
export function addTopic(state: LiveState, topic: Topic): LiveState {
  const next = withTopic(state, topic, topic.revision)
  return topic.status ? withStatus(next, topic.status) : next
}

function pick<T>(record: Readonly<Record<string, T>>, keys: Set<string>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([key]) => keys.has(key)))
}

function withTopic(state: LiveState, topic: Topic, revision: number): LiveState {
  const held = state.topics[topic.id]
  if (held && held.revision >= revision) return state
  const next = { ...state, topics: { ...state.topics, [topic.id]: { ...topic, revision } } }
  return topic.status ? withStatus(next, topic.status) : next
}

function withStatus(state: LiveState, status: Status): LiveState {
  const held = state.statuses[status.topicId]
  if (held && held.revision >= status.revision) return state
  return { ...state, statuses: { ...state.statuses, [status.topicId]: status } }
}

function withoutTopic(state: LiveState, id: string): LiveState {
  const topics = { ...state.topics }
  const statuses = { ...state.statuses }
  const details = { ...state.details }
  delete topics[id]
  delete statuses[id]
  delete details[id]
  return { ...state, topics, statuses, details, gone: { ...state.gone, [id]: true } }
}

function withSnapshot(state: LiveState, s: TopicSnapshot): LiveState {
  const held: Record<string, Held> = {}
  for (const message of [...s.messages, ...s.queued]) held[message.id] = hold(message, s.revision)
  const detail: Detail = {
    revision: s.revision,
    held,
    order: s.messages.map((m) => m.id),
    queued: s.queued.map((m) => m.id),
    hasMore: s.hasMore ?? false,
    before: s.before,
    strangers: (state.details[s.topicId]?.strangers ?? []).filter((id) => !held[id]),
  }
  const gone = { ...state.gone }
  delete gone[s.topicId]
  return {
    ...state,
    gone,
    topics: { ...state.topics, [s.topicId]: { ...s.topic, revision: s.revision } },
    statuses: { ...state.statuses, [s.topicId]: s.status },
    details: { ...state.details, [s.topicId]: detail },
  }
}

/** Puts a page of older messages before those that are held. */
export function withOlder(state: LiveState, topicId: string, page: Pick<TopicSnapshot, 'messages' | 'revision' | 'hasMore' | 'before'>): LiveState {
  const detail = state.details[topicId]
  if (!detail) return state
  const fresh = page.messages.filter((m) => !detail.held[m.id])
  const held = { ...detail.held }
  for (const message of fresh) held[message.id] = hold(message, page.revision)
  const older: Detail = { ...detail, held, order: [...fresh.map((m) => m.id), ...detail.order], hasMore: page.hasMore ?? false, before: page.before }
  return { ...state, details: { ...state.details, [topicId]: older } }
}

function hold(message: Message, revision: number): Held {
  return {
    message: { ...message, parts: message.parts ?? [] },
    metaRevision: revision,
    partsRevision: revision,
    partRevisions: {},
    epoch: message.metadata.epoch ?? 0,
    progress: {},
  }
}

type DetailEvent = Extract<ServerEvent, { name: 'message' | 'part' | 'message.removed' | 'delta' }>
type Step = Detail | 'missed' | { detail: Detail; resync: boolean }

function inDetail(detail: Detail, event: DetailEvent): { detail: Detail; resync: boolean } {
  const step = apply(detail, event)
  if (step === 'missed') return { detail, resync: true }
  if ('resync' in step) return step
  if (step === detail) return { detail, resync: false }
  return { detail: { ...step, revision: Math.max(step.revision, event.data.revision) }, resync: false }
}

function apply(detail: Detail, event: DetailEvent): Step {
  switch (event.name) {
    case 'message':
      return applyMessage(detail, event.data.message, event.data.revision)
    case 'message.removed':
      return remove(detail, event.data.messageId, event.data.revision)
    case 'part': {
      const { messageId, position, part, revision, epoch } = event.data
      const held = detail.held[messageId]
      if (!held) return stranger(detail, messageId)
      if (revision <= (held.partRevisions[position] ?? held.partsRevision)) return detail
      if (position > held.message.parts.length) return 'missed'
      const next = withPart(held, position, part)
      const placed = put(detail, { ...next, partRevisions: { ...held.partRevisions, [position]: revision } })
      // A part of a later owner, whose claim this tab has not seen: what the
      // former one had streamed at other positions may be left over here.
      return epoch > held.epoch ? { detail: placed, resync: true } : placed
    }
    case 'delta':
      return applyDelta(detail, event.data)
  }
}

function withPart(held: Held, position: number, part: Part): Held {
  const parts = held.message.parts.slice()
  parts[position] = part
  const progress = { ...held.progress }
  delete progress[position]
  return { ...held, message: { ...held.message, parts }, progress }
}

function put(detail: Detail, held: Held): Detail {
  return { ...detail, held: { ...detail.held, [held.message.id]: held } }
}

/** A message that is not on the branch we hold: ask for a snapshot, but only once. */
function stranger(detail: Detail, id: string): Step {
  if (detail.strangers.includes(id)) return detail
  return { detail: { ...detail, strangers: [...detail.strangers, id] }, resync: true }
}

function applyMessage(detail: Detail, incoming: Omit<Message, 'parts'> & { parts?: Part[] }, revision: number): Step {
  const { id, metadata } = incoming
  const old = detail.held[id]
  if (old && revision <= old.metaRevision) return detail
  if (!old && !incoming.parts) return stranger(detail, id)

  let held: Held
  if (incoming.parts) {
    held = hold({ ...incoming, parts: incoming.parts }, revision)
  } else {
    held = { ...old!, message: { ...old!.message, metadata }, metaRevision: revision }
    // The epoch of the parts we hold stays: a newer one shows as a gap.
    if ((metadata.epoch ?? 0) > old!.epoch && old!.message.parts.length === 0) held = { ...held, epoch: metadata.epoch! }
  }
  const next = put(detail, held)
  const isQueued = metadata.status === 'queued'
  const inQueue = detail.queued.includes(id)
  if (isQueued) return inQueue ? next : { ...next, queued: [...detail.queued, id], order: detail.order.filter((o) => o !== id) }
  const queued = inQueue ? detail.queued.filter((q) => q !== id) : detail.queued
  if (detail.order.includes(id)) return { ...next, queued }

  // A new message goes on where the branch ends. Any other is of another
  // branch: a sibling that answers the same question does not belong below it.
  const last = detail.order.at(-1)
  return metadata.parentId === last ? { ...next, queued, order: [...detail.order, id] } : stranger(detail, id)
}

function remove(detail: Detail, id: string, revision: number): Step {
  const held = detail.held[id]
  if (!held || revision <= held.metaRevision) return detail
  const removed = new Set([id])
  for (const other of [...detail.order, ...detail.queued]) {
    const parentId = detail.held[other]?.message.metadata.parentId
    if (parentId && removed.has(parentId) && !detail.queued.includes(other)) removed.add(other)
  }
  const left = { ...detail.held }
  for (const gone of removed) delete left[gone]
  const keep = (o: string) => !removed.has(o)
  return { ...detail, held: left, order: detail.order.filter(keep), queued: detail.queued.filter(keep) }
}

function applyDelta(detail: Detail, delta: Delta): Step {
  const held = detail.held[delta.messageId]
  if (!held) return stranger(detail, delta.messageId)
  if (delta.epoch < held.epoch) return detail
  if (delta.epoch > held.epoch) return 'missed'

  const { parts } = held.message
  let part = parts[delta.part]
  if (!part) {
    if (!delta.start || delta.part !== parts.length) return 'missed'
    part = delta.start
  }
  if (delta.field === 'progress') return put(detail, { ...held, progress: { ...held.progress, [delta.part]: delta.text } })

  const grown = grow(part, delta)
  if (grown === 'missed') return 'missed'
  if (grown === parts[delta.part]) return detail
  return put(detail, withPart(held, delta.part, grown))
}

function grow(part: Part, delta: Delta): Part | 'missed' {
  if (delta.field === 'text' && isText(part)) {
    if (delta.offset > part.text.length) return 'missed'
    const more = delta.text.slice(part.text.length - delta.offset)
    return more === '' ? part : { ...part, text: part.text + more }
  }
  if (delta.field === 'input' && isTool(part)) {
    // Its step is committed already; the exact input replaced what streamed.
    if (part.state !== 'input-streaming') return part
    const raw = part.rawInput ?? ''
    if (delta.offset > raw.length) return 'missed'
    const more = delta.text.slice(raw.length - delta.offset)
    return more === '' ? part : { ...part, rawInput: raw + more }
  }
  return 'missed'
}
