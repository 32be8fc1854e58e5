import { createContext, memo, type ReactNode, useContext, useRef, useState } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { copyText } from '../ui/copy'
import { Icon } from '../ui/Icon'
import { type Blocks, cut, hasDefinitions, openFence } from './blocks'

const plugins = [remarkGfm]
const schemes = /^(?:https?|mailto):/i

/** Only addresses that a person can follow without harm; everything else is left out. */
export function safeUrl(url: string): string {
  return schemes.test(url.trim()) ? url.trim() : ''
}

function Link({ href, children }: { href?: string | undefined; children?: ReactNode }) {
  const url = safeUrl(href ?? '')
  if (url === '') return <span>{children}</span>
  return (
    <a href={url} target="_blank" rel="noopener noreferrer nofollow" title={url}>
      {children}
    </a>
  )
}

const InLink = createContext(false)

// An image is fetched without a click, and its address can carry away what the
// model has read. It becomes a link that a person may follow.
function ImageLink({ src, alt }: { src?: string | Blob | undefined; alt?: string | undefined }) {
  const inLink = useContext(InLink)
  const url = typeof src === 'string' ? safeUrl(src) : ''
  const label = `Image: ${alt || url || 'without an address'}`
  if (inLink || url === '') return <span>{label}</span>
  return <Link href={url}>{label}</Link>
}

function Code({ children, text, language }: { children: ReactNode; text: string; language: string }) {
  const [copied, setCopied] = useState(false)
  return (
    <figure className="code">
      <figcaption>
        <span>{language || 'text'}</span>
        <button type="button" className="quiet" onClick={() => void copyText(text).then(setCopied)}>
          <Icon name={copied ? 'check' : 'copy'} /> {copied ? 'Copied' : 'Copy'}
        </button>
      </figcaption>
      <pre tabIndex={0}>{children}</pre>
    </figure>
  )
}

interface HastElement {
  children?: { tagName?: string; properties?: { className?: unknown }; children?: { value?: string }[] }[]
}

const components: Components = {
  a: ({ href, children }) => (
    <InLink value={true}>
      <Link href={href}>{children}</Link>
    </InLink>
  ),
  img: ({ src, alt }) => <ImageLink src={src} alt={alt} />,
  // Under the message's own heading, on one level: a model begins with any, and
  // a reader who goes from heading to heading must not fall through a gap.
  h1: ({ children }) => <h3 className="h1">{children}</h3>,
  h2: ({ children }) => <h3 className="h2">{children}</h3>,
  h3: ({ children }) => <h3 className="h3">{children}</h3>,
  h4: ({ children }) => <h3 className="h4">{children}</h3>,
  h5: ({ children }) => <h3 className="h4">{children}</h3>,
  h6: ({ children }) => <h3 className="h4">{children}</h3>,
  table: ({ children }) => (
    <div className="table-box" tabIndex={0} role="region" aria-label="Table">
      <table>{children}</table>
    </div>
  ),
  input: ({ checked }) => <span className="task">{checked ? '☑' : '☐'}</span>,
  pre: ({ children, node }) => {
    const code = (node as HastElement | undefined)?.children?.[0]
    const classes = code?.properties?.className
    const language = Array.isArray(classes) ? String(classes[0] ?? '').replace(/^language-/, '') : ''
    return (
      <Code text={(code?.children ?? []).map((c) => c.value ?? '').join('')} language={language}>
        {children}
      </Code>
    )
  },
}

const BlockView = memo(function BlockView({ text }: { text: string }) {
  const fence = openFence(text)
  if (fence) {
    return (
      <Code text={fence.code} language={fence.language}>
        <code>{fence.code}</code>
      </Code>
    )
  }
  return (
    <ReactMarkdown remarkPlugins={plugins} components={components} urlTransform={safeUrl}>
      {text}
    </ReactMarkdown>
  )
})

/** A model's Markdown. While it grows, only its last blocks are drawn again. */
export const Markdown = memo(function Markdown({ text, streaming }: { text: string; streaming: boolean }) {
  const last = useRef<Blocks>(undefined)
  if (last.current?.source !== text) last.current = cut(text, last.current)
  const whole = !streaming && hasDefinitions(text)
  const blocks = whole ? [{ key: 0, text }] : last.current.blocks
  return (
    <div className="markdown">
      {blocks.map((block) => (
        <BlockView key={block.key} text={block.text} />
      ))}
    </div>
  )
})
