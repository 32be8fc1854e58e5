import createClient from 'openapi-fetch'
import type { components, paths } from '../api.gen'
import { parseWire } from '../json/wire'
import type { Topic, TopicSnapshot } from '../live/types'

type Schemas = components['schemas']
export type Model = Schemas['ModelList']['models'][number]
export type Session = Schemas['Session']
export type Decided = Schemas['Decided']
export type Assistant = Schemas['Assistant']
export type Explanation = Schemas['Explanation']
export type ServerInfo = Schemas['ServerInfo']
export type ServerPatch = Schemas['ServerPatch']
export type Problem = Schemas['Problem'] & Partial<Pick<Schemas['DecisionProblem'], 'decision'>> & { errors?: ProblemItem[] }

/** What stood in the way: a place in an input, or one decision of a batch. */
export interface ProblemItem {
  pointer?: string
  message?: string
  approvalId?: string
  status?: number
  detail?: string
  decision?: Schemas['DecisionProblem']['decision']
}

/** A request that did not do what it was to do. Status 0: the server was not reached, or its answer was lost. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail ?? problem.title)
    this.name = 'ApiError'
  }
}

const unreachable: Problem = {
  type: 'about:blank',
  title: 'The server cannot be reached',
  status: 0,
  detail: 'The server cannot be reached. Nothing is known to have changed.',
}

export const client = createClient<paths>({ baseUrl: '', fetch: (request) => globalThis.fetch(request) })

export interface Answer<T> {
  data?: T
  error?: unknown
  response: Response
}

export async function take<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>
  try {
    answer = await call
  } catch {
    throw new ApiError(0, unreachable)
  }
  const { response, data, error } = answer
  if (response.ok) return data as T
  const problem = typeof error === 'object' && error !== null && 'title' in error ? (error as Problem) : undefined
  throw new ApiError(response.status, problem ?? { type: 'about:blank', title: response.statusText || `Error ${response.status}`, status: response.status })
}

const topicPath = (topicId: string) => ({ params: { path: { topicId } } })
export const serverPath = (serverId: string) => ({ params: { path: { serverId } } })
const messagePath = (topicId: string, messageId: string) => ({ params: { path: { topicId, messageId } } })

/** A decision as a person made it. `inputText` is the exact JSON that is to run instead. */
export interface Decision {
  approvalId: string
  approved: boolean
  reason?: string
  inputText?: string
  /** What is decided for good along with it. */
  remember?: 'always-allow'
}

export type AnswerAction = 'accept' | 'decline' | 'cancel'

function decisionJson({ approvalId, approved, reason, inputText, remember }: Decision): string {
  const plain = JSON.stringify({ approvalId, approved, ...(reason !== undefined && reason.trim() !== '' ? { reason } : {}), ...(remember === undefined ? {} : { remember }) })
  // The text goes in as it was written: parsing it here would round its numbers.
  return inputText === undefined ? plain : `${plain.slice(0, -1)},"updatedInput":${inputText}}`
}

/** The body of a POST of one decision, or of several that apply together or not at all. */
export function decisionBody(decisions: readonly Decision[]): string {
  return decisions.length === 1 ? decisionJson(decisions[0]!) : `{"decisions":[${decisions.map(decisionJson).join(',')}]}`
}

