import { browserDeps, type FromHub, Hub, type ToHub } from './hub'

/** A tab's line to the hub. */
export interface Line {
  send(message: ToHub): void
}

/**
 * Joins the shared hub, or makes one for this tab alone where the browser has no
 * SharedWorker or cannot start ours.
 */
export function connect(receive: (message: FromHub) => void): Line {
  let watching: ToHub | undefined
  let send = shared(receive, () => {
    send = alone(receive)
    if (watching) send(watching)
  })
  return {
    send(message) {
      if (message.type === 'watch') watching = message
      send(message)
    },
  }
}

function alone(receive: (message: FromHub) => void): (message: ToHub) => void {
  const hub = new Hub(browserDeps)
  const tab = { post: receive }
  return (message) => hub.receive(tab, message)
}

function shared(receive: (message: FromHub) => void, failed: () => void): (message: ToHub) => void {
  if (typeof SharedWorker === 'undefined') return alone(receive)
  try {
    const worker = new SharedWorker(new URL('./hub.worker.ts', import.meta.url), { type: 'module', name: 'assent-events' })
    worker.onerror = failed
    worker.port.onmessage = (event: MessageEvent<FromHub>) => receive(event.data)
    return (message) => worker.port.postMessage(message)
  } catch {
    // Refused, for example in a private window.
    return alone(receive)
  }
}
