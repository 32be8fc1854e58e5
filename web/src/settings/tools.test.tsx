import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react'
import { useState } from 'react'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { ServerInfo } from '../api/client'
import { choiceOf, withChoice } from '../api/switches'
import { Tools } from './Tools'

let patches: Record<string, unknown>[]
let answer: (now: ServerInfo, body: Record<string, unknown>) => [number, unknown]
let now: ServerInfo

beforeEach(() => {
  patches = []
  answer = (s, body) => [200, { ...s, ...body, version: s.version + 1 }]
  now = {
    id: 's', name: 'files', source: 'settings', transport: 'stdio', disabled: false, disabledTools: [], autoApproveTools: ['read', 'lost'], alwaysAskTools: [], trusted: false, version: 1,
    disabledAutoApproveTools: ['write'], state: { phase: 'ready' },
    tools: [
      { name: 'read', toolName: 'files__read', policy: 'auto-approve', annotations: { readOnlyHint: true } },
      { name: 'write', toolName: 'files__write', policy: 'ask', description: 'Writes.\n<script>alert(1)</script>' },
    ],
  }
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method === 'GET') return Response.json(now)
    const body = JSON.parse(await request.text()) as Record<string, unknown>
    patches.push(body)
    const [status, value] = answer(now, body)
    if (status === 200) now = value as ServerInfo
    return Response.json(value, { status })
  })
})
afterEach(() => {
  cleanup()
  vi.unstubAllGlobals()
})

function Page() {
  const [server, setServer] = useState(now)
  return <Tools server={server} onChanged={setServer} />
}
const group = (name: RegExp) => screen.getByRole('radiogroup', { name })
const choice = (tool: RegExp, name: string) => within(group(tool)).getByRole('radio', { name })
const press = (element: HTMLElement) => act(async () => void fireEvent.click(element))

describe('the switches of a server', () => {
  it('say what holds now, also of tools that are not offered', () => {
    render(<Page />)
    expect(choice(/read/, 'Run without asking').getAttribute('aria-checked')).toBe('true')
    expect(choice(/write/, 'Ask').getAttribute('aria-checked')).toBe('true')
    expect(screen.getByRole('heading', { name: 'Not offered now' })).toBeTruthy()
    expect(choice(/lost/, 'Run without asking').getAttribute('aria-checked')).toBe('true')
    expect(screen.getByText('only reads').closest('ul')!.getAttribute('aria-label')).toBe('What the server claims')
  })

  it('change one tool, held against the version, and can be undone', async () => {
    render(<Page />)
    await press(choice(/read/, 'Ask'))
    expect(patches).toEqual([{ disabledTools: [], autoApproveTools: ['lost'], alwaysAskTools: [], version: 1 }])
    expect(choice(/read/, 'Ask').getAttribute('aria-checked')).toBe('true')
    await press(screen.getByRole('button', { name: 'Undo: Run without asking' }))
    expect(patches[1]).toEqual({ disabledTools: [], autoApproveTools: ['lost', 'read'], alwaysAskTools: [], version: 2 })
  })

  it('are not touched by the arrow keys', async () => {
    render(<Page />)
    act(() => choice(/write/, 'Ask').focus())
    for (const [key, name] of [['ArrowRight', 'Run without asking'], ['ArrowRight', 'Off'], ['ArrowLeft', 'Run without asking'], ['ArrowUp', 'Ask']] as const) {
      await act(async () => void fireEvent.keyDown(document.activeElement!, { key }))
      expect(document.activeElement).toBe(choice(/write/, name))
    }
    expect(patches).toEqual([])
    expect(within(group(/write/)).getAllByRole('radio').filter((r) => r.tabIndex === 0)).toHaveLength(1)
  })

  it('ask for everything again in one click', async () => {
    render(<Page />)
    await press(screen.getByRole('button', { name: 'Ask for all of them again' }))
    expect(patches).toEqual([{ disabledTools: [], autoApproveTools: [], alwaysAskTools: [], version: 1 }])
    expect(screen.queryByText(/without asking\.$/)).toBeNull()
  })

  it('stay as they are when the server refuses', async () => {
    answer = () => [422, { type: 'x', title: 'Invalid', status: 422, detail: 'No.' }]
    render(<Page />)
    await press(choice(/write/, 'Off'))
    expect(screen.getByRole('alert').textContent).toContain('Nothing was changed. No.')
    expect(choice(/write/, 'Ask').getAttribute('aria-checked')).toBe('true')
  })

  it('show what a server writes as text, and no more of it than is asked for', async () => {
    const { container } = render(<Page />)
    expect(container.textContent).not.toContain('alert(1)')
    await press(screen.getByRole('button', { name: 'More' }))
    expect(container.textContent).toContain('<script>alert(1)</script>')
    expect(container.querySelector('script')).toBeNull()
  })
})

describe('withChoice', () => {
  it('puts a tool into one list at most, whatever was said before', () => {
    const all = { disabledTools: ['t', 'a'], autoApproveTools: ['t', 'b'], alwaysAskTools: ['c'] }
    for (const choice of ['off', 'always-ask', 'ask', 'auto-approve'] as const) {
      const next = withChoice(all, 't', choice)
      expect(choiceOf(next, 't')).toBe(choice)
      expect(Object.values(next).flat().filter((x) => x === 't')).toHaveLength(choice === 'ask' ? 0 : 1)
      expect(Object.values(next).flat().filter((x) => x !== 't').sort()).toEqual(['a', 'b', 'c'])
    }
  })
})
