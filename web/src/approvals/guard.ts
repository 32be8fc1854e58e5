// A hand that is already on its way must not decide about a card that was not
// there when it set out. Keys and pointer are guarded apart: a press of the
// mouse moves the focus first, and one guard for both would swallow its click.

const keyboardRest = 600
const pointerRest = 500

let lastShift = -Infinity

/** Says that cards have come, gone or moved: what lies under the pointer is not what lay there before. */
export function cardsMoved(): void {
  lastShift = performance.now()
}

export interface Guard {
  /** Focus came into the card from outside. */
  entered(): void
  keyboardAllowed(): boolean
  pointerAllowed(): boolean
}

/** The guard of one card, which appears now. */
export function newGuard(): Guard {
  const appeared = performance.now()
  let entered = appeared
  return {
    entered() {
      entered = performance.now()
    },
    keyboardAllowed: () => performance.now() - entered >= keyboardRest,
    pointerAllowed: () => performance.now() - Math.max(appeared, lastShift) >= pointerRest,
  }
}

/** Whether a click was made with the keyboard (or by a screen reader), not with a pointer. */
export function byKeyboard(event: { detail: number }): boolean {
  return event.detail === 0
}
