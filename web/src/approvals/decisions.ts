import { createStore } from 'zustand/vanilla'
import { api, ApiError, type Decision, explain, type ProblemItem } from '../api/client'

export interface Draft {
  mode: 'ask' | 'deny' | 'edit' | 'always'
  reason: string
  /** The edited input, once somebody has edited it. */
  input?: string
}

export interface OtherDecision {
  approved: boolean
  reason?: string
  decidedBy?: string
  decidedAt?: string
}

export interface CardError {
  text: string
  /** Whether the answer arrived is not known; the server's next word on the topic tells. */
  unsure?: true
  problems?: ProblemItem[]
}

/** What this tab knows of one approval beside the server's state. */
export interface CardState {
  draft?: Draft
  /** The answer is on its way: the buttons are locked. */
  sending?: 'approve' | 'deny'
  /** The server has taken the answer, in this revision; its event is on the way. */
  taken?: { approved: boolean; revision: number }
  error?: CardError
  /** Somebody else was first. */
  lost?: OtherDecision
  /** It was closed before the answer arrived. */
  closed?: string
}

export type Decisions = Readonly<Record<string, CardState>>

const prefix = 'assent.draft.'
const none: CardState = {}

export const decisions = createStore<Decisions>()(() => ({}))

export const emptyDraft: Draft = { mode: 'ask', reason: '' }

/** The state of a card; a draft of an earlier page load is found in the session storage. */
export function cardState(all: Decisions, approvalId: string): CardState {
  return all[approvalId] ?? stored(approvalId)
}

const read = new Map<string, CardState>()

function stored(approvalId: string): CardState {
  const known = read.get(approvalId)
  if (known) return known
  let state = none
  try {
    const text = sessionStorage.getItem(prefix + approvalId)
    if (text !== null) state = { draft: { ...emptyDraft, ...(JSON.parse(text) as Partial<Draft>) } }
  } catch {
    // No storage, or nothing of ours in it: there is no draft.
  }
  read.set(approvalId, state)
  return state
}

function change(approvalId: string, next: (state: CardState) => CardState): void {
  decisions.setState((all) => ({ [approvalId]: next(cardState(all, approvalId)) }))
}

/** Changes what the person has prepared for this approval, and for no other. */
export function setDraft(approvalId: string, changes: Partial<Draft>): void {
  read.delete(approvalId)
  change(approvalId, (state) => {
    const draft = { ...emptyDraft, ...state.draft, ...changes }
    try {
      sessionStorage.setItem(prefix + approvalId, JSON.stringify(draft))
    } catch {
      // It lives on in memory.
    }
    return { ...state, draft }
  })
}

/** Forgets everything about approvals that are decided. */
export function forget(approvalId: string): void {
  read.delete(approvalId)
  try {
    sessionStorage.removeItem(prefix + approvalId)
  } catch {
    // Then nothing was stored.
  }
  change(approvalId, ({ lost, closed }) => ({ ...(lost ? { lost } : {}), ...(closed === undefined ? {} : { closed }) }))
}

/** Unlocks a card that the server still shows as open in a later state than the answer's. */
export function reopen(approvalId: string): void {
  change(approvalId, ({ taken: _, ...rest }) => rest)
}

/** The server has spoken since, and the card is still open: an answer that may have arrived has not. */
export function settleDoubt(approvalId: string): void {
  change(approvalId, ({ error, ...rest }) => (error && !error.unsure ? { ...rest, error } : rest))
}

/**
 * Sends decisions that apply together or not at all. Nothing is shown as
 * decided before the server says so; when it does not, every card comes back
 * with the error and its draft. A card that is being sent is not sent again.
 */
export async function decide(topicId: string, list: readonly Decision[]): Promise<boolean> {
  const all = decisions.getState()
  if (list.length === 0 || list.some((d) => cardState(all, d.approvalId).sending || cardState(all, d.approvalId).taken)) return false
  for (const d of list) {
    change(d.approvalId, ({ error: _, ...state }) => ({ ...state, sending: d.approved ? 'approve' : 'deny' }))
  }
  try {
    const { revision } = await api.decide(topicId, list)
    for (const d of list) change(d.approvalId, (state) => ({ ...unlocked(state), taken: { approved: d.approved, revision } }))
    return true
  } catch (error) {
    for (const d of list) change(d.approvalId, (state) => ({ ...unlocked(state), ...failure(d, list.length > 1, error) }))
    return false
  }
}

function unlocked({ sending: _, ...state }: CardState): CardState {
  return state
}

function failure(decision: Decision, batch: boolean, error: unknown): Partial<CardState> {
  if (!(error instanceof ApiError)) return { error: { text: explain(error) } }
  const { problem, status } = error
  const own = batch ? problem.errors?.find((e) => e.approvalId === decision.approvalId) : undefined
  const other = own?.decision ?? (batch ? undefined : problem.decision)
  if (other) return { lost: other }
  if (own?.status === 410) return { closed: own.detail ?? 'It is not open any more.' }
  if (own) return { error: { text: own.detail ?? own.message ?? error.message } }
  if (status === 410 && !batch) return { closed: error.message }
  const text = status === 0 ? 'The server cannot be reached, so it is not known whether your answer arrived. Try again: the same answer twice does no harm.' : error.message
  const problems = batch ? undefined : problem.errors
  const unsure = status === 0 ? ({ unsure: true } as const) : {}
  return { error: { text: batch && problem.errors ? `None was applied: ${error.message}` : text, ...(problems ? { problems } : {}), ...unsure } }
}
