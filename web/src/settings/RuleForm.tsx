import { useId, useRef, useState } from 'react'
import { ApiError, explain } from '../api/client'
import { parse } from '../json/parse'
import { pathOf } from '../router'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { type Rule, type RulePatch, type RuleTrial, settingsApi, type TrialSample, type Verdict } from './api'
import { Field, Radios, sortProblems, useAction } from './parts'
import { verdicts } from './words'

const fields = ['/name', '/verdict', '/expression', '/reason']
const fieldOf = (pointer: string) => pointer

const looksAt: readonly [string, string, string][] = [
  ['tool', 'the tool’s own name on its server', 'tool == "write_file"'],
  ['server', 'the server’s name', 'server == "workspace"'],
  ['input', 'what the call is given; ask with has() for what may be absent', 'has(input.path) && input.path.startsWith("notes/")'],
  ['annotations', 'what the server claims of the tool', 'has(annotations.readOnlyHint) && annotations.readOnlyHint'],
  ['topic', 'id, title and model of the chat', 'topic.model.startsWith("ollama/")'],
  ['principal', 'whose message led to the call', 'principal == "owner"'],
]

const examples: readonly [string, string][] = [
  ['Notes may be written', 'server == "workspace" && tool == "write_file" && input.path.startsWith("notes/")'],
  ['Nothing hidden is touched', 'has(input.path) && input.path.matches("(^|/)\\\\.")'],
  ['More than a few recipients', 'tool == "send_mail" && has(input.to) && size(input.to) > 3'],
]

interface RuleFormProps {
  rule?: Rule
  onSaved(rule: Rule): void
  onCancel(): void
}

export function RuleForm({ rule, onSaved, onCancel }: RuleFormProps) {
  const [name, setName] = useState(rule?.name ?? '')
  const [verdict, setVerdict] = useState<Verdict>(rule?.verdict ?? 'ask')
  const [expression, setExpression] = useState(rule?.expression ?? '')
  const [reason, setReason] = useState(rule?.reason ?? '')
  const [shown, setShown] = useState<'try' | 'save'>()
  const [trial, setTrial] = useState<{ of: string; result: RuleTrial }>()
  const saving = useAction()
  const trying = useAction()
  const form = useRef<HTMLFormElement>(null)
  const area = useRef<HTMLTextAreaElement>(null)

  const own = new Map<string, string>()
  if (shown === 'save' && name.trim() === '') own.set('/name', 'A name is needed.')
  if (shown && expression.trim() === '') own.set('/expression', 'An expression is needed.')
  const refused = sortProblems(saving.error, fields, fieldOf)
  const untried = trying.error instanceof ApiError && trying.error.status === 422 ? explain(trying.error) : undefined
  const problem = (field: string) => own.get(field) ?? refused.fields.get(field) ?? (field === '/expression' ? untried : undefined)
  const key = JSON.stringify([verdict, expression])

  function wanting(what: 'try' | 'save'): boolean {
    setShown(what)
    const ok = expression.trim() !== '' && (what === 'try' || name.trim() !== '')
    if (!ok) requestAnimationFrame(() => form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus())
    return ok
  }
  function save() {
    if (!wanting('save')) return
    const full = { name: name.trim(), verdict, expression, reason: verdict === 'deny' ? reason.trim() : '' }
    saving.run(async () => {
      if (!rule) return onSaved(await settingsApi.createRule({ ...full, enabled: true }))
      const patch: RulePatch = {}
      if (full.name !== rule.name) patch.name = full.name
      if (full.verdict !== rule.verdict) patch.verdict = full.verdict
      if (full.expression !== rule.expression) patch.expression = full.expression
      if (full.reason !== (rule.reason ?? '')) patch.reason = full.reason
      onSaved(Object.keys(patch).length === 0 ? rule : await settingsApi.updateRule(rule.id, { ...patch, version: rule.version }))
    })
  }
  function insert(text: string) {
    saving.clear()
    setExpression((now) => (now.trim() === '' ? text : `${now.trimEnd()} && ${text}`))
    area.current?.focus()
  }

  return (
    <form
      ref={form}
      className="panel"
      noValidate
      aria-label={rule ? `Change ${rule.name}` : 'Add a rule'}
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <Field label="Name" note="It is named wherever the rule decides." problem={problem('/name')}>
        {(input) => <input {...input} value={name} maxLength={100} autoFocus autoComplete="off" placeholder="Notes may be written" onChange={(e) => setName(e.target.value)} />}
      </Field>
      <Radios legend="What it does" options={verdicts} value={verdict} onChange={setVerdict} problem={problem('/verdict')} />
      <Field label="When" note="An expression that gives true for the calls that are meant." problem={problem('/expression')}>
        {(input) => (
          <textarea
            {...input}
            ref={area}
            className="code-input"
            rows={Math.min(10, Math.max(3, expression.split('\n').length))}
            value={expression}
            maxLength={4000}
            spellCheck={false}
            autoCapitalize="off"
            dir="ltr"
            placeholder={'server == "workspace" && tool == "write_file"'}
            onChange={(e) => {
              setExpression(e.target.value)
              saving.clear()
              trying.clear()
            }}
          />
        )}
      </Field>
      <CheatSheet onInsert={insert} />
      {verdict === 'deny' && (
        <Field label={<>Reason <small>optional</small></>} note="The model and the person are told it." problem={problem('/reason')}>
          {(input) => <textarea {...input} rows={2} value={reason} maxLength={1000} onChange={(e) => setReason(e.target.value)} />}
        </Field>
      )}
      <div aria-live="polite">
        {trial && <TrialView result={trial.result} verdict={verdict} stale={trial.of !== key} />}
        {trying.error !== undefined && untried === undefined && (
          <p className="error">
            <Icon name="warning" /> It could not be tried. <Visible text={explain(trying.error)} />
          </p>
        )}
      </div>
      {refused.rest && (
        <p className="error" role="alert">
          <Icon name="warning" /> <Visible text={refused.rest} />
        </p>
      )}
      <div className="buttons">
        <button type="submit" className="primary" aria-disabled={saving.busy}>
          {saving.busy ? 'Saving…' : rule ? 'Save' : 'Add rule'}
        </button>
        <button
          type="button"
          aria-disabled={trying.busy}
          onClick={() => {
            if (!wanting('try')) return
            saving.clear()
            trying.run(async () => setTrial({ of: key, result: await settingsApi.tryRule(verdict, expression) }))
          }}
        >
          <Icon name="run" /> {trying.busy ? 'Trying…' : 'Try on past calls'}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  )
}

