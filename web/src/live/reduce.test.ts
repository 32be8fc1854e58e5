import { describe, expect, it } from 'vitest'
import { type Detail, emptyState, type LiveState, reduce, withOlder } from './reduce'
import type { Message, Part, ServerEvent, Status, TextPart, ToolPart, Topic } from './types'

const at = '2026-01-01T00:00:00Z'
const status = (revision: number, more: Partial<Status> = {}): Status => ({
  topicId: 't', revision, status: 'idle', activeExecutions: [], awaitingApprovalAnchors: [], pendingApprovals: 0, queuedMessages: 0, ...more,
})
const topic = (revision: number, more: Partial<Topic> = {}): Topic => ({ id: 't', title: 'T', model: 'demo/guide', revision, createdAt: at, updatedAt: at, ...more })
const message = (id: string, more: Partial<Message['metadata']> = {}, parts: Part[] = [], role: Message['role'] = 'assistant'): Message => ({
  id, role, parts, metadata: { status: 'success', createdAt: at, updatedAt: at, revision: 1, ...more },
})
const text = (value: string): TextPart => ({ type: 'text', text: value, state: 'streaming' })
const call = (more: Partial<ToolPart> = {}): ToolPart => ({ type: 'dynamic-tool', toolName: 'w__x', toolCallId: 'c1', state: 'approval-requested', inputText: '{}', approval: { id: 'a1' }, ...more })

const snapshot = (revision: number, messages: Message[], queued: Message[] = [], hasMore = false): ServerEvent => ({
  name: 'snapshot', data: { topicId: 't', revision, topic: topic(revision), messages, queued, status: status(revision), hasMore },
})
const delta = (more: Partial<Extract<ServerEvent, { name: 'delta' }>['data']> = {}): ServerEvent => ({
  name: 'delta', data: { topicId: 't', revision: 5, messageId: 'm', epoch: 1, part: 0, field: 'text', offset: 0, text: '', ...more },
})
const part = (position: number, p: Part, revision: number, epoch = 1): ServerEvent => ({ name: 'part', data: { topicId: 't', revision, messageId: 'm', epoch, position, part: p } })
const changed = (revision: number, m: Omit<Message, 'parts'> & { parts?: Part[] }): ServerEvent => ({ name: 'message', data: { topicId: 't', revision, message: m } })
const removed = (revision: number, messageId: string): ServerEvent => ({ name: 'message.removed', data: { topicId: 't', revision, messageId } })

function run(...events: ServerEvent[]): { state: LiveState; detail: Detail; resyncs: number } {
  let state = emptyState
  let resyncs = 0
  for (const event of events) {
    const next = reduce(state, event)
    state = next.state
    if (next.resync) resyncs++
  }
  return { state, detail: state.details.t!, resyncs }
}
const parts = (d: Detail) => d.held.m!.message.parts
const textOf = (d: Detail, i = 0) => (parts(d)[i] as TextPart).text

const streaming = (soFar = '') => snapshot(5, [message('m', { epoch: 1, status: 'pending' }, soFar ? [text(soFar)] : [])])

