import { useState } from 'react'
import { api, explain } from '../api/client'
import type { Detail } from '../live/reduce'
import { isText } from '../live/types'
import { Icon } from '../ui/Icon'

/** Messages that wait for their turn. */
export function Queue({ topicId, detail, busy }: { topicId: string; detail: Detail; busy: boolean }) {
  const [error, setError] = useState<string>()
  const [working, setWorking] = useState<string>()
  if (detail.queued.length === 0) return null

  async function act(id: string, call: Promise<unknown>, what: string) {
    setWorking(id)
    setError(undefined)
    try {
      await call
    } catch (e) {
      setError(`${what} ${explain(e)}`)
    } finally {
      setWorking(undefined)
    }
  }
  return (
    <div className="queue">
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
      <ul aria-label="Queued messages">
        {detail.queued.map((id, i) => {
          const text = detail.held[id]?.message.parts.map((p) => (isText(p) ? p.text : '')).join(' ') ?? ''
          return (
            <li key={id}>
              <span className="chip quiet">
                <Icon name="queue" /> Queued
              </span>
              <span className="queued-text">{text}</span>
              {!busy && i === 0 && (
                <button type="button" aria-disabled={working === id} onClick={() => void act(id, api.sendQueued(topicId, id), 'The message was not sent.')}>
                  Send now
                </button>
              )}
              <button
                type="button"
                className="quiet icon-button"
                aria-label={`Remove the queued message “${text.slice(0, 40)}”`}
                aria-disabled={working === id}
                onClick={() => void act(id, api.remove(topicId, id), 'The message was not removed.')}
              >
                <Icon name="cross" />
              </button>
            </li>
          )
        })}
      </ul>
      {!busy && <p className="note">The turn before ended early, so these wait for you to send or remove them.</p>}
    </div>
  )
}
