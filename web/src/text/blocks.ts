import { Lexer } from 'marked'

export interface Block {
  /** Stable for as long as the block stays where it is. */
  key: number
  text: string
}

export interface Blocks {
  source: string
  blocks: Block[]
}

// The last two blocks stay open: what follows can still change what they are
// (a paragraph becomes a heading, a list goes on).
const open = 2

/**
 * Cuts Markdown into top-level blocks, so that only the last ones of a growing
 * text are parsed and drawn again. Given the cut of a text that this one
 * continues, it lexes only what may have changed and reuses the other blocks.
 */
export function cut(source: string, before?: Blocks): Blocks {
  const settled: Block[] = []
  let rest = source
  if (before && before.blocks.length > open && source.startsWith(before.source)) {
    for (const block of before.blocks.slice(0, -open)) {
      settled.push(block)
      rest = rest.slice(block.text.length)
    }
  }
  const fresh: Block[] = []
  for (const raw of lex(rest)) {
    const key = settled.length + fresh.length
    const old = before?.blocks[key]
    fresh.push(old && old.text === raw ? old : { key, text: raw })
  }
  return { source, blocks: [...settled, ...fresh] }
}

function lex(text: string): string[] {
  const found: string[] = []
  let length = 0
  for (const token of Lexer.lex(text, { gfm: true })) {
    length += token.raw.length
    if (token.type === 'space' && found.length > 0) found[found.length - 1] += token.raw
    else found.push(token.raw)
  }
  // The lexer rewrites line ends and tabs in rare texts; then cutting by length
  // would lose characters, and one block is right, if slower.
  return length === text.length && found.join('') === text ? found : [text]
}

/** Whether a block is a code fence that has not been closed yet. */
export function openFence(text: string): { language: string; code: string } | undefined {
  const first = /^ {0,3}(`{3,}|~{3,})([^\n`]*)(?:\n|$)/.exec(text)
  if (!first) return undefined
  const [line, fence, info] = first
  const closing = new RegExp(`(?:^|\\n) {0,3}${fence![0] === '`' ? '`' : '~'}{${fence!.length},}\\s*$`)
  const code = text.slice(line.length)
  return closing.test(code) ? undefined : { language: info!.trim(), code }
}

/** Definitions and footnotes reach across blocks: such a text is drawn in one piece once it is complete. */
export function hasDefinitions(text: string): boolean {
  return /^ {0,3}\[[^\]\n]+\]:/m.test(text)
}
