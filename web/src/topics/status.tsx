import { type Status, waitingIn } from '../live/types'
import { Icon, type IconName } from '../ui/Icon'

const look: Record<string, { icon: IconName; tone: string; words: string } | undefined> = {
  pending: { icon: 'gear', tone: 'busy', words: 'Working' },
  streaming: { icon: 'pencil', tone: 'busy', words: 'Writing' },
  'awaiting-approval': { icon: 'hand', tone: 'warn', words: 'Needs you' },
  error: { icon: 'warning', tone: 'bad', words: 'Failed' },
  aborted: { icon: 'stop', tone: 'quiet', words: 'Stopped' },
  done: { icon: 'check', tone: 'good', words: 'Done' },
}

/** Whether a turn of the topic is under way, so that a message would have to wait. */
export function isBusy(status: Status | undefined): boolean {
  return status?.status === 'pending' || status?.status === 'streaming' || status?.status === 'awaiting-approval'
}

/** What a topic is doing, in a word and a sign; nothing for one that is idle. */
export function StatusChip({ status }: { status: Status | undefined }) {
  if (!status) return null
  const waiting = waitingIn(status)
  // A question can be open while a sibling call still runs; it is what a person must see.
  const found = waiting > 0 ? look['awaiting-approval'] : look[status.status]
  if (!found) return null
  return (
    <span className={`chip ${found.tone}`}>
      <Icon name={found.icon} /> {found.words}
      {waiting > 0 && ` · ${waiting}`}
    </span>
  )
}