describe('deltas', () => {
  it('append to the part they begin', () => {
    const { detail, resyncs } = run(streaming(), delta({ start: text(''), text: 'Hel' }), delta({ offset: 3, text: 'lo' }))
    expect([textOf(detail), resyncs]).toEqual(['Hello', 0])
  })
  it('do no harm when they come twice, whole or in part', () => {
    const { detail, resyncs } = run(streaming('Hello'), delta({ text: 'Hel', start: text('') }), delta({ offset: 3, text: 'lo' }), delta({ offset: 3, text: 'lo, you' }))
    expect([textOf(detail), resyncs]).toEqual(['Hello, you', 0])
  })
  it('leave the state the very same object when they add nothing', () => {
    const { state } = run(streaming('Hello'))
    expect(reduce(state, delta({ text: 'Hello' })).state).toBe(state)
  })
  it('ask for a snapshot when there is a gap', () => {
    const { detail, resyncs } = run(streaming('Hel'), delta({ offset: 4, text: 'o' }))
    expect([textOf(detail), resyncs]).toEqual(['Hel', 1])
  })
  it('of an older epoch are dropped, of a newer one ask for a snapshot', () => {
    const older = run(streaming('a'), delta({ epoch: 0, offset: 1, text: 'x' }))
    expect([textOf(older.detail), older.resyncs]).toEqual(['a', 0])
    const newer = run(streaming('a'), delta({ epoch: 2, offset: 1, text: 'x' }))
    expect([textOf(newer.detail), newer.resyncs]).toEqual(['a', 1])
  })
  it('may not skip a position, nor begin a part without saying what it is', () => {
    expect(run(streaming('a'), delta({ part: 2, start: text(''), text: 'x' })).resyncs).toBe(1)
    expect(run(streaming('a'), delta({ part: 1, text: 'x' })).resyncs).toBe(1)
  })
  it('count UTF-16 units', () => {
    const { detail, resyncs } = run(streaming('a😀'), delta({ offset: 3, text: 'b' }))
    expect([textOf(detail), resyncs]).toEqual(['a😀b', 0])
  })
  it('stream a call’s input, and touch it no more once it is committed', () => {
    const begun = call({ state: 'input-streaming' })
    delete begun.inputText
    delete begun.approval
    const first = run(streaming(), delta({ start: begun, field: 'input', text: '{"a"' }), delta({ field: 'input', offset: 4, text: ':1}' }))
    expect((parts(first.detail)[0] as ToolPart).rawInput).toBe('{"a":1}')
    const { detail, resyncs } = run(streaming(), delta({ start: begun, field: 'input', text: '{"a"' }), part(0, call(), 6), delta({ field: 'input', offset: 4, text: ':1}' }))
    expect([parts(detail)[0], resyncs]).toEqual([call(), 0])
  })
  it('of progress replace the last one and vanish with the part’s next state', () => {
    const runs = call({ state: 'approval-responded' })
    const events = [snapshot(5, [message('m', { epoch: 1 }, [runs])]), delta({ field: 'progress', offset: 99, text: '3/10' }), delta({ field: 'progress', text: '4/10' })]
    expect(run(...events).detail.held.m!.progress).toEqual({ 0: '4/10' })
    expect(run(...events, part(0, call({ state: 'output-available' }), 6)).detail.held.m!.progress).toEqual({})
  })
  it('of a message on another branch ask for a snapshot only once', () => {
    const { resyncs } = run(streaming(), delta({ messageId: 'x' }), streaming(), delta({ messageId: 'x' }), delta({ messageId: 'x' }))
    expect(resyncs).toBe(1)
  })
  it('of a topic that is not held are nothing to this tab', () => {
    expect(run(delta()).resyncs).toBe(0)
  })
})

describe('parts', () => {
  it('replace what was streamed', () => {
    const { detail } = run(streaming('Hel'), part(0, { ...text('Hello'), state: 'done' }, 6))
    expect(parts(detail)).toEqual([{ type: 'text', text: 'Hello', state: 'done' }])
  })
  it('of one revision all apply, each at its position', () => {
    const { detail, resyncs } = run(streaming(), part(0, text('a'), 6), part(1, call(), 6))
    expect([parts(detail), resyncs]).toEqual([[text('a'), call()], 0])
  })
  it('never bring an older state back', () => {
    const settled = call({ state: 'output-denied' })
    const { detail } = run(snapshot(9, [message('m', { epoch: 1 }, [settled])]), part(0, call(), 8), part(0, call(), 9))
    expect(parts(detail)).toEqual([settled])
    expect(parts(run(streaming(), part(0, settled, 7), part(0, call(), 6)).detail)).toEqual([settled])
  })
  it('beyond the end ask for a snapshot', () => expect(run(streaming('a'), part(3, call(), 6)).resyncs).toBe(1))
  it('of a later owner are taken and a snapshot is asked for', () => {
    const { detail, resyncs } = run(streaming('a'), part(1, call(), 6, 2))
    expect([parts(detail)[1], resyncs]).toEqual([call(), 1])
  })
  it('leave other messages the very same objects', () => {
    const { state } = run(snapshot(5, [message('u'), message('m', { epoch: 1, parentId: 'u' })]))
    const next = reduce(state, part(0, call(), 6)).state
    expect(next.details.t!.held.u).toBe(state.details.t!.held.u)
    expect(next.details.t!.order).toBe(state.details.t!.order)
  })
})

