import { useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  if (timer === undefined) {
    now = Date.now()
    timer = setInterval(() => {
      now = Date.now()
      for (const l of listeners) l()
    }, 15_000)
  }
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** The time, good to a quarter of a minute. One timer serves the whole page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}

/** How long something has lasted, roughly: "3 min". */
export function span(ms: number): string {
  const minutes = Math.floor(ms / 60_000)
  if (minutes < 1) return 'less than a minute'
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return `${hours} h`
  return `${Math.floor(hours / 24)} days`
}

const hour = 3_600_000

/** Whether a deadline is near: less than an hour, or than a tenth of the time that there was, is left. */
export function isNear(deadline: number, from: number, now: number): boolean {
  const left = deadline - now
  return left < hour || left < (deadline - from) / 10
}

/** When something was, as short as it can be said. */
export function shortTime(iso: string, now = Date.now()): string {
  const date = new Date(iso)
  const age = now - date.getTime()
  if (Number.isNaN(age)) return ''
  if (age < 60_000) return 'now'
  if (age < 3_600_000) return `${Math.floor(age / 60_000)} min`
  if (age < 24 * 3_600_000) return `${Math.floor(age / 3_600_000)} h`
  if (age < 7 * 24 * 3_600_000) return date.toLocaleDateString(undefined, { weekday: 'short' })
  return date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' })
}

/** The time of day, with the date if it was not today. */
export function clock(iso: string, now = new Date()): string {
  const date = new Date(iso)
  if (Number.isNaN(date.getTime())) return ''
  const time = date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })
  return date.toDateString() === now.toDateString() ? time : `${date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' })} ${time}`
}

/** How long a run took: "0.3 s". */
export function took(startedAt: string | undefined, finishedAt: string | undefined): string {
  const ms = new Date(finishedAt ?? NaN).getTime() - new Date(startedAt ?? NaN).getTime()
  if (Number.isNaN(ms) || ms < 0) return ''
  if (ms < 100) return '< 0.1 s'
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`
  return `${Math.round(ms / 60_000)} min`
}