function CheatSheet({ onInsert }: { onInsert(text: string): void }) {
  const id = useId()
  return (
    <details className="legend cheat">
      <summary>
        <Icon name="chevron" className="line-open" /> What an expression can look at, and examples
      </summary>
      <div className="cheat-body">
        <dl>
          {looksAt.map(([name, what, example]) => (
            <div key={name}>
              <dt><code>{name}</code></dt>
              <dd>
                {what}
                <Insert text={example} onInsert={onInsert} />
              </dd>
            </div>
          ))}
        </dl>
        <h3 id={id}>Examples</h3>
        <ul aria-labelledby={id} className="plain">
          {examples.map(([name, text]) => (
            <li key={name}>
              {name}
              <Insert text={text} onInsert={onInsert} />
            </li>
          ))}
        </ul>
        <p className="note">
          The language is CEL: <code>==</code> <code>!=</code> <code>&lt;</code> <code>in</code> <code>&amp;&amp;</code> <code>||</code> <code>!</code>, and on texts <code>startsWith</code>, <code>endsWith</code>, <code>contains</code>, <code>matches</code>, <code>size</code>.
          Looking at a member that is not there fails, and a rule that fails asks: say <code>has(input.path)</code> first, or name the tool.
        </p>
      </div>
    </details>
  )
}

function Insert({ text, onInsert }: { text: string; onInsert(text: string): void }) {
  return (
    <button type="button" className="insert" title="Put it into the expression" onClick={() => onInsert(text)}>
      <code>{text}</code>
    </button>
  )
}

function TrialView({ result, verdict, stale }: { result: RuleTrial; verdict: Verdict; stale: boolean }) {
  const { matched, failed, changed, of, samples } = result
  const does = { allow: 'allowed', ask: 'asked for', deny: 'denied' }[verdict]
  return (
    <section className={stale ? 'rule-trial stale' : 'rule-trial'} aria-label="What the rule would have done">
      <p>
        {of === 0 ? (
          'There are no past calls to try it on yet.'
        ) : (
          <>
            <strong>It would have matched {matched} of the last {of} {of === 1 ? 'call' : 'calls'}</strong>
            {changed > 0 ? `, and ${changed} of them would have been ${does} where they were not.` : matched > 0 ? ', and changed nothing for them.' : '.'}
          </>
        )}
      </p>
      {failed > 0 && (
        <p className="warn-text">
          <Icon name="warning" /> On {failed} {failed === 1 ? 'call it cannot' : 'calls it cannot'} be evaluated: {failed === 1 ? 'that would have' : 'those would have'} been asked for.
        </p>
      )}
      {stale && <p className="note">The rule was changed since. Try it again.</p>}
      {samples.length > 0 && (
        <ul className="samples">
          {samples.map((s) => (
            <Sample key={`${s.anchorId} ${s.toolCallId}`} sample={s} />
          ))}
        </ul>
      )}
    </section>
  )
}

const was: Record<string, string> = { allow: 'was allowed', ask: 'was asked for', deny: 'was denied' }

function Sample({ sample }: { sample: TrialSample }) {
  return (
    <li className={sample.error ? 'failed' : ''}>
      <p>
        <code><Visible text={sample.toolName} /></code> {sample.inputText !== undefined && <code className="brief"><Visible text={brief(sample.inputText)} /></code>}
      </p>
      <p className="note">
        {was[sample.verdict]}{sample.rule && <> (<Visible text={sample.rule} />)</>} · <PageLink to={pathOf(sample.topicId)}><Visible text={sample.topicTitle.trim() || 'New topic'} /></PageLink>
      </p>
      {sample.error && (
        <p className="field-problem">
          <Icon name="warning" /> <Visible text={sample.error} />
        </p>
      )}
    </li>
  )
}

/** An input on one line, as much of it as fits. */
function brief(text: string): string {
  let one = text
  try {
    parse(text)
    one = text.replaceAll(/\s*\n\s*/g, ' ')
  } catch {
    // Then it is shown as it is.
  }
  return one.length > 140 ? `${one.slice(0, 140)}…` : one
}
