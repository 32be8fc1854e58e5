import { createStore } from 'zustand/vanilla'
import { api, ApiError, explain, type AnswerAction } from '../api/client'
import { fieldAt, type Values } from './form'

/** What this tab knows of one open question beside the server's state. */
export interface QuestionState {
  values: Values
  /** The answer is on its way: the buttons are locked. */
  sending?: AnswerAction
  /** The server has taken the answer; its event is on the way. */
  taken?: true
  error?: string
  /** What the server says of fields, by name. */
  problems?: Readonly<Record<string, string>>
  /** It was answered or closed before; the event of it is on the way. */
  closed?: string
}

type Questions = Readonly<Record<string, QuestionState>>

const prefix = 'assent.answer.'
const none: QuestionState = { values: {} }
const read = new Map<string, QuestionState>()

export const questions = createStore<Questions>()(() => ({}))

/** The state of a question; what an earlier page load had entered is found in the session storage. */
export function questionState(all: Questions, id: string): QuestionState {
  return all[id] ?? stored(id)
}

function stored(id: string): QuestionState {
  const known = read.get(id)
  if (known) return known
  let state = none
  try {
    const text = sessionStorage.getItem(prefix + id)
    if (text !== null) state = { values: JSON.parse(text) as Values }
  } catch {
    // No storage, or nothing of ours in it.
  }
  read.set(id, state)
  return state
}

function change(id: string, next: (state: QuestionState) => QuestionState): void {
  questions.setState((all) => ({ [id]: next(questionState(all, id)) }))
}

export function setValue(id: string, name: string, value: string | string[]): void {
  change(id, (state) => {
    const values = { ...state.values, [name]: value }
    try {
      sessionStorage.setItem(prefix + id, JSON.stringify(values))
    } catch {
      // It lives on in memory.
    }
    const { [name]: _, ...problems } = state.problems ?? {}
    return { ...state, values, problems }
  })
  read.delete(id)
}

/** Forgets what was entered for a question that is answered or closed. */
export function forgetAnswer(id: string): void {
  read.delete(id)
  try {
    sessionStorage.removeItem(prefix + id)
  } catch {
    // Then nothing was stored.
  }
  questions.setState((all) => Object.fromEntries(Object.entries(all).filter(([key]) => key !== id)), true)
}

/** Sends an answer, once. Nothing is shown as answered before the server says so. */
export async function answer(place: { topicId: string; messageId: string; questionId: string }, action: AnswerAction, content: string | undefined): Promise<void> {
  const id = place.questionId
  const now = questionState(questions.getState(), id)
  if (now.sending || now.taken) return
  change(id, ({ error: _, problems: __, ...state }) => ({ ...state, sending: action }))
  try {
    await api.answer(place, action, content)
    change(id, ({ sending: _, ...state }) => ({ ...state, taken: true }))
  } catch (error) {
    change(id, ({ sending: _, ...state }) => ({ ...state, ...failure(error) }))
  }
}

function failure(error: unknown): Partial<QuestionState> {
  if (!(error instanceof ApiError)) return { error: explain(error) }
  if (error.status === 409 || error.status === 410 || error.status === 404) return { closed: error.message }
  if (error.status === 0) {
    return { error: 'The server cannot be reached, so it is not known whether your answer arrived. Try again: the same answer twice does no harm.' }
  }
  const problems: Record<string, string> = {}
  for (const { pointer, message } of error.problem.errors ?? []) problems[fieldAt(pointer)] = message ?? error.message
  return { error: error.message, problems }
}
