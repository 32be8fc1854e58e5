import { createStore } from 'zustand/vanilla'
import { parseWire } from '../json/wire'
import type { FromHub, Link, ToHub } from './hub'
import { addTopic, emptyState, type LiveState, reduce, withOlder } from './reduce'
import { type ServerEvent, settingsEvent, type SettingsKind, settingsKinds, stateEvents, type Topic } from './types'

export interface FeedState extends LiveState {
  link: Link
  /** Whether the stream has been live in this tab before. */
  wasLive: boolean
  /** Rises whenever settings of the kind may be other than they were read. */
  settings: Readonly<Record<SettingsKind, number>>
}

const unread = { 'mcp-servers': 0, rules: 0, assistants: 0 }

const expensive = 20
const hiddenFlush = 250

/**
 * Collects what the hub relays and publishes it at most once a frame: a model
 * writes faster than a screen shows. When drawing is dear, frames are left out,
 * so that the page stays usable. In a hidden tab, where there are no frames, a
 * timer does it: the title must still say that somebody is asked.
 */
export class Feed {
  readonly store = createStore<FeedState>()(() => ({ ...emptyState, link: 'connecting', wasLive: false, settings: unread }))
  private queue: ServerEvent[] = []
  private scheduled = false
  private restUntil = 0
  private send: (message: ToHub) => void = () => {}
  private watched: string[] = []

  /** Gives the feed its line to the hub, and joins. */
  join(send: (message: ToHub) => void): void {
    this.send = send
    this.send({ type: 'watch', topics: this.watched })
  }

  /** Says which topic this tab draws. */
  watch(topicId: string | undefined): void {
    this.watched = topicId === undefined ? [] : [topicId]
    // What is not watched any more grows stale: forget it, but for its place in the list.
    const { details } = this.store.getState()
    const kept = topicId !== undefined && details[topicId] ? { [topicId]: details[topicId] } : {}
    this.store.setState({ details: kept })
    this.send({ type: 'watch', topics: this.watched })
  }

  /** Has the whole state sent again. */
  refresh(): void {
    this.send({ type: 'watch', topics: this.watched, fresh: true })
  }

  /** Takes in a page of the list that was fetched. */
  addTopics(topics: readonly Topic[]): void {
    this.store.setState((s) => topics.reduce<LiveState>(addTopic, s))
  }

  listComplete(): void {
    this.store.setState({ complete: true })
  }

  /** Puts a page of older messages before those that are here. */
  addOlder(topicId: string, page: Parameters<typeof withOlder>[2]): void {
    this.store.setState((s) => withOlder(s, topicId, page))
  }

  resync(): void {
    this.send({ type: 'resync' })
  }

  wake(): void {
    this.send({ type: 'wake' })
  }

  here(): void {
    this.send({ type: 'here' })
  }

  leave(): void {
    this.send({ type: 'leave' })
  }

  readonly receive = (message: FromHub): void => {
    switch (message.type) {
      case 'link':
        if (message.link === 'live' && this.store.getState().wasLive) this.stale(settingsKinds)
        this.store.setState((s) => ({ link: message.link, wasLive: s.wasLive || message.link === 'live' }))
        break
      case 'missing':
        this.store.setState((s) => ({ gone: { ...s.gone, [message.topicId]: true } }))
        break
      case 'event': {
        if (message.name === settingsEvent) {
          this.settingsChanged(message.data)
          return
        }
        let event: ServerEvent | undefined
        try {
          event = decode(message.name, message.data)
        } catch {
          this.resync()
          return
        }
        if (!event || !this.concerns(event)) return
        // A stream that begins anew does not tell of settings that changed before it.
        if (event.name === 'snapshot' && event.data.topicId === '*') this.stale(settingsKinds)
        this.queue.push(event)
        this.schedule()
      }
    }
  }

  private settingsChanged(data: string): void {
    let changed: unknown
    try {
      changed = (JSON.parse(data) as { changed?: unknown }).changed
    } catch {
      // Then it may have been any of them.
    }
    const one = settingsKinds.filter((kind) => kind === changed)
    this.stale(one.length > 0 ? one : settingsKinds)
  }

  private stale(kinds: readonly SettingsKind[]): void {
    this.store.setState((s) => ({ settings: kinds.reduce((all, kind) => ({ ...all, [kind]: all[kind] + 1 }), s.settings) }))
  }

  /** Other tabs' topics come along on the shared stream. */
  private concerns(event: ServerEvent): boolean {
    const { topicId } = event.data
    if (topicId === '*' || event.name === 'status' || event.name === 'topic' || event.name === 'topic.removed') return true
    return this.watched.includes(topicId)
  }

  private schedule(): void {
    if (this.scheduled) return
    this.scheduled = true
    if (typeof document !== 'undefined' && document.hidden) setTimeout(this.flush, hiddenFlush)
    else {
      // A tab that is hidden between here and the next frame gets none.
      const late = setTimeout(this.flush, hiddenFlush * 4)
      requestAnimationFrame(() => {
        clearTimeout(late)
        const rest = this.restUntil - performance.now()
        if (rest > 0) setTimeout(this.flush, rest)
        else this.flush()
      })
    }
  }

  private readonly flush = (): void => {
    if (!this.scheduled) return
    this.scheduled = false
    const events = this.queue
    this.queue = []
    let state: LiveState = this.store.getState()
    let resync = false
    for (const event of events) {
      if (!this.concerns(event)) continue
      try {
        const next = reduce(state, event)
        state = next.state
        resync ||= next.resync
      } catch {
        // An event of a shape that we do not understand: the snapshot has it too.
        resync = true
      }
    }
    const began = performance.now()
    this.store.setState(state)
    // React draws in a microtask; the next task knows what it cost.
    setTimeout(() => {
      const cost = performance.now() - began
      if (cost > expensive) this.restUntil = performance.now() + 3 * cost
    }, 0)
    if (resync) this.resync()
  }
}

function decode(name: string, data: string): ServerEvent | undefined {
  if (!(stateEvents as readonly string[]).includes(name)) return undefined
  // A delta is by far the most frequent, and carries nobody's exact JSON.
  const parsed = name === 'delta' || name === 'status' ? (JSON.parse(data) as unknown) : parseWire(data)
  return { name, data: parsed } as ServerEvent
}
