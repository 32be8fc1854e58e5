import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import { afterEach, describe, expect, it } from 'vitest'
import { outputOf } from './blocks'
import { Result, ResultMedia } from './Result'

afterEach(cleanup)
const output = (...content: unknown[]) => JSON.stringify({ content })
const block = (one: unknown) => outputOf(output(one))?.blocks[0]

describe('outputOf', () => {
  it.each(['not json', '"text"', '[]', '{"files":[]}', '{"content":"x"}', '{"content":[1]}', '{"content":[{"no":"type"}]}', '{"content":[],"other":1}'])('does not take %s for the output of MCP', (text) =>
    expect(outputOf(text)).toBeUndefined(),
  )
  it.each(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'IMAGE/PNG', 'image/png; x=1'])('shows %s', (mimeType) =>
    expect(block({ type: 'image', data: 'aGVsbG8=', mimeType })).toMatchObject({ kind: 'image', bytes: 5, src: expect.stringMatching(/^data:image\/[a-z]+;base64,aGVsbG8=$/) }),
  )
  it.each([
    ['image/svg+xml', 'aGVsbG8=', 'files of this type are not opened here'],
    ['text/html', 'aGVsbG8=', 'files of this type are not opened here'],
    ['', 'aGVsbG8=', 'of unknown type'],
    ['image/png', '"><script>', 'its data cannot be read'],
    ['image/png', 'abc', 'its data cannot be read'],
    ['image/png', '', 'it is empty'],
    ['image/png', 'A'.repeat((8 << 20) + 4), 'its data cannot be read'],
  ])('never shows %s of %.12s…', (mimeType, data, why) => expect(block({ type: 'image', data, mimeType })).toMatchObject({ kind: 'note', text: expect.stringContaining(why) }))
  it('reads links, resources and what it does not know', () => {
    expect(block({ type: 'resource_link', uri: 'https://x', name: 'n', title: 't', mimeType: 'a/b' })).toEqual({ kind: 'link', uri: 'https://x', name: 't', mediaType: 'a/b' })
    expect(block({ type: 'resource', resource: { uri: 'file:///a', text: 'hi' } })).toEqual({ kind: 'text', text: 'hi', from: 'file:///a' })
    expect(block({ type: 'resource', resource: { uri: 'file:///a', blob: 'aGVsbG8=', mimeType: 'image/png' } })).toMatchObject({ kind: 'image', from: 'file:///a' })
    expect(block({ type: 'resource', resource: { uri: 'file:///a', blob: 'aGVsbG8=', mimeType: 'a/zip' } })).toMatchObject({ kind: 'note', text: expect.stringContaining('file:///a') })
    expect(block({ type: 'newer', n: 1 })).toEqual({ kind: 'text', text: '{\n  "type": "newer",\n  "n": 1\n}' })
  })
})

describe('a result', () => {
  it('follows no link that a page must not follow, and shows every address', () => {
    render(<Result text={output({ type: 'resource_link', uri: 'javascript:alert(1)', name: 'evil' }, { type: 'resource_link', uri: 'https://a.test/?q=1', name: 'good' })} />)
    const links = screen.getAllByRole('link')
    expect(links.map((l) => [l.getAttribute('href'), l.textContent, l.getAttribute('rel')])).toEqual([['https://a.test/?q=1', 'https://a.test/?q=1', 'noopener noreferrer nofollow']])
    expect(screen.getByText('javascript:alert(1)')).toBeTruthy()
  })
  it('shows text as text', () => {
    const { container } = render(<Result text={output({ type: 'text', text: '<img src=x onerror=alert(1)>' })} />)
    expect(container.querySelector('img')).toBeNull()
    expect(container.textContent).toContain('<img src=x')
  })
  it('folds structured content, digit for digit', () => {
    const { container } = render(<Result text='{"content":[],"structuredContent":{"id":12345678901234567890,"deep":{"r":1.50}}}' />)
    expect(container.textContent).toContain('12345678901234567890')
    expect(container.textContent).not.toContain('1.50')
    const branch = container.querySelector<HTMLDetailsElement>('.tree-branch')!
    branch.open = true
    fireEvent(branch, new Event('toggle'))
    expect(container.textContent).toContain('1.50')
  })
  it('shows what is not of MCP as it was', () => {
    render(<Result text='{"files":["a"]}' />)
    expect(screen.getByLabelText('Output').textContent).toBe('{\n  "files": [\n    "a"\n  ]\n}')
  })
})

describe('the media of a result', () => {
  it('have words for those who cannot see them', () => {
    render(<ResultMedia tool="take_picture" text={output({ type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' })} />)
    expect(screen.getByRole('img').getAttribute('alt')).toBe('Image from take_picture (image/png, 5 bytes)')
    fireEvent.error(screen.getByRole('img'))
    expect(screen.getByText(/no image that this browser can open/)).toBeTruthy()
  })
  it('are not there where there are none', () => expect(render(<ResultMedia tool="t" text={output({ type: 'text', text: 'x' })} />).container.innerHTML).toBe(''))
})
