import { useState } from 'react'
import { api, ApiError, explain, type Session } from './api/client'
import { Icon } from './ui/Icon'

/** Shown to whoever has no session. */
export function SignIn({ onSignedIn }: { onSignedIn(session: Session): void }) {
  const [token, setToken] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  async function signIn() {
    const wanted = token.trim()
    if (wanted === '' || busy) return
    setBusy(true)
    setError(undefined)
    try {
      onSignedIn(await api.signIn(wanted))
    } catch (e) {
      setError(e instanceof ApiError && e.status === 401 ? 'The server does not know this token.' : explain(e))
      setBusy(false)
    }
  }
  return (
    <main className="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void signIn()
        }}
      >
        <h1>Sign in to Assent</h1>
        <p>When the server started, it printed a login link on its console. Open that link in this browser, or paste a token here.</p>
        <p>
          <code>assent token</code> prints the token again.
        </p>
        <label htmlFor="token">Token</label>
        <input id="token" type="password" autoComplete="current-password" value={token} autoFocus onChange={(event) => setToken(event.target.value)} />
        {error && (
          <p className="error" role="alert">
            <Icon name="warning" /> {error}
          </p>
        )}
        <button type="submit" className="primary" aria-disabled={busy || token.trim() === ''}>
          {busy ? 'Signing in…' : 'Sign in'}
        </button>
      </form>
    </main>
  )
}
