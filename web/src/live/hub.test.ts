import { beforeEach, describe, expect, it, vi } from 'vitest'
import { type FromHub, Hub, type SourceEvents } from './hub'

interface Opened {
  url: string
  on: SourceEvents
  closed: boolean
}

let opened: Opened[]
let statuses: Record<string, number>
let hub: Hub

beforeEach(() => {
  vi.useFakeTimers()
  opened = []
  statuses = { '/session': 200 }
  hub = new Hub({
    open(url, on) {
      const source: Opened = { url, on, closed: false }
      opened.push(source)
      return { close: () => void (source.closed = true) }
    },
    probe: (path) => Promise.resolve(statuses[path] ?? 200),
    random: () => 1,
  })
  return () => vi.useRealTimers()
})

function tab() {
  const got: FromHub[] = []
  return { post: (m: FromHub) => void got.push(m), got, links: () => got.flatMap((m) => (m.type === 'link' ? [m.link] : [])) }
}
const tick = (ms = 0) => vi.advanceTimersByTimeAsync(ms)
const current = () => opened.at(-1)!
const live = () => opened.filter((o) => !o.closed).length

describe('the hub', () => {
  it('holds one connection for the topics of all tabs', async () => {
    const [a, b, c] = [tab(), tab(), tab()]
    hub.receive(a, { type: 'watch', topics: ['x'] })
    hub.receive(b, { type: 'watch', topics: ['y'] })
    hub.receive(c, { type: 'watch', topics: ['x'] })
    await tick()
    expect([live(), current().url]).toEqual([1, '/events?topic=x&topic=y'])
    current().on.event('status', '{}', '7')
    for (const t of [a, b, c]) expect(t.got.at(-1)).toEqual({ type: 'event', name: 'status', data: '{}' })
  })

  it('asks for a snapshot when a tab joins, and not when one leaves', async () => {
    const [a, b] = [tab(), tab()]
    hub.receive(a, { type: 'watch', topics: ['x'] })
    await tick()
    current().on.event('status', '{}', '7')
    hub.receive(b, { type: 'watch', topics: ['x'] })
    await tick()
    expect([opened.length, live(), current().url]).toEqual([2, 1, '/events?topic=x'])
    hub.receive(b, { type: 'leave' })
    await tick()
    expect(opened.length).toBe(2)
    hub.receive(a, { type: 'leave' })
    expect(live()).toBe(0)
  })

  it('goes on from the last id after a lost connection', async () => {
    const a = tab()
    hub.receive(a, { type: 'watch', topics: ['x'] })
    await tick()
    current().on.event('status', '{}', 'id 7')
    current().on.ended()
    await tick(500)
    expect(current().url).toBe('/events?topic=x&last=id+7')
    current().on.event('ping', '{}', '')
    expect(a.links()).toEqual(['connecting', 'live', 'offline', 'live'])
  })

  it('waits longer and longer while the server is away, but no longer when it is woken', async () => {
    statuses['/session'] = 0
    const a = tab()
    hub.receive(a, { type: 'watch', topics: [] })
    await tick()
    for (const wait of [500, 1000, 2000, 4000, 8000, 10_000, 10_000]) {
      const before = opened.length
      current().on.ended()
      await tick(wait - 1)
      expect(opened.length).toBe(before)
      await tick(1)
      expect(opened.length).toBe(before + 1)
    }
    current().on.ended()
    const before = opened.length
    hub.receive(a, { type: 'wake' })
    await tick(1)
    expect(opened.length).toBe(before + 1)
  })

  it('takes 40 seconds of silence for a dead connection, and a ping for life', async () => {
    const a = tab()
    hub.receive(a, { type: 'watch', topics: [] })
    await tick()
    await tick(39_000)
    current().on.event('ping', '{}', '')
    await tick(39_000)
    expect(a.links().at(-1)).toBe('live')
    await tick(1_000)
    expect(a.links().at(-1)).toBe('offline')
    expect(opened[0]!.closed).toBe(true)
  })

  it('does not trust a connection that was silent while the machine slept', async () => {
    const a = tab()
    hub.receive(a, { type: 'watch', topics: [] })
    await tick()
    current().on.event('ping', '{}', '')
    hub.receive(a, { type: 'wake' })
    await tick()
    expect(opened.length).toBe(1)
    vi.setSystemTime(Date.now() + 3_600_000)
    hub.receive(a, { type: 'wake' })
    await tick()
    expect([opened.length, live()]).toEqual([2, 1])
  })

  it('says so when the session has ended, and does not try again by itself', async () => {
    statuses['/session'] = 401
    const a = tab()
    hub.receive(a, { type: 'watch', topics: [] })
    await tick()
    current().on.ended()
    await tick(60_000)
    expect([a.links().at(-1), opened.length]).toEqual(['signed-out', 1])
    hub.receive(a, { type: 'wake' })
    await tick()
    expect(opened.length).toBe(2)
  })

  it('comes back after bye at the time that the server names', async () => {
    const a = tab()
    hub.receive(a, { type: 'watch', topics: [] })
    await tick()
    current().on.event('bye', '{"retryMs":1000}', '')
    await tick(1_999)
    expect(opened.length).toBe(1)
    await tick(1)
    expect(opened.length).toBe(2)
  })

  it('does not turn a fault that no snapshot heals into a storm', async () => {
    const a = tab()
    hub.receive(a, { type: 'watch', topics: ['x'] })
    await tick()
    for (let i = 0; i < 100; i++) {
      hub.receive(a, { type: 'resync' })
      await tick(50)
    }
    expect(opened.length).toBeLessThanOrEqual(7)
    expect(opened.length).toBeGreaterThanOrEqual(5)
  })

  it('leaves a topic out that does not exist, and tells who watches it', async () => {
    statuses['/topics/gone'] = 404
    const [a, b] = [tab(), tab()]
    hub.receive(a, { type: 'watch', topics: ['gone'] })
    hub.receive(b, { type: 'watch', topics: ['x'] })
    await tick()
    current().on.ended()
    await tick()
    expect(current().url).toBe('/events?topic=x')
    expect(a.got).toContainEqual({ type: 'missing', topicId: 'gone' })
    expect(b.got).not.toContainEqual({ type: 'missing', topicId: 'gone' })
  })

  it('asks for no more topics than the server takes, and for those of the latest tabs', async () => {
    for (let i = 0; i < 60; i++) {
      hub.receive(tab(), { type: 'watch', topics: [`x${i}`] })
      await tick(1)
    }
    const topics = new URLSearchParams(current().url.split('?')[1]).getAll('topic')
    expect(topics).toEqual(Array.from({ length: 50 }, (_, i) => `x${59 - i}`))
  })

  it('ignores what an old connection still says', async () => {
    const a = tab()
    hub.receive(a, { type: 'watch', topics: ['x'] })
    await tick()
    const old = current()
    hub.receive(a, { type: 'watch', topics: ['x'], fresh: true })
    await tick()
    old.on.event('status', '{"old":true}', '9')
    old.on.ended()
    await tick()
    expect(a.got.some((m) => m.type === 'event')).toBe(false)
    expect(live()).toBe(1)
  })

  it('forgets the topics of a tab that crashed, and takes it back when it was only asleep', async () => {
    const [a, b] = [tab(), tab()]
    hub.receive(a, { type: 'watch', topics: ['x'] })
    hub.receive(b, { type: 'watch', topics: ['y'] })
    await tick()
    current().on.event('ping', '{}', '')
    for (let i = 0; i < 6; i++) {
      await tick(60_000)
      current().on.event('ping', '{}', '')
      hub.receive(b, { type: 'here' })
    }
    hub.receive(b, { type: 'watch', topics: ['y'], fresh: true })
    await tick()
    expect(current().url).toBe('/events?topic=y')
    hub.receive(a, { type: 'watch', topics: ['x'] })
    await tick()
    expect(current().url).toBe('/events?topic=y&topic=x')
  })
})
