import { useMemo, useRef, useState } from 'react'
import { useStore } from 'zustand'
import { api, explain } from '../api/client'
import { useFeed } from '../feed'
import type { Status, Topic } from '../live/types'
import { navigate, pathOf, settingsPath } from '../router'
import { Visible } from '../text/Visible'
import { Dialog } from '../ui/Dialog'
import { Icon } from '../ui/Icon'
import { Menu } from '../ui/Menu'
import { PageLink } from '../ui/PageLink'
import { type Theme, useTheme } from '../ui/theme'
import { shortTime, useNow } from '../ui/time'
import { StatusChip } from './status'

interface SidebarProps {
  current: string | undefined
  /** Whether the settings are shown, and not a conversation. */
  inSettings: boolean
  me: string | undefined
  onSignOut(): void
  /** A place was chosen: a drawer can close. */
  onChosen(): void
}

export function titleOf(topic: Topic | undefined): string {
  return topic?.title.trim() || 'New topic'
}

type Statuses = Readonly<Record<string, Status>>

/** When something happened in a topic last: it changed, or a turn of it was done. */
function changedAt(topic: Topic, statuses: Statuses): string {
  const done = statuses[topic.id]?.lastCompletedAt
  return done !== undefined && Date.parse(done) > Date.parse(topic.updatedAt) ? done : topic.updatedAt
}

export function newestFirst(topics: readonly Topic[], statuses: Statuses): Topic[] {
  const time = new Map(topics.map((t) => [t.id, Date.parse(changedAt(t, statuses))]))
  return topics.toSorted((a, b) => time.get(b.id)! - time.get(a.id)! || (a.id < b.id ? 1 : -1))
}

export function Sidebar({ current, inSettings, me, onSignOut, onChosen }: SidebarProps) {
  const feed = useFeed()
  const topics = useStore(feed.store, (s) => s.topics)
  const statuses = useStore(feed.store, (s) => s.statuses)
  const listed = useStore(feed.store, (s) => s.listed)
  const complete = useStore(feed.store, (s) => s.complete)
  const [renaming, setRenaming] = useState<string>()
  const [deleting, setDeleting] = useState<Topic>()
  const [error, setError] = useState<string>()
  const now = useNow()
  const list = useMemo(() => newestFirst(Object.values(topics), statuses), [topics, statuses])

  async function loadAll() {
    setError(undefined)
    try {
      let cursor: string | undefined
      do {
        const page = await api.topicsPage(cursor)
        feed.addTopics(page.topics)
        cursor = page.nextCursor
      } while (cursor !== undefined)
      feed.listComplete()
    } catch (e) {
      setError(explain(e))
    }
  }

  return (
    <nav className="sidebar" aria-label="Topics">
      <div className="sidebar-head">
        <h2>Topics</h2>
        <a
          className="button"
          href="/"
          aria-current={current === undefined && !inSettings ? 'page' : undefined}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return
            event.preventDefault()
            navigate('/')
            onChosen()
          }}
        >
          <Icon name="plus" /> New topic
        </a>
      </div>
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
      {listed && list.length === 0 && <p className="note sidebar-empty">No topics yet. Write a message, and the first one begins.</p>}
      <ul className="topics">
        {list.map((topic) => (
          <li key={topic.id} className={topic.id === current ? 'current' : ''}>
            {renaming === topic.id ? (
              <Rename topic={topic} onError={setError} onDone={() => setRenaming(undefined)} />
            ) : (
              <>
                <a
                  href={pathOf(topic.id)}
                  aria-current={topic.id === current ? 'page' : undefined}
                  onClick={(event) => {
                    if (event.ctrlKey || event.metaKey || event.shiftKey) return
                    event.preventDefault()
                    navigate(pathOf(topic.id))
                    onChosen()
                  }}
                >
                  <span className="topic-title"><Visible text={titleOf(topic)} /></span>
                  <span className="topic-line">
                    <StatusChip status={statuses[topic.id]} />
                    <time dateTime={changedAt(topic, statuses)}>{shortTime(changedAt(topic, statuses), now)}</time>
                  </span>
                </a>
                <Menu
                  label={`More for ${titleOf(topic)}`}
                  items={[
                    { icon: 'pencil', label: 'Rename', act: () => setRenaming(topic.id) },
                    { icon: 'trash', label: 'Delete…', act: () => setDeleting(topic) },
                  ]}
                />
              </>
            )}
          </li>
        ))}
      </ul>
      {!complete && (
        <button type="button" className="quiet" onClick={() => void loadAll()}>
          Show all topics
        </button>
      )}
      <SidebarFoot me={me} inSettings={inSettings} onSignOut={onSignOut} onChosen={onChosen} />
      {deleting && <DeleteTopic topic={deleting} current={current} onClose={() => setDeleting(undefined)} />}
    </nav>
  )
}

