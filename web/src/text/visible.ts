// Characters that are not seen, or that change how others are seen, can make an
// input look like what it is not. They are shown by their code point instead.

export interface Segment {
  text: string
  /** What a hidden character is, if this segment is one. */
  hidden?: string
}

const names: Record<number, string> = {
  0x00: 'NULL', 0x07: 'BELL', 0x08: 'BACKSPACE', 0x0b: 'VERTICAL TAB', 0x0c: 'FORM FEED', 0x0d: 'CARRIAGE RETURN', 0x1b: 'ESCAPE', 0x7f: 'DELETE',
  0x85: 'NEXT LINE', 0xa0: 'NO-BREAK SPACE', 0xad: 'SOFT HYPHEN', 0x034f: 'COMBINING GRAPHEME JOINER', 0x061c: 'ARABIC LETTER MARK',
  0x115f: 'HANGUL CHOSEONG FILLER', 0x1160: 'HANGUL JUNGSEONG FILLER', 0x180e: 'MONGOLIAN VOWEL SEPARATOR', 0x200b: 'ZERO WIDTH SPACE',
  0x200c: 'ZERO WIDTH NON-JOINER', 0x200d: 'ZERO WIDTH JOINER', 0x200e: 'LEFT-TO-RIGHT MARK', 0x200f: 'RIGHT-TO-LEFT MARK',
  0x2028: 'LINE SEPARATOR', 0x2029: 'PARAGRAPH SEPARATOR', 0x202a: 'LEFT-TO-RIGHT EMBEDDING', 0x202b: 'RIGHT-TO-LEFT EMBEDDING',
  0x202c: 'POP DIRECTIONAL FORMATTING', 0x202d: 'LEFT-TO-RIGHT OVERRIDE', 0x202e: 'RIGHT-TO-LEFT OVERRIDE', 0x2060: 'WORD JOINER',
  0x2066: 'LEFT-TO-RIGHT ISOLATE', 0x2067: 'RIGHT-TO-LEFT ISOLATE', 0x2068: 'FIRST STRONG ISOLATE', 0x2069: 'POP DIRECTIONAL ISOLATE',
  0x2800: 'BRAILLE BLANK', 0x3164: 'HANGUL FILLER', 0xfeff: 'ZERO WIDTH NO-BREAK SPACE', 0xffa0: 'HALFWIDTH HANGUL FILLER',
}

// Controls but tab and line feed, format characters, lone surrogates, private
// use, spaces other than the ordinary one, variation selectors and fillers.
const hidden =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]|(?! )\p{Zs}/gu
const emoji = /\p{Extended_Pictographic}$/u

export function codePoint(char: string): string {
  return `U+${char.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`
}

/** Cuts a text into what is seen as it is and what would not be seen. */
export function segments(text: string): Segment[] {
  const out: Segment[] = []
  let from = 0
  for (const match of text.matchAll(hidden)) {
    const char = match[0]
    const at = match.index
    if (char === '\n' || char === '\t') continue
    // The one variation selector that ordinary text has: it asks for the colourful form.
    if (char === '\ufe0f' && emoji.test(text.slice(Math.max(0, at - 2), at))) continue
    // A carriage return that belongs to a line break is shown too: it is part of the input.
    if (at > from) out.push({ text: text.slice(from, at) })
    const name = names[char.codePointAt(0)!]
    out.push({ text: codePoint(char), hidden: name ? `${codePoint(char)} ${name}` : codePoint(char) })
    from = at + char.length
  }
  if (from < text.length || out.length === 0) out.push({ text: text.slice(from) })
  return out
}

/** segments in one string, for titles and announcements. */
export function visibleText(text: string): string {
  return segments(text.replaceAll(/[\n\t]/g, ' '))
    .map((s) => (s.hidden ? `⟦${s.text}⟧` : s.text))
    .join('')
}
