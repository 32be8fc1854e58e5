import { describe, expect, it } from 'vitest'
import type { Message, Status, Topic } from '../live/types'
import { pathOf, topicOf } from '../router'
import { versions } from '../thread/Thread'
import { newestFirst } from './Sidebar'
import { isBusy } from './status'

const topic = (id: string, updatedAt: string): Topic => ({ id, title: id, model: 'm', revision: 1, createdAt: updatedAt, updatedAt })
const status = (state: Status['status'], lastCompletedAt?: string) => ({ status: state, ...(lastCompletedAt ? { lastCompletedAt } : {}) }) as Status

it('topics stand in the order of what happened in them last', () => {
  const list = [topic('a', '2026-01-01T00:00:00Z'), topic('b', '2026-01-03T00:00:00Z'), topic('c', '2026-01-02T00:00:00.5Z'), topic('d', '2026-01-02T00:00:00Z')]
  const order = newestFirst(list, { a: status('done', '2026-01-04T00:00:00Z'), d: status('done', '2025-01-01T00:00:00Z') }).map((t) => t.id)
  expect(order).toEqual(['a', 'b', 'c', 'd'])
})

it.each([['idle', false], ['pending', true], ['streaming', true], ['awaiting-approval', true], ['done', false], ['error', false], ['aborted', false]] as const)(
  'a topic that is %s: busy %s',
  (state, busy) => expect(isBusy(status(state))).toBe(busy),
)

describe('addresses', () => {
  it.each(['abc', 'a-b_c', 'ä ö', '0193a1c2-7f00-7000-8000-000000000001'])('of %s lead to it', (id) => expect(topicOf(pathOf(id))).toBe(id))
  it.each(['/', '/t/', '/t/a/b', '/topics/a', '/t/%zz'])('%s is no topic', (path) => expect(topicOf(path)).toBeUndefined())
  it('of no topic is the root', () => expect(pathOf(undefined)).toBe('/'))
})

it('versions of a message are those of its role below the same parent', () => {
  const message = (id: string, role: Message['role'], parentId?: string, state: Message['metadata']['status'] = 'success') =>
    ({ id, role, parts: [], metadata: { status: state, ...(parentId ? { parentId } : {}) } }) as unknown as Message
  const found = versions([message('u1', 'user'), message('u2', 'user'), message('a1', 'assistant', 'u1'), message('a2', 'assistant', 'u1'), message('b', 'assistant', 'u2'), message('q', 'user', 'a1', 'queued'), message('v', 'user', 'a1')])
  expect(Object.fromEntries(found)).toEqual({ u1: ['u1', 'u2'], u2: ['u1', 'u2'], a1: ['a1', 'a2'], a2: ['a1', 'a2'] })
})
