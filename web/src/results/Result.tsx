import { memo, type ReactNode, useMemo, useState } from 'react'
import { LongText } from '../approvals/InputView'
import { type Node, parse, pretty, prettyText } from '../json/parse'
import { safeUrl } from '../text/Markdown'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { type Block, outputOf, sizeOf } from './blocks'

/** What a call gave, but for what ResultMedia shows. */
export const Result = memo(function Result({ text }: { text: string }) {
  const output = useMemo(() => outputOf(text), [text])
  const plain = useMemo(() => (output ? '' : plainOf(text)), [output, text])
  if (!output) return <LongText text={plain} label="Output" />
  const { blocks, structured } = output
  const rest = blocks.filter((b) => b.kind !== 'image' && b.kind !== 'audio')
  if (blocks.length === 0 && !structured) return <p className="note">The tool gave nothing.</p>
  return (
    <div className="result">
      {rest.map((block, i) => (
        <BlockView key={i} block={block} />
      ))}
      {rest.length < blocks.length && rest.length === 0 && !structured && <p className="note">It is shown below.</p>}
      {structured && (
        <details className="tree-box">
          <summary>
            <Icon name="chevron" className="line-open" /> Structured content
          </summary>
          <Tree text={structured.text} node={structured.node} depth={0} />
        </details>
      )}
    </div>
  )
})

function plainOf(text: string): string {
  try {
    const node = parse(text)
    return node.kind === 'string' ? node.value : pretty(text, node)
  } catch {
    return prettyText(text)
  }
}

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case 'text':
      return (
        <div>
          {block.from && <p className="label"><code><Visible text={block.from} /></code></p>}
          <LongText text={block.text} label="Output" />
        </div>
      )
    case 'link':
      return <ResourceLink block={block} />
    case 'note':
      return <p className="note">[<Visible text={block.text} />]</p>
    default:
      return null
  }
}

/** A link that a tool gave. Its address is always in sight, and nothing follows it by itself. */
function ResourceLink({ block }: { block: Extract<Block, { kind: 'link' }> }) {
  const safe = safeUrl(block.uri)
  return (
    <p className="resource-link">
      <Icon name="link" />
      <span>
        {block.name && <strong><Visible text={block.name} /></strong>} {block.mediaType && <small><Visible text={block.mediaType} /></small>}{' '}
        {safe ? (
          <a href={safe} target="_blank" rel="noopener noreferrer nofollow"><Visible text={block.uri} /></a>
        ) : (
          <code><Visible text={block.uri} /></code>
        )}
        {block.description && <> — <Visible text={block.description} /></>}
      </span>
    </p>
  )
}

type MediaBlock = Extract<Block, { kind: 'image' | 'audio' }>

/** The images and sounds of an output, which are seen without unfolding anything. */
export const ResultMedia = memo(function ResultMedia({ text, tool }: { text: string; tool: string }) {
  const media = useMemo(() => {
    // Most outputs hold none: do not read them twice.
    if (!/"type":\s*"(?:image|audio|resource)"/.test(text)) return []
    return (outputOf(text)?.blocks ?? []).filter((b): b is MediaBlock => b.kind === 'image' || b.kind === 'audio')
  }, [text])
  if (media.length === 0) return null
  return (
    <div className="media">
      {media.map((block, i) => (
        <Media key={i} block={block} tool={tool} of={media.length > 1 ? ` ${i + 1} of ${media.length}` : ''} />
      ))}
    </div>
  )
})

function Media({ block, tool, of }: { block: MediaBlock; tool: string; of: string }) {
  const [broken, setBroken] = useState(false)
  const [full, setFull] = useState(false)
  const [reduced, setReduced] = useState(false)
  const what = block.kind === 'image' ? 'Image' : 'Sound'
  const words = `${what}${of} from ${tool}`
  const facts = `${block.mediaType}, ${sizeOf(block.bytes)}`
  return (
    <figure>
      {broken ? (
        <p className="note">The data is no {block.kind} that this browser can open.</p>
      ) : block.kind === 'image' ? (
        <img src={block.src} alt={`${words} (${facts})`} className={full ? 'full' : ''} onLoad={(event) => setReduced(event.currentTarget.naturalHeight > event.currentTarget.clientHeight)} onError={() => setBroken(true)} />
      ) : (
        <audio controls src={block.src} aria-label={words} onError={() => setBroken(true)} />
      )}
      <figcaption>
        <span><Visible text={`${words} · ${facts}`} />{block.from && <> · <code><Visible text={block.from} /></code></>}</span>
        {block.kind === 'image' && !broken && reduced && (
          <button type="button" className="quiet" onClick={() => setFull(!full)}>
            {full ? 'Smaller' : 'As wide as there is room'}
          </button>
        )}
      </figcaption>
    </figure>
  )
}

const mostMembers = 200

/** A JSON value as a tree that is folded below its first level. Every digit is as it came. */
function Tree({ text, node, depth, name }: { text: string; node: Node; depth: number; name?: string }) {
  const label = name === undefined ? null : <span className="tree-name"><Visible text={name} />: </span>
  if (node.kind !== 'object' && node.kind !== 'array') {
    const value = node.kind === 'string' ? node.value : text.slice(node.start, node.end)
    const long = value.length > 300 || value.includes('\n')
    return (
      <div className="tree-leaf">
        {label}
        {long ? <LongText text={value} label={name ?? 'Value'} /> : <code className={`json-${node.kind}`}><Visible text={node.kind === 'string' ? `"${value}"` : value} /></code>}
      </div>
    )
  }
  const items = node.kind === 'object' ? node.members.map((m) => [m.key, m.node] as const) : node.items.map((n, i) => [String(i), n] as const)
  const size = `${items.length} ${node.kind === 'object' ? (items.length === 1 ? 'member' : 'members') : items.length === 1 ? 'item' : 'items'}`
  if (depth === 0) return <div className="tree"><Items text={text} items={items} depth={depth} /></div>
  if (items.length === 0) return <div className="tree-leaf">{label}<code>{node.kind === 'object' ? '{}' : '[]'}</code></div>
  return <Folded text={text} items={items} depth={depth} label={label} size={size} />
}

function Folded({ label, size, ...rest }: Parameters<typeof Items>[0] & { label: ReactNode; size: string }) {
  const [open, setOpen] = useState(false)
  return (
    <details className="tree-branch" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="chevron" className="line-open" /> {label}<small>{size}</small>
      </summary>
      {open && <Items {...rest} />}
    </details>
  )
}

function Items({ text, items, depth }: { text: string; items: (readonly [string, Node])[]; depth: number }) {
  const [all, setAll] = useState(false)
  const shown = all ? items : items.slice(0, mostMembers)
  return (
    <div className="tree-items">
      {shown.map(([key, node], i) => (
        <Tree key={i} text={text} node={node} name={key} depth={depth + 1} />
      ))}
      {shown.length < items.length && (
        <button type="button" className="quiet" onClick={() => setAll(true)}>
          Show all {items.length}
        </button>
      )}
    </div>
  )
}
