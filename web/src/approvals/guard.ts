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

/** How much of an input must be in sight, in pixels, if it is not all of it. */
const inputInSight = 48

/**
 * Whether a person can see what a card asks for: its head, and its input or a
 * good piece of it. The buttons stick to the edge of the thread, so that they
 * can be there while the rest of the card is not.
 */
export function inSight(card: HTMLElement): boolean {
  const thread = card.closest('.thread')?.getBoundingClientRect()
  const head = card.querySelector('.card-head')?.getBoundingClientRect()
  const input = card.querySelector('.card-input')?.getBoundingClientRect()
  const actions = card.querySelector('.card-actions')?.getBoundingClientRect()
  if (!thread || !head || !input || !actions) return true
  const top = thread.top - 1
  const bottom = Math.min(thread.bottom, actions.top) + 1
  return head.top >= top && head.bottom <= bottom && input.top + Math.min(input.height, inputInSight) <= bottom
}

/** Whether a person has the rule that is about to be made before the eyes, up to its end. It was shown from its beginning. */
export function ruleInSight(card: HTMLElement): boolean {
  const thread = card.closest('.thread')?.getBoundingClientRect()
  const rule = card.querySelector('.always')?.getBoundingClientRect()
  const actions = card.querySelector('.card-actions')?.getBoundingClientRect()
  if (!thread || !rule || !actions) return true
  return rule.bottom <= Math.min(thread.bottom, actions.top) + 1 && rule.bottom - Math.min(rule.height, inputInSight) >= thread.top - 1
}

/** Whether a click was made with the keyboard (or by a screen reader), not with a pointer. */
export function byKeyboard(event: { detail: number }): boolean {
  return event.detail === 0
}
