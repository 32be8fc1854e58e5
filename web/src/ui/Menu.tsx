import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Icon, type IconName } from './Icon'

interface Item {
  icon: IconName
  label: string
  act(): void
}

interface MenuProps {
  label: string
  items: Item[]
  className?: string
  /** The class of the button. */
  button?: string
  disabled?: boolean
  /** What is said while there is no item. */
  empty?: string | undefined
  onOpen?(): void
  children?: ReactNode
}

/** A button with a few more actions behind it. */
export function Menu({ label, items, className = '', button: look = 'quiet', disabled = false, empty, onOpen, children }: MenuProps) {
  const [open, setOpen] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    if (!open) return
    const onPointer = (event: PointerEvent) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', onPointer)
    return () => document.removeEventListener('pointerdown', onPointer)
  }, [open])
  const some = items.length > 0
  // What a menu that opens upwards belongs to must not be moved out of sight.
  const still = { preventScroll: className.includes('up') }
  useEffect(() => {
    if (open && some) box.current?.querySelector<HTMLElement>('.menu-items button')?.focus(still)
    // Whether it opens upwards never changes.
  }, [open, some])
  return (
    <div
      className={`menu ${className} ${open ? 'open' : ''}`}
      ref={box}
      onKeyDown={(event) => {
        if (!open) return
        if (event.key === 'Escape') {
          event.stopPropagation()
          setOpen(false)
          button.current?.focus(still)
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
      <button
        ref={button}
        type="button"
        className={`${look} icon-button`}
        aria-label={label}
        aria-expanded={open}
        aria-disabled={disabled}
        onClick={() => {
          if (disabled) return
          if (!open) onOpen?.()
          setOpen(!open)
        }}
      >
        {children ?? <Icon name="more" />}
      </button>
      {open && (
        <div className="menu-items">
          {!some && empty !== undefined && (
            <p className="note" role="status">
              {empty}
            </p>
          )}
          {items.map((item) => (
            <button
              key={item.label}
              type="button"
              onClick={() => {
                setOpen(false)
                button.current?.focus(still)
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
