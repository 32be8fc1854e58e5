import { memo, useMemo, useState } from 'react'
import { type Node, parse, pretty } from '../json/parse'
import { Visible } from '../text/Visible'

const firstPiece = 20_000
const literal = /^(?:true|false|null|-?\d[\d.eE+-]*)$/

/** A text of any length: all of it is there, or a button says what is not yet. */
export function LongText({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false)
  const [tall, setTall] = useState(false)
  const lines = useMemo(() => text.split('\n').length, [text])
  const shown = all || text.length <= firstPiece ? text : text.slice(0, firstPiece)
  const rest = text.length - shown.length
  const overflows = lines > 8 || text.length > 600
  return (
    <div className="long-text">
      <pre tabIndex={0} aria-label={label} className={tall ? 'tall' : ''}>
        <Visible text={shown} />
      </pre>
      {rest > 0 && (
        <button type="button" className="quiet" onClick={() => (setAll(true), setTall(true))}>
          Show all {size(text.length)}: {size(rest)} are not shown here
        </button>
      )}
      {rest === 0 && overflows && (
        <button type="button" className="quiet" onClick={() => setTall(!tall)}>
          {tall ? 'Show in a small box' : `Show all ${lines > 1 ? `${lines} lines` : size(text.length)}`}
        </button>
      )}
    </div>
  )
}

function size(characters: number): string {
  return characters < 10_000 ? `${characters} characters` : `${Math.round(characters / 1000).toLocaleString('en')} thousand characters`
}

function Value({ text, node, name }: { text: string; node: Node; name: string }) {
  if (node.kind === 'string') {
    const { value } = node
    if (value.includes('\n') || value.length > 200) return <LongText text={value} label={name} />
    // Quotes where, without them, it could be taken for something else.
    if (value === '' || literal.test(value) || value !== value.trim()) return <code>"<Visible text={value} />"</code>
    return <code><Visible text={value} /></code>
  }
  const raw = pretty(text, node)
  if (raw.includes('\n') || raw.length > 200) return <LongText text={raw} label={name} />
  return <code className={`json-${node.kind}`}><Visible text={raw} /></code>
}

function Fields({ text, node }: { text: string; node: Node }) {
  if (node.kind !== 'object') return <Value text={text} node={node} name="input" />
  if (node.members.length === 0) return <p className="note">The input is empty: <code>{'{}'}</code></p>
  return (
    <dl className="fields">
      {node.members.map(({ key, node: child }, i) => (
        <div key={i}>
          <dt><Visible text={key} /></dt>
          <dd><Value text={text} node={child} name={key} /></dd>
        </div>
      ))}
    </dl>
  )
}

/** A call's input, as fields or as JSON. Every digit is the one that was written. */
export const InputView = memo(function InputView({ text, as }: { text: string; as: 'fields' | 'json' }) {
  const node = useMemo(() => {
    try {
      return parse(text)
    } catch {
      return undefined
    }
  }, [text])
  if (as === 'json' || !node) return <LongText text={node ? pretty(text, node) : text} label="Input as JSON" />
  return <Fields text={text} node={node} />
})
