import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Icon, type IconName } from './Icon'

interface Item {
  icon: IconName
  label: string
  act(): void
}

/** A button with a few more actions behind it. */
export function Menu({ label, items, children }: { label: string; items: Item[]; children?: ReactNode }) {
  const [open, setOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (!open) return
    const onPointer = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', onPointer)
    box.current?.querySelector<HTMLElement>('.menu-items button')?.focus()
    return () => document.removeEventListener('pointerdown', onPointer)
  }, [open])
  return (
    <div
      className={`menu ${open ? 'open' : ''}`}
      ref={box}
      onKeyDown={(event) => {
        if (!open) return
        if (event.key === 'Escape') {
          event.stopPropagation()
          setOpen(false)
          button.current?.focus()
        }
        if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
          event.preventDefault()
          const all = [...(box.current?.querySelectorAll<HTMLElement>('.menu-items button') ?? [])]
          const at = all.indexOf(document.activeElement as HTMLElement)
          all[(at + (event.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length]?.focus()
        }
      }}
      onBlur={(event) => {
        if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) setOpen(false)
      }}
    >
      <button ref={button} type="button" className="quiet icon-button" aria-label={label} aria-expanded={open} onClick={() => setOpen(!open)}>
        {children ?? <Icon name="more" />}
      </button>
      {open && (
        <div className="menu-items">
          {items.map((item) => (
            <button
              key={item.label}
              type="button"
              onClick={() => {
                setOpen(false)
                button.current?.focus()
                item.act()
              }}
            >
              <Icon name={item.icon} /> {item.label}
            </button>
          ))}
        </div>
      )}
    </div>
  )
}
