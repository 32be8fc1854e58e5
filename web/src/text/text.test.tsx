import { render, screen } from '@testing-library/react'
import { describe, expect, it } from 'vitest'
import { cut, hasDefinitions, openFence } from './blocks'
import { Markdown, safeUrl } from './Markdown'
import { segments, visibleText } from './visible'

const sample = '# Title\n\nOne\ntwo.\n\n- a\n- b\n\n  more\n\n```go\nfunc f() {\n\n}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd *here*.'

describe('cut', () => {
  it('loses no character', () => {
    expect(cut(sample).blocks.map((b) => b.text).join('')).toBe(sample)
  })
  it('keeps a fence with blank lines in one block', () => {
    expect(cut(sample).blocks.some((b) => b.text.startsWith('```go') && b.text.includes('}\n```'))).toBe(true)
  })
  it('gives the same blocks piece by piece as at once', () => {
    for (const size of [1, 2, 3, 7, 50]) {
      let grown = cut('')
      for (let i = size; i < sample.length + size; i += size) grown = cut(sample.slice(0, i), grown)
      expect(grown.blocks.map((b) => b.text)).toEqual(cut(sample).blocks.map((b) => b.text))
    }
  })
  it('keeps settled blocks the very same objects while the text grows', () => {
    const first = cut('a\n\nb\n\nc\n\nd')
    const next = cut('a\n\nb\n\nc\n\nd and more', first)
    expect(next.blocks[0]).toBe(first.blocks[0])
    expect(next.blocks[2]).toBe(first.blocks[2])
    expect(next.blocks[3]).not.toBe(first.blocks[3])
  })
  it('starts over for a text that does not continue the last one', () => {
    expect(cut('x\n\ny\n\nz', cut('a\n\nb\n\nc\n\nd')).blocks.map((b) => b.text)).toEqual(['x\n\n', 'y\n\n', 'z'])
  })
  it('falls back to one block where the lexer rewrites the text', () => {
    expect(cut('a\r\n\r\nb').blocks.map((b) => b.text).join('')).toBe('a\r\n\r\nb')
  })
})

describe('openFence', () => {
  it.each([
    ['```js\nlet a', { language: 'js', code: 'let a' }],
    ['````\n```\n', { language: '', code: '```\n' }],
    ['```js\nlet a\n```', undefined],
    ['text', undefined],
  ])('%j', (text, want) => expect(openFence(text)).toEqual(want))
})

it('hasDefinitions sees link definitions and footnotes', () => {
  expect([hasDefinitions('[a]: https://a.test'), hasDefinitions('text\n[^1]: note'), hasDefinitions('[a](b): c')]).toEqual([true, true, false])
})

describe('safeUrl', () => {
  it.each([
    ['https://a.test', 'https://a.test'],
    ['mailto:a@b.test', 'mailto:a@b.test'],
    ['javascript:alert(1)', ''],
    [' java\nscript:alert(1)', ''],
    ['data:text/html,x', ''],
    ['//a.test', ''],
    ['/topics', ''],
  ])('%j', (url, want) => expect(safeUrl(url)).toBe(want))
})

describe('Markdown', () => {
  it('draws images as links and never fetches them', () => {
    const { container } = render(<Markdown text="![secret](https://evil.test/?q=1) [x](javascript:alert(1))" streaming={false} />)
    expect(container.querySelector('img')).toBeNull()
    const link = screen.getByRole('link')
    expect([link.getAttribute('href'), link.getAttribute('rel'), link.textContent]).toEqual(['https://evil.test/?q=1', 'noopener noreferrer nofollow', 'Image: secret'])
  })
  it('shows HTML as the text that it is', () => {
    const { container } = render(<Markdown text={'<img src=x onerror=alert(1)> <b>bold</b>'} streaming={false} />)
    expect(container.querySelector('img, b')).toBeNull()
    expect(container.textContent).toContain('<b>bold</b>')
  })
  it('resolves definitions across blocks once the text is complete', () => {
    render(<Markdown text={'See [this][1].\n\nMore.\n\n[1]: https://a.test'} streaming={false} />)
    expect(screen.getByRole('link', { name: 'this' }).getAttribute('href')).toBe('https://a.test')
  })
})

describe('segments', () => {
  it('names what would not be seen', () => {
    expect(segments('a\u202eb\u200b')).toEqual([
      { text: 'a' },
      { text: 'U+202E', hidden: 'U+202E RIGHT-TO-LEFT OVERRIDE' },
      { text: 'b' },
      { text: 'U+200B', hidden: 'U+200B ZERO WIDTH SPACE' },
    ])
  })
  it.each(['\u0000', '\r', '\u001b', '\u00a0', '\u00ad', '\u2028', '\u2066', '\ufeff', '\ufe00', '\u{e0041}', '\u{e0100}', '\ud800', '\u3000', '\u3164'])(
    'shows %j',
    (char) => expect(segments(`a${char}b`)).toHaveLength(3),
  )
  it.each(['plain', 'Grüße, 世界', 'tab\tand\nline', 'heart ❤️', 'one two', ''])('leaves %j alone', (text) => expect(segments(text)).toEqual([{ text }]))
  it('fits on one line where it must', () => expect(visibleText('a\n\u202eb')).toBe('a ⟦U+202E⟧b'))
})
