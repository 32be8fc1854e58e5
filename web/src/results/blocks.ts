import { type Node, parse, pretty } from '../json/parse'

/** One piece of what a tool gave, as it may be shown. */
export type Block =
  | { kind: 'text'; text: string; from?: string }
  /** `src` is a data: URL of one of the types that cannot do more than be seen or heard. */
  | { kind: 'image' | 'audio'; src: string; mediaType: string; bytes: number; from?: string }
  | { kind: 'link'; uri: string; name: string; description?: string; mediaType?: string }
  /** There is something that is not shown. */
  | { kind: 'note'; text: string }

export interface Output {
  blocks: Block[]
  /** The exact JSON of the structured content, with where it stands. */
  structured?: { text: string; node: Node }
}

// An SVG can hold scripts and fetch what it likes, so it is not among them.
const images = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])
const sounds = new Set(['audio/mpeg', 'audio/mp3', 'audio/wav', 'audio/x-wav', 'audio/wave', 'audio/ogg', 'audio/webm', 'audio/mp4', 'audio/aac', 'audio/flac'])
const base64 = /^[A-Za-z0-9+/]+={0,2}$/
const mostData = 8 << 20

type Members = Map<string, Node>

/** Reads the output of an MCP tool; undefined if a text is not of that shape. */
export function outputOf(text: string): Output | undefined {
  let root: Node
  try {
    root = parse(text)
  } catch {
    return undefined
  }
  const top = members(root)
  const content = top?.get('content')
  if (!top || content?.kind !== 'array' || [...top.keys()].some((k) => k !== 'content' && k !== 'structuredContent')) return undefined
  const blocks: Block[] = []
  for (const item of content.items) {
    const m = members(item)
    const type = m && string(m, 'type')
    if (!m || type === undefined) return undefined
    blocks.push(blockOf(text, item, m, type))
  }
  const node = top.get('structuredContent')
  return { blocks, ...(node ? { structured: { text, node } } : {}) }
}

function blockOf(text: string, item: Node, m: Members, type: string): Block {
  switch (type) {
    case 'text':
      return { kind: 'text', text: string(m, 'text') ?? '' }
    case 'image':
    case 'audio':
      return media(string(m, 'data') ?? '', string(m, 'mimeType') ?? '', type)
    case 'resource_link': {
      const uri = string(m, 'uri') ?? ''
      return { kind: 'link', uri, name: string(m, 'title') ?? string(m, 'name') ?? '', ...some('description', string(m, 'description')), ...some('mediaType', string(m, 'mimeType')) }
    }
    case 'resource': {
      const resource = m.get('resource')
      const r = resource && members(resource)
      if (!r) break
      const from = some('from', string(r, 'uri'))
      const blob = string(r, 'blob')
      if (blob === undefined) return { kind: 'text', text: string(r, 'text') ?? '', ...from }
      const block = media(blob, string(r, 'mimeType') ?? '', 'resource')
      return block.kind === 'note' ? { kind: 'note', text: [from.from, block.text].filter(Boolean).join(': ') } : { ...block, ...from }
    }
  }
  return { kind: 'text', text: pretty(text, item) }
}

function media(data: string, mediaType: string, what: string): Block {
  const plain = mediaType.toLowerCase().split(';')[0]!.trim()
  const bytes = Math.floor((data.replace(/=+$/, '').length * 3) / 4)
  const kind = images.has(plain) ? 'image' : sounds.has(plain) ? 'audio' : undefined
  const whole = data.length > 0 && data.length <= mostData && data.length % 4 === 0 && base64.test(data)
  if (kind && whole) return { kind, src: `data:${plain};base64,${data}`, mediaType: plain, bytes }
  const why = data === '' ? 'it is empty' : kind ? 'its data cannot be read' : 'files of this type are not opened here'
  return { kind: 'note', text: `${what} ${mediaType || 'of unknown type'}, ${sizeOf(bytes)}: not shown, since ${why}` }
}

export function sizeOf(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

function members(node: Node): Members | undefined {
  return node.kind === 'object' ? new Map(node.members.map((m) => [m.key, m.node])) : undefined
}

function string(m: Members, key: string): string | undefined {
  const node = m.get(key)
  return node?.kind === 'string' ? node.value : undefined
}

function some<K extends string, T>(key: K, value: T | undefined): { [P in K]?: T } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: T }
}
