import { createContext } from 'react'
import type { Detail } from '../live/reduce'
import { isTool, type Question, type ToolPart } from '../live/types'

/** The cards of a topic that wait, in the order in which they are drawn. */
export function pendingParts(detail: Detail): ToolPart[] {
  return detail.order.flatMap((id) => {
    const parts = detail.held[id]?.message.parts ?? []
    return parts.filter((p): p is ToolPart => isTool(p) && p.state === 'approval-requested' && p.approval !== undefined)
  })
}

/** The questions of a topic's running calls that wait for an answer, each with its call. */
export function openQuestions(detail: Detail): { part: ToolPart; question: Question }[] {
  return detail.order.flatMap((id) => {
    const parts = detail.held[id]?.message.parts ?? []
    return parts.filter(isTool).flatMap((part) => (part.toolMetadata?.questions ?? []).filter((q) => q.action === undefined).map((question) => ({ part, question })))
  })
}

export interface ThreadInfo {
  topicId: string
  me: string | undefined
  /** Approval ids of the cards that wait. */
  pending: readonly ToolPart[]
}

export const ThreadContext = createContext<ThreadInfo>({ topicId: '', me: undefined, pending: [] })
