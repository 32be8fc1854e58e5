import type { ServerInfo, ServerPatch } from '../api/client'
import type { NewServer } from './api'
import { join, split } from './shell'

/** One environment variable or header. The value of one that is stored is not known here: null keeps it. */
export interface Secret {
  key: number
  name: string
  value: string | null
}

export interface ServerDraft {
  kind: 'stdio' | 'http'
  name: string
  line: string
  dir: string
  env: Secret[]
  url: string
  headers: Secret[]
}

let keys = 0
export function newSecret(name = '', value: string | null = ''): Secret {
  return { key: ++keys, name, value }
}

const stored = (values: Record<string, unknown> | undefined) => Object.keys(values ?? {}).sort().map((name) => newSecret(name, null))

export function draftOf(server?: ServerInfo): ServerDraft {
  return {
    kind: server?.transport === 'http' ? 'http' : 'stdio',
    name: server?.name ?? '',
    line: server?.command === undefined ? '' : join([server.command, ...(server.args ?? [])]),
    dir: server?.dir ?? '',
    env: stored(server?.env),
    url: server?.url ?? '',
    headers: stored(server?.headers),
  }
}

const given = (rows: readonly Secret[]) => rows.filter((r) => r.name.trim() !== '' || (r.value ?? '') !== '')

/** What is wrong, by the JSON pointer of the request's member. The server checks again. */
export function draftProblems(draft: ServerDraft, server?: ServerInfo): Map<string, string> {
  const found = new Map<string, string>()
  if (draft.name.trim() === '') found.set('/name', 'A name is needed. Rules and models see it.')
  if (draft.kind === 'stdio') {
    const { words, error } = split(draft.line)
    if (error) found.set('/command', error)
    else if (words.length === 0 || words[0] === '') found.set('/command', 'A command is needed.')
  } else if (!/^https?:\/\/./.test(draft.url.trim())) found.set('/url', 'An address is needed that begins with http:// or https://.')
  else if (draft.url.includes('•••') && draft.url !== server?.url) found.set('/url', '••• stands for what is not shown. Write it out, or leave the address as it was.')
  const [at, rows] = draft.kind === 'stdio' ? (['/env', draft.env] as const) : (['/headers', draft.headers] as const)
  const seen = new Set<string>()
  for (const { name } of given(rows)) {
    const same = draft.kind === 'http' ? name.trim().toLowerCase() : name.trim()
    if (same === '') found.set(at, 'A value has no name.')
    else if (seen.has(same)) found.set(at, `“${name.trim()}” stands there twice.`)
    seen.add(same)
  }
  return found
}

const values = (rows: readonly Secret[]) => Object.fromEntries(given(rows).map((r) => [r.name.trim(), r.value]))

/** The request that adds the server of a draft without problems. */
export function newServerOf(draft: ServerDraft): NewServer {
  const name = draft.name.trim()
  const full = (rows: readonly Secret[]) => Object.fromEntries(Object.entries(values(rows)).map(([k, v]) => [k, v ?? '']))
  if (draft.kind === 'http') {
    const headers = full(draft.headers)
    return { name, transport: 'http', url: draft.url.trim(), ...(Object.keys(headers).length > 0 ? { headers } : {}) }
  }
  const [command = '', ...args] = split(draft.line).words
  const env = full(draft.env)
  const dir = draft.dir.trim()
  return { name, transport: 'stdio', command, ...(args.length > 0 ? { args } : {}), ...(Object.keys(env).length > 0 ? { env } : {}), ...(dir === '' ? {} : { dir }) }
}

const same = (a: readonly string[], b: readonly string[]) => a.length === b.length && a.every((x, i) => x === b[i])

/** The request that makes a stored server that of the draft: only what was changed. */
export function patchOf(draft: ServerDraft, server: ServerInfo): ServerPatch {
  const patch: ServerPatch = {}
  const name = draft.name.trim()
  if (name !== server.name) patch.name = name
  const secrets = (rows: readonly Secret[], old: Record<string, unknown> = {}) => {
    const next = values(rows)
    const kept = Object.values(next).every((v) => v === null) && same(Object.keys(next).sort(), Object.keys(old).sort())
    return kept ? undefined : next
  }
  if (draft.kind === 'http') {
    if (draft.url.trim() !== server.url) patch.url = draft.url.trim()
    const headers = secrets(draft.headers, server.headers)
    if (headers) patch.headers = headers
    return patch
  }
  const [command = '', ...args] = split(draft.line).words
  if (command !== server.command) patch.command = command
  if (!same(args, server.args ?? [])) patch.args = args
  if (draft.dir.trim() !== (server.dir ?? '')) patch.dir = draft.dir.trim()
  const env = secrets(draft.env, server.env)
  if (env) patch.env = env
  return patch
}

/** The field of the form to which a pointer of the server belongs. */
export function fieldOfPointer(pointer: string): string {
  const first = pointer.split('/')[1] ?? ''
  return first === 'args' ? '/command' : `/${first}`
}

/** The names of the servers in a settings file, or why it is none. */
export function namesInFile(text: string): { names: string[]; error?: string } {
  let file: unknown
  try {
    file = JSON.parse(text)
  } catch (e) {
    return { names: [], error: `This is not JSON. ${e instanceof Error ? e.message : ''}` }
  }
  const servers = (file as { mcpServers?: unknown } | null)?.mcpServers
  if (servers === null || typeof servers !== 'object' || Array.isArray(servers)) return { names: [], error: 'There is no object "mcpServers" in it.' }
  return { names: Object.keys(servers) }
}
