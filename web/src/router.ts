import { useSyncExternalStore } from 'react'

/** The page has two places: a new topic at `/`, and a topic at `/t/{topicId}`. */
export function topicOf(path: string): string | undefined {
  const match = /^\/t\/([^/]+)\/?$/.exec(path)
  if (!match) return undefined
  try {
    return decodeURIComponent(match[1]!)
  } catch {
    return undefined
  }
}

export function pathOf(topicId: string | undefined): string {
  return topicId === undefined ? '/' : `/t/${encodeURIComponent(topicId)}`
}

const moved = 'assent:moved'

export function navigate(path: string, replace = false): void {
  if (path === location.pathname) return
  history[replace ? 'replaceState' : 'pushState'](null, '', path)
  window.dispatchEvent(new Event(moved))
}

function subscribe(listener: () => void): () => void {
  window.addEventListener('popstate', listener)
  window.addEventListener(moved, listener)
  return () => {
    window.removeEventListener('popstate', listener)
    window.removeEventListener(moved, listener)
  }
}

export function useTopicId(): string | undefined {
  return topicOf(useSyncExternalStore(subscribe, () => location.pathname))
}
