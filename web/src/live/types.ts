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
  /** Questions of tools that run. Absent from servers that know none. */
  openQuestions?: number
  queuedMessages: number
  lastCompletedAt?: string
}

export interface Topic {
  id: string
  title: string
  model: string
  assistantId?: string
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
  /** From then on nobody can decide, and the call is denied. */
  expiresAt?: string
  decidedAt?: string
  decidedBy?: string
  via?: string
  resolution?: string
  originalInputText?: string
  /** What was decided for good along with it. */
  remember?: string
}

/** What a tool's server asks of the person while the tool runs. It is open while it has no action. */
export interface Question {
  id: string
  message: string
  schema?: unknown
  askedAt: string
  action?: 'accept' | 'decline' | 'cancel'
  /** The exact JSON of the answer's content. */
  contentText?: string
  answeredAt?: string
  answeredBy?: string
  via?: string
  /** Why it was closed without an answer. */
  resolution?: string
}

export interface ToolMetadata {
  server?: string
  serverId?: string
  tool?: string
  title?: string
  annotations?: Record<string, unknown>
  inputSchema?: unknown
  verdict?: string
  rule?: string
  ruleId?: string
  why?: string
  /** Why a call is asked about again. */
  changed?: string
  /** Its server did not offer the tool when it was asked about. */
  gone?: boolean
  questions?: Question[]
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

/** The event that says that settings have changed: a hint to read them again. */
export const settingsEvent = 'settings'
export const settingsKinds = ['mcp-servers', 'rules', 'assistants'] as const
export type SettingsKind = (typeof settingsKinds)[number]

/** How many things of a topic wait for a person. */
export function waitingIn(status: Status | undefined): number {
  return (status?.pendingApprovals ?? 0) + (status?.openQuestions ?? 0)
}

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
