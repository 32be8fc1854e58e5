import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Question, ToolPart } from '../live/types'
import { questions } from './answers'
import { Questions } from './Question'

let requests: { url: string; body: string }[]
let answer: () => Promise<Response>
const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status, headers: { 'content-type': status < 400 ? 'application/json' : 'application/problem+json' } })
const ok = () => Promise.resolve(json(200, { questionId: 'q', outcome: 'applied', answeredBy: 'ada', answeredAt: '', revision: 2 }))

beforeEach(() => {
  vi.useFakeTimers()
  requests = []
  answer = ok
  questions.setState({}, true)
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

const schema = { type: 'object', properties: { name: { type: 'string', title: 'Name', maxLength: 20 }, age: { type: 'integer', title: 'Age' }, sure: { type: 'boolean', title: 'Sure?' } }, required: ['name'] }
let n = 0
const question = (more: Partial<Question> = {}): Question => ({ id: `q${++n}`, message: 'Who is it?\n<b>now</b>', askedAt: '2026-11-30T12:00:00Z', schema, ...more })
const part = (...list: Question[]): ToolPart => ({
  type: 'dynamic-tool', toolCallId: 'c', toolName: 'crm__add', state: 'input-available', inputText: '{}', toolMetadata: { server: 'crm', tool: 'add', startedAt: '2026-11-30T12:00:00Z', questions: list },
})
const view = (...list: Question[]) => <Questions topicId="t" messageId="m" part={part(...list)} me="ada" />
const rest = () => act(() => vi.advanceTimersByTimeAsync(1000))
const card = () => screen.getByRole('article')
const point = (name: string | RegExp) => act(async () => void fireEvent.click(within(card()).getByRole('button', { name }), { detail: 1 }))
const type = (label: RegExp, value: string) => fireEvent.change(screen.getByRole('textbox', { name: label }), { target: { value } })

describe('an open question', () => {
  it('says who asks and what, as text', () => {
    render(view(question()))
    expect(card().textContent).toContain('Asked by crm, while add runs')
    expect(card().textContent).toContain('<b>now</b>')
  })

  it('sends what was entered with its types, once', async () => {
    render(view(question()))
    await rest()
    type(/Name/, 'Ada')
    type(/Age/, '12345678901234567890')
    fireEvent.click(screen.getByRole('radio', { name: 'No' }))
    await point(/^Answer/)
    await point(/^Answer/)
    expect(requests).toEqual([{ url: `/topics/t/messages/m/questions/q${n}`, body: '{"action":"accept","content":{"name":"Ada","age":12345678901234567890,"sure":false}}' }])
    expect(card().textContent).toContain('The server has your answer.')
  })

  it('is declined and cancelled without content', async () => {
    for (const [name, action] of [['Decline', 'decline'], ['Cancel', 'cancel']] as const) {
      render(view(question()))
      await rest()
      await point(name)
      expect(requests.at(-1)!.body).toBe(`{"action":"${action}"}`)
      cleanup()
    }
  })

  it('that asks for nothing but a yes is accepted without content', async () => {
    render(view(question({ schema: undefined })))
    await rest()
    await point(/^Answer/)
    expect(requests[0]!.body).toBe('{"action":"accept"}')
  })

  it('is not sent while a field is wrong: the first of them gets the focus', async () => {
    render(view(question()))
    await rest()
    type(/Age/, 'old')
    await point(/^Answer/)
    expect(requests).toEqual([])
    const name = screen.getByRole('textbox', { name: /Name/ })
    expect(document.activeElement).toBe(name)
    expect(name.getAttribute('aria-invalid')).toBe('true')
    expect(card().textContent).toContain('is needed')
    expect(card().textContent).toContain('must be a whole number')
  })

  it('shows what the server finds at the fields, until they are changed', async () => {
    render(view(question()))
    await rest()
    type(/Name/, 'Ada')
    answer = () => Promise.resolve(json(422, { type: 'x', title: 'Invalid', status: 422, detail: 'It breaks the schema.', errors: [{ pointer: '/content/name', message: 'is taken' }] }))
    await point(/^Answer/)
    const name = screen.getByRole('textbox', { name: /Name/ })
    const said = document.getElementById(name.getAttribute('aria-describedby')!)!
    expect(said.textContent).toContain('is taken')
    type(/Name/, 'Grace')
    expect(card().textContent).not.toContain('is taken')
  })

  it('answers nothing by plain Enter in a field', async () => {
    render(view(question()))
    await rest()
    type(/Name/, 'Ada')
    expect(fireEvent.keyDown(screen.getByRole('textbox', { name: /Name/ }), { key: 'Enter' })).toBe(false)
    expect(requests).toEqual([])
  })

  it('takes the chord, but not in the moment in which the focus came', async () => {
    render(view(question()))
    type(/Name/, 'Ada')
    act(() => card().focus())
    await act(async () => void fireEvent.keyDown(card(), { key: 'Enter', ctrlKey: true }))
    expect(requests).toEqual([])
    await rest()
    await act(async () => void fireEvent.keyDown(card(), { key: 'Enter', ctrlKey: true }))
    expect(requests).toHaveLength(1)
  })

  it('ignores a pointer in its first half second', async () => {
    render(view(question({ schema: undefined })))
    await point('Decline')
    expect(requests).toEqual([])
  })

  it('keeps what was entered over a new drawing and over a reload', () => {
    const asked = question()
    const { rerender } = render(view(asked))
    type(/Name/, 'Ad')
    rerender(view({ ...asked }))
    expect((screen.getByRole('textbox', { name: /Name/ }) as HTMLInputElement).value).toBe('Ad')
    cleanup()
    questions.setState({}, true)
    render(view(asked))
    expect((screen.getByRole('textbox', { name: /Name/ }) as HTMLInputElement).value).toBe('Ad')
  })

  it('keeps it after a lost answer, and the same is sent again', async () => {
    render(view(question()))
    await rest()
    type(/Name/, 'Ada')
    answer = () => Promise.reject(new TypeError('network'))
    await point(/^Answer/)
    expect(within(card()).getByRole('alert').textContent).toContain('not known whether your answer arrived')
    answer = ok
    await point(/^Answer/)
    expect(requests[1]!.body).toBe(requests[0]!.body)
  })

  it.each([409, 410])('that was settled meanwhile (%s) says so', async (status) => {
    render(view(question()))
    await rest()
    answer = () => Promise.resolve(json(status, { type: 'x', title: 'Late', status, detail: 'The question was already answered (decline) by grace.' }))
    await point('Decline')
    expect(screen.queryByRole('article')).toBeNull()
    expect(screen.getByRole('status').textContent).toContain('answered (decline) by grace')
  })

  it('that another tab answers becomes a line, and the draft goes', () => {
    const asked = question()
    const { rerender } = render(view(asked))
    type(/Name/, 'Ad')
    act(() => screen.getByRole('textbox', { name: /Name/ }).focus())
    rerender(view({ ...asked, action: 'accept', contentText: '{"name":"Grace"}', answeredBy: 'grace', answeredAt: '2026-11-30T12:01:00Z', via: 'web' }))
    expect(screen.queryByRole('article')).toBeNull()
    expect(document.querySelector('summary')!.textContent).toContain('grace answered crm')
    expect(sessionStorage.length).toBe(0)
  })
})

describe('a question that is over', () => {
  it.each([
    [{ action: 'accept', answeredBy: 'ada' }, 'You answered crm'],
    [{ action: 'decline', answeredBy: 'grace', via: 'api' }, 'grace declined to answer crm'],
    [{ action: 'cancel', answeredBy: 'grace' }, 'grace cancelled the question of crm'],
    [{ action: 'cancel', resolution: 'cancelled' }, 'A question of crm was closed unanswered: add ended'],
  ] as [Partial<Question>, string][])('%j', (more, words) => {
    render(view(question(more)))
    expect(document.querySelector('summary')!.textContent).toContain(words)
  })
})
