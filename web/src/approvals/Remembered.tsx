import { useRef, useState } from 'react'
import { api, explain } from '../api/client'
import { changeSwitches, choiceOf, withChoice } from '../api/switches'
import type { ToolPart } from '../live/types'
import { settingsPath } from '../router'
import { Visible } from '../text/Visible'
import { Icon } from '../ui/Icon'
import { PageLink } from '../ui/PageLink'
import { toolNames } from './words'

/** Below a call that was allowed for good: who did it, and the way back. */
export function Remembered({ part, me }: { part: ToolPart; me: string | undefined }) {
  const [did, setDid] = useState<'asks' | 'runs' | 'asked'>()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  const running = useRef(false)
  const { serverId } = part.toolMetadata ?? {}
  const { server, tool } = toolNames(part)
  const by = part.approval?.decidedBy
  async function change(approve: boolean) {
    if (running.current || serverId === undefined) return
    running.current = true
    setBusy(true)
    setError(undefined)
    try {
      const now = await api.server(serverId)
      if (!approve && choiceOf(now, tool) !== 'auto-approve') setDid('asked')
      else {
        await changeSwitches(now, (lists) => withChoice(lists, tool, approve ? 'auto-approve' : 'ask'))
        setDid(approve ? 'runs' : 'asks')
      }
    } catch (e) {
      setError(`Nothing was changed. ${explain(e)}`)
    } finally {
      running.current = false
      setBusy(false)
    }
  }
  return (
    <div className="line-note">
      <Icon name="always" />
      <span className="line-note-words" role="status">
        {did === 'asks' ? (
          <><Visible text={tool} /> is asked for again from now on.</>
        ) : did === 'asked' ? (
          <><Visible text={tool} /> was not allowed for good any more; nothing had to be changed.</>
        ) : (
          <>{by === undefined ? 'Somebody' : by === me ? 'You' : <Visible text={by} />} allowed <Visible text={tool} /> for good{did === 'runs' ? ' again' : ', in every chat'}.</>
        )}
      </span>
      {serverId !== undefined && (
        <span className="line-note-acts">
          {did !== 'asked' && (
            <button type="button" className="quiet" aria-disabled={busy} onClick={() => void change(did === 'asks')}>
              {did === 'asks' ? 'Undo' : 'Ask again from now on'}
            </button>
          )}
          <PageLink to={settingsPath('servers', serverId)}>
            Settings of <Visible text={server ?? serverId} />
          </PageLink>
        </span>
      )}
      {error && (
        <span className="error" role="alert">
          {error}
        </span>
      )}
    </div>
  )
}
