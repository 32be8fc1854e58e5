import { describe, expect, it } from 'vitest'
import type { Approval, ToolMetadata, ToolPart } from '../live/types'
import { claims, lineOf, toolNames } from './words'

const part = (state: ToolPart['state'], approval?: Partial<Approval>, toolMetadata: ToolMetadata = {}): ToolPart => ({
  type: 'dynamic-tool', toolName: 'files__write', toolCallId: 'c', state, inputText: '{}',
  ...(approval ? { approval: { id: 'a', ...approval } } : {}),
  toolMetadata,
})
const denied = (more: Partial<Approval>) => lineOf(part('output-denied', { approved: false, ...more }), 'ada')!
const failed = (outcome: string) => lineOf(part('output-error', { approved: true }, { outcome }), 'ada')!

describe('lineOf', () => {
  it('has no line for a call that waits', () => expect(lineOf(part('approval-requested', {}), 'ada')).toBeUndefined())

  it('tells the ways of not being run apart, in words and by sign', () => {
    const lines = [denied({ decidedBy: 'ada' }), denied({ resolution: 'cancelled' }), denied({ resolution: 'expired' }), denied({ resolution: 'superseded' }), denied({ resolution: 'policy' }), failed('failed'), failed('unknown')]
    expect(new Set(lines.map((l) => l.words)).size).toBe(lines.length)
    expect(new Set(lines.map((l) => l.icon)).size).toBe(lines.length)
  })
  it('has other words for every outcome', () => {
    const words = ['failed', 'unknown', 'stopped', 'invalid', 'unavailable'].map((o) => failed(o).words)
    expect(new Set(words).size).toBe(5)
  })
  it('says you of me, and others by name and way', () => {
    expect(denied({ decidedBy: 'ada', reason: 'no' })).toMatchObject({ words: 'You denied write', reason: 'no', who: 'you' })
    expect(denied({ decidedBy: 'grace', via: 'api' })).toMatchObject({ words: 'grace denied write', who: 'grace, via API' })
    expect(denied({}).words).toBe('Somebody denied write')
  })
  it('names the rule that let a call run or refused it', () => {
    expect(lineOf(part('output-available', undefined, { verdict: 'allow', rule: 'read-only' }), 'ada')!.who).toBe('allowed by rule “read-only”')
    expect(denied({ resolution: 'policy', decidedBy: 'no deletes' }).words).toBe('Rule “no deletes” refused write')
    expect(lineOf(part('approval-responded', { approved: true, decidedBy: 'always', via: 'rule' }), 'ada')!.words).toBe('Rule “always” approved write')
  })
  it('does not quote why a rule allowed a call as if somebody had said it', () => {
    expect(lineOf(part('output-available', { approved: true, decidedBy: 'auto-approve', via: 'rule', reason: 'The settings allow it.' }), 'ada')).toMatchObject({ words: 'write done', who: 'by rule “auto-approve”' })
    expect(lineOf(part('output-available', { approved: true, decidedBy: 'auto-approve', via: 'rule', reason: 'x' }), 'ada')!.reason).toBeUndefined()
  })
  it('tells decided from running', () => {
    expect(lineOf(part('approval-responded', { approved: true, decidedBy: 'ada' }), 'ada')!.words).toBe('You approved write')
    expect(lineOf(part('approval-responded', { approved: true }, { startedAt: 'x' }), 'ada')!.words).toBe('Running write')
    expect(lineOf(part('input-available', undefined, { startedAt: 'x' }), 'ada')!.words).toBe('Running write')
    expect(lineOf(part('input-streaming'), 'ada')!.words).toBe('Preparing write')
  })
  it('says that the input was changed', () => {
    expect(lineOf(part('output-available', { approved: true, originalInputText: '{}' }), 'ada')!.words).toBe('write done with a changed input')
  })
})

describe('toolNames', () => {
  it.each([
    [part('input-available', undefined, { server: 's', tool: 't', title: 'Do it' }), { server: 's', tool: 't', title: 'Do it' }],
    [part('input-available'), { server: 'files', tool: 'write', title: 'Write' }],
    [{ ...part('input-available'), type: 'tool-read_file', toolName: undefined } as never, { server: undefined, tool: 'read_file', title: 'Read file' }],
  ])('%#', (given, want) => expect(toolNames(given)).toEqual(want))
})

describe('claims', () => {
  it('says nothing where nothing is claimed', () => expect([claims(undefined), claims({}), claims({ readOnlyHint: 'yes' })]).toEqual([[], [], []]))
  it('puts the worst first', () => {
    expect(claims({ readOnlyHint: false, destructiveHint: true, openWorldHint: true }).map((c) => c.words)).toEqual(['may destroy data', 'changes data', 'reaches beyond this machine'])
  })
})
