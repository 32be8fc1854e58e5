// The form that a server's question asks for: MCP's flat object of texts,
// numbers, truths and choices. What a person enters is kept as text until it is
// sent, so that every digit arrives as it was typed.

export interface Option {
  /** The exact JSON of the value. */
  json: string
  label: string
}

interface Base {
  name: string
  title: string
  description?: string
  required: boolean
}

export type Field = Base &
  (
    | { kind: 'text'; format?: string; minLength?: number; maxLength?: number; initial: string }
    | { kind: 'number' | 'integer'; minimum?: number; maximum?: number; initial: string }
    | { kind: 'boolean'; initial: string }
    | { kind: 'choice'; options: Option[]; initial: string }
    | { kind: 'several'; options: Option[]; minItems?: number; maxItems?: number; initial: string[] }
  )

export type Value = string | string[]
export type Values = Readonly<Record<string, Value>>

type Schema = Record<string, unknown>

const object = (value: unknown): Schema | undefined => (value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Schema) : undefined)
const text = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)
const count = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)

function some<K extends string, T>(key: K, value: T | undefined): { [P in K]?: T } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: T }
}

/** The fields of a schema, in its order. A member of a kind that is not known is asked for as text. */
export function fieldsOf(schema: unknown): Field[] {
  const s = object(schema)
  const required = Array.isArray(s?.required) ? s.required : []
  return Object.entries(object(s?.properties) ?? {}).map(([name, member]) => fieldOf(name, object(member) ?? {}, required.includes(name)))
}

function fieldOf(name: string, s: Schema, required: boolean): Field {
  const base: Base = { name, title: text(s.title) ?? name, required, ...some('description', text(s.description)) }
  const items = object(s.items)
  const several = s.type === 'array' && items ? optionsOf(items) : undefined
  if (several) {
    const initial = Array.isArray(s.default) ? s.default.map((v) => JSON.stringify(v)) : []
    return { ...base, kind: 'several', options: several, initial, ...some('minItems', count(s.minItems)), ...some('maxItems', count(s.maxItems)) }
  }
  const options = optionsOf(s)
  if (options) return { ...base, kind: 'choice', options, initial: s.default === undefined ? '' : JSON.stringify(s.default) }
  if (s.type === 'boolean') return { ...base, kind: 'boolean', initial: typeof s.default === 'boolean' ? String(s.default) : '' }
  if (s.type === 'number' || s.type === 'integer') {
    const initial = typeof s.default === 'number' ? String(s.default) : ''
    return { ...base, kind: s.type, initial, ...some('minimum', count(s.minimum)), ...some('maximum', count(s.maximum)) }
  }
  return {
    ...base, kind: 'text', initial: typeof s.default === 'string' ? s.default : '',
    ...some('format', text(s.format)), ...some('minLength', count(s.minLength)), ...some('maxLength', count(s.maxLength)),
  }
}

function optionsOf(s: Schema): Option[] | undefined {
  if (Array.isArray(s.enum)) {
    const names = Array.isArray(s.enumNames) ? s.enumNames : []
    return s.enum.map((value, i) => ({ json: JSON.stringify(value), label: text(names[i]) ?? plain(value) }))
  }
  const list = Array.isArray(s.oneOf) ? s.oneOf : Array.isArray(s.anyOf) ? s.anyOf : undefined
  const options = list?.map(object)
  if (!options?.every((o) => o !== undefined && 'const' in o)) return undefined
  return options.map((o) => ({ json: JSON.stringify(o!.const), label: text(o!.title) ?? plain(o!.const) }))
}

function plain(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

export function valueOf(field: Field, values: Values): Value {
  return values[field.name] ?? field.initial
}

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
const integer = /^-?(?:0|[1-9]\d*)$/
const formats: Record<string, [RegExp, string] | undefined> = {
  email: [/^[^\s@]+@[^\s@]+$/, 'must be an e-mail address'],
  uri: [/^[a-z][a-z0-9+.-]*:\S+$/i, 'must be an address such as https://example.com'],
  date: [/^\d{4}-\d{2}-\d{2}$/, 'must be a date such as 2026-11-30'],
  'date-time': [/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/i, 'must be a time such as 2026-11-30T12:00:00Z'],
}

/** What is wrong with the values, by the name of the field. The server checks again. */
export function problemsOf(fields: readonly Field[], values: Values): Map<string, string> {
  const found = new Map<string, string>()
  for (const field of fields) {
    const problem = problemOf(field, valueOf(field, values))
    if (problem) found.set(field.name, problem)
  }
  return found
}

function problemOf(field: Field, value: Value): string | undefined {
  if (field.kind === 'several') {
    const n = value.length
    const least = Math.max(field.minItems ?? 0, field.required && field.minItems === undefined ? 1 : 0)
    if (n === 0 && !field.required) return undefined
    if (n < least) return `needs at least ${least} of them`
    if (field.maxItems !== undefined && n > field.maxItems) return `takes at most ${field.maxItems} of them`
    return undefined
  }
  const given = value as string
  if (given === '') return field.required ? 'is needed' : undefined
  switch (field.kind) {
    case 'number':
    case 'integer': {
      const typed = given.trim()
      if (!(field.kind === 'integer' ? integer : number).test(typed)) return field.kind === 'integer' ? 'must be a whole number' : 'must be a number'
      if (field.minimum !== undefined && Number(typed) < field.minimum) return `must be ${field.minimum} or more`
      if (field.maximum !== undefined && Number(typed) > field.maximum) return `must be ${field.maximum} or less`
      return undefined
    }
    case 'text': {
      const length = [...given].length
      if (field.minLength !== undefined && length < field.minLength) return `needs at least ${field.minLength} characters; it has ${length}`
      if (field.maxLength !== undefined && length > field.maxLength) return `takes at most ${field.maxLength} characters; it has ${length}`
      const [pattern, words] = (field.format === undefined ? undefined : formats[field.format]) ?? []
      return pattern && !pattern.test(given) ? words : undefined
    }
    default:
      return undefined
  }
}

/** The answer as JSON. What was left empty is left out. */
export function contentOf(fields: readonly Field[], values: Values): string {
  const members: string[] = []
  for (const field of fields) {
    const value = valueOf(field, values)
    if (value.length === 0 && !(field.kind === 'several' && field.required)) continue
    members.push(`${JSON.stringify(field.name)}:${jsonOf(field, value)}`)
  }
  return `{${members.join(',')}}`
}

function jsonOf(field: Field, value: Value): string {
  if (Array.isArray(value)) return `[${value.join(',')}]`
  if (field.kind === 'text') return JSON.stringify(value)
  return value.trim()
}

/** The field that a JSON pointer of the server speaks of. */
export function fieldAt(pointer: string | undefined): string {
  const [, first = '', second] = (pointer ?? '').split('/')
  const name = first === 'content' && second !== undefined ? second : first
  return name.replaceAll('~1', '/').replaceAll('~0', '~')
}
