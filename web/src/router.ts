import { useSyncExternalStore } from 'react'

/** The page has three places: a new topic at `/`, a topic at `/t/{topicId}`, and the settings below `/settings`. */
export function topicOf(path: string): string | undefined {
  const match = /^\/t\/([^/]+)\/?$/.exec(path)
  return match ? decoded(match[1]!) : undefined
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

export const sections = ['servers', 'rules', 'assistants'] as const
export type Section = (typeof sections)[number]

/** A place in the settings. `missing` is one that there is not. */
export interface SettingsPlace {
  section: Section | 'missing'
  serverId?: string
}

export function settingsOf(path: string): SettingsPlace | undefined {
  const [root, section = 'servers', id, ...rest] = path.replace(/^\//, '').replace(/\/$/, '').split('/')
  if (root !== 'settings') return undefined
  if (!(sections as readonly string[]).includes(section) || rest.length > 0) return { section: 'missing' }
  if (id === undefined) return { section: section as Section }
  const serverId = decoded(id)
  return section === 'servers' && serverId !== undefined ? { section, serverId } : { section: 'missing' }
}

export function settingsPath(section: Section, serverId?: string): string {
  return `/settings/${section}${serverId === undefined ? '' : `/${encodeURIComponent(serverId)}`}`
}

export function pathOf(topicId: string | undefined): string {
  return topicId === undefined ? '/' : `/t/${encodeURIComponent(topicId)}`
}

const moved = 'assent:moved'
let conversation = '/'

/** Where the person was before going to the settings. */
export function lastConversation(): string {
  return conversation
}

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

export function usePath(): string {
  const path = useSyncExternalStore(subscribe, () => location.pathname)
  if (settingsOf(path) === undefined) conversation = path
  return path
}
