import { escapePointer, type Node } from './parse'

export interface Problem {
  pointer: string
  message: string
}

type Schema = Record<string, unknown>

/**
 * Checks a value against the plain part of a JSON Schema: type, required,
 * properties, additionalProperties, items, enum and const. It tells a person
 * early; the server checks the whole schema and has the last word.
 */
export function check(text: string, node: Node, schema: unknown, pointer = ''): Problem[] {
  if (schema === null || typeof schema !== 'object') return []
  const s = schema as Schema
  const found: Problem[] = []
  const say = (message: string, at = pointer) => found.push({ pointer: at, message })

  const types = s.type === undefined ? [] : ([] as unknown[]).concat(s.type)
  if (types.length > 0 && !types.some((t) => isType(text, node, t))) {
    say(`must be ${types.map((t) => article(String(t))).join(' or ')}`)
    return found
  }
  if (Array.isArray(s.enum) && isPlain(node) && !s.enum.some((e) => equal(text, node, e))) {
    say(`must be one of ${s.enum.map((e) => JSON.stringify(e)).join(', ')}`)
  }
  if (s.const !== undefined && isPlain(node) && !equal(text, node, s.const)) say(`must be ${JSON.stringify(s.const)}`)

  if (node.kind === 'object') {
    const keys = new Set(node.members.map((m) => m.key))
    const properties = (s.properties ?? {}) as Schema
    if (Array.isArray(s.required)) {
      for (const key of s.required) if (typeof key === 'string' && !keys.has(key)) say(`“${key}” is missing`)
    }
    for (const { key, node: child } of node.members) {
      const at = `${pointer}/${escapePointer(key)}`
      if (Object.hasOwn(properties, key)) found.push(...check(text, child, properties[key], at))
      else if (s.additionalProperties === false && s.patternProperties === undefined) say(`the tool knows no “${key}”`, at)
      else if (typeof s.additionalProperties === 'object') found.push(...check(text, child, s.additionalProperties, at))
    }
  }
  if (node.kind === 'array' && typeof s.items === 'object') {
    for (const [i, item] of node.items.entries()) found.push(...check(text, item, s.items, `${pointer}/${i}`))
  }
  return found
}

function isType(text: string, node: Node, type: unknown): boolean {
  if (type === 'integer') return node.kind === 'number' && Number.isInteger(Number(text.slice(node.start, node.end)))
  return node.kind === type
}

function article(type: string): string {
  return type === 'null' ? 'null' : `${/^[aeio]/.test(type) ? 'an' : 'a'} ${type}`
}

function isPlain(node: Node): boolean {
  return node.kind !== 'object' && node.kind !== 'array'
}

function equal(text: string, node: Node, value: unknown): boolean {
  return node.kind === 'string' ? node.value === value : text.slice(node.start, node.end) === JSON.stringify(value)
}
