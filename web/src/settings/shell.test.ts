import { describe, expect, it } from 'vitest'
import { join, split } from './shell'

describe('split', () => {
  it.each([
    ['', []],
    ['  npx  -y\t@a/b\n--x ', ['npx', '-y', '@a/b', '--x']],
    [`a 'b c' "d e" f\\ g`, ['a', 'b c', 'd e', 'f g']],
    [`'' "" x''y`, ['', '', 'xy']],
    [`"a\\"b\\\\c\\d" 'it'\\''s'`, ['a"b\\c\\d', "it's"]],
    ['run \\\n  --flag', ['run', '--flag']],
    [`"one\ntwo"`, ['one\ntwo']],
  ])('%j', (line, words) => expect(split(line)).toEqual({ words }))

  it('says what cannot be split', () => {
    expect(split(`a 'b`).error).toContain('not closed')
    expect(split(`a "b`).error).toContain('not closed')
    expect(split('a \\').error).toContain('backslash')
  })

  it('says where a shell would do more, but not of what is quoted', () => {
    for (const line of ['a $HOME', 'a | b', 'a > b', 'a ~/x', 'a $(b)', 'a && b']) expect(split(line).hint, line).toContain('No shell is run')
    for (const line of [`a '$HOME'`, `a "b|c"`, 'a b~c', 'a --x=1']) expect(split(line).hint, line).toBeUndefined()
  })
})

describe('join', () => {
  it('writes words that split into the same words, whatever is in them', () => {
    const letters = [...`ab '"\\$\n\t|~;é`, '']
    let seed = 7
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n
    for (let i = 0; i < 2000; i++) {
      const words = Array.from({ length: random(5) }, () => Array.from({ length: random(6) }, () => letters[random(letters.length)]).join(''))
      expect(split(join(words)).words).toEqual(words)
    }
  })
  it('quotes only what needs it', () => expect(join(['npx', '-y', '@a/b@1.2', 'two words'])).toBe("npx -y @a/b@1.2 'two words'"))
})
