// The page in front of the real server, with the demo model.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Assent, build, signIn } from './assent.mjs'
import { axe, count, inView, launch, open, overflow, phone, rested, shot, typed } from './browser.mjs'

const bin = build()
const server = new Assent(bin.binary)
let browser
let contexts = []
let complaints = []

before(async () => {
  await server.start()
  browser = await launch()
})
after(async () => {
  await browser?.close()
  await server.stop()
  bin.remove()
})
afterEach(async () => {
  for (const context of contexts) await context.close()
  contexts = []
  const found = complaints
  complaints = []
  assert.deepEqual(found, [])
})

async function user(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 }, ...options })
  context.setDefaultTimeout(15_000)
  contexts.push(context)
  await signIn(context, server)
  return context
}
const visit = (context, topicId) => open(context, topicId === undefined ? server.url : `${server.url}/t/${topicId}`, complaints)
const cards = (page) => page.locator('[data-approval]')
const card = (page, path) => cards(page).filter({ hasText: path })
const lines = (page, words) => page.locator('.line').filter({ hasText: words })
const approve = (scope) => scope.getByRole('button', { name: /^Approve once/ })
const deny = (scope) => scope.getByRole('button', { name: /^Deny(…| |$)/ })
const status = (page, words) => page.locator('.topic-head .chip', { hasText: words }).waitFor()
describe('signing in', () => {
  it('works once by the link that the server prints', async () => {
    const context = await browser.newContext()
    contexts.push(context)
    const page = await open(context, server.loginLink, complaints)
    await page.getByRole('heading', { name: 'Welcome to Assent' }).waitFor()
    assert.equal(new URL(page.url()).pathname, '/')
    await shot(page, 'welcome')
  })

  it('works with a token, says so when it is wrong, and leads to the topic that was asked for', async () => {
    const topicId = await server.topic('help')
    const context = await browser.newContext()
    contexts.push(context)
    const page = await open(context, `${server.url}/t/${topicId}`, complaints)
    await page.getByRole('heading', { name: 'Sign in to Assent' }).waitFor()
    await page.getByLabel('Token').fill('wrong')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').filter({ hasText: 'does not know this token' }).waitFor()
    await page.getByLabel('Token').fill(server.token)
    await page.keyboard.press('Enter')
    await page.locator('.message.assistant').waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { name: 'Sign in to Assent' }).waitFor()
  })
})

