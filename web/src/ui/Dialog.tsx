import { type ReactNode, useId, useLayoutEffect, useRef, useState } from 'react'
import { byKeyboard, newGuard } from '../approvals/guard'

interface DialogProps {
  title: string
  confirm: string
  /** The tone of the confirming button. */
  tone?: 'primary' | 'danger'
  busy?: boolean
  error?: string | undefined
  onConfirm(): void
  onClose(): void
  children?: ReactNode
}

/** A question before something that cannot be taken back. It opens with the focus on Cancel. */
export function Dialog({ title, confirm, tone = 'primary', busy = false, error, onConfirm, onClose, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const [guard] = useState(newGuard)
  const cancel = useRef<HTMLButtonElement>(null)
  const id = useId()
  // Closed while it is still in the page, so that the focus goes back to where it was.
  useLayoutEffect(() => {
    const dialog = ref.current
    dialog?.showModal()
    cancel.current?.focus()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={ref}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onKeyDown={(event) => {
        if (event.repeat && (event.key === 'Enter' || event.key === ' ')) event.preventDefault()
      }}
    >
      <h2 id={id}>{title}</h2>
      <div className="dialog-body">{children}</div>
      {error && (
        <p className="error" role="alert">
          {error}
        </p>
      )}
      <div className="dialog-actions">
        <button ref={cancel} type="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          className={tone}
          aria-disabled={busy}
          onClick={(event) => {
            if (busy || !(byKeyboard(event) ? guard.keyboardAllowed() : guard.pointerAllowed())) return
            onConfirm()
          }}
        >
          {confirm}
        </button>
      </div>
    </dialog>
  )
}
