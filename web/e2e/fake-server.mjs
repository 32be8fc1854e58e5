// A server that speaks the page's side of the contract (docs/events.md,
// openapi.yaml) from memory. The tests use it for states that the demo model
// cannot be brought into: every kind of outcome, hostile inputs, lost answers.
import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'
import { extname, join, normalize } from 'node:path'
import { FakeSettings, fillSettings } from './fake-settings.mjs'

const dist = join(import.meta.dirname, '..', 'dist')
// 24 by 16 pixels, so that there is something to see.
export const png =
  'iVBORw0KGgoAAAANSUhEUgAAABgAAAAQCAIAAACDRijCAAAAH0lEQVR42mPQz79LEH0+lk4QMYwaNGrQqEGjBlFmEADFjrRfFA7OMwAAAABJRU5ErkJggg=='
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }

export const at = (minutesAgo) => new Date(Date.now() - minutesAgo * 60_000).toISOString()

/** JSON in which the exact text of an input stays exact: raw('{"n":1.0}'). */
export class Raw {
  constructor(text) {
    this.text = text
  }
}
export const raw = (text) => new Raw(text)

function json(value) {
  if (value instanceof Raw) return value.text
  if (Array.isArray(value)) return `[${value.map((v) => json(v ?? null)).join(',')}]`
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).filter(([, v]) => v !== undefined)
    return `{${members.map(([k, v]) => `${JSON.stringify(k)}:${json(v)}`).join(',')}}`
  }
  return JSON.stringify(value)
}

export class FakeServer {
  topics = new Map()
  streams = new Set()
  signedIn = true
  me = 'ada'
  settings = new FakeSettings()
  /** What `GET /policy/explain` says of a card, by approval id; and the questions' answers that came. */
  explanations = new Map()
  answers = []
  /** Replaces the answer to the next answer of a question, as answerDecision does. */
  answerQuestion = undefined
  /** The bodies of the decisions that came, as they came. */
  decisions = []
  /** Every message that was sent. */
  sent = []
  /** The bodies of the topics that were created. */
  created = []
  /** Replaces the answer to the next decision: (body) => ({status, body}), or 'drop' for as long as it stands. */
  answerDecision = undefined

