import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, describe, expect, it } from 'vitest'
import type { Held } from '../live/reduce'
import type { MessageMetadata } from '../live/types'
import { Message } from './Message'

afterEach(cleanup)

function held(metadata: Pick<MessageMetadata, 'status' | 'error'>): Held {
  const at = '2026-11-30T12:00:00Z'
  return {
    message: {
      id: 'm2', role: 'assistant', parts: [{ type: 'text', text: 'The first half' }],
      metadata: { parentId: 'm1', createdAt: at, updatedAt: at, revision: 3, ...metadata },
    },
    metaRevision: 3, partsRevision: 3, partRevisions: {}, epoch: 1, progress: {},
  }
}
const show = (metadata: Pick<MessageMetadata, 'status' | 'error'>) => render(<Message held={held(metadata)} actions={{}} />)

describe('below an answer', () => {
  it('that the provider ended early stands why, as no failure', () => {
    show({ status: 'success', error: { kind: 'length', message: 'The reply reached the limit of its length.' } })
    expect(screen.getByText('The first half')).toBeTruthy()
    expect(screen.getByText('The reply reached the limit of its length.').closest('p')!.className).toBe('ended')
    expect(screen.queryByRole('alert')).toBeNull()
    expect(screen.queryByText(/The turn failed/)).toBeNull()
    expect(screen.queryByRole('button', { name: 'Retry' })).toBeNull()
  })

  it('that failed stands why, as an alert', () => {
    const { container } = show({ status: 'error', error: { kind: 'incomplete', message: 'The reply broke off.' } })
    expect(screen.getByRole('alert').textContent).toContain('The turn failed: The reply broke off.')
    expect(container.querySelector('.ended')).toBeNull()
  })

  it('that is whole stands nothing', () => {
    const { container } = show({ status: 'success' })
    expect(container.querySelector('.ended, .error')).toBeNull()
  })

  it.each(['pending', 'aborted'] as const)('that is %s stands no reason of another state', (status) => {
    show({ status, error: { kind: 'length', message: 'Of another state.' } })
    expect(screen.queryByText('Of another state.')).toBeNull()
  })
})
