// The page in states that the demo model cannot be brought into.
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { axe, count, inView, launch, open, overflow, phone, rested, shot, typed } from './browser.mjs'
import { call, FakeServer, fill, raw } from './fake-server.mjs'

let browser, server, context, complaints

before(async () => {
  browser = await launch()
})
after(() => browser?.close())
beforeEach(async () => {
  complaints = []
  server = await fill(new FakeServer()).start()
  context = await browser.newContext({ viewport: { width: 1180, height: 900 } })
  context.setDefaultTimeout(10_000)
})
afterEach(async () => {
  await context.close()
  await server.stop()
  assert.deepEqual(complaints, [])
})

const visit = (topicId, ctx = context) => open(ctx, `${server.url}/t/${topicId}`, complaints)
const cards = (page) => page.locator('[data-approval]')

describe('a settled call', () => {
  it('is one line, and each kind has its own words', async () => {
    const page = await visit('states')
    await page.locator('.line').first().waitFor()
    const words = await page.locator('.line-what').allTextContents()
    assert.deepEqual(words, [
      'list_files done',
      'write_file done with a changed input',
      'You denied write_file',
      'grace denied write_file',
      'Rule “no deletes” refused delete_file',
      'delete_file cancelled: stopped before anybody decided',
      'delete_file expired: nobody decided in time',
      'delete_file superseded: the question was dropped for a newer one',
      'write_file failed',
      'write_file: outcome unknown',
      'write_file stopped before it ran',
      'write_file not run: its input is not valid',
      'write_file not run: the tool is not available',
    ])
    assert.equal(await cards(page).count(), 0)
    assert.deepEqual(await axe(page), [])
    await page.locator('.line summary').nth(11).click()
    await page.getByText('{"path": oops').waitFor()
    await shot(page, 'states')
  })

  it('that runs by rule has no buttons', async () => {
    const page = await visit('running')
    await page.locator('.line', { hasText: 'Running list_files' }).waitFor()
    assert.equal(await cards(page).count(), 0)
    assert.equal(await page.getByRole('button', { name: /Approve|Deny/ }).count(), 0)
  })
})

describe('a hostile or huge input', () => {
  it('is shown digit for digit, with hidden characters named', async () => {
    const page = await visit('cards')
    const second = cards(page).nth(1)
    await second.waitFor()
    const fields = await second.locator('.fields').innerText()
    for (const words of ['12345678901234567890', '1.0', '"true"', 'U+202E']) assert.ok(fields.includes(words), `${words} in ${fields}`)
  })

  it('is sent as the person wrote it', async () => {
    const page = await visit('cards')
    await rested(page)
    await cards(page).nth(1).getByRole('button', { name: /^Edit input/ }).click()
    await cards(page).nth(1).getByRole('textbox').fill('{"path":"x","id":98765432109876543210,"ratio":2.50}')
    await cards(page).nth(1).getByRole('button', { name: /^Approve with changes/ }).click()
    await page.locator('.line', { hasText: 'You approved delete_file' }).waitFor()
    assert.match(server.decisions[0], /"updatedInput":\{"path":"x","id":98765432109876543210,"ratio":2\.50\}/)
  })

  it('leaves the buttons on the screen of a phone', async () => {
    const content = 'x'.repeat(400_000)
    const input = raw(JSON.stringify({ path: 'a/'.repeat(120), content, list: Array.from({ length: 200 }, (_, i) => i), more: 'line\n'.repeat(2000) }))
    server.addTopic('huge', 'A title that is much too long for any telephone that anybody has', {
      status: 'awaiting-approval',
      messages: [
        { role: 'user', parts: [{ type: 'text', text: 'w'.repeat(300) }] },
        { role: 'assistant', status: 'pending', parts: [call('write_file', input), call('write_file', input)] },
      ],
    })
    const small = await browser.newContext(phone)
    try {
      const page = await visit('huge', small)
      await rested(page)
      assert.equal(await overflow(page), 0)
      for (const name of [/^Approve once/, /^Deny/, /^Edit input/]) {
        assert.equal(await inView(cards(page).first().getByRole('button', { name })), true, String(name))
      }
      await shot(page, 'huge-phone')
      // Also when all of it is unfolded, and read to its end.
      await cards(page).first().getByRole('button', { name: /Show all .* not shown here/ }).first().click()
      await page.locator('.card-input').first().evaluate((e) => (e.scrollTop = e.scrollHeight))
      assert.equal(await inView(cards(page).first().getByRole('button', { name: /^Approve once/ })), true)
      assert.equal(await overflow(page), 0)
      await cards(page).first().getByRole('button', { name: /^Deny/ }).click()
      assert.equal(await inView(cards(page).first().getByRole('button', { name: /^Deny/ })), true)
      await shot(page, 'huge-deny-phone')
      assert.deepEqual(await axe(page), [])
    } finally {
      await small.close()
    }
  })
})

