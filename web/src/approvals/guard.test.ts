import { afterEach, describe, expect, it } from 'vitest'
import { inSight, ruleInSight } from './guard'

/** A card in a thread that shows what lies between 100 and 700, each piece at the given top and bottom. */
function card(head: [number, number], input: [number, number], actions: [number, number]): HTMLElement {
  document.body.innerHTML =
    '<div class="thread"><article><header class="card-head"></header><div class="card-input"></div><footer class="card-actions"></footer></article></div>'
  const place = (selector: string, [top, bottom]: [number, number]) => {
    const element = document.querySelector<HTMLElement>(selector)!
    element.getBoundingClientRect = () => new DOMRect(0, top, 300, bottom - top)
  }
  place('.thread', [100, 700])
  place('.card-head', head)
  place('.card-input', input)
  place('.card-actions', actions)
  return document.querySelector('article')!
}

afterEach(() => {
  document.body.innerHTML = ''
})

describe('a card is in sight', () => {
  it('when its head and its input are', () => expect(inSight(card([120, 180], [200, 260], [300, 350]))).toBe(true))
  it('when its head and a good piece of a long input are', () => expect(inSight(card([120, 180], [200, 2000], [640, 700]))).toBe(true))
})

describe('a card is not in sight', () => {
  it('when only its buttons stick to the edge', () => expect(inSight(card([900, 960], [980, 1040], [640, 700]))).toBe(false))
  it('when its buttons lie over its input', () => expect(inSight(card([580, 635], [645, 800], [640, 700]))).toBe(false))
  it('when its head is above the thread', () => expect(inSight(card([20, 80], [120, 600], [620, 680]))).toBe(false))
})

describe('a rule is in sight', () => {
  const at = (rule: [number, number]) => {
    const element = card([-400, -340], [-300, 100], [640, 700])
    const box = document.createElement('div')
    box.className = 'always'
    box.getBoundingClientRect = () => new DOMRect(0, rule[0], 300, rule[1] - rule[0])
    element.append(box)
    return ruleInSight(element)
  }
  it('up to its end, however long it is', () => expect([at([200, 630]), at([-50, 640])]).toEqual([true, true]))
  it('not while its end is below, or all of it above', () => expect([at([200, 660]), at([-300, 120])]).toEqual([false, false]))
})
