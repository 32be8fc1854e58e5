import { useRef, useState } from 'react'
import { ApiError, explain } from '../api/client'
import { settingsPath } from '../router'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { type Imported, settingsApi } from './api'
import { Field, useAction } from './parts'
import { namesInFile } from './serverForm'
import { list } from './words'

const largest = 1 << 20

/** Takes in the settings file that desktop programs have. */
export function Import({ onImported, onClose }: { onImported(): void; onClose(): void }) {
  const [text, setText] = useState('')
  const [skip, setSkip] = useState(false)
  const [over, setOver] = useState(false)
  const [fileError, setFileError] = useState<string>()
  const [done, setDone] = useState<Imported>()
  const [shown, setShown] = useState(false)
  const sending = useAction()
  const picker = useRef<HTMLInputElement>(null)
  const found = text.trim() === '' ? { names: [] } : namesInFile(text)

  async function take(file: File | undefined) {
    if (!file) return
    setFileError(undefined)
    if (file.size > largest) return setFileError('This file is larger than a settings file can be (1 MiB).')
    try {
      setText(await file.text())
      sending.clear()
    } catch {
      setFileError('The file could not be read.')
    }
  }

  if (done) {
    return (
      <div className="panel" role="status">
        <p>
          <Icon name="check" />{' '}
          {done.servers.length === 0 ? 'Nothing was added.' : `Added ${done.servers.length === 1 ? 'one server' : `${done.servers.length} servers`}. All their tools ask until you say otherwise:`}
        </p>
        {done.servers.length > 0 && (
          <ul className="plain">
            {done.servers.map((s) => (
              <li key={s.id}>
                <PageLink to={settingsPath('servers', s.id)}><Visible text={s.name} /></PageLink>
              </li>
            ))}
          </ul>
        )}
        {done.skipped.length > 0 && <p>Left out, since there are servers of these names already: <Visible text={list(done.skipped)} />.</p>}
        <div className="buttons">
          <button type="button" autoFocus onClick={onClose}>
            Close
          </button>
        </div>
      </div>
    )
  }
  const problem = fileError ?? (shown || found.names.length === 0 ? found.error : undefined) ?? (shown && text.trim() === '' ? 'Paste the file, or choose it.' : undefined)
  return (
    <form
      className={`panel ${over ? 'over' : ''}`}
      aria-label="Import tool servers"
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        void take(event.dataTransfer.files[0])
      }}
      onSubmit={(event) => {
        event.preventDefault()
        setShown(true)
        if (text.trim() === '' || found.error) return
        sending.run(async () => {
          setDone(await settingsApi.importServers(text, skip))
          onImported()
        })
      }}
    >
      <Field
        label="Settings file"
        problem={problem}
        note={
          found.names.length > 0 ? (
            <>Servers in it: <strong><Visible text={list(found.names)} /></strong></>
          ) : (
            <>The JSON with <code>mcpServers</code> that desktop programs keep. Paste it, or drop the file here. Comments are not allowed in it.</>
          )
        }
      >
        {(input) => (
          <textarea {...input} className="code-input" rows={8} value={text} autoFocus spellCheck={false} autoCapitalize="off" dir="ltr" placeholder={'{\n  "mcpServers": {\n    "tickets": { "command": "npx", "args": ["-y", "@example/tickets-mcp"] }\n  }\n}'} onChange={(e) => (setText(e.target.value), sending.clear())} />
        )}
      </Field>
      <label className="check">
        <input type="checkbox" checked={skip} onChange={(e) => setSkip(e.target.checked)} /> Leave out servers whose names are taken already
      </label>
      {sending.error !== undefined && (
        <div className="error" role="alert">
          <p>
            <Icon name="warning" /> Nothing was added. <Visible text={explain(sending.error)} />
          </p>
          {sending.error instanceof ApiError && sending.error.problem.errors && (
            <ul>
              {sending.error.problem.errors.map((e, i) => (
                <li key={i}><code><Visible text={e.pointer ?? ''} /></code> <Visible text={e.message ?? ''} /></li>
              ))}
            </ul>
          )}
        </div>
      )}
      <div className="buttons">
        <button type="submit" className="primary" aria-disabled={sending.busy}>
          {sending.busy ? 'Importing…' : 'Import'}
        </button>
        <button type="button" onClick={() => picker.current?.click()}>
          <Icon name="upload" /> Choose a file
        </button>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
      <input ref={picker} type="file" hidden accept=".json,application/json" onChange={(e) => (void take(e.target.files?.[0]), (e.target.value = ''))} />
    </form>
  )
}