  async start() {
    this.server = createServer((request, response) => void this.handle(request, response))
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done))
    this.url = `http://127.0.0.1:${this.server.address().port}`
    return this
  }

  async stop() {
    for (const stream of this.streams) stream.response.destroy()
    this.server.closeAllConnections()
    await new Promise((done) => this.server.close(done))
  }

  addTopic(id, title, { messages = [], queued = [], status = 'idle', updatedAt = at(3), hasMore = false, assistantId } = {}) {
    let parentId
    const full = messages.map((m, i) => {
      const message = {
        id: m.id ?? `${id}-m${i}`,
        role: m.role,
        parts: m.parts,
        metadata: { parentId, status: m.status ?? 'success', model: m.role === 'assistant' ? 'demo/guide' : undefined, epoch: 1, error: m.error, createdAt: at(4), updatedAt: at(4), revision: 1 },
      }
      parentId = message.id
      return message
    })
    const waiting = queued.map((text, i) => ({
      id: `${id}-q${i}`, role: 'user', parts: [{ type: 'text', text }], metadata: { status: 'queued', createdAt: at(1), updatedAt: at(1), revision: 1 },
    }))
    const topic = { id, title, model: 'demo/guide', assistantId, createdAt: updatedAt, updatedAt }
    this.topics.set(id, { topic, messages: full, queued: waiting, state: status, revision: 1, hasMore })
    return id
  }

  status(id) {
    const t = this.topics.get(id)
    const pending = t.messages.flatMap((m) => m.parts).filter((p) => p.state === 'approval-requested').length
    const asked = t.messages.flatMap((m) => m.parts).flatMap((p) => p.toolMetadata?.questions ?? []).filter((q) => q.action === undefined).length
    return {
      topicId: id, revision: t.revision, openQuestions: asked, status: t.state, activeExecutions: [], awaitingApprovalAnchors: [],
      pendingApprovals: pending, queuedMessages: t.queued.length,
    }
  }
  wireTopic(id) {
    const t = this.topics.get(id)
    return { ...t.topic, revision: t.revision, status: this.status(id) }
  }
  snapshot(id) {
    const t = this.topics.get(id)
    return { topicId: id, revision: t.revision, topic: this.wireTopic(id), messages: t.messages, queued: t.queued, status: this.status(id), hasMore: t.hasMore }
  }

  broadcast(name, data) {
    const detail = !['status', 'topic', 'topic.removed'].includes(name) && data.topicId !== '*'
    for (const stream of this.streams) if (!detail || stream.topics.includes(data.topicId)) this.write(stream, name, data)
  }
  write(stream, name, data) {
    stream.response.write(`event: ${name}\nid: ${stream.n++}\ndata: ${json(data)}\n\n`)
  }

  /** Replaces one part and announces it, with the topic's new status. */
  setPart(topicId, messageId, position, part, state) {
    const t = this.topics.get(topicId)
    t.revision++
    if (state) t.state = state
    const message = t.messages.find((m) => m.id === messageId)
    message.parts[position] = part
    this.broadcast('part', { topicId, revision: t.revision, messageId, epoch: 1, position, part })
    this.broadcast('status', this.status(topicId))
  }

  find(topicId, approvalId) {
    for (const m of this.topics.get(topicId).messages) {
      const position = m.parts.findIndex((p) => p.approval?.id === approvalId)
      if (position >= 0) return { message: m, position, part: m.parts[position] }
    }
    return undefined
  }

  /** Applies a decision as some decider, and announces it. */
  decide(topicId, { approvalId, approved, reason, remember }, decidedBy = this.me) {
    const { message, position, part } = this.find(topicId, approvalId)
    const approval = { ...part.approval, approved, reason, remember, decidedAt: at(0), decidedBy, via: 'web' }
    this.setPart(topicId, message.id, position, { ...part, state: approved ? 'approval-responded' : 'output-denied', approval })
  }

  /** Answers a question as some decider, and announces it. */
  answer(topicId, questionId, { action, content }, answeredBy = this.me, more = {}) {
    for (const m of this.topics.get(topicId).messages) {
      m.parts.forEach((part, position) => {
        const questions = part.toolMetadata?.questions
        if (!questions?.some((q) => q.id === questionId)) return
        const changed = questions.map((q) => (q.id === questionId ? { ...q, action, content, answeredAt: at(0), answeredBy, via: 'web', ...more } : q))
        this.setPart(topicId, m.id, position, { ...part, toolMetadata: { ...part.toolMetadata, questions: changed } })
      })
    }
  }

  /** Says that settings have changed. */
  announceSettings(changed) {
    for (const stream of this.streams) this.write(stream, 'settings', { changed })
  }

  async handle(request, response) {
    const url = new URL(request.url, this.url)
    const path = url.pathname
    const say = (status, body, type = status >= 400 ? 'application/problem+json' : 'application/json') => {
      response.writeHead(status, { 'content-type': type })
      response.end(body === undefined ? undefined : json(body))
    }
    const problem = (status, title, more = {}) => say(status, { type: 'about:blank', title, status, ...more })
    let body = ''
    for await (const chunk of request) body += chunk

    const page = path === '/' || path.startsWith('/t/') || path === '/settings' || path.startsWith('/settings/') ? '/index.html' : path
    if (page.startsWith('/assets/') || page === '/index.html' || page === '/favicon.svg') {
      try {
        const content = readFileSync(join(dist, normalize(page)))
        response.writeHead(200, { 'content-type': types[extname(page)] })
        response.end(content)
      } catch {
        problem(404, 'Not found')
      }
      return
    }
    if (path === '/session' && request.method === 'POST') {
      this.signedIn = JSON.parse(body).token === 'right'
      return this.signedIn ? say(200, { principal: { name: this.me } }) : problem(401, 'Not signed in')
    }
    if (path === '/logout') {
      this.signedIn = false
      return say(204)
    }
    if (!this.signedIn) return problem(401, 'Not signed in')
    if (path === '/session') return say(200, { principal: { name: this.me } })
    if (path === '/models') return say(200, { models: [{ name: 'demo/guide', provider: 'demo', title: 'Guide', fromEnvironment: false }] })
    if (path === '/events') {
      const topics = url.searchParams.getAll('topic')
      if (topics.some((id) => !this.topics.has(id))) return problem(404, 'Not found')
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
      const stream = { response, topics, n: 1 }
      this.streams.add(stream)
      response.on('close', () => this.streams.delete(stream))
      this.write(stream, 'snapshot', { topicId: '*', revision: 0, topics: [...this.topics.keys()].map((id) => this.wireTopic(id)), complete: true })
      for (const id of topics) this.write(stream, 'snapshot', this.snapshot(id))
      return
    }
    if (path === '/policy/explain') {
      const found = this.explanations.get(url.searchParams.get('approvalId'))
      return found ? say(200, found) : problem(404, 'Not found', { detail: 'There is no such approval.' })
    }
    if (/^\/(mcp-servers|policy|assistants)(\/|$)/.test(path)) {
      return this.settings.handle({ method: request.method, path, query: url.searchParams, body, me: this.me, say, problem, announce: (kind) => this.announceSettings(kind) })
    }
    if (path === '/topics' && request.method === 'POST') {
      const wanted = JSON.parse(body)
      this.created.push(wanted)
      this.addTopic(`new-${this.created.length}`, '', { assistantId: wanted.assistantId, updatedAt: at(0) })
      const topic = this.wireTopic(`new-${this.created.length}`)
      this.broadcast('topic', { topicId: topic.id, revision: topic.revision, topic })
      return say(201, topic)
    }
    const [, , topicId, what, , inner, questionId] = path.split('/')
    if (!path.startsWith('/topics/') || !this.topics.has(topicId)) return problem(404, 'Not found', { detail: 'There is no such topic.' })
    if (what === undefined) return say(200, this.wireTopic(topicId))
    if (inner === 'questions') {
      this.answers.push(body)
      const answer = this.answerQuestion?.(body)
      if (answer === 'drop') return void request.socket.destroy()
      this.answerQuestion = undefined
      if (answer) return problem(answer.status, answer.title ?? 'Conflict', answer.body)
      this.answer(topicId, questionId, JSON.parse(body))
      return say(200, { questionId, outcome: 'applied', answeredBy: this.me, answeredAt: at(0), revision: this.topics.get(topicId).revision })
    }
    if (what === 'messages' && request.method === 'GET') return say(200, this.snapshot(topicId))
    if (what === 'messages') {
      this.sent.push(JSON.parse(body))
      return say(202, { queued: true, revision: 1 })
    }
    if (what === 'approvals') {
      this.decisions.push(body)
      const answer = this.answerDecision?.(body)
      if (answer === 'drop') return void request.socket.destroy()
      this.answerDecision = undefined
      if (answer) return problem(answer.status, answer.title ?? 'Conflict', answer.body)
      const parsed = JSON.parse(body)
      const list = parsed.decisions ?? [parsed]
      for (const d of list) this.decide(topicId, d)
      return say(200, { results: [], pending: 0, continuation: 'scheduled', revision: this.topics.get(topicId).revision })
    }
    problem(404, 'Not found')
  }
}

