import { type RefObject, useCallback, useEffect, useRef, useState } from 'react'

const near = 90

function showsCard(scroller: HTMLElement): boolean {
  const { top, bottom } = scroller.getBoundingClientRect()
  return [...scroller.querySelectorAll('[data-approval], [data-question]')].some((card) => {
    const box = card.getBoundingClientRect()
    return box.top < bottom && box.bottom > top
  })
}

/**
 * Keeps the end of a growing thread in view for as long as the reader is there.
 * It stops at the first card that waits: that is what must be read next, and
 * its buttons stick to the lower edge.
 */
export function useStickyScroll(box: RefObject<HTMLElement | null>, content: RefObject<HTMLElement | null>, topicId: string) {
  const pinned = useRef(true)
  const aimed = useRef(-1)
  const [away, setAway] = useState(false)

  const toEnd = useCallback(() => {
    const scroller = box.current
    if (!scroller) return
    const end = scroller.scrollHeight - scroller.clientHeight
    const card = scroller.querySelector<HTMLElement>('.batch, [data-approval], [data-question]')
    const top = card ? card.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop - 8 : end
    aimed.current = Math.max(0, Math.min(end, top))
    scroller.scrollTop = aimed.current
  }, [box])

  useEffect(() => {
    pinned.current = true
    setAway(false)
    const scroller = box.current
    const inner = content.current
    if (!scroller || !inner) return
    toEnd()
    const onScroll = () => {
      const fromEnd = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop
      pinned.current = fromEnd < near || Math.abs(scroller.scrollTop - aimed.current) < 2
      // Over a card that can be seen it would only be in the way.
      setAway(!pinned.current && !showsCard(scroller))
    }
    const watcher = new ResizeObserver(() => {
      // Whoever is at work in a card, or edits a message, must not have it moved away.
      const focused = document.activeElement
      const atWork = inner.contains(focused) && focused?.closest('[data-approval], [data-question], textarea')
      if (pinned.current && !atWork) toEnd()
    })
    watcher.observe(inner)
    watcher.observe(scroller)
    scroller.addEventListener('scroll', onScroll, { passive: true })
    return () => {
      watcher.disconnect()
      scroller.removeEventListener('scroll', onScroll)
    }
  }, [box, content, toEnd, topicId])

  const jump = useCallback(() => {
    pinned.current = true
    setAway(false)
    toEnd()
  }, [toEnd])
  return { away, jump }
}
