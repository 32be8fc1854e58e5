import { type ComponentType, useEffect, useMemo, useRef, useState } from 'react'
import { useStore } from 'zustand'
import { api, ApiError, explain, type Session } from './api/client'
import { useCardShortcut } from './approvals/Card'
import { toolNames } from './approvals/words'
import { useAssistant } from './assistants'
import { useFeed } from './feed'
import { NewTopic } from './NewTopic'
import { type ToolPart, waitingIn } from './live/types'
import { navigate, settingsOf, settingsPath, topicOf, usePath } from './router'
import type { SettingsProps } from './settings/Settings'
import { SignIn } from './SignIn'
import { visibleText } from './text/visible'
import { Visible } from './text/Visible'
import { openQuestions, pendingParts } from './thread/pending'
import { Thread } from './thread/Thread'
import { Sidebar, titleOf } from './topics/Sidebar'
import { StatusChip } from './topics/status'
import { Icon } from './ui/Icon'

type Who = 'unknown' | 'nobody' | Session

export function App() {
  const feed = useFeed()
  const link = useStore(feed.store, (s) => s.link)
  const [who, setWho] = useState<Who>('unknown')
  const [error, setError] = useState<string>()
  const [attempt, setAttempt] = useState(0)

  useEffect(() => {
    let alive = true
    api.session().then(
      (session) => alive && (setWho(session), setError(undefined)),
      (e: unknown) => {
        if (!alive) return
        if (e instanceof ApiError && e.status === 401) setWho('nobody')
        else setError(explain(e))
      },
    )
    return () => {
      alive = false
    }
  }, [attempt])
  // The stream is the first to notice that a session has ended, or that the server is back.
  useEffect(() => {
    if (link === 'signed-out') setWho('nobody')
    if (link === 'live') setAttempt((n) => n + 1)
  }, [link])

  if (who === 'nobody') {
    return (
      <SignIn
        onSignedIn={(session) => {
          setWho(session)
          feed.refresh()
        }}
      />
    )
  }
  return (
    <Page
      me={who === 'unknown' ? undefined : who.principal.name}
      problem={who === 'unknown' ? error : undefined}
      onSignOut={() => {
        api.signOut().then(
          () => {
            setWho('nobody')
            feed.refresh()
          },
          (e: unknown) => setError(explain(e)),
        )
      }}
    />
  )
}

function Page({ me, problem, onSignOut }: { me: string | undefined; problem: string | undefined; onSignOut(): void }) {
  const feed = useFeed()
  const path = usePath()
  const topicId = topicOf(path)
  const settings = settingsOf(path)
  const [drawer, setDrawer] = useState(false)
  const main = useRef<HTMLElement>(null)
  const side = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (drawer) side.current?.querySelector<HTMLElement>('a')?.focus()
  }, [drawer])
  useEffect(() => feed.watch(topicId), [feed, topicId])
  useCardShortcut()
  useSettingsShortcut()
  useTitle(topicId, settings !== undefined)

  return (
    <div className={`page ${drawer ? 'drawer-open' : ''}`}>
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {settings ? 'Skip to the settings' : 'Skip to the conversation'}
      </a>
      <div
        ref={side}
        className="sidebar-box"
        onKeyDown={(event) => {
          if (event.key !== 'Escape' || !drawer) return
          setDrawer(false)
          // Not before the page behind it may take the focus again.
          requestAnimationFrame(() => main.current?.querySelector<HTMLElement>('.menu-button')?.focus())
        }}
      >
        <Sidebar current={topicId} inSettings={settings !== undefined} me={me} onSignOut={onSignOut} onChosen={() => setDrawer(false)} />
      </div>
      <button type="button" className="scrim" aria-label="Close the list of topics" tabIndex={drawer ? 0 : -1} onClick={() => setDrawer(false)} />
      <main id="main" ref={main} tabIndex={-1} inert={drawer}>
        <LinkBanner problem={problem} />
        {settings ? (
          <LazySettings place={settings} me={me} onMenu={() => setDrawer(true)} />
        ) : topicId === undefined ? (
          <NewTopic onMenu={() => setDrawer(true)} />
        ) : (
          <TopicPage topicId={topicId} me={me} onMenu={() => setDrawer(true)} />
        )}
      </main>
      <Announcer topicId={topicId} />
    </div>
  )
}

