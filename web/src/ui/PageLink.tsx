import type { MouseEvent, ReactNode } from 'react'
import { navigate } from '../router'

interface PageLinkProps {
  to: string
  className?: string
  current?: boolean
  label?: string
  onGo?(): void
  children: ReactNode
}

/** A link to another place of this page: a plain click stays in it, any other is the browser's. */
export function PageLink({ to, className, current = false, label, onGo, children }: PageLinkProps) {
  const onClick = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    navigate(to)
    onGo?.()
  }
  return (
    <a href={to} className={className} aria-current={current ? 'page' : undefined} aria-label={label} title={label} onClick={onClick}>
      {children}
    </a>
  )
}
