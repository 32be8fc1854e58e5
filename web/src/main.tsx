import { createRoot } from 'react-dom/client'
import { App } from './App'
import { FeedContext } from './feed'
import { connect } from './live/connect'
import { Feed } from './live/feed'
import './styles/index.css'
import { topicOf } from './router'
import { Boundary } from './ui/Boundary'
import { applyTheme } from './ui/theme'

applyTheme()

const feed = new Feed()
feed.watch(topicOf(location.pathname))
const line = connect(feed.receive)
feed.join((message) => line.send(message))

// A hidden page may be frozen without notice; one that comes back from the
// browser's cache has missed everything since.
window.addEventListener('pagehide', () => feed.leave())
window.addEventListener('pageshow', (event) => {
  if (event.persisted) feed.refresh()
})
window.addEventListener('online', () => feed.wake())
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') feed.wake()
})
setInterval(() => feed.here(), 60_000)

createRoot(document.getElementById('root')!).render(
  <FeedContext value={feed}>
    <Boundary what="The page">
      <App />
    </Boundary>
  </FeedContext>,
)
