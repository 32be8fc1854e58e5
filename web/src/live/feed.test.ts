import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Feed } from './feed'
import type { ToHub } from './hub'

const at = '2026-01-01T00:00:00Z'
const topic = (id: string) => ({ id, title: id, model: 'm', revision: 1, createdAt: at, updatedAt: at })
const status = (topicId: string, revision: number, pendingApprovals = 0) => ({
  topicId, revision, status: 'pending', activeExecutions: [], awaitingApprovalAnchors: [], pendingApprovals, queuedMessages: 0,
})
const snapshot = (id: string, text = '') => ({
  topicId: id, revision: 1, topic: topic(id), queued: [], status: status(id, 1),
  messages: [{ id: 'm', role: 'assistant', parts: [{ type: 'text', text }], metadata: { status: 'pending', epoch: 1, createdAt: at, updatedAt: at, revision: 1 } }],
})
const delta = (id: string, offset: number, text: string) => ({ topicId: id, revision: 1, messageId: 'm', epoch: 1, part: 0, field: 'text', offset, text })

let sent: ToHub[]
let feed: Feed
let published: number

beforeEach(() => {
  vi.useFakeTimers()
  sent = []
  feed = new Feed()
  feed.watch('t')
  feed.join((message) => void sent.push(message))
  published = 0
  feed.store.subscribe(() => published++)
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

const event = (name: string, data: unknown) => feed.receive({ type: 'event', name, data: JSON.stringify(data) })
const frame = () => vi.advanceTimersToNextFrame()
const text = () => (feed.store.getState().details.t?.held.m?.message.parts[0] as { text: string }).text

describe('the feed', () => {
  it('publishes once a frame, however much comes', () => {
    event('snapshot', snapshot('t'))
    for (let i = 0; i < 100; i++) event('delta', delta('t', i, 'x'))
    expect(published).toBe(0)
    frame()
    expect([published, text()]).toEqual([1, 'x'.repeat(100)])
  })

  it('goes by a timer where there are no frames, so that the title still tells', async () => {
    vi.spyOn(document, 'hidden', 'get').mockReturnValue(true)
    const frames = vi.spyOn(globalThis, 'requestAnimationFrame')
    event('status', status('other', 5, 2))
    await vi.advanceTimersByTimeAsync(250)
    expect(feed.store.getState().statuses.other!.pendingApprovals).toBe(2)
    expect(frames).not.toHaveBeenCalled()
  })

  it('is not stuck when the tab is hidden between an event and its frame', async () => {
    vi.spyOn(globalThis, 'requestAnimationFrame').mockReturnValue(1)
    event('status', status('other', 5))
    await vi.advanceTimersByTimeAsync(1000)
    expect(feed.store.getState().statuses.other).toBeDefined()
  })

  it('takes in nothing of topics that other tabs watch, but their place in the list', () => {
    event('snapshot', snapshot('t'))
    event('snapshot', snapshot('other', 'secret'))
    event('status', status('other', 2))
    frame()
    expect(Object.keys(feed.store.getState().details)).toEqual(['t'])
    expect(Object.keys(feed.store.getState().statuses).sort()).toEqual(['other', 't'])
  })

  it('drops what was under way for a topic that is left', () => {
    event('snapshot', snapshot('t', 'a'))
    frame()
    event('delta', delta('t', 1, 'b'))
    feed.watch('other')
    frame()
    expect(feed.store.getState().details).toEqual({})
    expect(sent.at(-1)).toEqual({ type: 'watch', topics: ['other'] })
  })

  it('asks for a snapshot when something was missed', () => {
    event('snapshot', snapshot('t', 'a'))
    event('delta', delta('t', 5, 'z'))
    frame()
    expect(sent.at(-1)).toEqual({ type: 'resync' })
    expect(text()).toBe('a')
  })

  it('keeps a tool’s input digit for digit', () => {
    const raw = JSON.stringify(snapshot('t')).replace('{"type":"text","text":""}', '{"type":"dynamic-tool","toolCallId":"c","state":"approval-requested","input":{"n":12345678901234567890}}')
    feed.receive({ type: 'event', name: 'snapshot', data: raw })
    frame()
    expect(feed.store.getState().details.t!.held.m!.message.parts[0]).toMatchObject({ inputText: '{"n":12345678901234567890}' })
  })

  it('leaves frames out when drawing is dear', async () => {
    event('snapshot', snapshot('t'))
    let clock = 1000
    vi.spyOn(performance, 'now').mockImplementation(() => clock)
    const undraw = feed.store.subscribe(() => void (clock += 100))
    frame()
    undraw()
    await vi.advanceTimersByTimeAsync(0)
    published = 0
    event('delta', delta('t', 0, 'x'))
    frame()
    expect(published).toBe(0)
    await vi.advanceTimersByTimeAsync(300)
    expect([published, text()]).toEqual([1, 'x'])
  })

  it('says where the connection stands, and which topic is not there', () => {
    feed.receive({ type: 'link', link: 'live' })
    feed.receive({ type: 'link', link: 'offline' })
    feed.receive({ type: 'missing', topicId: 't' })
    expect(feed.store.getState()).toMatchObject({ link: 'offline', wasLive: true, gone: { t: true } })
  })

  it('outlives an event that it cannot read, and asks for a snapshot', () => {
    feed.receive({ type: 'event', name: 'part', data: '{"topicId":' })
    expect(sent.at(-1)).toEqual({ type: 'resync' })
    sent = []
    event('snapshot', { topicId: 't' })
    event('status', status('other', 3))
    frame()
    expect(sent).toEqual([{ type: 'resync' }])
    expect(feed.store.getState().statuses.other).toBeDefined()
  })

  it('ignores events of names that it does not know', () => {
    event('later-invention', { topicId: 't' })
    frame()
    expect(published).toBe(0)
  })

  it('counts what a settings event names, and everything when it names nothing that is known', () => {
    const counts = () => Object.values(feed.store.getState().settings)
    event('settings', { changed: 'rules' })
    expect(counts()).toEqual([0, 1, 0])
    event('settings', { changed: 'of a newer release' })
    feed.receive({ type: 'event', name: 'settings', data: 'not json' })
    expect(counts()).toEqual([2, 3, 2])
    expect(sent.filter((m) => m.type === 'resync')).toEqual([])
  })

  it('has settings read again when the stream began anew or the connection came back', () => {
    const counts = () => feed.store.getState().settings.rules
    feed.receive({ type: 'link', link: 'live' })
    expect(counts()).toBe(0)
    event('snapshot', { topicId: '*', revision: 0, topics: [], complete: true })
    expect(counts()).toBe(1)
    feed.receive({ type: 'link', link: 'offline' })
    feed.receive({ type: 'link', link: 'live' })
    expect(counts()).toBe(2)
  })
})
