import { browserDeps, type FromHub, Hub, type ToHub } from './hub'

interface WorkerScope {
  onconnect: ((event: MessageEvent) => void) | null
}

const hub = new Hub(browserDeps)

;(globalThis as unknown as WorkerScope).onconnect = (event) => {
  const port = event.ports[0]
  if (!port) return
  const tab = { post: (message: FromHub) => port.postMessage(message) }
  port.onmessage = (message: MessageEvent<ToHub>) => hub.receive(tab, message.data)
}
