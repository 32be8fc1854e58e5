import { describe, expect, it } from 'vitest'
import { JsonError, parse, pretty, prettyText, repeatedKey } from './parse'
import { check } from './schema'
import { parseWire } from './wire'

describe('parse', () => {
  it.each([
    ['{"a":1}', 'object'],
    ['[]', 'array'],
    ['"x"', 'string'],
    [' -1.5e+3 ', 'number'],
    ['true', 'boolean'],
    ['null', 'null'],
  ])('reads %s', (text, kind) => expect(parse(text).kind).toBe(kind))

  it.each(['', '{', '{"a"}', '{"a":1,}', '[1,]', '01', '1.', '"a', '"\n"', '"\\q"', 'tru', '{} x', "{'a':1}", 'NaN', '-'])(
    'refuses %j, as JSON.parse does',
    (text) => {
      expect(() => JSON.parse(text)).toThrow()
      expect(() => parse(text)).toThrow(JsonError)
    },
  )

  it('says where it went wrong', () => {
    expect(() => parse('{\n  "a": 1\n  "b": 2\n}')).toThrow('line 3, column 3: a comma or } is expected')
  })

  it('refuses absurd nesting instead of overflowing', () => {
    expect(() => parse('['.repeat(100_000))).toThrow(JsonError)
  })
})

describe('pretty', () => {
  it('keeps every digit, the order of keys and repeated keys', () => {
    const text = '{"2":12345678901234567890,"1":1.0,"e":1e2,"a":[],"o":{},"a":[0.10]}'
    expect(pretty(text, parse(text))).toBe(
      '{\n  "2": 12345678901234567890,\n  "1": 1.0,\n  "e": 1e2,\n  "a": [],\n  "o": {},\n  "a": [\n    0.10\n  ]\n}',
    )
  })
  it('gives a text that is not JSON back as it is', () => expect(prettyText('{oops')).toBe('{oops'))
})

describe('repeatedKey', () => {
  it('finds a repeated key at any depth, also when spelt with an escape', () => {
    expect(repeatedKey(parse('{"x":[{"a/b":1,"a\\u002fb":2}]}'))).toBe('/x/0/a~1b')
  })
  it('does not mind the same key in two objects', () => expect(repeatedKey(parse('{"a":{"a":1}}'))).toBeUndefined())
})

describe('parseWire', () => {
  it('keeps input, output and the original input as they were written', () => {
    const part = parseWire(
      '{"part":{"toolCallId":"c","input":{"id":12345678901234567890},"output":{"n":1.0},"approval":{"id":"a","originalInput":{"b":2,"1":1}}}}',
    )
    expect(part).toEqual({
      part: { toolCallId: 'c', inputText: '{"id":12345678901234567890}', outputText: '{"n":1.0}', approval: { id: 'a', originalInputText: '{"b":2,"1":1}' } },
    })
  })
  it('leaves members of the same name elsewhere alone', () => {
    expect(parseWire('{"inputSchema":{"properties":{"input":{"type":"string"}}}}')).toEqual({ inputSchema: { properties: { input: { type: 'string' } } } })
  })
  it('does not let a __proto__ key reach a prototype', () => {
    const value = parseWire('{"__proto__":{"polluted":true}}') as Record<string, unknown>
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(value.polluted).toBeUndefined()
  })
  it('copes with what is nested deeper than it reads itself', () => {
    const deep = '['.repeat(600) + ']'.repeat(600)
    const value = parseWire(`{"toolCallId":"c","input":${deep}}`) as { inputText: string }
    expect(value.inputText).toBe(deep)
  })
  it('throws on what is not JSON', () => expect(() => parseWire('{')).toThrow(JsonError))
})

describe('check', () => {
  const schema = {
    type: 'object',
    properties: { path: { type: 'string' }, n: { type: 'integer' }, mode: { enum: ['a', 'b'] }, list: { type: 'array', items: { type: 'number' } } },
    required: ['path'],
    additionalProperties: false,
  }
  it.each([
    ['{"path":"a","n":12345678901234567890,"mode":"a","list":[1,2.5]}', []],
    ['{}', ['“path” is missing']],
    ['{"path":1}', ['/path must be a string']],
    ['{"path":"a","n":1.5}', ['/n must be an integer']],
    ['{"path":"a","mode":"c"}', ['/mode must be one of "a", "b"']],
    ['{"path":"a","list":[1,"2"]}', ['/list/1 must be a number']],
    ['{"path":"a","x":1}', ['/x the tool knows no “x”']],
    ['[]', ['must be an object']],
  ])('%s', (text, want) => {
    expect(check(text, parse(text), schema).map((p) => `${p.pointer} ${p.message}`.trim())).toEqual(want)
  })
  it('accepts anything where there is no schema', () => expect(check('1', parse('1'), undefined)).toEqual([]))
})
