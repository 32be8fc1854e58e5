import { createContext } from 'react'
import type { Detail } from '../live/reduce'
import { isTool, type ToolPart } from '../live/types'

/** The cards of a topic that wait, in the order in which they are drawn. */
export function pendingParts(detail: Detail): ToolPart[] {
  return detail.order.flatMap((id) => {
    const parts = detail.held[id]?.message.parts ?? []
    return parts.filter((p): p is ToolPart => isTool(p) && p.state === 'approval-requested' && p.approval !== undefined)
  })
}

export interface ThreadInfo {
  topicId: string
  me: string | undefined
  /** Approval ids of the cards that wait. */
  pending: readonly ToolPart[]
}

export const ThreadContext = createContext<ThreadInfo>({ topicId: '', me: undefined, pending: [] })
