import { api, ApiError, type ServerInfo } from './client'

/** What a person can say about one tool. */
export type Choice = 'off' | 'always-ask' | 'ask' | 'auto-approve'

type Lists = Pick<ServerInfo, 'disabledTools' | 'autoApproveTools' | 'alwaysAskTools'>

export function choiceOf(lists: Lists, tool: string): Choice {
  if (lists.disabledTools.includes(tool)) return 'off'
  if (lists.alwaysAskTools.includes(tool)) return 'always-ask'
  return lists.autoApproveTools.includes(tool) ? 'auto-approve' : 'ask'
}

/** The lists with one tool said anew. A tool stands in one of them at most. */
export function withChoice(lists: Lists, tool: string, choice: Choice): Lists {
  const put = (list: readonly string[], here: boolean) => {
    const rest = list.filter((name) => name !== tool)
    return here ? (list.includes(tool) ? [...list] : [...rest, tool]) : rest
  }
  return {
    disabledTools: put(lists.disabledTools, choice === 'off'),
    autoApproveTools: put(lists.autoApproveTools, choice === 'auto-approve'),
    alwaysAskTools: put(lists.alwaysAskTools, choice === 'always-ask'),
  }
}

const attempts = 4

/**
 * Changes a server's lists as `next` says. The lists are sent whole, so what
 * somebody else changed meanwhile must not be written over: then the server
 * refuses, and the change is made to the lists as they are by now.
 */
export async function changeSwitches(server: ServerInfo, next: (lists: Lists) => Lists): Promise<ServerInfo> {
  let now = server
  for (let i = 1; ; i++) {
    try {
      const { disabledTools, autoApproveTools, alwaysAskTools } = next(now)
      // Of a server of which nothing is stored there is no version to hold it against.
      return await api.updateServer(now.id, { disabledTools, autoApproveTools, alwaysAskTools, ...(now.version > 0 ? { version: now.version } : {}) })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || i === attempts) throw error
      now = await api.server(now.id)
    }
  }
}
