import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ToolPart } from '../live/types'
import { Card } from './Card'
import { decisions } from './decisions'
import { Line } from './Line'

type Handler = (request: { method: string; path: string; body: string }) => [number, unknown]
let requests: { method: string; path: string; body: string }[]
let handle: Handler

beforeEach(() => {
  vi.useFakeTimers()
  requests = []
  decisions.setState({}, true)
  sessionStorage.clear()
  vi.stubGlobal('fetch', async (request: Request) => {
    const seen = { method: request.method, path: new URL(request.url).pathname, body: await request.text() }
    requests.push(seen)
    const [status, body] = handle(seen)
    return new Response(JSON.stringify(body), { status, headers: { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' } })
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

const allow = { serverId: 's1', server: 'files', tool: 'write', rule: 'The tool “write” runs without asking.', effective: true, why: 'Nothing else asks.', others: 1 }
const explains = (alwaysAllow: unknown): Handler => ({ path }) => (path === '/policy/explain' ? [200, { alwaysAllow }] : [200, { results: [], revision: 2 }])
let n = 0
const part = (more: Partial<ToolPart> = {}): ToolPart => ({
  type: 'dynamic-tool', toolCallId: `c${++n}`, toolName: 'files__write', state: 'approval-requested', inputText: '{}', approval: { id: `a${n}` }, toolMetadata: { server: 'files', serverId: 's1', tool: 'write' }, ...more,
})
const show = (p: ToolPart) => render(<Card topicId="t" part={p} place={1} total={1} />)
const tick = (ms = 1000) => act(() => vi.advanceTimersByTimeAsync(ms))
const button = (name: RegExp | string) => within(screen.getByRole('article')).getByRole('button', { name })
const point = (name: RegExp | string) => act(async () => void fireEvent.click(button(name), { detail: 1 }))
async function open() {
  await tick()
  await point('More ways to approve')
  await tick(0)
  await point('Always allow…')
  await tick(0)
}
const decided = () => requests.filter((r) => r.path.endsWith('/approvals')).map((r) => r.body)

describe('always allow', () => {
  it('shows the exact rule before it is confirmed, with what it does to other calls', async () => {
    handle = explains(allow)
    show(part())
    await open()
    const panel = screen.getByRole('group', { name: 'Always allow' })
    for (const words of [allow.rule, 'Nothing else keeps calls like this one waiting.', allow.why, 'Another call that waits now runs with it']) expect(panel.textContent).toContain(words)
    expect(document.activeElement).toBe(panel)
    expect(decided()).toEqual([])
    await tick()
    await point('Approve and always allow')
    expect(decided()).toEqual([`{"approvalId":"a${n}","approved":true,"remember":"always-allow"}`])
  })

  it('says when calls would be asked for all the same', async () => {
    handle = explains({ ...allow, effective: false, why: 'The rule “Production” asks for this call.', others: 0 })
    show(part())
    await open()
    const text = screen.getByRole('group', { name: 'Always allow' }).textContent
    expect(text).toContain('will be asked for even so')
    expect(text).toContain('The rule “Production” asks')
    expect(text).not.toContain('waits now')
  })

  it('is guarded against the click that opened it', async () => {
    handle = explains(allow)
    show(part())
    await open()
    await tick(499)
    await point('Approve and always allow')
    expect(decided()).toEqual([])
  })

  it('is not confirmed by the chord but from its own button', async () => {
    handle = explains(allow)
    show(part())
    await open()
    await tick()
    const panel = screen.getByRole('group', { name: 'Always allow' })
    await act(async () => void fireEvent.keyDown(panel, { key: 'Enter', ctrlKey: true }))
    expect(decided()).toEqual([])
    expect(document.activeElement).toBe(button('Approve and always allow'))
    await act(async () => void fireEvent.keyDown(document.activeElement!, { key: 'Enter', ctrlKey: true }))
    expect(decided()).toHaveLength(1)
  })

  it('goes back with Escape, and the plain approval remembers nothing', async () => {
    handle = explains(allow)
    show(part())
    await open()
    await tick()
    await act(async () => void fireEvent.keyDown(screen.getByRole('group', { name: 'Always allow' }), { key: 'Escape' }))
    expect(screen.queryByRole('group', { name: 'Always allow' })).toBeNull()
    await tick()
    await point(/^Approve once/)
    expect(decided()).toEqual([`{"approvalId":"a${n}","approved":true}`])
  })

  it('is not offered where the server does not offer it', async () => {
    handle = explains(undefined)
    show(part())
    await tick()
    await point('More ways to approve')
    await tick(0)
    expect(screen.queryByRole('button', { name: 'Always allow…' })).toBeNull()
    expect(screen.getByText(/cannot be allowed for good/)).toBeTruthy()
  })

  it('is not asked about for tools of no stored server and for tools that are gone', () => {
    for (const toolMetadata of [{ server: 'agent' }, { server: 'files', serverId: 's1', gone: true }]) {
      show(part({ toolMetadata }))
      expect(screen.queryByRole('button', { name: 'More ways to approve' })).toBeNull()
      cleanup()
    }
  })

  it('cannot be confirmed while the rule is not known', async () => {
    handle = explains(allow)
    const asked = part()
    sessionStorage.setItem(`assent.draft.a${n}`, JSON.stringify({ mode: 'always' }))
    handle = () => [503, { type: 'x', title: 'Unavailable', status: 503 }]
    show(asked)
    await tick()
    expect(button('Approve and always allow').getAttribute('aria-disabled')).toBe('true')
    await point('Approve and always allow')
    expect(decided()).toEqual([])
  })
})

describe('a card that is asked again', () => {
  it('says why', () => {
    handle = explains(undefined)
    show(part({ toolMetadata: { changed: 'The tool changed: it takes other input now.' } }))
    expect(screen.getByRole('article').textContent).toContain('Asked again, since something changed. The tool changed: it takes other input now.')
  })
  it('says that the tool is gone', () => {
    show(part({ toolMetadata: { gone: true } }))
    expect(screen.getByRole('article').textContent).toContain('The tool is gone.')
  })
})

describe('a card that expires', () => {
  const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
  const minute = 60_000
  const asked = (ago: number, left: number) => part({ approval: { id: `a${n}`, requestedAt: inMs(-ago), expiresAt: inMs(left) } })
  it('says when, and to a screen reader once it is near', async () => {
    vi.setSystemTime('2026-11-30T12:00:00Z')
    show(asked(minute, 62 * minute))
    await tick(15_000)
    expect(screen.getByRole('article').textContent).toContain('Expires in 1 h')
    expect(screen.getByRole('status').textContent).toBe('')
    await tick(3 * minute)
    expect(screen.getByRole('article').textContent).toContain('Expires in 58 min')
    const said = screen.getByRole('status').textContent
    expect(said).toContain('this question expires at')
    await tick(10 * minute)
    expect(screen.getByRole('status').textContent).toBe(said)
  })
  it.each([
    [0, 100 * 60, false],
    [0, 59, true],
    [91 * 60, 9 * 60, true],
    [89 * 60, 11 * 60, false],
  ])('is near when less than an hour or a tenth is left: %i of the minutes are gone, %i are left', async (ago, left, near) => {
    vi.setSystemTime('2026-11-30T12:00:00Z')
    show(asked(ago * minute, left * minute))
    await tick(15_000)
    expect(document.querySelector('.expires')!.className).toBe(near ? 'expires near' : 'expires')
  })
  it('that never expires says nothing of it', () => {
    show(part())
    expect(document.querySelector('.expires')).toBeNull()
  })
})

describe('a call that was allowed for good', () => {
  const settled = () => part({ state: 'output-available', outputText: '{}', approval: { id: `a${n}`, approved: true, decidedBy: 'grace', remember: 'always-allow' } })
  const server = { id: 's1', version: 3, disabledTools: [], alwaysAskTools: ['x'], autoApproveTools: ['other', 'write'] }
  it('says who did it, and is taken back in one click, and that too', async () => {
    let now = { ...server }
    handle = ({ method, body }) => {
      if (method === 'PATCH') now = { ...now, ...(JSON.parse(body) as object), version: now.version + 1 }
      return [200, now]
    }
    render(<Line part={settled()} me="ada" progress={undefined} />)
    expect(screen.getByRole('status').textContent).toContain('grace allowed write for good, in every chat.')
    expect(screen.getByRole('link').getAttribute('href')).toBe('/settings/servers/s1')
    await act(async () => void fireEvent.click(screen.getByRole('button', { name: 'Ask again from now on' })))
    await tick(0)
    expect(JSON.parse(requests.at(-1)!.body)).toEqual({ disabledTools: [], alwaysAskTools: ['x'], autoApproveTools: ['other'], version: 3 })
    expect(screen.getByRole('status').textContent).toContain('write is asked for again from now on.')
    await act(async () => void fireEvent.click(screen.getByRole('button', { name: 'Undo' })))
    await tick(0)
    expect(JSON.parse(requests.at(-1)!.body)).toMatchObject({ autoApproveTools: ['other', 'write'], version: 4 })
  })
  it('makes the change to the lists as they are by now, if somebody else was first', async () => {
    let patches = 0
    handle = ({ method }) => {
      if (method !== 'PATCH') return [200, patches === 0 ? server : { ...server, version: 4, autoApproveTools: ['write', 'new'] }]
      return ++patches === 1 ? [409, { type: 'x', title: 'Conflict', status: 409 }] : [200, server]
    }
    render(<Line part={settled()} me="ada" progress={undefined} />)
    await act(async () => void fireEvent.click(screen.getByRole('button', { name: 'Ask again from now on' })))
    await tick(0)
    expect(JSON.parse(requests.at(-1)!.body)).toMatchObject({ autoApproveTools: ['new'], version: 4 })
  })
  it('changes nothing that was taken back before', async () => {
    handle = () => [200, { ...server, autoApproveTools: [] }]
    render(<Line part={settled()} me="ada" progress={undefined} />)
    await act(async () => void fireEvent.click(screen.getByRole('button', { name: 'Ask again from now on' })))
    await tick(0)
    expect(requests.map((r) => r.method)).toEqual(['GET'])
    expect(screen.getByRole('status').textContent).toContain('nothing had to be changed')
  })
})
