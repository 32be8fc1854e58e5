// A model behind the OpenAI interface that calls the tool which it is told to:
// “call NAME {…}”. The demo model knows only the tools of the workspace.
import { createServer } from 'node:http'

export async function startModel() {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    if (request.url.endsWith('/models')) {
      response.writeHead(200, { 'content-type': 'application/json' })
      return response.end(JSON.stringify({ object: 'list', data: [{ id: 'caller', object: 'model', created: 0, owned_by: 'tests' }] }))
    }
    const last = JSON.parse(body).messages.at(-1)
    const said = typeof last.content === 'string' ? last.content : (last.content ?? []).map((c) => c.text ?? '').join('')
    const wanted = last.role === 'user' && /^call (\S+) (\{.*\})$/.exec(said)
    const delta = wanted
      ? { role: 'assistant', tool_calls: [{ index: 0, id: `call_${Date.now()}`, type: 'function', function: { name: wanted[1], arguments: wanted[2] } }] }
      : { role: 'assistant', content: `It said: ${said.slice(0, 200)}` }
    const chunk = (more) => `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 0, model: 'caller', choices: [{ index: 0, ...more }] })}\n\n`
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(chunk({ delta }) + chunk({ delta: {}, finish_reason: wanted ? 'tool_calls' : 'stop' }) + 'data: [DONE]\n\n')
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${server.address().port}/v1`,
    stop() {
      server.closeAllConnections()
      return new Promise((done) => server.close(done))
    },
  }
}