export function MenuButton({ onMenu }: { onMenu(): void }) {
  const feed = useFeed()
  const waiting = useStore(feed.store, (s) => Object.values(s.statuses).reduce((n, st) => n + waitingIn(st), 0))
  return (
    <button type="button" className="icon-button menu-button" aria-label={waiting > 0 ? `Topics; ${waiting} wait for you` : 'Topics'} onClick={onMenu}>
      <Icon name="menu" />
      {waiting > 0 && <span className="badge">{waiting}</span>}
    </button>
  )
}

function TopicPage({ topicId, me, onMenu }: { topicId: string; me: string | undefined; onMenu(): void }) {
  const feed = useFeed()
  const topic = useStore(feed.store, (s) => s.topics[topicId])
  const detail = useStore(feed.store, (s) => s.details[topicId])
  const status = useStore(feed.store, (s) => s.statuses[topicId])
  const gone = useStore(feed.store, (s) => s.gone[topicId])
  return (
    <>
      <header className="topic-head">
        <MenuButton onMenu={onMenu} />
        <div className="topic-names">
          <h1>{gone ? 'Not found' : topic ? <Visible text={titleOf(topic)} /> : 'Assent'}</h1>
          {!gone && topic?.assistantId !== undefined && <AssistantName id={topic.assistantId} />}
        </div>
        <StatusChip status={gone ? undefined : status} />
      </header>
      {gone ? (
        <div className="centre">
          <h2>This topic is not here</h2>
          <p>It was deleted, or the address is wrong.</p>
          <button type="button" className="primary" onClick={() => navigate('/')}>
            New topic
          </button>
        </div>
      ) : topic && detail ? (
        <Thread topic={topic} detail={detail} status={status} me={me} />
      ) : (
        <p className="centre note" role="status">
          Loading…
        </p>
      )}
    </>
  )
}

/** Says when what is on the page may be out of date. */
function LinkBanner({ problem }: { problem: string | undefined }) {
  const feed = useFeed()
  const link = useStore(feed.store, (s) => s.link)
  const wasLive = useStore(feed.store, (s) => s.wasLive)
  const lost = link === 'offline' || (link === 'connecting' && problem !== undefined)
  return (
    <div role="status" aria-live="polite">
      {lost && (
        <div className="banner">
          <Icon name="warning" />
          <span>{wasLive ? 'Connection lost. What you see may be out of date; trying again.' : (problem ?? 'The server does not answer; trying again.')}</span>
          <button type="button" onClick={() => feed.wake()}>
            Try now
          </button>
        </div>
      )}
    </div>
  )
}

/** Tells a screen reader, when it has finished speaking, that a decision is needed. */
function Announcer({ topicId }: { topicId: string | undefined }) {
  const feed = useFeed()
  const detail = useStore(feed.store, (s) => (topicId === undefined ? undefined : s.details[topicId]))
  const elsewhere = useStore(feed.store, (s) =>
    Object.values(s.statuses).reduce((n, st) => (st.topicId === topicId ? n : n + waitingIn(st)), 0),
  )
  const pending = useMemo(() => (detail ? pendingParts(detail).map((p) => ({ id: p.approval!.id, words: titleOfCard(p) })) : []), [detail])
  const asked = useMemo(() => (detail ? openQuestions(detail).map((q) => ({ id: q.question.id, words: visibleText(q.question.message) })) : []), [detail])
  const ids = [...pending, ...asked].map((p) => p.id).join()
  const known = useRef<{ topicId: string | undefined; ids: Set<string>; elsewhere: number }>({ topicId: undefined, ids: new Set(), elsewhere: 0 })
  const [words, setWords] = useState('')
  useEffect(() => {
    const before = known.current.topicId === topicId ? known.current : { ids: new Set<string>(), elsewhere }
    const fresh = (list: { id: string; words: string }[]) => list.filter((p) => !before.ids.has(p.id))
    const cards = fresh(pending).map((p) => p.words)
    const news = [
      cards.length > 0 ? `${pending.length === 1 ? 'A decision is needed' : `${pending.length} decisions are needed`}: ${cards.join(', ')}.` : '',
      ...fresh(asked).map((q) => `A tool asks you: ${q.words.slice(0, 300)}.`),
    ].filter(Boolean)
    if (news.length > 0) setWords(`${news.join(' ')} Alt+A goes there.`)
    else if (elsewhere > before.elsewhere) setWords('You are needed in another topic.')
    known.current = { topicId, ids: new Set([...pending, ...asked].map((p) => p.id)), elsewhere }
    // The ids stand for the parts, which are new objects with every change.
  }, [topicId, ids, elsewhere])
  return (
    <div className="off-screen" aria-live="polite" role="status" data-announcer>
      {words}
    </div>
  )
}