// A tenth of a second of silence.
const wav = Buffer.concat([Buffer.from('UklGRkQDAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YSADAAA=', 'base64'), Buffer.alloc(800, 128)]).toString('base64')

/** Every kind of field that a question can have. */
export const questionSchema = {
  type: 'object',
  properties: {
    project: { type: 'string', title: 'Project', enum: ['web', 'api'], enumNames: ['The page', 'The server'] },
    urgency: { title: 'Urgency', type: 'string', oneOf: [{ const: 'high', title: 'Today' }, { const: 'low', title: 'Some day' }], default: 'low' },
    reporter: { type: 'string', title: 'Your e-mail', format: 'email', description: 'Only the team sees it.' },
    estimate: { type: 'integer', title: 'Hours', minimum: 0 },
    notify: { type: 'boolean', title: 'Tell the team?', default: true },
    summary: { type: 'string', title: 'In a few words', minLength: 3, maxLength: 500 },
  },
  required: ['project', 'notify', 'summary'],
}

const text = (value, state = 'done') => ({ type: 'text', text: value, state })
let calls = 0
export function call(tool, input, more = {}) {
  const n = ++calls
  const { approval, toolMetadata, ...rest } = more
  return {
    type: 'dynamic-tool', toolName: `workspace__${tool}`, toolCallId: `call-${n}`, state: 'approval-requested', input,
    ...rest,
    approval: approval === null ? undefined : { id: `approval-${n}`, requestedAt: at(3), ...approval },
    toolMetadata: {
      server: 'workspace', serverId: 'workspace', tool, title: { write_file: 'Write a file', delete_file: 'Delete a file', list_files: 'List files' }[tool] ?? tool,
      annotations: { readOnlyHint: false, destructiveHint: tool === 'delete_file', openWorldHint: false },
      inputSchema: tool === 'write_file' ? { type: 'object', properties: { path: { type: 'string' }, content: { type: 'string' } }, required: ['path', 'content'], additionalProperties: false } : undefined,
      verdict: 'ask', model: 'demo/guide', step: 1, ...toolMetadata,
    },
  }
}