describe('messages', () => {
  it('are replaced whole, with their epoch', () => {
    const { detail, resyncs } = run(
      streaming('half a th'),
      changed(6, message('m', { epoch: 2, status: 'pending' }, [])),
      delta({ epoch: 1, offset: 9, text: 'ought' }),
      delta({ epoch: 2, start: text(''), text: 'Again' }),
    )
    expect([textOf(detail), resyncs]).toEqual(['Again', 0])
  })
  it('without parts change their metadata only', () => {
    const { id, role, metadata } = message('m', { epoch: 1, status: 'success' })
    const { detail } = run(streaming('text'), changed(6, { id, role, metadata }))
    expect([textOf(detail), detail.held.m!.message.metadata.status]).toEqual(['text', 'success'])
  })
  it('older than what is held are dropped', () => {
    const { detail } = run(streaming('new'), changed(5, message('m', {}, [text('old')])))
    expect(textOf(detail)).toBe('new')
  })
  it('are appended after their parent', () => {
    const { detail } = run(snapshot(5, [message('u')]), changed(6, message('m', { parentId: 'u' })))
    expect(detail.order).toEqual(['u', 'm'])
  })
  it('that answer a message that is answered here are of another branch', () => {
    const { detail } = run(snapshot(5, [message('u'), message('m', { parentId: 'u' })]), changed(6, message('m2', { parentId: 'u' })))
    expect(detail.order).toEqual(['u', 'm'])
  })
  it('begin an empty topic', () => expect(run(snapshot(5, []), changed(6, message('m'))).detail.order).toEqual(['m']))
  it('with an unknown parent ask for a snapshot', () => {
    expect(run(snapshot(5, [message('u')]), changed(6, message('m', { parentId: 'x' }))).resyncs).toBe(1)
    expect(run(snapshot(5, [message('u')]), changed(6, { ...message('x'), parts: undefined } as never)).resyncs).toBe(1)
  })
  it('queue up, and leave the queue when they are sent', () => {
    const waiting = message('q', { status: 'queued', parentId: 'm' }, [text('next')], 'user')
    const first = run(streaming('a'), changed(6, waiting))
    expect([first.detail.queued, first.detail.order]).toEqual([['q'], ['m']])
    const { parts: _, ...meta } = message('q', { status: 'success', parentId: 'm' }, [], 'user')
    const { detail } = run(streaming('a'), changed(6, waiting), changed(7, meta))
    expect([detail.queued, detail.order, detail.held.q!.message.parts]).toEqual([[], ['m', 'q'], [text('next')]])
  })
  it('are removed with what answers them', () => {
    const { detail } = run(snapshot(5, [message('u'), message('m', { parentId: 'u' })], [message('q', { status: 'queued' })]), removed(6, 'u'))
    expect([detail.order, detail.queued, Object.keys(detail.held)]).toEqual([[], ['q'], ['q']])
  })
  it('are not removed by what is older than they are', () => {
    expect(run(streaming('a'), removed(5, 'm')).detail.order).toEqual(['m'])
  })
  it('of older pages go before the others, once', () => {
    const { state } = run(snapshot(5, [message('m', { parentId: 'u' })], [], true))
    const page = { messages: [message('u'), message('m')], revision: 5, hasMore: false }
    const next = withOlder(state, 't', page as never)
    expect([next.details.t!.order, next.details.t!.hasMore]).toEqual([['u', 'm'], false])
  })
})

describe('snapshots', () => {
  it('in the middle of a stream hold what was streamed, and the stream goes on', () => {
    const { detail, resyncs } = run(streaming('Hello'), streaming('Hello, wor'), delta({ offset: 5, text: ', wor' }), delta({ offset: 10, text: 'ld' }))
    expect([textOf(detail), resyncs]).toEqual(['Hello, world', 0])
  })
  it('replace everything', () => {
    const { detail } = run(snapshot(5, [message('u'), message('m')], [message('q', { status: 'queued' })]), snapshot(6, [message('u')]))
    expect([detail.order, detail.queued, Object.keys(detail.held)]).toEqual([['u'], [], ['u']])
  })
})

describe('topics', () => {
  const list = (topics: Topic[], complete = true): ServerEvent => ({ name: 'snapshot', data: { topicId: '*', topics, complete } })
  it('and their statuses come with the list', () => {
    const { state } = run(list([topic(3, { status: status(3, { status: 'done' }) })]))
    expect([state.listed, Object.keys(state.topics), state.statuses.t!.status]).toEqual([true, ['t'], 'done'])
  })
  it('that a complete list lacks are gone, of an incomplete one they stay', () => {
    expect(run(list([topic(3)]), list([], false)).state.topics.t).toBeDefined()
    const { state } = run(snapshot(3, []), list([]))
    expect([state.topics.t, state.details.t, state.gone.t]).toEqual([undefined, undefined, true])
  })
  it('keep the newer status whatever the order of events', () => {
    const now: ServerEvent = { name: 'status', data: status(8, { status: 'awaiting-approval' }) }
    const { state } = run(now, { name: 'status', data: status(7, { status: 'pending' }) }, list([topic(7, { status: status(7) })]))
    expect(state.statuses.t!.status).toBe('awaiting-approval')
  })
  it('change their title, and not back', () => {
    const { state } = run(
      { name: 'topic', data: { topicId: 't', revision: 4, topic: topic(4, { title: 'New' }) } },
      { name: 'topic', data: { topicId: 't', revision: 3, topic: topic(3, { title: 'Old' }) } },
    )
    expect(state.topics.t!.title).toBe('New')
  })
  it('vanish with all that was held of them', () => {
    const { state } = run(snapshot(3, [message('m')]), { name: 'topic.removed', data: { topicId: 't', revision: 4 } })
    expect([state.topics, state.details, state.gone]).toEqual([{}, {}, { t: true }])
  })
})
