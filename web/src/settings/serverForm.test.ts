import { describe, expect, it } from 'vitest'
import type { ServerInfo } from '../api/client'
import { draftOf, draftProblems, fieldOfPointer, namesInFile, newSecret, newServerOf, patchOf } from './serverForm'

const server = (more: Partial<ServerInfo> = {}): ServerInfo => ({
  id: 's1', name: 'tickets', source: 'settings', transport: 'stdio', command: 'npx', args: ['-y', 'two words'], env: { TOKEN: null, URL: null }, disabled: false,
  disabledTools: [], autoApproveTools: [], alwaysAskTools: [], trusted: false, version: 3, disabledAutoApproveTools: [], state: { phase: 'ready' }, tools: [], ...more,
})

describe('a new server', () => {
  it('is made of what was entered, and of nothing that was not', () => {
    const draft = { ...draftOf(), name: ' tickets ', line: `npx -y 'two words'`, env: [newSecret('TOKEN', ' secret '), newSecret()] }
    expect(draftProblems(draft)).toEqual(new Map())
    expect(newServerOf(draft)).toEqual({ name: 'tickets', transport: 'stdio', command: 'npx', args: ['-y', 'two words'], env: { TOKEN: ' secret ' } })
    expect(newServerOf({ ...draftOf(), kind: 'http', name: 'x', line: 'left over', url: ' https://a.test/mcp ', headers: [newSecret('Authorization', 'Bearer x')] })).toEqual({
      name: 'x', transport: 'http', url: 'https://a.test/mcp', headers: { Authorization: 'Bearer x' },
    })
  })
  it('is not sent without what it needs', () => {
    const at = (part: Partial<ReturnType<typeof draftOf>>) => [...draftProblems({ ...draftOf(), name: 'x', line: 'a', ...part }).keys()]
    expect(at({})).toEqual([])
    expect(at({ name: ' ' })).toEqual(['/name'])
    expect(at({ line: '' })).toEqual(['/command'])
    expect(at({ line: `a 'b` })).toEqual(['/command'])
    expect(at({ kind: 'http', url: 'ftp://x' })).toEqual(['/url'])
    expect(at({ kind: 'http', url: 'https://x?key=•••' })).toEqual(['/url'])
    expect(at({ env: [newSecret('A', '1'), newSecret('A', '2')] })).toEqual(['/env'])
    expect(at({ env: [newSecret('', 'lost')] })).toEqual(['/env'])
    expect(at({ kind: 'http', url: 'https://x', headers: [newSecret('X-A', '1'), newSecret('x-a', '2')] })).toEqual(['/headers'])
  })
})

describe('a change', () => {
  it('of nothing is empty', () => expect(patchOf(draftOf(server()), server())).toEqual({}))
  it('sends only what changed, and keeps secrets by null', () => {
    const draft = draftOf(server())
    expect(patchOf({ ...draft, line: 'npx -y other' }, server())).toEqual({ args: ['-y', 'other'] })
    expect(patchOf({ ...draft, env: [...draft.env, newSecret('NEW', 'n')] }, server())).toEqual({ env: { TOKEN: null, URL: null, NEW: 'n' } })
    expect(patchOf({ ...draft, env: draft.env.map((r) => (r.name === 'TOKEN' ? { ...r, value: '' } : r)) }, server())).toEqual({ env: { TOKEN: '', URL: null } })
    expect(patchOf({ ...draft, env: draft.env.slice(1) }, server())).toEqual({ env: { URL: null } })
    expect(patchOf({ ...draft, env: [] }, server())).toEqual({ env: {} })
  })
  it('leaves an address alone that is as it was shown', () => {
    const { command: _, args: __, env: ___, ...rest } = server()
    const web: ServerInfo = { ...rest, transport: 'http', url: 'https://a.test/?key=•••', headers: { Authorization: null } }
    const draft = draftOf(web)
    expect(draftProblems(draft, web)).toEqual(new Map())
    expect(patchOf(draft, web)).toEqual({})
    expect([...draftProblems({ ...draft, url: 'https://b.test/?key=•••' }, web).keys()]).toEqual(['/url'])
    expect(patchOf({ ...draft, url: 'https://b.test/' }, web)).toEqual({ url: 'https://b.test/' })
  })
})

describe('a settings file', () => {
  it.each([
    ['{"mcpServers":{"a":{},"b":{}}}', ['a', 'b'], undefined],
    ['{"mcpServers":', [], /not JSON/],
    ['{"servers":{}}', [], /mcpServers/],
    ['null', [], /mcpServers/],
    ['{"mcpServers":[]}', [], /mcpServers/],
  ])('%s', (text, names, error) => {
    const found = namesInFile(text)
    expect(found.names).toEqual(names)
    if (error) expect(found.error).toMatch(error)
    else expect(found.error).toBeUndefined()
  })
})

it('finds the field of a pointer', () => expect(['/args/3', '/env/TOKEN', '/name', ''].map(fieldOfPointer)).toEqual(['/command', '/env', '/name', '/']))
