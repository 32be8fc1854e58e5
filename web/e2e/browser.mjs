// One Chromium for a test file, and what every test needs of it.
import { mkdtempSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
export const shots = process.env.ASSENT_E2E_SHOTS ?? mkdtempSync(join(tmpdir(), 'assent-shots-'))

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-default-apps', '--disable-sync', '--no-first-run'],
  })
}

export const phone = { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true }

/** Opens a page that fails the test for whatever the browser complains about. */
export async function open(context, url, complaints) {
  const page = await context.newPage()
  page.on('pageerror', (error) => complaints?.push(`error: ${error.message}`))
  page.on('console', (message) => {
    // Failed requests are a part of some tests, and each says so in the console.
    if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text())) complaints?.push(`console: ${message.text()}`)
  })
  await page.goto(url)
  return page
}

export async function shot(page, name) {
  await page.screenshot({ path: join(shots, `${name}.png`) })
}

/** What axe finds wrong, one line each. */
export async function axe(page) {
  // Half-faded buttons are a moment, not a state.
  await page.evaluate(() => Promise.all(document.getAnimations().filter((a) => a.effect.getComputedTiming().iterations !== Infinity).map((a) => a.finished)))
  // Not by a script element: the page's policy forbids it.
  await page.evaluate(axeSource)
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
  return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(' ')}: ${n.failureSummary?.split('\n')[1]?.trim()}`))
}

/** By how much the page is wider than the screen. */
export async function overflow(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
}

/** Whether all of an element is on the screen. */
export async function inView(locator) {
  return locator.evaluate((element) => {
    const box = element.getBoundingClientRect()
    const on = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
    return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth && (element === on || element.contains(on))
  })
}

/** Waits until there are as many as wanted, attached to the page. */
export async function count(locator, wanted) {
  if (wanted > 0) await locator.nth(wanted - 1).waitFor({ state: 'attached' })
  await locator.nth(wanted).waitFor({ state: 'detached' })
}

// A card takes no click in its first half second, and no key in the first 600 ms
// after the focus came. These let that much of the page's own time go by.
const pageTime = (page, ms) => page.evaluate((wait) => new Promise((done) => setTimeout(done, wait)), ms)
export async function rested(page) {
  await page.locator('[data-approval], [data-question], dialog[open]').first().waitFor()
  await pageTime(page, 500)
}
export const typed = (page) => pageTime(page, 600)
