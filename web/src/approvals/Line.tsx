import { memo, useEffect, useMemo, useState } from 'react'
import { useStore } from 'zustand'
import { parse } from '../json/parse'
import type { ToolPart } from '../live/types'
import { Result, ResultMedia } from '../results/Result'
import { settingsPath } from '../router'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { clock, took } from '../ui/time'
import { cardState, decisions, forget } from './decisions'
import { InputView, LongText } from './InputView'
import { Remembered } from './Remembered'
import { type Line as Words, lineOf, toolNames } from './words'

interface LineProps {
  part: ToolPart
  me: string | undefined
  progress: string | undefined
}

/** A call that does not wait for a person: one line, with all there is to know folded beneath. */
export const Line = memo(function Line({ part, me, progress }: LineProps) {
  const id = part.approval?.id
  const state = useStore(decisions, (all) => (id === undefined ? undefined : cardState(all, id)))
  const [open, setOpen] = useState(false)
  const settled = part.state !== 'approval-requested'
  useEffect(() => {
    if (settled && id !== undefined) forget(id)
  }, [settled, id])

  const line = lineOf(part, me) ?? early(part, me, state)
  const { server, tool } = toolNames(part)
  const meta = part.toolMetadata
  const lost = state?.lost !== undefined || state?.closed !== undefined
  // When a call of unknown outcome ended is not known either: what is recorded is when it was given up.
  const right = [meta?.outcome === 'unknown' ? undefined : took(meta?.startedAt, meta?.finishedAt), line.who, line.at && clock(line.at)].filter(Boolean)
  const details = (
    <details className={`line ${line.tone}`} open={open} onToggle={(event) => setOpen(event.currentTarget.open)} data-state={part.state}>
      <summary data-decided={id}>
        <Icon name={line.icon} className="line-icon" />
        <span className="line-words">
          <span className="line-what"><Visible text={line.words} /></span>
          {line.reason && <span className="line-reason"> — “<Visible text={line.reason} />”</span>}
          <Brief text={part.inputText} />
          {lost && <span className="line-late"> Your answer came later and was not applied.</span>}
          {progress !== undefined && line.tone === 'busy' && <span className="line-progress" role="status"> <Visible text={progress} /></span>}
        </span>
        <span className="line-right"><Visible text={right.join(' · ')} /></span>
        <Icon name="chevron" className="line-open" />
      </summary>
      {open && (
        <div className="line-body">
          <p className="tool-name">
            {server && <><Visible text={server} /> › </>}
            <Visible text={tool} />
          </p>
          {meta?.why && (
            <p className="note">
              <Visible text={meta.why} />{' '}
              {meta.ruleId !== undefined && <PageLink to={settingsPath('rules')}>Rules</PageLink>}
            </p>
          )}
          {part.inputText !== undefined && (
            <section>
              <p className="label">{part.approval?.originalInputText === undefined ? 'Input' : 'Input, as it was changed'}</p>
              <InputView text={part.inputText} as="fields" />
            </section>
          )}
          {part.approval?.originalInputText !== undefined && (
            <section>
              <p className="label">What the model had asked for</p>
              <InputView text={part.approval.originalInputText} as="fields" />
            </section>
          )}
          {part.inputText === undefined && part.rawInput && (
            <section>
              <p className="label">Input, as the model wrote it</p>
              <LongText text={part.rawInput} label="Input" />
            </section>
          )}
          {part.outputText !== undefined && (
            <section>
              <p className="label">Output</p>
              <Result text={part.outputText} />
            </section>
          )}
          {part.errorText && (
            <section>
              <p className="label">What the model was told</p>
              <LongText text={part.errorText} label="Error" />
            </section>
          )}
        </div>
      )}
    </details>
  )
  const remembered = settled && part.approval?.remember === 'always-allow'
  return (
    <>
      {details}
      {remembered && <Remembered part={part} me={me} />}
      {part.outputText !== undefined && <ResultMedia text={part.outputText} tool={tool} />}
    </>
  )
})

/** Words for a card that somebody else has decided, before the event of it has come. */
function early(part: ToolPart, me: string | undefined, state: ReturnType<typeof cardState> | undefined): Words {
  const { tool } = toolNames(part)
  const lost = state?.lost
  if (!lost) return { icon: 'stop', tone: 'quiet', words: `${tool} is not open any more: ${state?.closed ?? ''}` }
  const by = lost.decidedBy === undefined ? 'Somebody' : lost.decidedBy === me ? 'You' : lost.decidedBy
  return {
    icon: lost.approved ? 'check' : 'cross',
    tone: lost.approved ? 'good' : 'bad',
    words: `${by} ${lost.approved ? 'approved' : 'denied'} ${tool} before you`,
    ...(lost.reason ? { reason: lost.reason } : {}),
    ...(lost.decidedAt ? { at: lost.decidedAt } : {}),
  }
}

/** The first plain value of an input: mostly the path, the query or the command. */
function Brief({ text }: { text: string | undefined }) {
  const brief = useMemo(() => {
    if (text === undefined) return ''
    try {
      const node = parse(text)
      if (node.kind !== 'object') return ''
      const first = node.members.find((m) => m.node.kind === 'string' || m.node.kind === 'number')?.node
      if (!first) return ''
      const value = (first.kind === 'string' ? first.value : text.slice(first.start, first.end)).split('\n')[0]!
      return value.length > 60 ? `${value.slice(0, 60)}…` : value
    } catch {
      return ''
    }
  }, [text])
  return brief === '' ? null : <> <code><Visible text={brief} /></code></>
}
