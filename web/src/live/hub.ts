import { linkEvents, settingsEvent, stateEvents } from './types'

/** What the hub is to a tab: where its event stream stands. */
export type Link = 'connecting' | 'live' | 'offline' | 'signed-out'

export type ToHub =
  /** The topics that the tab draws. Each one new to the stream brings a fresh snapshot, and so does `fresh`. */
  | { type: 'watch'; topics: string[]; fresh?: boolean }
  /** Something was missed: a fresh snapshot is needed. */
  | { type: 'resync' }
  /** The tab is looked at again, or the network is back: do not wait any longer. */
  | { type: 'wake' }
  /** The tab lives. Tabs that crashed say nothing, and their topics are forgotten. */
  | { type: 'here' }
  | { type: 'leave' }

export type FromHub =
  | { type: 'event'; name: string; data: string }
  | { type: 'link'; link: Link }
  /** A watched topic does not exist, or exists no more. */
  | { type: 'missing'; topicId: string }

export interface Tab {
  post(message: FromHub): void
}

export interface Source {
  close(): void
}

export interface SourceEvents {
  event(name: string, data: string, id: string): void
  /** The connection ended or could not be made. */
  ended(): void
}

export interface HubDeps {
  open(url: string, on: SourceEvents): Source
  /** The status of a GET, or 0 when the server cannot be reached. */
  probe(path: string): Promise<number>
  random(): number
}

const silence = 40_000
const mostTopics = 50
const pingLate = 20_000
const firstWait = 500
const longestWait = 10_000
const resyncEvery = 1_000
// Chromium throttles the timers of a hidden tab to one a minute.
const tabForgotten = 5 * 60_000

interface Member {
  topics: Set<string>
  heard: number
}

/**
 * One event stream for all tabs: a browser gives HTTP/1.1 six connections to a
 * server, and a seventh tab with a stream of its own would hang them all. It
 * lives in a SharedWorker, or alone in a tab where there is none.
 *
 * It knows nothing of what the events mean. A tab that begins to watch a topic
 * has the stream opened anew without a last id, which brings everybody a
 * snapshot: dearer than a diff, and there is nothing to get wrong.
 */
