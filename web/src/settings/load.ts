import { useCallback, useEffect, useRef, useState } from 'react'
import { useStore } from 'zustand'
import { useFeed } from '../feed'
import type { SettingsKind } from '../live/types'

export interface Loaded<T> {
  /** As it was read last; undefined before that. */
  data: T | undefined
  /** Why it could not be read, the last time. */
  error: unknown
  reload(): void
  /** Takes in what an answer to a change has brought. */
  set(data: T): void
}

/**
 * Reads settings, and reads them again whenever they may have changed. One
 * request runs at a time, however often that is; an answer that was on its way
 * while a newer one was taken in is dropped.
 */
export function useLoaded<T>(kind: SettingsKind, key: string, load: () => Promise<T>): Loaded<T> {
  const feed = useFeed()
  const stale = useStore(feed.store, (s) => s.settings[kind])
  const [state, setState] = useState<{ key: string; data?: T; error?: unknown }>({ key })
  const how = useRef(load)
  how.current = load
  const shown = useRef(key)
  const turn = useRef(0)
  const busy = useRef(false)
  const again = useRef(false)

  const read = useCallback(() => {
    if (busy.current) {
      again.current = true
      return
    }
    busy.current = true
    const mine = ++turn.current
    const of = shown.current
    how
      .current()
      .then(
        (data) => mine === turn.current && setState({ key: of, data }),
        (error: unknown) => mine === turn.current && setState((s) => (s.key === of ? { ...s, error } : { key: of, error })),
      )
      .finally(() => {
        busy.current = false
        if (!again.current) return
        again.current = false
        read()
      })
  }, [])
  useEffect(() => {
    if (shown.current !== key) turn.current++
    shown.current = key
    read()
  }, [key, stale, read])

  const set = useCallback((data: T) => {
    turn.current++
    if (busy.current) again.current = true
    setState({ key: shown.current, data })
  }, [])
  const own = state.key === key
  return { data: own ? state.data : undefined, error: own ? state.error : undefined, reload: read, set }
}