describe('a turn', () => {
  it('can be had with the keyboard alone', async () => {
    const page = await visit(await user())
    await page.getByLabel('Message').waitFor()
    // The focus is in the composer from the start.
    await page.keyboard.type('write keys1.txt and keys2.txt')
    await page.keyboard.press('Enter')
    await count(cards(page), 2)
    assert.match(await page.title(), /^\(2\) Approve\? /)
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA', 'the focus stays in the composer')
    assert.match(await page.locator('[data-announcer]').textContent(), /2 decisions are needed: Write a file, Write a file\. Alt\+A/)

    await page.keyboard.press('Enter')
    await page.keyboard.press('Control+Enter')
    await count(cards(page), 2)

    await page.keyboard.press('Alt+a')
    assert.equal(await page.evaluate(() => document.activeElement.matches('[data-approval]')), true, 'the card has the focus, not a button')
    await page.keyboard.press('Control+Enter') // too early: the hand was on its way
    await typed(page)
    await count(cards(page), 2)
    await page.keyboard.press('Enter')
    await page.keyboard.press('Control+Enter')
    await count(cards(page), 1)

    // The focus went on to the second card, where the same chord is ignored at first.
    await page.keyboard.press('Control+Enter')
    await typed(page)
    await count(cards(page), 1)
    await page.keyboard.press('d')
    await page.keyboard.type('one is enough')
    await page.keyboard.press('Control+Enter')
    await status(page, 'Done')
    await lines(page, 'You denied write_file — “one is enough”').waitFor()
    await lines(page, 'write_file done keys1.txt').waitFor()
    assert.doesNotMatch(await page.title(), /Approve/)
  })

  it('shows what ran by rule without ever asking', async () => {
    const page = await visit(await user(), await server.topic('list files'))
    await status(page, 'Done')
    await lines(page, 'list_files done').filter({ hasText: 'allowed by rule' }).waitFor()
    assert.equal(await cards(page).count(), 0)
  })

  it('queues what is written meanwhile, which decides nothing', async () => {
    const page = await visit(await user(), await server.topic('write queue.txt'))
    await rested(page)
    await page.getByLabel('Message').fill('approve')
    assert.equal(await page.getByRole('button', { name: 'Queue', exact: true }).count(), 1)
    await page.keyboard.press('Enter')
    const queued = page.getByRole('list', { name: 'Queued messages' }).getByRole('listitem')
    await count(queued, 1)
    assert.equal(await cards(page).count(), 1)
    await queued.getByRole('button', { name: /Remove/ }).click()
    await count(queued, 0)
    await page.getByLabel('Message').fill('help')
    await page.keyboard.press('Enter')
    await count(queued, 1)
    await approve(cards(page)).click()
    await count(queued, 0)
    await count(page.locator('.message.user'), 2)
    await status(page, 'Done')
  })

  it('can be stopped, retried, and what was queued can be sent', async () => {
    const page = await visit(await user(), await server.topic('write stopped.txt'))
    await rested(page)
    await page.getByLabel('Message').fill('help')
    await page.keyboard.press('Enter')
    await page.getByRole('listitem').filter({ hasText: 'Queued' }).waitFor()
    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await lines(page, 'write_file cancelled: stopped before anybody decided').waitFor()
    await status(page, 'Stopped')
    await page.getByRole('button', { name: 'Retry' }).waitFor()
    await page.getByRole('button', { name: 'Send now' }).click()
    await count(page.locator('.message.user'), 2)
    await status(page, 'Done')
  })

  it('can be answered again and asked otherwise, and every version stays', async () => {
    const page = await visit(await user(), await server.topic('help'))
    await status(page, 'Done')
    await page.getByRole('button', { name: 'Regenerate' }).click()
    await page.getByText('2 of 2').waitFor()
    await status(page, 'Done')
    await page.getByRole('button', { name: 'Previous version' }).click()
    await page.getByText('1 of 2').waitFor()
    await page.getByRole('button', { name: 'Edit' }).click()
    await page.getByLabel('Edit the message').fill('show markdown')
    await page.getByRole('button', { name: 'Send again' }).click()
    await page.locator('.message.user', { hasText: 'show markdown' }).waitFor()
    await status(page, 'Done')
    await page.locator('.message.user').getByRole('button', { name: 'Previous version' }).click()
    await page.locator('.message.user', { hasText: 'help' }).waitFor()
  })

  it('runs an edited input, and says that it was edited', async () => {
    const page = await visit(await user(), await server.topic('write edited.txt'))
    await rested(page)
    await cards(page).getByRole('button', { name: /^Edit input/ }).click()
    const area = cards(page).getByRole('textbox')
    await area.fill('{"path": "edited.txt", "content": 5}')
    await cards(page).getByText('must be a string').waitFor()
    await area.fill('{"path": "edited.txt", "content": "by hand"}')
    await cards(page).getByText('Valid JSON').waitFor()
    await shot(page, 'edit')
    await cards(page).getByRole('button', { name: /^Approve with changes/ }).click()
    const line = lines(page, 'write_file done with a changed input')
    await line.waitFor()
    await line.locator('summary').click()
    await line.getByText('What the model had asked for').waitFor()
    assert.match(await line.textContent(), /by hand/)
  })
})

describe('several tabs', () => {
  it('share one connection and see every decision without a reload', async () => {
    const context = await user()
    const topicId = await server.topic('write tabs1.txt and tabs2.txt')
    const tabs = []
    for (let i = 0; i < 8; i++) tabs.push(await visit(context, topicId))
    for (const tab of tabs) await count(cards(tab), 2)
    assert.match(await server.call('GET', '/metrics'), /^assent_http_open_streams 1$/m)

    await rested(tabs[3])
    await approve(card(tabs[3], 'tabs2.txt')).click()
    for (const tab of tabs) await count(cards(tab), 1)
    for (const tab of tabs) assert.equal(await card(tab, 'tabs1.txt').count(), 1)

    // Somebody without a browser decides, and the tab that joined first is gone.
    await tabs.shift().close()
    const { approvals } = await server.call('GET', `/topics/${topicId}/approvals?state=pending`)
    await server.call('POST', `/topics/${topicId}/approvals`, { approvalId: approvals[0].approvalId, approved: false, reason: 'by curl' })
    for (const tab of tabs) {
      await count(cards(tab), 0)
      await lines(tab, 'denied write_file — “by curl”').filter({ hasText: 'via API' }).waitFor()
      await status(tab, 'Done')
    }
  })

  it('never draw a card of one topic in another', async () => {
    const context = await user()
    const [a, b] = [await server.topic('write only-in-a.txt'), await server.topic('help')]
    const [tabA, tabB] = [await visit(context, a), await visit(context, b)]
    await count(card(tabA, 'only-in-a.txt'), 1)
    await status(tabB, 'Done')
    assert.equal(await cards(tabB).count(), 0)
    // From one to the other in the same tab, and back.
    await tabB.getByRole('link', { name: /write only-in-a\.txt/ }).click()
    await count(card(tabB, 'only-in-a.txt'), 1)
    await tabB.goBack()
    await status(tabB, 'Done')
    assert.equal(await cards(tabB).count(), 0)
  })

  it('see topics come, change their name and go', async () => {
    const context = await user()
    const [one, other] = [await visit(context), await visit(context)]
    const topicId = await server.topic('help')
    await one.locator(`a[href="/t/${topicId}"]`).waitFor()
    const row = one.locator('.topics li').filter({ has: one.locator(`a[href="/t/${topicId}"]`) })
    await row.getByRole('button', { name: /^More for/ }).click()
    await row.getByRole('button', { name: 'Rename' }).click()
    await one.getByLabel('Title of the topic').fill('Another name')
    await one.keyboard.press('Enter')
    await other.getByRole('link', { name: /Another name/ }).click()
    await other.getByRole('heading', { name: 'Another name', level: 1 }).waitFor()
    await row.getByRole('button', { name: /^More for/ }).click()
    await row.getByRole('button', { name: /^Delete/ }).click()
    await rested(one)
    await one.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await count(one.locator(`a[href="/t/${topicId}"]`), 0)
    await other.getByRole('heading', { name: 'This topic is not here' }).waitFor()
  })
})