/** Topics that show everything that the page can show. */
export function fill(server) {
  const decided = (approved, more = {}) => ({ approved, decidedAt: at(2), decidedBy: 'ada', via: 'web', ...more })
  server.addTopic('states', 'Everything that can become of a call', {
    status: 'done',
    messages: [
      { role: 'user', parts: [text('Show me every kind of outcome.')] },
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'A person wants to see **all** of them.', state: 'done' },
          text('Here is what can become of a call:'),
          call('list_files', {}, { state: 'output-available', output: { files: ['a.txt'] }, approval: null, toolMetadata: { verdict: 'allow', rule: 'auto-approve', startedAt: at(2), finishedAt: at(2) } }),
          call('write_file', { path: 'a.txt', content: 'hello' }, { state: 'output-available', output: { path: 'a.txt', bytes: 5 }, approval: decided(true, { originalInput: { path: 'a.txt', content: 'hi' } }), toolMetadata: { startedAt: at(2), finishedAt: at(1.9), outcome: 'ok' } }),
          call('write_file', { path: 'b.txt', content: 'x' }, { state: 'output-denied', approval: decided(false, { reason: 'keep the heading' }) }),
          call('write_file', { path: 'b.txt', content: 'x' }, { state: 'output-denied', approval: decided(false, { decidedBy: 'grace', via: 'api' }) }),
          call('delete_file', { path: 'b.txt' }, { state: 'output-denied', approval: decided(false, { resolution: 'policy', decidedBy: 'no deletes', via: 'rule', reason: 'Files are never deleted here.' }), toolMetadata: { rule: 'no deletes' } }),
          call('delete_file', { path: 'c.txt' }, { state: 'output-denied', approval: { approved: false, decidedAt: at(1), resolution: 'cancelled' } }),
          call('delete_file', { path: 'd.txt' }, { state: 'output-denied', approval: { approved: false, decidedAt: at(1), resolution: 'expired' } }),
          call('delete_file', { path: 'e.txt' }, { state: 'output-denied', approval: { approved: false, decidedAt: at(1), resolution: 'superseded' } }),
          call('write_file', { path: '/etc/passwd', content: '' }, { state: 'output-error', errorText: 'The path leads out of the workspace.', approval: decided(true), toolMetadata: { startedAt: at(2), finishedAt: at(2), outcome: 'failed' } }),
          call('write_file', { path: 'f.txt', content: '' }, { state: 'output-error', errorText: 'The outcome is unknown.', approval: decided(true), toolMetadata: { startedAt: at(2), finishedAt: at(1), outcome: 'unknown' } }),
          call('write_file', { path: 'g.txt', content: '' }, { state: 'output-error', errorText: 'Stopped before it ran.', approval: decided(true), toolMetadata: { outcome: 'stopped' } }),
          call('write_file', undefined, { state: 'output-error', rawInput: '{"path": oops', errorText: 'The arguments are not JSON.', approval: null, toolMetadata: { outcome: 'invalid' } }),
          call('write_file', { path: 'h.txt', content: '' }, { state: 'output-error', errorText: 'The tool is gone.', approval: decided(true), toolMetadata: { outcome: 'unavailable' } }),
          text('## What is left\n\n1. a *list*\n2. with `code`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```go\nfunc main() {\n\tprintln("hello")\n}\n```\n\nA [link](https://example.test), an image ![chart](https://example.test/x.png).'),
        ],
      },
    ],
  })
  const long = Array.from({ length: 300 }, (_, i) => `line ${i + 1} of a file that is long`).join('\n')
  server.addTopic('cards', 'Prepare the 2.4.0 release', {
    status: 'awaiting-approval',
    updatedAt: at(1),
    queued: ['Then post the link in #releases'],
    messages: [
      { role: 'user', parts: [text('Prepare the 2.4.0 release: changelog, then publish it.')] },
      {
        role: 'assistant', status: 'pending',
        parts: [
          text('Two things are left before the release can go out.'),
          call('write_file', { path: 'CHANGELOG.md', content: long }),
          call('delete_file', raw('{"path":"a\\u202etxt.exe","id":12345678901234567890,"ratio":1.0,"confirm":"true","force":true}')),
        ],
      },
    ],
  })
  server.addTopic('one', 'Only one card', {
    status: 'awaiting-approval',
    messages: [
      { role: 'user', parts: [text('Write hello to notes.txt')] },
      { role: 'assistant', status: 'pending', parts: [text('I will write the file.'), call('write_file', raw('{"path":"notes.txt","content":"hello"}'))] },
    ],
  })
  server.addTopic('running', 'A call that was allowed runs', {
    status: 'streaming',
    messages: [
      { role: 'user', parts: [text('list files')] },
      { role: 'assistant', status: 'pending', parts: [call('list_files', {}, { state: 'input-available', approval: null, toolMetadata: { verdict: 'allow', rule: 'auto-approve', startedAt: at(0) } })] },
    ],
  })
  const explain = (part, alwaysAllow) => {
    server.explanations.set(part.approval.id, { topicId: 'lasting', anchorId: 'lasting-m1', toolCallId: part.toolCallId, toolName: part.toolName, state: part.state, why: 'Nothing allows it.', alwaysAllow })
    return part
  }
  const rule = (tool, server) =>
    `From now on the tool “${tool}” of the server “${server}” runs without asking, in every chat and with every input: it is taken off the list of the server's tools that ask (disabledAutoApproveTools). Deny rules, ask rules and chats that ask for everything still come first.`
  server.addTopic('lasting', 'Cards that can be allowed for good', {
    status: 'awaiting-approval',
    messages: [
      { role: 'user', parts: [text('Write some files')] },
      {
        role: 'assistant', status: 'pending',
        parts: [
          call('write_file', { path: 'old.txt', content: 'x' }, { state: 'output-available', output: { path: 'old.txt' }, approval: decided(true, { remember: 'always-allow' }), toolMetadata: { startedAt: at(2), finishedAt: at(2), outcome: 'ok', why: 'The settings of the server ask for this tool.' } }),
          call('write_file', { path: 'two.txt', content: 'x' }, { state: 'output-available', output: { path: 'two.txt' }, approval: decided(true, { decidedBy: 'auto-approve', via: 'rule' }), toolMetadata: { verdict: 'allow', rule: 'auto-approve', startedAt: at(2), finishedAt: at(2), outcome: 'ok', why: 'This tool runs without asking, by the settings of its server.' } }),
          explain(call('write_file', { path: 'three.txt', content: 'hello' }, { approval: { expiresAt: at(-40) } }), { serverId: 'workspace', server: 'workspace', tool: 'write_file', rule: rule('write_file', 'workspace'), effective: true, why: 'The settings of the server allow it then.', others: 2 }),
          explain(call('delete_file', { path: 'three.txt' }, { approval: { expiresAt: at(-180) } }), { serverId: 'workspace', server: 'workspace', tool: 'delete_file', rule: rule('delete_file', 'workspace'), effective: false, why: 'The rule “Production asks” asks for this call.', others: 0 }),
          explain(call('slow_task', { seconds: 5 }, { toolMetadata: { changed: 'The settings of the tool’s server changed: the call would reach it in another way.' } }), undefined),
          call('old_tool', { id: 7 }, { toolMetadata: { server: 'tickets', serverId: 'srv-tickets', changed: 'The server does not offer this tool any more. If it is approved, the call fails, unless the tool has come back by then.', gone: true } }),
        ],
      },
    ],
  })
  const running = (more) => call('file_ticket', { title: 'Broken login' }, { state: 'input-available', approval: null, toolMetadata: { server: 'tickets', serverId: 'srv-tickets', title: 'File a ticket', startedAt: at(1), ...more } })
  server.addTopic('question', 'A tool asks', {
    status: 'streaming',
    messages: [
      { role: 'user', parts: [text('File a ticket for the broken login')] },
      { role: 'assistant', status: 'pending', parts: [text('I file it now.'), running({ questions: [{ id: 'q-open', askedAt: at(1), message: 'Some things are not clear yet.\nWhere does the ticket belong?', schema: questionSchema }] })] },
    ],
  })
  server.addTopic('answered', 'What tools have asked', {
    status: 'streaming',
    messages: [
      { role: 'user', parts: [text('File a ticket')] },
      {
        role: 'assistant', status: 'pending',
        parts: [
          running({
            questions: [
              { id: 'q-1', askedAt: at(4), message: 'How urgent is it?', action: 'accept', content: raw('{"urgency":"high","estimate":12345678901234567890}'), answeredAt: at(3), answeredBy: 'ada', via: 'web' },
              { id: 'q-2', askedAt: at(3), message: 'Your home address?', action: 'decline', answeredAt: at(2), answeredBy: 'grace', via: 'api' },
              { id: 'q-3', askedAt: at(2), message: 'Anything else?', action: 'cancel', answeredAt: at(1), answeredBy: 'ada', via: 'web' },
              { id: 'q-4', askedAt: at(2), message: 'Still there?', action: 'cancel', answeredAt: at(1), resolution: 'cancelled' },
            ],
          }),
        ],
      },
    ],
  })
  const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>').toString('base64')
  server.addTopic('media', 'What tools give', {
    status: 'done',
    messages: [
      { role: 'user', parts: [text('Show me')] },
      {
        role: 'assistant',
        parts: [
          call('take_picture', {}, {
            state: 'output-available', approval: null, toolMetadata: { server: 'camera', serverId: 'srv-cam', verdict: 'allow', rule: 'auto-approve', startedAt: at(2), finishedAt: at(2), outcome: 'ok' },
            output: {
              content: [
                { type: 'text', text: 'Here is the picture.' },
                { type: 'image', data: png, mimeType: 'image/png' },
                { type: 'image', data: svg, mimeType: 'image/svg+xml' },
                { type: 'image', data: 'not base64!', mimeType: 'image/png' },
                { type: 'audio', data: wav, mimeType: 'audio/wav' },
                { type: 'resource_link', uri: 'https://example.test/report?id=7', name: 'report', title: 'The report', mimeType: 'text/html' },
                { type: 'resource_link', uri: 'javascript:alert(1)', name: 'evil' },
                { type: 'resource', resource: { uri: 'file:///notes.txt', mimeType: 'text/plain', text: 'a note' } },
                { type: 'resource', resource: { uri: 'file:///x.zip', mimeType: 'application/zip', blob: 'UEsDBA==' } },
              ],
              structuredContent: raw('{"id":12345678901234567890,"ok":true,"nested":{"list":[1,2.50,{"deep":"value"}],"empty":{}}}'),
            },
          }),
        ],
      },
    ],
  })
  server.addTopic('failed', 'The model did not answer', {
    status: 'error', updatedAt: at(60), queued: ['And then?'],
    messages: [
      { role: 'user', parts: [text('Hello')] },
      { role: 'assistant', status: 'error', error: { kind: 'auth', message: 'The provider refused the key (401).' }, parts: [text('I was about to')] },
    ],
  })
  server.addTopic('stopped', 'Stopped in the middle', {
    status: 'aborted', updatedAt: at(3000),
    messages: [
      { role: 'user', parts: [text('Hello')] },
      { role: 'assistant', status: 'aborted', parts: [text('One, two')] },
    ],
  })
  return server
}

if (process.argv[1] === import.meta.filename) {
  const server = await fill(new FakeServer()).start()
  fillSettings(server.settings)
  server.me = 'owner'
  console.log(server.url)
}
