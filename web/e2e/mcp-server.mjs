// A small MCP server over standard input and output, for the tests: one tool
// that asks the person something while it runs, and one that gives a picture.
import { createInterface } from 'node:readline'

const tools = [
  { name: 'file_ticket', title: 'File a ticket', description: 'Files a ticket.', inputSchema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] }, annotations: { readOnlyHint: false, destructiveHint: false } },
  { name: 'picture', title: 'Take a picture', inputSchema: { type: 'object', properties: {} }, annotations: { readOnlyHint: true } },
]
const png = 'iVBORw0KGgoAAAANSUhEUgAAABgAAAAQCAIAAACDRijCAAAAH0lEQVR42mPQz79LEH0+lk4QMYwaNGrQqEGjBlFmEADFjrRfFA7OMwAAAABJRU5ErkJggg=='
const question = {
  message: 'How urgent is it?',
  requestedSchema: { type: 'object', properties: { urgency: { type: 'string', title: 'Urgency', enum: ['high', 'low'] }, hours: { type: 'integer', title: 'Hours' } }, required: ['urgency'] },
}

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const waiting = new Map()
let asked = 0
function request(method, params) {
  const id = `s${++asked}`
  say({ id, method, params })
  return new Promise((done) => waiting.set(id, done))
}
const text = (value) => ({ content: [{ type: 'text', text: value }] })

async function call({ name, arguments: args }) {
  if (name === 'picture') return { content: [{ type: 'image', data: png, mimeType: 'image/png' }], structuredContent: { width: 24, height: 16 } }
  const answer = await request('elicitation/create', question)
  return text(answer.result?.action === 'accept' ? `Filed “${args.title}”: ${answer.result.content.urgency}, ${answer.result.content.hours} hours.` : 'Not filed.')
}

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method, params, ...rest } = JSON.parse(line)
  if (method === undefined) return waiting.get(id)?.(rest)
  if (id === undefined) return
  const answers = {
    initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'helpdesk-mcp', version: '1.0.0' } }),
    'tools/list': () => ({ tools }),
    'tools/call': () => call(params),
    ping: () => ({}),
  }
  const answer = answers[method]
  if (answer) say({ id, result: await answer() })
  else say({ id, error: { code: -32601, message: 'There is no such method.' } })
})
