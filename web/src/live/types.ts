// What comes over the wire, as docs/events.md has it, after parseWire.

export type TopicState = 'idle' | 'pending' | 'streaming' | 'awaiting-approval' | 'done' | 'error' | 'aborted'

export interface Execution {
  executionId: string
  anchorMessageId: string
  pending?: number
}

export interface Status {
  topicId: string
  revision: number
  status: TopicState
  activeExecutions: Execution[]
  awaitingApprovalAnchors: Execution[]
  pendingApprovals: number
  queuedMessages: number
  lastCompletedAt?: string
}

export interface Topic {
  id: string
  title: string
  model: string
  revision: number
  status?: Status
  createdAt: string
  updatedAt: string
}

export type CallState =
  | 'input-streaming'
  | 'input-available'
  | 'approval-requested'
  | 'approval-responded'
  | 'output-available'
  | 'output-error'
  | 'output-denied'

export interface Approval {
  id: string
  approved?: boolean
  reason?: string
  requestedAt?: string
  decidedAt?: string
  decidedBy?: string
  via?: string
  resolution?: string
  originalInputText?: string
}

export interface ToolMetadata {
  server?: string
  tool?: string
  title?: string
  annotations?: Record<string, unknown>
  inputSchema?: unknown
  verdict?: string
  rule?: string
  model?: string
  step?: number
  startedAt?: string
  finishedAt?: string
  outcome?: string
}

export interface ToolPart {
  type: string
  toolName?: string
  toolCallId: string
  state: CallState
  title?: string
  /** The exact JSON of the call's input. */
  inputText?: string
  rawInput?: string
  /** The exact JSON of the call's output. */
  outputText?: string
  errorText?: string
  approval?: Approval
  toolMetadata?: ToolMetadata
}

export interface TextPart {
  type: 'text' | 'reasoning'
  text: string
  state?: string
}

export interface FilePart {
  type: 'file'
  mediaType: string
  url: string
  filename?: string
}

export interface OtherPart {
  type: string
}

export type Part = TextPart | FilePart | ToolPart | OtherPart

export type MessageStatus = 'pending' | 'success' | 'error' | 'aborted' | 'queued'

export interface MessageMetadata {
  parentId?: string
  status: MessageStatus
  model?: string
  turnId?: string
  epoch?: number
  /** Why the turn failed; of a message that succeeded, why the provider ended it early. */
  error?: { kind: string; message: string }
  createdAt: string
  updatedAt: string
  revision: number
}

export interface Message {
  id: string
  role: 'user' | 'assistant' | 'system'
  parts: Part[]
  metadata: MessageMetadata
}

export interface TopicSnapshot {
  topicId: string
  revision: number
  topic: Topic
  messages: Message[]
  queued: Message[]
  status: Status
  hasMore?: boolean
  before?: string
}

export interface Delta {
  topicId: string
  revision: number
  messageId: string
  epoch: number
  part: number
  field: string
  offset: number
  text: string
  start?: Part
}

export type ServerEvent =
  | { name: 'snapshot'; data: TopicSnapshot | { topicId: '*'; topics: Topic[]; complete: boolean } }
  | { name: 'status'; data: Status }
  | { name: 'topic'; data: { topicId: string; revision: number; topic: Topic } }
  | { name: 'topic.removed'; data: { topicId: string; revision: number } }
  | { name: 'message'; data: { topicId: string; revision: number; message: Omit<Message, 'parts'> & { parts?: Part[] } } }
  | { name: 'part'; data: { topicId: string; revision: number; messageId: string; epoch: number; position: number; part: Part } }
  | { name: 'message.removed'; data: { topicId: string; revision: number; messageId: string } }
  | { name: 'delta'; data: Delta }

/** The names of the events that carry state, and of those that speak of the connection. */
export const stateEvents = ['snapshot', 'status', 'topic', 'topic.removed', 'message', 'part', 'message.removed', 'delta'] as const
export const linkEvents = ['ping', 'bye'] as const

export function isTool(part: Part): part is ToolPart {
  return part.type === 'dynamic-tool' || part.type.startsWith('tool-')
}

export function isText(part: Part): part is TextPart {
  return part.type === 'text' || part.type === 'reasoning'
}

/** The name under which a model knows the tool. */
export function toolNameOf(part: ToolPart): string {
  return part.toolName ?? part.type.replace(/^tool-/, '')
}
