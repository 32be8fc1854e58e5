// A command as people copy it from a README, and the program and arguments that
// it stands for. No shell is run: only quotes and backslashes are understood.

export interface Split {
  words: string[]
  /** Why the line cannot be split. */
  error?: string
  /** What a shell would do with this line and we do not. */
  hint?: string
}

const shellOnly = /[|&;<>()`]|\$[\w({]|(?:^|\s)~\//

/** Splits a command line into words, as a POSIX shell does before it expands anything. */
export function split(line: string): Split {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  let bare = ''
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!
    if (quote === "'") {
      if (c === "'") quote = ''
      else word = (word ?? '') + c
    } else if (quote === '"') {
      if (c === '"') quote = ''
      else if (c === '\\' && /["\\$`\n]/.test(line[i + 1] ?? '')) word = (word ?? '') + (line[++i] === '\n' ? '' : line[i]!)
      else word = (word ?? '') + c
    } else if (c === "'" || c === '"') {
      quote = c
      word ??= ''
    } else if (c === '\\') {
      if (i + 1 === line.length) return { words, error: 'The line ends with a backslash.' }
      if (line[++i] !== '\n') word = (word ?? '') + line[i]
    } else if (/\s/.test(c)) {
      if (word !== undefined) words.push(word)
      word = undefined
      bare += ' '
    } else {
      word = (word ?? '') + c
      bare += c
    }
  }
  if (quote !== '') return { words, error: `A quote ${quote} is not closed.` }
  if (word !== undefined) words.push(word)
  return { words, ...(shellOnly.test(bare) ? { hint: 'No shell is run: variables, ~, pipes and the like are passed on as they stand.' } : {}) }
}

/** Writes words as one line that splits into the very same words. */
export function join(words: readonly string[]): string {
  return words.map((w) => (/^[\w@%+=:,./•-]+$/.test(w) ? w : `'${w.replaceAll("'", `'\\''`)}'`)).join(' ')
}
