import { useId, useMemo } from 'react'
import { check, type Problem } from '../json/schema'
import { JsonError, parse, repeatedKey } from '../json/parse'
import { Icon } from '../ui/Icon'

/** What is wrong with a text as a tool's input; nothing if it can be sent. */
export function inputProblems(text: string, schema: unknown): Problem[] {
  try {
    const node = parse(text)
    if (node.kind !== 'object') return [{ pointer: '', message: 'must be a JSON object' }]
    const twice = repeatedKey(node)
    if (twice !== undefined) return [{ pointer: twice, message: 'stands there twice' }]
    return check(text, node, schema)
  } catch (error) {
    return [{ pointer: '', message: error instanceof JsonError ? `This is not JSON yet. ${error.message}` : 'This is not JSON.' }]
  }
}

interface EditProps {
  text: string
  schema: unknown
  onChange(text: string): void
  disabled: boolean
  autoFocus: boolean
}

/** The input as JSON to be changed, checked with every key. */
export function Edit({ text, schema, onChange, disabled, autoFocus }: EditProps) {
  const id = useId()
  const problems = useMemo(() => inputProblems(text, schema), [text, schema])
  return (
    <div className="edit">
      <label htmlFor={id}>Input that is to run, as JSON</label>
      <textarea
        id={id}
        value={text}
        onChange={(e) => onChange(e.target.value)}
        readOnly={disabled}
        // Only after a person asked to edit, by key or click.
        autoFocus={autoFocus}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        dir="ltr"
        rows={Math.min(12, Math.max(4, text.split('\n').length + 1))}
        aria-invalid={problems.length > 0}
        aria-describedby={`${id}-state`}
      />
      <ul id={`${id}-state`} className="problems" aria-live="polite">
        {problems.length === 0 && (
          <li className="fine">
            <Icon name="check" /> Valid JSON, as far as this page can tell. The server checks it again.
          </li>
        )}
        {problems.slice(0, 5).map((p, i) => (
          <li key={i}>
            <Icon name="warning" /> {p.pointer && <code>{p.pointer}</code>} {p.message}
          </li>
        ))}
      </ul>
    </div>
  )
}
