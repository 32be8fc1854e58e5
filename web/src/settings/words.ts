import type { Choice } from '../api/switches'
import type { IconName } from '../ui/Icon'
import type { Mode, RuleChange, ServerChange, ServerSettings, Verdict } from './api'
import { join } from './shell'

export const choices: readonly { key: Choice; label: string; means: string }[] = [
  { key: 'off', label: 'Off', means: 'No model is offered it, and it never runs.' },
  { key: 'always-ask', label: 'Always ask', means: 'Asks you every time, whatever a rule allows.' },
  { key: 'ask', label: 'Ask', means: 'Asks you, unless a rule or a mode allows the call.' },
  {
    key: 'auto-approve', label: 'Run without asking',
    means: 'Runs at once, in every chat and with every input. Deny rules, ask rules and chats that ask for everything still come first.',
  },
]

export const phases: Record<string, { icon: IconName; tone: string; words: string } | undefined> = {
  starting: { icon: 'clock', tone: 'busy', words: 'Starting' },
  ready: { icon: 'check', tone: 'good', words: 'Ready' },
  failed: { icon: 'warning', tone: 'bad', words: 'Failed' },
  disabled: { icon: 'stop', tone: 'quiet', words: 'Switched off' },
}

export const sources: Record<string, string | undefined> = { 'built-in': 'built in', file: 'from a file', settings: 'added here' }

export const verdicts: readonly { key: Verdict; label: string; icon: IconName; tone: string; heading: string; means: string }[] = [
  { key: 'deny', label: 'Deny', icon: 'shield', tone: 'bad', heading: 'Rules that deny', means: 'The call is refused, and the model hears why. This comes before everything else.' },
  { key: 'ask', label: 'Ask', icon: 'hand', tone: 'warn', heading: 'Rules that ask', means: 'A person is asked, also where something else would allow the call.' },
  { key: 'allow', label: 'Allow', icon: 'check', tone: 'good', heading: 'Rules that allow', means: 'The call runs without asking, unless something above it denies or asks.' },
]

export const modes: readonly { key: Mode; label: string; means: string }[] = [
  { key: 'default', label: 'Default', means: 'What the rules and the switches of the tools say.' },
  { key: 'ask-all', label: 'Ask for everything', means: 'Every call is asked for, whatever allows it.' },
  { key: 'trusted-read-only', label: 'Let trusted tools read', means: 'Besides, tools that claim to only read run without asking, on servers whose claims you trust.' },
]

/** A list of names in a sentence. */
export function list(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? '') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

const minus = (a: readonly string[], b: readonly string[]) => a.filter((x) => !b.includes(x))

/** What one change of a server did, a sentence each. */
export function serverChanges(change: ServerChange): string[] {
  const { action, before, after, secrets } = change
  if (action === 'created') return [after?.source === 'settings' ? 'The server was added.' : 'The record of the server began.']
  if (action === 'deleted') return ['The server was deleted.']
  if (!before || !after) return ['The settings were changed.']
  const said: string[] = []
  if (before.name !== after.name) said.push(`Renamed from “${before.name}” to “${after.name}”.`)
  if (before.disabled !== after.disabled) said.push(after.disabled ? 'The server was switched off.' : 'The server was switched on.')
  if (lineOf(before) !== lineOf(after)) said.push(`It is started by: ${lineOf(after)}`)
  if ((before.dir ?? '') !== (after.dir ?? '')) said.push(after.dir ? `It runs in ${after.dir}.` : 'It runs in no folder of its own any more.')
  if (before.url !== after.url && after.url !== undefined) said.push(`It is reached at ${after.url}`)
  said.push(...names('environment variable', before.env, after.env), ...names('header', before.headers, after.headers))
  if (secrets) said.push('A value that is not shown was changed.')
  if (before.trusted !== after.trusted) said.push(after.trusted ? 'Its claims are trusted.' : 'Its claims are not trusted any more.')
  said.push(...switched(before, after))
  return said.length > 0 ? said : ['Nothing that can be shown was changed.']
}

function lineOf(s: ServerSettings): string {
  return s.command === undefined ? '' : join([s.command, ...(s.args ?? [])])
}

function names(what: string, before: Record<string, unknown> = {}, after: Record<string, unknown> = {}): string[] {
  const added = minus(Object.keys(after), Object.keys(before))
  const removed = minus(Object.keys(before), Object.keys(after))
  const s = (n: readonly string[]) => `${what}${n.length === 1 ? '' : 's'} ${list(n)}`
  return [...(added.length > 0 ? [`Added the ${s(added)}.`] : []), ...(removed.length > 0 ? [`Removed the ${s(removed)}.`] : [])]
}

function switched(before: ServerSettings, after: ServerSettings): string[] {
  const word = (s: ServerSettings, tool: string): Choice =>
    s.disabledTools.includes(tool) ? 'off' : s.alwaysAskTools.includes(tool) ? 'always-ask' : s.autoApproveTools.includes(tool) ? 'auto-approve' : 'ask'
  const tools = [...new Set([before, after].flatMap((s) => [...s.disabledTools, ...s.autoApproveTools, ...s.alwaysAskTools]))].sort()
  const to = new Map<Choice, string[]>()
  for (const tool of tools) {
    const now = word(after, tool)
    if (now !== word(before, tool)) to.set(now, [...(to.get(now) ?? []), tool])
  }
  return choices.flatMap(({ key, label }) => {
    const changed = to.get(key)
    return changed ? [`${list(changed)}: ${label}.`] : []
  })
}

/** What one change of a rule did, a sentence each. */
export function ruleChanges({ action, before, after }: RuleChange): string[] {
  if (action === 'deleted') return ['The rule was deleted.']
  if (!after) return ['The rule was changed.']
  if (action === 'created' || !before) return [`The rule “${after.name}” was added. It ${gives[after.verdict]}: ${after.expression}`]
  const said: string[] = []
  if (before.name !== after.name) said.push(`Renamed from “${before.name}” to “${after.name}”.`)
  if (before.enabled !== after.enabled) said.push(after.enabled ? 'Switched on.' : 'Switched off.')
  if (before.verdict !== after.verdict) said.push(`It ${gives[after.verdict]}, and no longer ${gives[before.verdict]}.`)
  if (before.expression !== after.expression) said.push(`Its expression is now: ${after.expression}`)
  if ((before.reason ?? '') !== (after.reason ?? '')) said.push(after.reason ? `Its reason is now: ${after.reason}` : 'Its reason was removed.')
  if (before.position !== after.position) said.push(`Moved from place ${before.position} to place ${after.position}.`)
  return said
}

const gives: Record<string, string> = { allow: 'allows', ask: 'asks', deny: 'denies' }
