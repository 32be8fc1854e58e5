import { useRef, useState } from 'react'
import { useStore } from 'zustand'
import { MenuButton } from './App'
import { useAssistants } from './assistants'
import { api, explain } from './api/client'
import { useFeed } from './feed'
import { navigate, pathOf } from './router'
import { visibleText } from './text/visible'
import { carryFocus, Composer, storeDraft } from './thread/Composer'
import { ModelPicker, useModels } from './thread/ModelPicker'
import { Icon } from './ui/Icon'
import { Visible } from './text/Visible'

const examples = [
  ['list files', 'only reads, so it runs at once'],
  ['write hello to notes.txt', 'asks you first'],
  ['write a.txt and b.txt', 'two cards in one step'],
  ['run a slow task for 5 seconds', 'shows progress'],
  ['show markdown', 'text only'],
] as const

/** The place of a topic that does not exist yet: its first message makes it. */
export function NewTopic({ onMenu }: { onMenu(): void }) {
  const feed = useFeed()
  const empty = useStore(feed.store, (s) => s.listed && Object.keys(s.topics).length === 0)
  const [model, setModel] = useState<string>()
  const { models } = useModels()
  const assistants = useAssistants() ?? []
  const [assistantId, setAssistantId] = useState<string>()
  // One that was deleted since is not chosen any more.
  const assistant = assistants.find((a) => a.id === assistantId)
  // The examples are for the demo model: another one has other tools and ways.
  const chosen = model ?? assistant?.model
  const demo = chosen ? chosen.startsWith('demo/') : (models ?? []).every((m) => m.name.startsWith('demo/'))
  const [filled, setFilled] = useState(0)
  // A topic whose first message did not get through is used by the next attempt.
  const made = useRef<{ id: string; of: string }>(undefined)

  async function send(id: string, text: string) {
    try {
      const of = JSON.stringify([model, assistant?.id])
      if (made.current?.of !== of) made.current = { id: (await api.createTopic(model, assistant?.id)).id, of }
      const topicId = made.current.id
      await api.send(topicId, id, text)
      carryFocus()
      navigate(pathOf(topicId))
    } catch (e) {
      throw new Error(`The message was not sent. ${explain(e)}`)
    }
  }
  return (
    <>
      <header className="topic-head">
        <MenuButton onMenu={onMenu} />
        <h1>New topic</h1>
      </header>
      <div className="thread">
        <div className="welcome">
          <h2>{empty ? 'Welcome to Assent' : 'What is to be done?'}</h2>
          <p>The model can use tools. What only reads may run at once; what changes something waits here until you approve it, also over a reload or a restart.</p>
          {assistant && (
            <p className="assistant-about">
              <Icon name="person" /> <strong><Visible text={assistant.name} /></strong>
              {assistant.description && <>: <Visible text={assistant.description} /></>}
            </p>
          )}
          {demo && (
            <>
              <h3>Some requests that the demo model understands</h3>
              <ul className="examples">
                {examples.map(([text, what]) => (
                  <li key={text}>
                    <button
                      type="button"
                      onClick={() => {
                        storeDraft('new', text)
                        setFilled((n) => n + 1)
                      }}
                    >
                      <span>{text}</span>
                      <small>{what}</small>
                    </button>
                  </li>
                ))}
              </ul>
            </>
          )}
        </div>
      </div>
      <div className="dock">
        <Composer key={filled} place="new" busy={false} autoFocus onSend={send}>
          {assistants.length > 0 && (
            <label className="model assistant">
              <span className="off-screen">Assistant</span>
              <select
                value={assistant?.id ?? ''}
                onChange={(event) => {
                  setAssistantId(event.target.value === '' ? undefined : event.target.value)
                  setModel(undefined)
                }}
              >
                <option value="">No assistant</option>
                {assistants.map((a) => (
                  <option key={a.id} value={a.id}>
                    {visibleText(a.name)}
                  </option>
                ))}
              </select>
            </label>
          )}
          <ModelPicker value={model ?? assistant?.model} onChange={setModel} />
        </Composer>
      </div>
    </>
  )
}