export class Hub {
  private readonly tabs = new Map<Tab, Member>()
  private readonly missing = new Set<string>()
  private source: Source | undefined
  private streamed = new Set<string>()
  private link: Link = 'connecting'
  private lastId = ''
  private failures = 0
  private heardAt = 0
  private lastFresh = -Infinity
  private silenceTimer: ReturnType<typeof setTimeout> | undefined
  private retryTimer: ReturnType<typeof setTimeout> | undefined
  private resyncTimer: ReturnType<typeof setTimeout> | undefined
  private opening: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly deps: HubDeps) {}

  receive(tab: Tab, message: ToHub): void {
    if (message.type === 'leave') {
      this.tabs.delete(tab)
      if (this.tabs.size === 0) this.close()
      return
    }
    const known = this.tabs.get(tab)
    const member = known ?? { topics: new Set<string>(), heard: 0 }
    member.heard = Date.now()
    if (!known) {
      this.tabs.set(tab, member)
      tab.post({ type: 'link', link: this.link })
    }
    switch (message.type) {
      case 'watch': {
        const before = member.topics
        member.topics = new Set(message.topics)
        for (const topic of message.topics) if (!before.has(topic)) this.missing.delete(topic)
        const wantsMore = message.topics.some((topic) => !before.has(topic))
        if (!known || wantsMore || message.fresh) this.openSoon()
        break
      }
      case 'resync':
        this.resync()
        break
      case 'wake':
        // After a sleep the timer of silence has slept too.
        if (this.link !== 'live' || Date.now() - this.heardAt > pingLate) this.openSoon()
        break
      case 'here':
        if (!known) this.openSoon()
        break
    }
  }

  private close(): void {
    for (const timer of [this.silenceTimer, this.retryTimer, this.opening, this.resyncTimer]) clearTimeout(timer)
    this.opening = this.resyncTimer = undefined
    this.source?.close()
    this.source = undefined
  }

  /** Opens the stream anew, once for all that is asked in the same moment. */
  private openSoon(): void {
    if (this.opening !== undefined) return
    this.opening = setTimeout(() => {
      this.opening = undefined
      this.open('')
    }, 0)
  }

  private resync(): void {
    if (this.resyncTimer !== undefined || this.opening !== undefined) return
    // A fault that a snapshot does not heal must not become a storm.
    const wait = Math.max(0, this.lastFresh + resyncEvery - Date.now())
    this.resyncTimer = setTimeout(() => {
      this.resyncTimer = undefined
      this.open('')
    }, wait)
  }

  private wanted(): Set<string> {
    const now = Date.now()
    for (const [tab, member] of this.tabs) if (now - member.heard > tabForgotten) this.tabs.delete(tab)
    const topics = new Set<string>()
    // The server takes so many and no more: those of the tabs heard of last.
    const recent = [...this.tabs.values()].sort((a, b) => b.heard - a.heard)
    for (const { topics: watched } of recent) {
      for (const topic of watched) if (!this.missing.has(topic) && topics.size < mostTopics) topics.add(topic)
    }
    return topics
  }

  private open(last: string): void {
    this.close()
    this.streamed = this.wanted()
    if (this.tabs.size === 0) return
    if (last === '') this.lastFresh = Date.now()
    const query = new URLSearchParams()
    for (const topic of this.streamed) query.append('topic', topic)
    if (last !== '') query.append('last', last)
    this.hush()
    const source: Source = this.deps.open(`/events?${query}`, {
      event: (name, data, id) => {
        if (this.source === source) this.heard(name, data, id)
      },
      ended: () => {
        if (this.source === source) void this.lost()
      },
    })
    this.source = source
  }

  private hush(): void {
    clearTimeout(this.silenceTimer)
    this.silenceTimer = setTimeout(() => void this.lost(), silence)
  }

  private heard(name: string, data: string, id: string): void {
    this.hush()
    this.heardAt = Date.now()
    this.failures = 0
    if (id !== '') this.lastId = id
    if (name === 'bye') {
      this.close()
      this.say('offline')
      const wait = Number((JSON.parse(data) as { retryMs?: number }).retryMs) || firstWait
      this.retryIn(wait + this.deps.random() * wait)
      return
    }
    this.say('live')
    if (name === 'ping') return
    for (const tab of this.tabs.keys()) tab.post({ type: 'event', name, data })
  }

  private retryIn(ms: number): void {
    clearTimeout(this.retryTimer)
    this.retryTimer = setTimeout(() => this.open(this.lastId), ms)
  }

  private async lost(): Promise<void> {
    this.close()
    this.say('offline')
    const failures = ++this.failures
    const still = () => this.source === undefined && this.failures === failures && this.opening === undefined
    const session = await this.deps.probe('/session')
    if (!still()) return
    if (session === 401) {
      this.say('signed-out')
      return
    }
    if (session === 200 && (await this.dropMissing()) && still()) {
      this.open('')
      return
    }
    if (!still()) return
    const wait = Math.min(longestWait, firstWait * 2 ** Math.min(failures - 1, 10))
    this.retryIn(wait / 2 + (this.deps.random() * wait) / 2)
  }

  /** A stream that names a topic which is gone is refused as a whole. */
  private async dropMissing(): Promise<boolean> {
    let dropped = false
    for (const topic of this.streamed) {
      const status = await this.deps.probe(`/topics/${encodeURIComponent(topic)}`)
      if (status !== 404 && status !== 410) continue
      dropped = true
      this.missing.add(topic)
      for (const [tab, member] of this.tabs) if (member.topics.has(topic)) tab.post({ type: 'missing', topicId: topic })
    }
    return dropped
  }

  private say(link: Link): void {
    if (link === this.link) return
    this.link = link
    for (const tab of this.tabs.keys()) tab.post({ type: 'link', link })
  }
}

/** The hub's view of a real browser. */
export const browserDeps: HubDeps = {
  open(url, on) {
    const source = new EventSource(url)
    const listen = (event: MessageEvent<string>) => on.event(event.type, event.data, event.lastEventId)
    for (const name of [...stateEvents, ...linkEvents, settingsEvent]) source.addEventListener(name, listen)
    // Its own reconnect would repeat the old `last` of the address; ours knows better.
    source.onerror = () => {
      source.close()
      on.ended()
    }
    return source
  },
  async probe(path) {
    try {
      return (await fetch(path, { headers: { accept: 'application/json' } })).status
    } catch {
      return 0
    }
  },
  random: Math.random,
}
