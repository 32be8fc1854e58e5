import { type Node, parse } from './parse'

// The members of a tool call, and of a question in it, that are somebody's exact JSON. They are kept as
// the text that came over the wire, under the name on the right.
const exact: Record<string, string> = { input: 'inputText', output: 'outputText', originalInput: 'originalInputText', content: 'contentText' }

/**
 * Reads an event or answer of the server. It is JSON.parse, except that a tool
 * call's `input` and `output`, an approval's `originalInput` and the `content` of
 * an answer arrive as their source text in `inputText`, `outputText`,
 * `originalInputText` and `contentText`.
 */
export function parseWire(text: string): unknown {
  let root: Node
  try {
    root = parse(text)
  } catch (error) {
    // Deeper than our reader goes: native parsing can still cope, and the exact
    // members are written out again, with rounded numbers as the only loss.
    try {
      return JSON.parse(text, rewriteExact)
    } catch {
      throw error
    }
  }
  return toValue(text, root)
}

function isExact(key: string, siblings: (name: string) => boolean): boolean {
  if (key === 'originalInput') return siblings('id')
  if (key === 'content') return siblings('askedAt') && siblings('action')
  return (key === 'input' || key === 'output') && siblings('toolCallId')
}

function toValue(text: string, node: Node): unknown {
  switch (node.kind) {
    case 'object': {
      const value: Record<string, unknown> = {}
      const has = (name: string) => node.members.some((m) => m.key === name)
      for (const { key, node: child } of node.members) {
        if (isExact(key, has)) value[exact[key]!] = text.slice(child.start, child.end)
        else if (key === '__proto__') Object.defineProperty(value, key, { value: toValue(text, child), enumerable: true })
        else value[key] = toValue(text, child)
      }
      return value
    }
    case 'array':
      return node.items.map((item) => toValue(text, item))
    case 'string':
      return node.value
    case 'number':
      return Number(text.slice(node.start, node.end))
    case 'boolean':
      return text[node.start] === 't'
    case 'null':
      return null
  }
}

function rewriteExact(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return value
  const object = value as Record<string, unknown>
  for (const key of Object.keys(exact)) {
    if (Object.hasOwn(object, key) && isExact(key, (name) => Object.hasOwn(object, name))) {
      object[exact[key]!] = JSON.stringify(object[key])
      delete object[key]
    }
  }
  return object
}
