import { useState } from 'react'

export type Theme = 'auto' | 'light' | 'dark'
const key = 'assent.theme'

function stored(): Theme {
  try {
    const value = localStorage.getItem(key)
    return value === 'light' || value === 'dark' ? value : 'auto'
  } catch {
    return 'auto'
  }
}

/** Sets the chosen theme on the document; without a choice the system's counts. */
export function applyTheme(theme: Theme = stored()): void {
  if (theme === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(stored)
  return [
    theme,
    (next) => {
      try {
        localStorage.setItem(key, next)
      } catch {
        // Then it holds until the page is left.
      }
      applyTheme(next)
      setTheme(next)
    },
  ]
}
