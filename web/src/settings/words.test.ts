import { describe, expect, it } from 'vitest'
import type { Rule, ServerSettings } from './api'
import { list, ruleChanges, serverChanges } from './words'

const at = '2026-11-30T12:00:00Z'
const settings = (more: Partial<ServerSettings> = {}): ServerSettings => ({
  id: 's', name: 'tickets', source: 'settings', transport: 'stdio', command: 'npx', args: ['-y', 'a'], env: { A: null }, disabled: false,
  disabledTools: [], autoApproveTools: [], alwaysAskTools: [], trusted: false, version: 1, ...more,
})
const changed = (before: Partial<ServerSettings>, after: Partial<ServerSettings>, secrets = false) =>
  serverChanges({ serverId: 's', version: 2, action: 'changed', by: 'ada', via: 'web', at, before: settings(before), after: settings(after), secrets })

describe('a change of a server', () => {
  it.each([
    [{ name: 'b' }, ['Renamed from “tickets” to “b”.']],
    [{ disabled: true }, ['The server was switched off.']],
    [{ args: ['x y'] }, ["It is started by: npx 'x y'"]],
    [{ env: { B: null, C: null } }, ['Added the environment variables B and C.', 'Removed the environment variable A.']],
    [{ trusted: true }, ['Its claims are trusted.']],
    [{ autoApproveTools: ['t', 'u'] }, ['t and u: Run without asking.']],
    [{ disabledTools: ['t'], alwaysAskTools: ['u'] }, ['t: Off.', 'u: Always ask.']],
    [{}, ['Nothing that can be shown was changed.']],
  ])('%j', (after, said) => expect(changed({}, after)).toEqual(said))
  it('says that a tool is asked for again', () => expect(changed({ autoApproveTools: ['t'] }, {})).toEqual(['t: Ask.']))
  it('says that a secret changed, and not to what', () => expect(changed({}, {}, true)).toEqual(['A value that is not shown was changed.']))
})

describe('a change of a rule', () => {
  const rule = (more: Partial<Rule> = {}): Rule => ({ id: 'r', name: 'Notes', verdict: 'allow', expression: 'true', enabled: true, position: 1, version: 1, createdAt: at, updatedAt: at, ...more })
  const of = (before: Rule | undefined, after: Rule | undefined, action: 'created' | 'changed' | 'deleted' = 'changed') =>
    ruleChanges({ ruleId: 'r', version: 2, action, by: 'ada', via: 'web', at, ...(before ? { before } : {}), ...(after ? { after } : {}) })
  it('is said member by member', () => {
    expect(of(rule(), rule({ enabled: false, verdict: 'deny', reason: 'no' }))).toEqual(['Switched off.', 'It denies, and no longer allows.', 'Its reason is now: no'])
    expect(of(undefined, rule(), 'created')).toEqual(['The rule “Notes” was added. It allows: true'])
    expect(of(rule(), undefined, 'deleted')).toEqual(['The rule was deleted.'])
  })
})

it('lists names as a sentence does', () => expect([[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(list)).toEqual(['', 'a', 'a and b', 'a, b and c']))
