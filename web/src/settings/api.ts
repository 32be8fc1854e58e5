import type { components } from '../api.gen'
import { type Answer, type Assistant, client, type ServerInfo, type ServerPatch, serverPath, take } from '../api/client'
import { parseWire } from '../json/wire'

type Schemas = components['schemas']
export type ServerTool = Schemas['ServerTool']
export type ServerTrial = Schemas['ServerTrial']
export type ServerChange = Schemas['ServerChange']
export type ServerSettings = Schemas['ServerSettings']
export type NewServer = Omit<Schemas['NewServer'], 'disabled'>
export type Imported = Schemas['ImportedServers']
export type Rule = Schemas['Rule']
export type Verdict = Schemas['Verdict']
export type NewRule = Schemas['NewRule']
export type RulePatch = Schemas['RulePatch']
export type RuleChange = Schemas['RuleChange']
export type Mode = Schemas['Mode']
export type NewAssistant = Schemas['NewAssistant']
export type AssistantPatch = Schemas['AssistantPatch']

/** A past call on which a rule was tried, with the exact JSON of its input. */
export type TrialSample = Omit<Schemas['TrialSample'], 'input'> & { inputText?: string }
export type RuleTrial = Omit<Schemas['RuleTrial'], 'samples'> & { samples: TrialSample[] }

interface Page<T> {
  versions: T[]
  nextCursor?: string
}

const rulePath = (ruleId: string) => ({ params: { path: { ruleId } } })
const assistantPath = (assistantId: string) => ({ params: { path: { assistantId } } })
const pageOf = (cursor: string | undefined) => ({ limit: 20, ...(cursor === undefined ? {} : { cursor }) })

/** What only the settings need. */
export const settingsApi = {
  servers: async () => (await take<{ servers: ServerInfo[] }>(client.GET('/mcp-servers'))).servers,
  createServer: (body: NewServer) => take<ServerInfo>(client.POST('/mcp-servers', { body: { ...body, disabled: false } })),
  deleteServer: (id: string) => take(client.DELETE('/mcp-servers/{serverId}', serverPath(id))),
  restartServer: (id: string) => take<ServerInfo>(client.POST('/mcp-servers/{serverId}/restart', serverPath(id))),
  testNew: (body: NewServer, signal: AbortSignal) => take<ServerTrial>(client.POST('/mcp-servers/test', { body: { ...body, disabled: false }, signal })),
  testStored: (id: string, body: ServerPatch, signal: AbortSignal) => take<ServerTrial>(client.POST('/mcp-servers/{serverId}/test', { ...serverPath(id), body, signal })),
  importServers: (file: string, skip: boolean) =>
    take<Imported>(
      client.POST('/mcp-servers/import', {
        params: { query: { existing: skip ? 'skip' : 'refuse' } },
        body: {},
        // The file goes out as it is.
        bodySerializer: () => file,
      }),
    ),
  serverVersions: (id: string, cursor?: string) =>
    take<Page<ServerChange>>(client.GET('/mcp-servers/{serverId}/versions', { params: { path: { serverId: id }, query: pageOf(cursor) } }) as Promise<Answer<Page<ServerChange>>>),

  rules: async () => (await take<{ rules: Rule[] }>(client.GET('/policy/rules'))).rules,
  createRule: (body: NewRule) => take<Rule>(client.POST('/policy/rules', { body })),
  updateRule: (id: string, body: RulePatch) => take<Rule>(client.PATCH('/policy/rules/{ruleId}', { ...rulePath(id), body })),
  deleteRule: (id: string) => take(client.DELETE('/policy/rules/{ruleId}', rulePath(id))),
  tryRule: async (verdict: Verdict, expression: string) => {
    const text = await take<string>(client.POST('/policy/rules/try', { body: { verdict, expression }, parseAs: 'text' }) as Promise<Answer<string>>)
    return parseWire(text) as RuleTrial
  },
  ruleVersions: (id: string, cursor?: string) =>
    take<Page<RuleChange>>(client.GET('/policy/rules/{ruleId}/versions', { params: { path: { ruleId: id }, query: pageOf(cursor) } }) as Promise<Answer<Page<RuleChange>>>),

  createAssistant: (body: NewAssistant) => take<Assistant>(client.POST('/assistants', { body })),
  updateAssistant: (id: string, body: AssistantPatch) => take<Assistant>(client.PATCH('/assistants/{assistantId}', { ...assistantPath(id), body })),
  deleteAssistant: (id: string) => take(client.DELETE('/assistants/{assistantId}', assistantPath(id))),
}
