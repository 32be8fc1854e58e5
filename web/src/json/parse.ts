// A JSON reader that loses nothing. JSON.parse turns 12345678901234567890 into
// a rounded double, moves integer-like keys to the front and drops repeated
// keys; what a person approves must be what was written, digit for digit.

interface Span {
  start: number
  end: number
}

export interface Member {
  key: string
  node: Node
}

export type Node =
  | (Span & { kind: 'object'; members: Member[] })
  | (Span & { kind: 'array'; items: Node[] })
  | (Span & { kind: 'string'; value: string })
  | (Span & { kind: 'number' | 'boolean' | 'null' })

/** Where and why a text is not JSON. Line and column count from 1. */
export class JsonError extends Error {
  constructor(
    readonly reason: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(`line ${line}, column ${column}: ${reason}`)
    this.name = 'JsonError'
  }
}

const number = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const maxDepth = 500

/** Reads one JSON text; a JsonError says where it is not one. */
export function parse(text: string): Node {
  let at = 0

  function fail(reason: string, where = at): never {
    const before = text.slice(0, where)
    const line = before.split('\n').length
    throw new JsonError(reason, line, where - before.lastIndexOf('\n'))
  }
  function space(): void {
    for (;;) {
      const c = text.charCodeAt(at)
      if (c === 32 || c === 10 || c === 13 || c === 9) at++
      else return
    }
  }
  function string(): string {
    const start = at++
    for (;;) {
      const c = text.charCodeAt(at)
      if (Number.isNaN(c)) fail('the string is not closed', start)
      if (c < 32) fail('a line break or control character inside a string must be escaped')
      if (c === 92) at += 2
      else if (c === 34) break
      else at++
    }
    at++
    const raw = text.slice(start, at)
    if (!raw.includes('\\')) return raw.slice(1, -1)
    try {
      return JSON.parse(raw) as string
    } catch {
      return fail('the string has an escape that JSON does not know', start)
    }
  }
  function word(expected: string, kind: 'boolean' | 'null'): Node {
    if (!text.startsWith(expected, at)) fail('a value is expected')
    const start = at
    at += expected.length
    return { kind, start, end: at }
  }
  function value(depth: number): Node {
    if (depth > maxDepth) fail('the value is nested too deeply')
    space()
    const start = at
    switch (text[at]) {
      case '{': {
        const members: Member[] = []
        at++
        space()
        if (text[at] === '}') return { kind: 'object', members, start, end: ++at }
        for (;;) {
          space()
          if (text[at] !== '"') fail(at >= text.length ? 'the object is not closed' : 'a key in double quotes is expected')
          const key = string()
          space()
          if (text[at] !== ':') fail('a colon is expected after the key')
          at++
          members.push({ key, node: value(depth + 1) })
          space()
          if (text[at] === ',') at++
          else if (text[at] === '}') return { kind: 'object', members, start, end: ++at }
          else fail(at >= text.length ? 'the object is not closed' : 'a comma or } is expected')
        }
      }
      case '[': {
        const items: Node[] = []
        at++
        space()
        if (text[at] === ']') return { kind: 'array', items, start, end: ++at }
        for (;;) {
          items.push(value(depth + 1))
          space()
          if (text[at] === ',') at++
          else if (text[at] === ']') return { kind: 'array', items, start, end: ++at }
          else fail(at >= text.length ? 'the array is not closed' : 'a comma or ] is expected')
        }
      }
      case '"': {
        const s = string()
        return { kind: 'string', value: s, start, end: at }
      }
      case 't':
        return word('true', 'boolean')
      case 'f':
        return word('false', 'boolean')
      case 'n':
        return word('null', 'null')
      default: {
        number.lastIndex = at
        const found = number.exec(text)
        if (!found) return fail('a value is expected')
        at += found[0].length
        return { kind: 'number', start, end: at }
      }
    }
  }

  const root = value(0)
  space()
  if (at < text.length) fail('there is something after the end')
  return root
}

/** The first key that stands twice in one object, as a JSON pointer. */
export function repeatedKey(node: Node, pointer = ''): string | undefined {
  if (node.kind === 'array') {
    for (const [i, item] of node.items.entries()) {
      const found = repeatedKey(item, `${pointer}/${i}`)
      if (found !== undefined) return found
    }
  }
  if (node.kind === 'object') {
    const seen = new Set<string>()
    for (const { key, node: child } of node.members) {
      const here = `${pointer}/${escapePointer(key)}`
      if (seen.has(key)) return here
      seen.add(key)
      const found = repeatedKey(child, here)
      if (found !== undefined) return found
    }
  }
  return undefined
}

export function escapePointer(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** Lays a value out on several lines. Every token stays as it was written. */
export function pretty(text: string, node: Node, indent = ''): string {
  const inner = indent + '  '
  if (node.kind === 'object' && node.members.length > 0) {
    const rows = node.members.map((m) => `${inner}${JSON.stringify(m.key)}: ${pretty(text, m.node, inner)}`)
    return `{\n${rows.join(',\n')}\n${indent}}`
  }
  if (node.kind === 'array' && node.items.length > 0) {
    const rows = node.items.map((item) => inner + pretty(text, item, inner))
    return `[\n${rows.join(',\n')}\n${indent}]`
  }
  if (node.kind === 'object') return '{}'
  if (node.kind === 'array') return '[]'
  return text.slice(node.start, node.end)
}

/** pretty of a text that may turn out not to be JSON: then the text itself. */
export function prettyText(text: string): string {
  try {
    return pretty(text, parse(text))
  } catch {
    return text
  }
}