describe('a card that waits', () => {
  it('survives a reload and the death of the server, and is decidable then', async () => {
    const page = await visit(await user(), await server.topic('write survives.txt'))
    await count(cards(page), 1)
    const id = await cards(page).getAttribute('data-approval')
    await page.reload()
    await count(cards(page), 1)
    await rested(page)
    await deny(cards(page)).click()
    await cards(page).getByRole('textbox').fill('a draft that must not be lost')

    await server.kill()
    await page.getByText('Connection lost.').waitFor()
    await shot(page, 'offline')
    await cards(page).getByRole('button', { name: /^Deny/ }).click()
    await cards(page).getByRole('alert').filter({ hasText: 'cannot be reached' }).waitFor()
    await server.start()
    await page.getByText('Connection lost.').waitFor({ state: 'detached' })
    assert.equal(await cards(page).getAttribute('data-approval'), id)
    assert.equal(await cards(page).getByRole('textbox').inputValue(), 'a draft that must not be lost')
    await cards(page).getByRole('button', { name: /^Back/ }).click()
    await approve(cards(page)).click()
    await lines(page, 'write_file done survives.txt').waitFor()
    await status(page, 'Done')
  })

  it('comes back with an error when the request fails, and can be decided then', async () => {
    const page = await visit(await user(), await server.topic('write fails.txt'))
    await rested(page)
    await page.route('**/approvals', (route) => route.abort(), { times: 1 })
    await approve(cards(page)).click()
    await cards(page).getByRole('alert').filter({ hasText: 'cannot be reached' }).waitFor()
    await approve(cards(page)).click()
    await lines(page, 'write_file done fails.txt').waitFor()
  })

  it('keeps its reason to itself', async () => {
    const page = await visit(await user(), await server.topic('write leak1.txt and leak2.txt'))
    await count(cards(page), 2)
    await rested(page)
    await deny(card(page, 'leak1.txt')).click()
    await page.keyboard.type('only about the first')
    await typed(page)
    await page.keyboard.press('Control+Enter')
    await count(cards(page), 1)
    await typed(page)
    await deny(cards(page)).click()
    assert.equal(await cards(page).getByRole('textbox').inputValue(), '')
    await cards(page).getByRole('button', { name: /^Deny/ }).click()
    await status(page, 'Done')
    assert.equal(await lines(page, 'You denied write_file').filter({ hasText: 'only about the first' }).count(), 1)
    assert.equal(await lines(page, 'You denied write_file').count(), 2)
  })

  it('is decided with the others by one question and one request', async () => {
    const page = await visit(await user(), await server.topic('write all1.txt and all2.txt'))
    await count(cards(page), 2)
    const posts = []
    page.on('request', (request) => request.method() === 'POST' && posts.push(new URL(request.url()).pathname))
    await page.getByRole('button', { name: 'Approve all 2…' }).click()
    await rested(page)
    await shot(page, 'approve-all')
    assert.deepEqual(await axe(page), [])
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Cancel')
    await page.getByRole('dialog').getByRole('button', { name: 'Approve all 2' }).click()
    await status(page, 'Done')
    assert.equal(await page.evaluate(() => document.activeElement.matches('[data-decided]')), true, 'the focus is not lost')
    assert.equal(posts.filter((path) => path.endsWith('/approvals')).length, 1)
  })
})

describe('the page', () => {
  for (const [name, options] of [['light', {}], ['dark', { colorScheme: 'dark' }], ['phone', phone]]) {
    it(`is accessible and fits: ${name}`, async () => {
      const page = await visit(await user(options), await server.topic('write look1.txt and look2.txt'))
      await count(cards(page), 2)
      await rested(page)
      assert.deepEqual(await axe(page), [])
      assert.equal(await overflow(page), 0)
      assert.equal(await inView(approve(cards(page).first())), true)
      await shot(page, `cards-${name}`)
      await deny(cards(page).first()).click()
      await page.keyboard.type('not now')
      assert.deepEqual(await axe(page), [])
      assert.equal(await overflow(page), 0)
      await shot(page, `deny-${name}`)
    })
  }
})