function SidebarFoot({ me, inSettings, onSignOut, onChosen }: Pick<SidebarProps, 'me' | 'inSettings' | 'onSignOut' | 'onChosen'>) {
  const [theme, setTheme] = useTheme()
  const next: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' }
  const words: Record<Theme, string> = { auto: 'as the system', light: 'light', dark: 'dark' }
  const icons = { auto: 'auto', light: 'sun', dark: 'moon' } as const
  return (
    <div className="sidebar-foot">
      <span className="me">{me && <Visible text={me} />}</span>
      <a className="licences" href="/licenses.txt" target="_blank" rel="noopener">
        Licences
      </a>
      <PageLink to={settingsPath('servers')} className="button quiet icon-button" current={inSettings} label="Settings" onGo={onChosen}>
        <Icon name="sliders" />
      </PageLink>
      <button type="button" className="quiet icon-button" onClick={() => setTheme(next[theme])} aria-label={`Colours: ${words[theme]}. Change`} title={`Colours: ${words[theme]}`}>
        <Icon name={icons[theme]} />
      </button>
      <button type="button" className="quiet icon-button" onClick={onSignOut} aria-label="Sign out" title="Sign out">
        <Icon name="exit" />
      </button>
    </div>
  )
}

function Rename({ topic, onDone, onError }: { topic: Topic; onDone(): void; onError(text: string | undefined): void }) {
  const [title, setTitle] = useState(topic.title)
  const finished = useRef(false)
  async function save() {
    if (finished.current) return
    finished.current = true
    onDone()
    const wanted = title.trim()
    if (wanted === '' || wanted === topic.title) return
    try {
      onError(undefined)
      await api.updateTopic(topic.id, { title: wanted })
    } catch (e) {
      onError(`The topic was not renamed. ${explain(e)}`)
    }
  }
  return (
    <input
      className="rename"
      aria-label="Title of the topic"
      value={title}
      maxLength={200}
      autoFocus
      onFocus={(event) => event.target.select()}
      onChange={(event) => setTitle(event.target.value)}
      onBlur={() => void save()}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && !event.nativeEvent.isComposing) void save()
        if (event.key === 'Escape') {
          finished.current = true
          onDone()
        }
      }}
    />
  )
}

function DeleteTopic({ topic, current, onClose }: { topic: Topic; current: string | undefined; onClose(): void }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  return (
    <Dialog
      title="Delete this topic?"
      confirm={busy ? 'Deleting…' : 'Delete'}
      tone="danger"
      busy={busy}
      error={error}
      onClose={onClose}
      onConfirm={() => {
        setBusy(true)
        setError(undefined)
        api.deleteTopic(topic.id).then(
          () => {
            if (topic.id === current) navigate('/')
            onClose()
          },
          (e: unknown) => {
            setBusy(false)
            setError(explain(e))
          },
        )
      }}
    >
      <p>
        “<Visible text={titleOf(topic)} />” and all its messages go for good. What runs in it is stopped, and what waits for a decision is closed without being run.
      </p>
    </Dialog>
  )
}
