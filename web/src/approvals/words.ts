import { type ToolPart, toolNameOf } from '../live/types'
import type { IconName } from '../ui/Icon'

/** The server and the tool, as a person knows them. */
export function toolNames(part: ToolPart): { server: string | undefined; tool: string; title: string } {
  const meta = part.toolMetadata
  const full = toolNameOf(part)
  const [first, ...rest] = full.split('__')
  const server = meta?.server ?? (rest.length > 0 ? first : undefined)
  const tool = meta?.tool ?? (rest.length > 0 ? rest.join('__') : full)
  return { server, tool, title: meta?.title ?? part.title ?? sentence(tool) }
}

function sentence(name: string): string {
  const words = name.replaceAll(/[_-]+/g, ' ').trim()
  return words === '' ? name : words[0]!.toUpperCase() + words.slice(1)
}

export interface Line {
  icon: IconName
  /** One of the tones of the style sheet. The words say the same. */
  tone: 'good' | 'bad' | 'warn' | 'quiet' | 'busy'
  words: string
  reason?: string
  /** When and by whom. */
  at?: string
  who?: string
}

/** What has become of a call, on one line. A call that waits for a person has none. */
export function lineOf(part: ToolPart, me: string | undefined): Line | undefined {
  const { tool } = toolNames(part)
  const { approval, toolMetadata: meta, state } = part
  const who = decider(part, me)
  const at = approval?.decidedAt
  const more = { ...(at === undefined ? {} : { at }), ...(who === undefined ? {} : { who }) }
  const started = meta?.startedAt !== undefined
  switch (state) {
    case 'input-streaming':
      return { icon: 'dots', tone: 'busy', words: `Preparing ${tool}` }
    case 'input-available':
      return { icon: 'run', tone: 'busy', words: started ? `Running ${tool}` : `About to run ${tool}`, ...more }
    case 'approval-requested':
      return undefined
    case 'approval-responded':
      if (approval?.approved === false) return denial(part, me)
      return started
        ? { icon: 'run', tone: 'busy', words: `Running ${tool}`, ...more }
        : { icon: 'check', tone: 'good', words: `${subject(part, me)} approved ${tool}${edited(part)}`, ...more, ...reason(part) }
    case 'output-denied':
      return denial(part, me)
    case 'output-available':
      return { icon: 'check', tone: 'good', words: `${tool} done${edited(part)}`, ...more, ...reason(part) }
    case 'output-error':
      return { ...failed(part, tool), ...more }
  }
}

function failed(part: ToolPart, tool: string): Line {
  switch (part.toolMetadata?.outcome) {
    case 'unknown':
      return { icon: 'question', tone: 'warn', words: `${tool}: outcome unknown` }
    case 'stopped':
      return { icon: 'stop', tone: 'quiet', words: `${tool} stopped before it ran` }
    case 'invalid':
      return { icon: 'warning', tone: 'bad', words: `${tool} not run: its input is not valid` }
    case 'unavailable':
      return { icon: 'warning', tone: 'bad', words: `${tool} not run: the tool is not available` }
    default:
      return { icon: 'warning', tone: 'bad', words: `${tool} failed` }
  }
}

function denial(part: ToolPart, me: string | undefined): Line {
  const { tool } = toolNames(part)
  const { approval } = part
  const at = approval?.decidedAt === undefined ? {} : { at: approval.decidedAt }
  switch (approval?.resolution) {
    case 'cancelled':
      return { icon: 'stop', tone: 'quiet', words: `${tool} cancelled: stopped before anybody decided`, ...at, ...reason(part) }
    case 'expired':
      return { icon: 'clock', tone: 'quiet', words: `${tool} expired: nobody decided in time`, ...at, ...reason(part) }
    case 'superseded':
      return { icon: 'skip', tone: 'quiet', words: `${tool} superseded: the question was dropped for a newer one`, ...at, ...reason(part) }
    case 'policy': {
      const rule = part.toolMetadata?.rule ?? approval.decidedBy
      return { icon: 'shield', tone: 'bad', words: `Rule ${rule ? `“${rule}” ` : ''}refused ${tool}`, ...at, ...reason(part) }
    }
    default: {
      const who = decider(part, me)
      return { icon: 'cross', tone: 'bad', words: `${subject(part, me)} denied ${tool}`, ...at, ...(who === undefined ? {} : { who }), ...reason(part) }
    }
  }
}

function reason(part: ToolPart): { reason?: string } {
  const { approval } = part
  // Why a rule allows a call is said with all there is to know of it; nobody has said it as a reason.
  const given = approval?.via === 'rule' && approval.approved ? undefined : approval?.reason
  return given ? { reason: given } : {}
}

function edited(part: ToolPart): string {
  return part.approval?.originalInputText === undefined ? '' : ' with a changed input'
}

/** Who is the subject of the sentence. */
function subject(part: ToolPart, me: string | undefined): string {
  const by = part.approval?.decidedBy
  if (part.approval?.via === 'rule') return by ? `Rule “${by}”` : 'A rule'
  if (!by) return 'Somebody'
  return by === me ? 'You' : by
}

/** Who decided and by what way, or which rule let it run. */
function decider(part: ToolPart, me: string | undefined): string | undefined {
  const { approval, toolMetadata: meta } = part
  if (approval?.decidedBy) {
    if (approval.via === 'rule') return `by rule “${approval.decidedBy}”`
    const name = approval.decidedBy === me ? 'you' : approval.decidedBy
    return approval.via === undefined || approval.via === 'web' ? name : `${name}, via ${approval.via === 'api' ? 'API' : approval.via}`
  }
  if (meta?.verdict === 'allow') return `allowed by rule${meta.rule ? ` “${meta.rule}”` : ''}`
  return undefined
}

export interface Claim {
  icon: IconName
  words: string
  hint: string
}

/** What the tool's server claims about the tool, in words. Nothing is claimed by silence. */
export function claims(annotations: Record<string, unknown> | undefined): Claim[] {
  const a = annotations ?? {}
  const found: Claim[] = []
  const say = (key: string, value: boolean, icon: IconName, words: string) => {
    if (a[key] === value) found.push({ icon, words, hint: `${key}: ${value}` })
  }
  say('destructiveHint', true, 'warning', 'may destroy data')
  say('readOnlyHint', false, 'pencil', 'changes data')
  say('openWorldHint', true, 'exit', 'reaches beyond this machine')
  say('readOnlyHint', true, 'eye', 'only reads')
  // On a tool that only reads, this hint means nothing.
  if (a.readOnlyHint !== true) say('destructiveHint', false, 'plus', 'only adds, destroys nothing')
  say('idempotentHint', true, 'retry', 'safe to repeat')
  say('openWorldHint', false, 'home', 'stays on this machine')
  return found
}