export const api = {
  session: () => take<Session>(client.GET('/session')),
  signIn: (token: string) => take<Session>(client.POST('/session', { body: { token } })),
  signOut: () => take(client.POST('/logout')),
  models: async () => (await take<Schemas['ModelList']>(client.GET('/models'))).models,

  topicsPage: (cursor?: string) =>
    take<{ topics: Topic[]; nextCursor?: string }>(
      client.GET('/topics', { params: { query: { limit: 200, ...(cursor === undefined ? {} : { cursor }) } } }) as Promise<Answer<{ topics: Topic[]; nextCursor?: string }>>,
    ),
  createTopic: (model?: string, assistantId?: string) =>
    take<Schemas['Topic']>(client.POST('/topics', { body: { ...(model === undefined ? {} : { model }), ...(assistantId === undefined ? {} : { assistantId }) } })),
  assistants: async () => (await take<{ assistants: Assistant[] }>(client.GET('/assistants'))).assistants,
  updateTopic: (topicId: string, body: { title?: string; model?: string }) => take(client.PATCH('/topics/{topicId}', { ...topicPath(topicId), body })),
  deleteTopic: (topicId: string) => take(client.DELETE('/topics/{topicId}', topicPath(topicId))),
  stop: (topicId: string) => take(client.POST('/topics/{topicId}/stop', topicPath(topicId))),

  olderMessages: async (topicId: string, before: string) => {
    const text = await take<string>(
      client.GET('/topics/{topicId}/messages', {
        params: { path: { topicId }, query: { before } },
        parseAs: 'text',
      }) as Promise<Answer<string>>,
    )
    return parseWire(text) as Pick<TopicSnapshot, 'messages' | 'revision' | 'hasMore' | 'before'>
  },
  branches: async (topicId: string) => {
    const text = await take<string>(
      client.GET('/topics/{topicId}/messages', { params: { path: { topicId }, query: { view: 'tree' } }, parseAs: 'text' }) as Promise<Answer<string>>,
    )
    return (parseWire(text) as Pick<TopicSnapshot, 'messages'>).messages
  },
  send: (topicId: string, id: string, text: string) => take(client.POST('/topics/{topicId}/messages', { ...topicPath(topicId), body: { id, text, whenBusy: 'queue' } })),
  edit: (topicId: string, messageId: string, text: string) =>
    take(client.PATCH('/topics/{topicId}/messages/{messageId}', { ...messagePath(topicId, messageId), body: { text } })),
  remove: (topicId: string, messageId: string) => take(client.DELETE('/topics/{topicId}/messages/{messageId}', messagePath(topicId, messageId))),
  sendQueued: (topicId: string, messageId: string) => take(client.POST('/topics/{topicId}/messages/{messageId}/send', messagePath(topicId, messageId))),
  retry: (topicId: string, messageId: string) => take(client.POST('/topics/{topicId}/messages/{messageId}/retry', messagePath(topicId, messageId))),
  regenerate: (topicId: string, messageId: string) => take(client.POST('/topics/{topicId}/messages/{messageId}/regenerate', messagePath(topicId, messageId))),
  select: (topicId: string, messageId: string) => take(client.POST('/topics/{topicId}/messages/{messageId}/select', messagePath(topicId, messageId))),

  decide: (topicId: string, decisions: readonly Decision[]) =>
    take<Decided>(
      client.POST('/topics/{topicId}/approvals', {
        ...topicPath(topicId),
        // The serializer below makes the body; this one only has the right type.
        body: { approvalId: '', approved: false },
        bodySerializer: () => decisionBody(decisions),
      }),
    ),
  explainApproval: (approvalId: string) => take<Explanation>(client.GET('/policy/explain', { params: { query: { approvalId } } })),
  answer: ({ topicId, messageId, questionId }: { topicId: string; messageId: string; questionId: string }, action: AnswerAction, content?: string) =>
    take(
      client.POST('/topics/{topicId}/messages/{messageId}/questions/{questionId}', {
        params: { path: { topicId, messageId, questionId } },
        body: { action },
        // As with an edited input: what was typed goes out digit for digit.
        bodySerializer: () => (content === undefined ? JSON.stringify({ action }) : `{"action":${JSON.stringify(action)},"content":${content}}`),
      }),
    ),
  server: (serverId: string) => take<ServerInfo>(client.GET('/mcp-servers/{serverId}', serverPath(serverId))),
  updateServer: (serverId: string, body: ServerPatch) => take<ServerInfo>(client.PATCH('/mcp-servers/{serverId}', { ...serverPath(serverId), body })),
}

/** An id for a message that this tab is about to send: a repeated POST with it is harmless. */
export function newMessageId(): string {
  // randomUUID needs a secure context, which a server in a local network is not.
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return `m-${Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')}`
}

/** Words for an error of any kind. */
export function explain(error: unknown): string {
  return error instanceof ApiError ? error.message : 'Something went wrong in this page. Reload it and try again.'
}
