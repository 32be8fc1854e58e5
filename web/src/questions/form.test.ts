import { describe, expect, it } from 'vitest'
import { contentOf, fieldAt, fieldsOf, problemsOf, type Values } from './form'

const form = (properties: Record<string, unknown>, required: string[] = []) => fieldsOf({ type: 'object', properties, required })
const problem = (schema: unknown, value: string | string[], required = false) => problemsOf(form({ f: schema }, required ? ['f'] : []), { f: value }).get('f')

describe('fieldsOf', () => {
  it('reads every kind of member, in the order of the schema', () => {
    const fields = form(
      {
        text: { type: 'string', title: 'A text', description: 'Write.', minLength: 1, maxLength: 9, format: 'email', default: 'a@b' },
        whole: { type: 'integer', minimum: 1, maximum: 5, default: 3 },
        part: { type: 'number' },
        truth: { type: 'boolean', default: false },
        named: { type: 'string', enum: ['a', 'b'], enumNames: ['The a'] },
        titled: { type: 'string', oneOf: [{ const: 'x', title: 'The x' }, { const: 'y' }], default: 'y' },
        some: { type: 'array', items: { type: 'string', enum: ['p', 'q'] }, minItems: 1, default: ['p'] },
        odd: { type: 'object' },
      },
      ['text', 'some'],
    )
    expect(fields).toEqual([
      { name: 'text', title: 'A text', description: 'Write.', required: true, kind: 'text', format: 'email', minLength: 1, maxLength: 9, initial: 'a@b' },
      { name: 'whole', title: 'whole', required: false, kind: 'integer', minimum: 1, maximum: 5, initial: '3' },
      { name: 'part', title: 'part', required: false, kind: 'number', initial: '' },
      { name: 'truth', title: 'truth', required: false, kind: 'boolean', initial: 'false' },
      { name: 'named', title: 'named', required: false, kind: 'choice', initial: '', options: [{ json: '"a"', label: 'The a' }, { json: '"b"', label: 'b' }] },
      { name: 'titled', title: 'titled', required: false, kind: 'choice', initial: '"y"', options: [{ json: '"x"', label: 'The x' }, { json: '"y"', label: 'y' }] },
      { name: 'some', title: 'some', required: true, kind: 'several', minItems: 1, initial: ['"p"'], options: [{ json: '"p"', label: 'p' }, { json: '"q"', label: 'q' }] },
      { name: 'odd', title: 'odd', required: false, kind: 'text', initial: '' },
    ])
  })
  it('has no field for a question without a schema', () => expect([undefined, null, {}, { properties: [] }].map(fieldsOf)).toEqual([[], [], [], []]))
})

describe('problemsOf', () => {
  it.each([
    [{ type: 'string' }, '', true, 'is needed'],
    [{ type: 'string' }, '', false, undefined],
    [{ type: 'string', minLength: 2 }, '😀', false, 'needs at least 2 characters; it has 1'],
    [{ type: 'string', maxLength: 1 }, 'ab', false, 'takes at most 1 characters; it has 2'],
    [{ type: 'string', format: 'email' }, 'a b', false, 'must be an e-mail address'],
    [{ type: 'string', format: 'date' }, '30.11.2026', false, 'must be a date such as 2026-11-30'],
    [{ type: 'string', format: 'date-time' }, '2026-11-30T12:00:00Z', false, undefined],
    [{ type: 'string', format: 'unheard-of' }, 'x', false, undefined],
    [{ type: 'integer' }, '1.5', false, 'must be a whole number'],
    [{ type: 'integer' }, '12345678901234567890', false, undefined],
    [{ type: 'number' }, '1,5', false, 'must be a number'],
    [{ type: 'number' }, '01', false, 'must be a number'],
    [{ type: 'number', minimum: 2 }, '1', false, 'must be 2 or more'],
    [{ type: 'number', maximum: 2 }, ' 3 ', false, 'must be 2 or less'],
    [{ type: 'boolean' }, '', true, 'is needed'],
    [{ type: 'array', items: { enum: ['a', 'b'] } }, [], true, 'needs at least 1 of them'],
    [{ type: 'array', items: { enum: ['a', 'b'] }, maxItems: 1 }, ['"a"', '"b"'], false, 'takes at most 1 of them'],
  ])('%j %j', (schema, value, required, said) => expect(problem(schema, value, required)).toBe(said))
})

describe('contentOf', () => {
  it('keeps types and digits, and leaves out what is empty', () => {
    const fields = form({ 'a"b': { type: 'string' }, n: { type: 'number' }, i: { type: 'integer' }, t: { type: 'boolean' }, c: { enum: ['x', 1] }, s: { type: 'array', items: { enum: ['p', 'q'] } }, none: { type: 'string' } })
    const values: Values = { 'a"b': 'true', n: ' 1.50 ', i: '12345678901234567890', t: 'false', c: '1', s: ['"q"'], none: '' }
    expect(contentOf(fields, values)).toBe('{"a\\"b":"true","n":1.50,"i":12345678901234567890,"t":false,"c":1,"s":["q"]}')
  })
  it('takes what was offered where nothing was entered', () => expect(contentOf(form({ a: { type: 'string', default: 'x' }, b: { type: 'boolean', default: true } }), {})).toBe('{"a":"x","b":true}'))
  it('sends a required list also when none is chosen', () => expect(contentOf(form({ s: { type: 'array', items: { enum: ['a'] }, minItems: 0 } }, ['s']), {})).toBe('{"s":[]}'))
})

it('finds the field that a pointer names', () => expect(['/name', '/content/a~1b', '/content', undefined, ''].map(fieldAt)).toEqual(['name', 'a/b', 'content', '', '']))