describe('a decision', () => {
  it('of somebody who was first is named, and the own one is not shown as applied', async () => {
    const page = await visit('one')
    await rested(page)
    const approvalId = await cards(page).getAttribute('data-approval')
    const decision = { approvalId, approved: false, reason: 'too early', decidedBy: 'grace', decidedAt: new Date().toISOString(), via: 'api' }
    server.answerDecision = () => ({ status: 409, title: 'Already decided', body: { decision } })
    await cards(page).getByRole('button', { name: /^Approve once/ }).click()
    const line = page.locator('.line', { hasText: 'grace denied write_file before you' })
    await line.filter({ hasText: 'Your answer came later and was not applied.' }).waitFor()
    server.decide('one', { approvalId, approved: false, reason: 'too early' }, 'grace')
    await page.locator('.line', { hasText: 'grace denied write_file — “too early”' }).filter({ hasText: 'was not applied' }).waitFor()
  })

  it('whose answer was lost can be sent again', async () => {
    const page = await visit('one')
    await rested(page)
    server.answerDecision = () => 'drop'
    const approve = cards(page).getByRole('button', { name: /^Approve once/ })
    await approve.click()
    await cards(page).getByRole('alert').filter({ hasText: 'not known whether your answer arrived' }).waitFor()
    server.answerDecision = undefined
    await approve.click()
    await page.locator('.line', { hasText: 'You approved write_file' }).waitFor()
    // Browsers repeat a request by themselves when a kept connection was closed.
    assert.ok(server.decisions.length >= 2)
    assert.equal(new Set(server.decisions).size, 1)
  })

  it('that somebody makes while a reason is being typed folds the card, and the reason is gone with it', async () => {
    const page = await visit('cards')
    await rested(page)
    const first = cards(page).first()
    const id = await first.getAttribute('data-approval')
    await first.getByRole('button', { name: /^Deny/ }).click()
    await page.keyboard.type('half a rea')
    server.decide('cards', { approvalId: id, approved: true }, 'grace')
    await page.locator('.line', { hasText: 'grace approved write_file' }).waitFor()
    await typed(page)
    await page.keyboard.type('son d e')
    assert.equal(await page.locator('[data-approval] textarea').count(), 0, 'what is typed on does nothing to the next card')
    await count(cards(page), 1)
    assert.deepEqual(server.decisions, [])
  })
})

describe('the page', () => {
  it('asks to sign in when the session ends, and comes back to the same card', async () => {
    const page = await visit('one')
    await cards(page).waitFor()
    server.signedIn = false
    for (const stream of server.streams) stream.response.destroy()
    await page.getByRole('heading', { name: 'Sign in to Assent' }).waitFor()
    assert.deepEqual(await axe(page), [])
    await page.getByLabel('Token').fill('right')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await cards(page).waitFor()
  })

  it('says what failed and offers what can be done', async () => {
    const page = await visit('failed')
    await page.getByRole('alert').filter({ hasText: 'The provider refused the key (401).' }).waitFor()
    for (const name of ['Retry', 'Regenerate', 'Send now']) assert.equal(await page.getByRole('button', { name }).count(), 1, name)
    assert.deepEqual(await axe(page), [])
  })

  it('has its own word for an address that leads nowhere, and other tabs do not suffer', async () => {
    const other = await visit('one')
    const page = await visit('nowhere')
    await page.getByRole('heading', { name: 'This topic is not here' }).waitFor()
    server.setPart('one', 'one-m1', 0, { type: 'text', text: 'Still alive.' })
    await other.getByText('Still alive.').waitFor()
  })

  it('keeps the chosen colours, and shows the list of topics as a drawer on a phone', async () => {
    const small = await browser.newContext(phone)
    try {
      const page = await visit('one', small)
      await cards(page).waitFor()
      await page.getByRole('button', { name: /^Topics/ }).click()
      await page.getByRole('button', { name: /^Colours: as the system/ }).click()
      await page.getByRole('button', { name: /^Colours: light/ }).click()
      await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark')
      await shot(page, 'drawer-phone-dark')
      assert.deepEqual(await axe(page), [])
      await page.getByRole('link', { name: /The model did not answer/ }).click()
      await page.getByRole('heading', { name: 'The model did not answer' }).waitFor()
      assert.equal(await page.locator('.drawer-open').count(), 0)
      await page.reload()
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark')
      assert.equal(await overflow(page), 0)
    } finally {
      await small.close()
    }
  })

  it('never fetches what a model names', async () => {
    const fetched = []
    context.on('request', (request) => fetched.push(new URL(request.url()).host))
    const page = await visit('states')
    const link = page.getByRole('link', { name: 'Image: chart' })
    await link.waitFor()
    assert.equal(await link.getAttribute('rel'), 'noopener noreferrer nofollow')
    assert.deepEqual([...new Set(fetched)], [new URL(server.url).host])
  })
})
