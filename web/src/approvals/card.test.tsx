import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ToolPart } from '../live/types'
import { ThreadContext } from '../thread/pending'
import { BatchBar } from './Batch'
import { Card, useCardShortcut } from './Card'
import { decisions } from './decisions'
import { cardsMoved } from './guard'
import { Line } from './Line'

let requests: { url: string; body: string }[]
let answer: () => Promise<Response>

const json = (status: number, body: unknown) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' } })
const ok = () => Promise.resolve(json(200, { results: [], pending: 0, continuation: 'scheduled', revision: 9 }))

beforeEach(() => {
  vi.useFakeTimers()
  cardsMoved() // each test has a clock of its own
  requests = []
  answer = ok
  decisions.setState({}, true)
  sessionStorage.clear()
  vi.stubGlobal('fetch', async (request: Request) => {
    requests.push({ url: new URL(request.url).pathname, body: await request.text() })
    return answer()
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

let n = 0
function part(more: Partial<ToolPart> = {}): ToolPart {
  const id = `a${++n}`
  return {
    type: 'dynamic-tool', toolName: 'workspace__write_file', toolCallId: `c-${id}`, state: 'approval-requested',
    inputText: '{"path":"notes.txt","id":12345678901234567890}',
    approval: { id, requestedAt: new Date().toISOString() },
    toolMetadata: { server: 'workspace', tool: 'write_file', title: 'Write a file', model: 'demo/guide', step: 1 },
    ...more,
  }
}

const tick = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms))
const settle = () => tick(1000)
const card = (i = 0) => screen.getAllByRole('article')[i]!
const button = (name: RegExp | string, i = 0) => within(card(i)).getByRole('button', { name })
// A pointer's click says which one of a series it is; a key's says 0.
const point = (element: HTMLElement) => act(async () => void fireEvent.click(element, { detail: 1 }))
const press = (element: HTMLElement, key: string, more = {}) => act(async () => void fireEvent.keyDown(element, { key, ...more }))
const show = (...parts: ToolPart[]) =>
  render(<>{parts.map((p, i) => <Card key={p.approval!.id} topicId="t" part={p} place={i + 1} total={parts.length} />)}</>)

describe('the card', () => {
  it('says what is asked, by whom and of which tool', () => {
    show(part())
    const text = card().textContent
    for (const words of ['Write a file', 'workspace', 'write_file', 'demo/guide', 'step 1', 'Nothing has run yet. Survives a reload or restart.']) expect(text).toContain(words)
    expect(card().getAttribute('aria-labelledby')).toBe(screen.getByRole('heading', { name: 'Write a file' }).id)
  })

  it('shows numbers digit for digit and names hidden characters', () => {
    show(part({ inputText: '{"path":"a\\u202etxt","id":12345678901234567890,"r":1.0}' }))
    expect(card().textContent).toContain('12345678901234567890')
    expect(card().textContent).toContain('1.0')
    expect(card().textContent).toContain('U+202E')
  })

  it('says how much of a very long value is not shown, and shows it', async () => {
    show(part({ inputText: JSON.stringify({ content: 'x'.repeat(50_000) }) }))
    expect(card().textContent).not.toContain('x'.repeat(50_000))
    await point(button(/^Show all 50 thousand characters: 30 thousand characters are not shown/))
    expect(card().textContent).toContain('x'.repeat(50_000))
  })

  it('sends one request for a double click, and locks', async () => {
    show(part())
    await settle()
    let release = (_: Response) => {}
    answer = () => new Promise((resolve) => (release = resolve))
    await point(button(/^Approve once/))
    await point(button(/^Sending/))
    await point(button(/^Deny/))
    expect(requests).toHaveLength(1)
    await act(async () => release(json(200, { results: [], revision: 9 })))
    await point(button(/^Approve once/))
    expect(requests).toEqual([{ url: '/topics/t/approvals', body: `{"approvalId":"a${n}","approved":true}` }])
    expect(card().textContent).toContain('The server has your answer.')
  })

  it('comes back with the error and the draft when the request fails', async () => {
    show(part())
    await settle()
    await point(button(/^Deny/))
    fireEvent.change(screen.getByRole('textbox'), { target: { value: 'keep the heading' } })
    answer = () => Promise.reject(new TypeError('network'))
    await point(button(/^Deny/))
    expect(within(card()).getByRole('alert').textContent).toContain('cannot be reached')
    expect((screen.getByRole('textbox') as HTMLTextAreaElement).value).toBe('keep the heading')
    answer = ok
    await point(button(/^Deny/))
    expect(requests.map((r) => r.body)).toEqual(Array(2).fill(`{"approvalId":"a${n}","approved":false,"reason":"keep the heading"}`))
  })

  it('shows where an edited input breaks the schema', async () => {
    show(part())
    await settle()
    answer = () => Promise.resolve(json(422, { type: 'x', title: 'Invalid input', status: 422, detail: 'It breaks the schema.', errors: [{ pointer: '/path', message: 'must be short' }] }))
    await point(button(/^Approve once/))
    expect(within(card()).getByRole('alert').textContent).toContain('/path must be short')
  })

  it('sends an edited input as the text that was written', async () => {
    show(part())
    await settle()
    await point(button(/^Edit input/))
    const area = screen.getByRole('textbox') as HTMLTextAreaElement
    expect(area.value).toBe('{\n  "path": "notes.txt",\n  "id": 12345678901234567890\n}')
    fireEvent.change(area, { target: { value: '{"id":98765432109876543210,"n":1.0}' } })
    await point(button(/^Approve with changes/))
    expect(requests[0]!.body).toBe(`{"approvalId":"a${n}","approved":true,"updatedInput":{"id":98765432109876543210,"n":1.0}}`)
  })

  it.each(['{"id":', '[]', '{"a":1,"a":2}'])('does not send %s as an input', async (text) => {
    show(part())
    await settle()
    await point(button(/^Edit input/))
    fireEvent.change(screen.getByRole('textbox'), { target: { value: text } })
    expect(button(/^Approve with changes/).getAttribute('aria-disabled')).toBe('true')
    await point(button(/^Approve with changes/))
    await press(screen.getByRole('textbox'), 'Enter', { ctrlKey: true })
    expect(requests).toEqual([])
  })

  it('never carries a reason over to the next card', async () => {
    const [first, second] = [part(), part()]
    const { rerender } = show(first, second)
    await settle()
    await point(button(/^Deny/))
    fireEvent.change(screen.getByRole('textbox'), { target: { value: 'only for the first' } })
    rerender(<Card key={second.approval!.id} topicId="t" part={second} place={1} total={1} />)
    expect(screen.queryByRole('textbox')).toBeNull()
    await settle()
    await point(button(/^Deny/))
    expect((screen.getByRole('textbox') as HTMLTextAreaElement).value).toBe('')
    await point(button(/^Deny/))
    expect(requests[0]!.body).toBe(`{"approvalId":"${second.approval!.id}","approved":false}`)
  })

  it('keeps its draft over a reload', async () => {
    const asked = part()
    show(asked)
    await settle()
    await point(button(/^Deny/))
    fireEvent.change(screen.getByRole('textbox'), { target: { value: 'not yet' } })
    cleanup()
    decisions.setState({}, true)
    show(asked)
    expect((screen.getByRole('textbox') as HTMLTextAreaElement).value).toBe('not yet')
  })
})

describe('the guards', () => {
  it('ignore a pointer for half a second after the card appeared', async () => {
    show(part())
    await tick(499)
    await point(button(/^Approve once/))
    expect(requests).toEqual([])
    await tick(1)
    await point(button(/^Approve once/))
    expect(requests).toHaveLength(1)
  })

  it('ignore a pointer after another card came or went: this one may have moved under it', async () => {
    const [first, second] = [part(), part()]
    const { rerender } = show(first, second)
    await settle()
    rerender(<Card key={second.approval!.id} topicId="t" part={second} place={1} total={1} />)
    await tick(400)
    await point(button(/^Approve once/))
    expect(requests).toEqual([])
    await tick(100)
    await point(button(/^Approve once/))
    expect(requests).toHaveLength(1)
  })

  it('let the first click through though it brings the focus', async () => {
    show(part())
    await settle()
    act(() => button(/^Approve once/).focus())
    await point(button(/^Approve once/))
    expect(requests).toHaveLength(1)
  })

  it('ignore keys for 600 ms after the focus came, and a key that is held', async () => {
    show(part())
    await settle()
    act(() => card().focus())
    await tick(599)
    await press(card(), 'Enter', { ctrlKey: true })
    await tick(1)
    await press(card(), 'Enter', { ctrlKey: true, repeat: true })
    expect(requests).toEqual([])
    await press(card(), 'Enter', { ctrlKey: true })
    expect(requests).toHaveLength(1)
  })

  it('ignore the key press on a button that has just got the focus, and one that is held on it', async () => {
    show(part())
    await settle()
    act(() => button(/^Approve once/).focus())
    await act(async () => void fireEvent.click(button(/^Approve once/), { detail: 0 }))
    expect(requests).toEqual([])
    await tick(600)
    // A held Enter clicks again and again; what makes it click is the key press.
    expect(fireEvent.keyDown(button(/^Approve once/), { key: 'Enter', repeat: true })).toBe(false)
    await act(async () => void fireEvent.click(button(/^Approve once/), { detail: 0 }))
    expect(requests).toHaveLength(1)
  })

  it('do not start anew when the focus moves inside the card', async () => {
    show(part())
    await settle()
    act(() => card().focus())
    await tick(600)
    act(() => button(/^Approve once/).focus())
    await press(button(/^Approve once/), 'Enter', { ctrlKey: true })
    expect(requests).toHaveLength(1)
  })

  it('give plain Enter no meaning, and D, E and Esc theirs', async () => {
    show(part())
    await settle()
    act(() => card().focus())
    await tick(600)
    await press(card(), 'Enter')
    expect(requests).toEqual([])
    await press(card(), 'd')
    expect(document.activeElement).toBe(screen.getByRole('textbox', { name: /Why not/ }))
    await press(document.activeElement as HTMLElement, 'e')
    expect(screen.getByRole('textbox', { name: /Why not/ })).toBeTruthy()
    await press(document.activeElement as HTMLElement, 'Escape')
    expect(document.activeElement).toBe(card())
    await press(card(), 'e')
    expect(screen.getByRole('textbox', { name: /as JSON/ })).toBeTruthy()
    expect(requests).toEqual([])
  })

  it('take a call that cannot be undone by the chord only from its button', async () => {
    show(part({ toolMetadata: { title: 'Publish', annotations: { destructiveHint: true, openWorldHint: true } } }))
    await settle()
    act(() => card().focus())
    await tick(600)
    await press(card(), 'Enter', { ctrlKey: true })
    expect(requests).toEqual([])
    expect(document.activeElement).toBe(button(/^Approve once/))
    await press(document.activeElement as HTMLElement, 'Enter', { ctrlKey: true })
    expect(requests).toHaveLength(1)
  })
})

describe('the focus', () => {
  function Page({ parts }: { parts: ToolPart[] }) {
    useCardShortcut()
    return (
      <>
        <input aria-label="elsewhere" />
        {parts.map((p, i) =>
          p.state === 'approval-requested' ? <Card key={p.toolCallId} topicId="t" part={p} place={i + 1} total={parts.length} /> : <Line key={`${p.toolCallId} line`} part={p} me="ada" progress={undefined} />,
        )}
      </>
    )
  }
  const decided = (p: ToolPart): ToolPart => ({ ...p, state: 'output-denied', approval: { ...p.approval!, approved: false, decidedBy: 'ada', via: 'web' } })

  it('is not stolen by a card that appears', () => {
    const { rerender } = render(<Page parts={[]} />)
    act(() => screen.getByLabelText('elsewhere').focus())
    rerender(<Page parts={[part()]} />)
    expect(document.activeElement).toBe(screen.getByLabelText('elsewhere'))
  })

  it('goes with Alt+A to the first card, not to a button', async () => {
    render(<Page parts={[part(), part()]} />)
    act(() => screen.getByLabelText('elsewhere').focus())
    await act(async () => void fireEvent.keyDown(window, { key: 'a', code: 'KeyA', altKey: true }))
    expect(document.activeElement).toBe(card(0))
  })

  it('goes from a decided card to the next one, and from the last to its line', async () => {
    const parts = [part(), part()]
    const { rerender } = render(<Page parts={parts} />)
    const mine = (p: ToolPart) => act(() => decisions.setState({ [p.approval!.id]: { taken: { approved: false, revision: 1 } } }))
    act(() => button(/^Deny/).focus())
    mine(parts[0]!)
    rerender(<Page parts={[decided(parts[0]!), parts[1]!]} />)
    await tick(0)
    expect(document.activeElement).toBe(card(0))
    mine(parts[1]!)
    rerender(<Page parts={parts.map(decided)} />)
    await tick(0)
    expect((document.activeElement as HTMLElement).dataset.decided).toBe(parts[1]!.approval!.id)
  })

  it('of somebody who types a reason does not go on to another card when somebody else decides', async () => {
    const parts = [part(), part()]
    const { rerender } = render(<Page parts={parts} />)
    await settle()
    await point(button(/^Deny/))
    rerender(<Page parts={[decided(parts[0]!), parts[1]!]} />)
    await tick(0)
    expect((document.activeElement as HTMLElement).dataset.decided).toBe(parts[0]!.approval!.id)
  })

  it('stays where it is when a card folds that it was not in', async () => {
    const asked = part()
    const { rerender } = render(<Page parts={[asked]} />)
    act(() => screen.getByLabelText('elsewhere').focus())
    rerender(<Page parts={[decided(asked)]} />)
    await tick(0)
    expect(document.activeElement).toBe(screen.getByLabelText('elsewhere'))
  })
})

describe('somebody else', () => {
  it('who was first is named, and the answer is not shown as applied', async () => {
    const asked = part()
    show(asked)
    await settle()
    const decision = { approvalId: asked.approval!.id, approved: false, reason: 'too early', decidedBy: 'grace', decidedAt: new Date().toISOString() }
    answer = () => Promise.resolve(json(409, { type: '/problems/decided', title: 'Already decided', status: 409, decision }))
    await point(button(/^Approve once/))
    cleanup()
    render(<Line part={asked} me="ada" progress={undefined} />)
    const line = document.querySelector('summary')!.textContent
    for (const words of ['grace denied write_file before you', 'too early', 'was not applied']) expect(line).toContain(words)
  })

  it('closed it: 410 says so', async () => {
    const asked = part()
    show(asked)
    await settle()
    answer = () => Promise.resolve(json(410, { type: '/problems/gone', title: 'Gone', status: 410, detail: 'The approval was cancelled.' }))
    await point(button(/^Approve once/))
    cleanup()
    render(<Line part={asked} me="ada" progress={undefined} />)
    expect(document.querySelector('summary')!.textContent).toContain('The approval was cancelled.')
  })
})

describe('all at once', () => {
  const bar = (...parts: ToolPart[]) =>
    render(
      <ThreadContext value={{ topicId: 't', me: 'ada', pending: parts }}>
        <BatchBar topicId="t" parts={parts} />
      </ThreadContext>,
    )
  const hit = (name: string | RegExp) => point(screen.getByRole('button', { name, hidden: true }))

  it('needs two cards', () => {
    bar(part())
    expect(screen.queryByRole('group')).toBeNull()
  })

  it('approves after a question that lists every call, in one request', async () => {
    const parts = [part(), part({ inputText: '{"path":"other.txt"}' })]
    bar(...parts)
    await settle()
    await hit('Approve all 2…')
    const dialog = screen.getByRole('dialog', { hidden: true })
    expect(dialog.textContent).toContain('notes.txt')
    expect(dialog.textContent).toContain('other.txt')
    await hit('Approve all 2')
    expect(requests).toEqual([])
    await settle()
    await hit('Approve all 2')
    expect(requests.map((r) => r.body)).toEqual([`{"decisions":[${parts.map((p) => `{"approvalId":"${p.approval!.id}","approved":true}`).join(',')}]}`])
  })

  it('hands the focus on when it goes with its cards', async () => {
    const [one, two] = [part(), part()]
    const page = (waiting: ToolPart[]) => (
      <>
        <BatchBar topicId="t" parts={waiting} />
        {waiting.map((p) => <Card key={p.toolCallId} topicId="t" part={p} place={1} total={1} />)}
      </>
    )
    const { rerender } = render(page([one, two]))
    act(() => screen.getByRole('button', { name: 'Deny all' }).focus())
    rerender(page([two]))
    await tick(0)
    expect(document.activeElement).toBe(card(0))
  })

  it('asks anew when one of the listed calls was decided meanwhile', async () => {
    const parts = [part(), part(), part()]
    const { rerender } = bar(...parts)
    await settle()
    await hit('Approve all 3…')
    rerender(<BatchBar topicId="t" parts={parts.slice(1)} />)
    expect(screen.queryByRole('dialog', { hidden: true })).toBeNull()
  })

  it('is not offered while a call cannot be undone', async () => {
    bar(part(), part({ toolMetadata: { annotations: { destructiveHint: true, openWorldHint: true } } }))
    await settle()
    await hit('Approve all 2…')
    expect(screen.queryByRole('dialog', { hidden: true })).toBeNull()
    expect(screen.getByRole('group').textContent).toContain('cannot be undone')
  })

  it('denies each call with the reason of its own card only', async () => {
    const parts = [part(), part()]
    decisions.setState({ [parts[0]!.approval!.id]: { draft: { mode: 'deny', reason: 'mine' } } })
    bar(...parts)
    await settle()
    await hit('Deny all')
    expect(JSON.parse(requests[0]!.body)).toEqual({
      decisions: [
        { approvalId: parts[0]!.approval!.id, approved: false, reason: 'mine' },
        { approvalId: parts[1]!.approval!.id, approved: false },
      ],
    })
  })

  it('gives every card its error when none was applied', async () => {
    const parts = [part(), part()]
    bar(...parts)
    await settle()
    const decision = { approvalId: parts[0]!.approval!.id, approved: true, decidedBy: 'grace', decidedAt: new Date().toISOString() }
    answer = () =>
      Promise.resolve(json(409, { type: '/problems/batch', title: 'Not applied', status: 409, detail: '1 of the decisions cannot be applied; none was', errors: [{ approvalId: decision.approvalId, status: 409, detail: 'decided', decision }] }))
    await hit('Deny all')
    await settle()
    expect(decisions.getState()[parts[0]!.approval!.id]!.lost).toEqual(decision)
    expect(decisions.getState()[parts[1]!.approval!.id]!.error!.text).toContain('None was applied')
    expect(decisions.getState()[parts[1]!.approval!.id]!.sending).toBeUndefined()
  })
})
