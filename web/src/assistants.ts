import { useEffect, useState } from 'react'
import { useStore } from 'zustand'
import { createStore } from 'zustand/vanilla'
import { api, type Assistant } from './api/client'
import { useFeed } from './feed'

/** The assistants as they were last read; undefined before that. */
const known = createStore<{ list: Assistant[] | undefined }>()(() => ({ list: undefined }))
let readAt = -1

/** The assistants, by name, read again when they change; undefined while nothing is known. */
export function useAssistants(): Assistant[] | undefined {
  const feed = useFeed()
  const stale = useStore(feed.store, (s) => s.settings.assistants)
  const { list } = useStore(known)
  const [, setFailed] = useState(0)
  useEffect(() => {
    if (readAt === stale && known.getState().list) return
    readAt = stale
    api.assistants().then(
      (assistants) => known.setState({ list: assistants }),
      // Without them a topic starts as it always did. The next change, or the next page, asks again.
      () => {
        readAt = -1
        setFailed((n) => n + 1)
      },
    )
  }, [stale])
  return list
}

/** One assistant, 'gone' if it was deleted, or undefined while that is not known. */
export function useAssistant(id: string): Assistant | 'gone' | undefined {
  const list = useAssistants()
  return list === undefined ? undefined : (list.find((a) => a.id === id) ?? 'gone')
}