function titleOfCard(part: ToolPart): string {
  return `${visibleText(toolNames(part).title)}${part.toolMetadata?.changed ? ' (asked again)' : ''}`
}

/** Names the assistant that a topic started from. */
function AssistantName({ id }: { id: string }) {
  const assistant = useAssistant(id)
  if (!assistant) return null
  return (
    <p className="assistant-name" title="The assistant that this topic started from">
      <span className="off-screen">Assistant: </span>
      <Icon name="person" /> {assistant === 'gone' ? 'a deleted assistant' : <Visible text={assistant.name} />}
    </p>
  )
}

/** Ctrl+, goes to the settings, as in most programs. */
function useSettingsShortcut(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== ',' || !(event.ctrlKey || event.metaKey) || event.altKey || event.repeat || document.querySelector('dialog[open]')) return
      event.preventDefault()
      navigate(settingsPath('servers'))
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
}

let loaded: ComponentType<SettingsProps> | undefined

/** The settings are fetched when they are wanted first: whoever only talks does not wait for them. */
function LazySettings(props: SettingsProps) {
  const [Settings, setSettings] = useState(() => loaded)
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    if (Settings) return
    let alive = true
    import('./settings/Settings').then(
      (module) => {
        loaded = module.Settings
        if (alive) setSettings(() => module.Settings)
      },
      () => alive && setFailed(true),
    )
    return () => {
      alive = false
    }
  }, [Settings])
  if (Settings) return <Settings {...props} />
  return (
    <>
      <header className="topic-head">
        <MenuButton onMenu={props.onMenu} />
        <h1>Settings</h1>
      </header>
      {failed ? (
        <div className="centre" role="alert">
          <p>The settings could not be loaded. The server does not answer, or it was upgraded since this page was opened.</p>
          <button type="button" className="primary" onClick={() => location.reload()}>
            Reload the page
          </button>
        </div>
      ) : (
        <p className="centre note" role="status">
          Loading…
        </p>
      )}
    </>
  )
}

function useTitle(topicId: string | undefined, inSettings: boolean): void {
  const feed = useFeed()
  useEffect(() => {
    // Straight from the store: a hidden tab draws nothing, and its title is what is seen.
    const set = (s = feed.store.getState()) => {
      const waiting = Object.values(s.statuses).reduce((n, st) => n + waitingIn(st), 0)
      const cards = Object.values(s.statuses).some((st) => st.pendingApprovals > 0)
      const topic = topicId === undefined ? undefined : s.topics[topicId]
      const name = inSettings ? 'Settings · Assent' : topic ? `${visibleText(titleOf(topic))} · Assent` : 'Assent'
      const title = waiting > 0 ? `(${waiting}) ${cards ? 'Approve?' : 'Answer?'} ${name}` : name
      if (document.title !== title) document.title = title
    }
    set()
    return feed.store.subscribe(set)
  }, [feed, topicId, inSettings])
}
