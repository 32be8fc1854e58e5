// The real server, built once per run and started on a free port of this
// machine with a data folder of its own.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const root = join(import.meta.dirname, '..', '..')

/** Builds the server, unless ASSENT_BIN names one, and says where it is. */
export function build() {
  if (process.env.ASSENT_BIN) return { binary: process.env.ASSENT_BIN, remove() {} }
  const folder = mkdtempSync(join(tmpdir(), 'assent-e2e-bin-'))
  const binary = join(folder, 'assent')
  const built = spawnSync('go', ['build', '-o', binary, './cmd/assent'], { cwd: root, encoding: 'utf8' })
  if (built.status !== 0) throw new Error(`the server does not build:\n${built.stderr}`)
  return { binary, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  probe.close()
  await once(probe, 'close')
  return port
}

export class Assent {
  constructor(binary, env = {}) {
    this.binary = binary
    this.env = env
    this.dataDir = mkdtempSync(join(tmpdir(), 'assent-e2e-'))
  }

  /** Starts, or starts again on the same port and data. */
  async start() {
    this.port ??= await freePort()
    this.url = `http://127.0.0.1:${this.port}`
    this.child = spawn(this.binary, [], {
      env: { PATH: process.env.PATH, HOME: this.dataDir, ASSENT_DATA_DIR: this.dataDir, ASSENT_ADDR: `127.0.0.1:${this.port}`, ...this.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let log = ''
    this.child.stderr.on('data', (chunk) => (log += chunk))
    const lines = createInterface({ input: this.child.stdout })
    this.loginLink = await new Promise((resolve, reject) => {
      lines.on('line', (line) => {
        const link = /http:\/\/\S+\/login\?token=\S+/.exec(line)
        if (link) resolve(link[0])
      })
      this.child.once('exit', (code) => reject(new Error(`the server ended with ${code}:\n${log}`)))
    })
    // It has printed its link before; now wait until it can serve.
    for (let i = 0; ; i++) {
      const ready = await fetch(`${this.url}/readyz`).then((r) => r.ok, () => false)
      if (ready) return this
      if (i > 200) throw new Error(`the server does not get ready:\n${log}`)
      await new Promise((done) => setTimeout(done, 25))
    }
  }

  get token() {
    return readFileSync(join(this.dataDir, 'token'), 'utf8').trim()
  }

  /** A call of the HTTP interface, as curl would make it. */
  async call(method, path, body) {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : text
  }

  /** A topic in which a message was sent. */
  async topic(text, start = {}) {
    const { id } = await this.call('POST', '/topics', start)
    await this.call('POST', `/topics/${id}/messages`, { text })
    return id
  }

  async end(signal) {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode !== null) return
    const gone = once(this.child, 'exit')
    this.child.kill(signal)
    await gone
  }
  kill() {
    return this.end('SIGKILL')
  }
  async stop() {
    await this.end('SIGKILL')
    rmSync(this.dataDir, { recursive: true, force: true })
  }
}

/** Gives a browser context the cookie. */
export async function signIn(context, server) {
  const answer = await context.request.post(`${server.url}/session`, { data: { token: server.token } })
  if (!answer.ok()) throw new Error(`sign-in: ${answer.status()}`)
}
