// Tool servers, lasting decisions, questions and assistants in front of the
// real server, with a real MCP server and a model that calls what it is told to.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { join } from 'node:path'
import { Assent, build, signIn } from './assent.mjs'
import { axe, count, launch, open, rested, shot, typed } from './browser.mjs'
import { startModel } from './model.mjs'

const bin = build()
const mcp = join(import.meta.dirname, 'mcp-server.mjs')
let model, server, browser
let contexts = []
let complaints = []

before(async () => {
  model = await startModel()
  server = new Assent(bin.binary, { OPENAI_BASE_URL: model.url, OPENAI_API_KEY: 'tests' })
  await server.start()
  browser = await launch()
})
after(async () => {
  await browser?.close()
  await server?.stop()
  await model?.stop()
  bin.remove()
})
afterEach(async () => {
  for (const context of contexts) await context.close()
  contexts = []
  const found = complaints
  complaints = []
  assert.deepEqual(found, [])
})

async function visit(path) {
  const context = await browser.newContext({ viewport: { width: 1180, height: 900 } })
  context.setDefaultTimeout(20_000)
  contexts.push(context)
  await signIn(context, server)
  return open(context, server.url + path, complaints)
}
const cards = (page) => page.locator('[data-approval]')
const status = (page, words) => page.locator('.topic-head .chip', { hasText: words }).waitFor()
/** The helpdesk, which the first test adds and others find or add. */
async function helpdesk() {
  const { servers } = await server.call('GET', '/mcp-servers')
  const found = servers.find((s) => s.name === 'helpdesk')
  return found ?? server.call('POST', '/mcp-servers', { name: 'helpdesk', command: process.execPath, args: [mcp] })
}

describe('a tool server', () => {
  it('is tried, added, connected and changed on the page, and its record says so', async () => {
    const page = await visit('/settings/servers')
    await page.getByRole('button', { name: 'Add a server' }).click()
    await page.getByLabel('Name', { exact: true }).fill('helpdesk')
    await page.getByLabel('Command').fill(`'${process.execPath}' '${mcp}.missing'`)
    await page.getByRole('button', { name: 'Test connection' }).click()
    await page.getByText('No connection.').waitFor()
    await page.locator('.trial .stderr').waitFor()
    await page.getByLabel('Command').fill(`'${process.execPath}' '${mcp}'`)
    await page.getByRole('button', { name: 'Add a variable' }).click()
    await page.keyboard.type('HELPDESK_TOKEN')
    await page.getByLabel('Value of HELPDESK_TOKEN').fill('s3cret-value')
    await page.getByRole('button', { name: 'Test connection' }).click()
    await page.getByText('Connected to helpdesk-mcp 1.0.0.').waitFor()
    assert.deepEqual(await axe(page), [])
    await page.getByRole('button', { name: 'Add server' }).click()
    await page.getByRole('heading', { name: 'helpdesk' }).waitFor()
    await page.getByText('Ready · 2 tools').waitFor()
    await page.getByText('HELPDESK_TOKEN').waitFor()
    assert.deepEqual(await axe(page), [])
    await shot(page, 'real-server')

    const picture = page.getByRole('radiogroup', { name: /picture/ })
    await picture.getByRole('radio', { name: 'Run without asking' }).click()
    await page.getByText('picture runs without asking.').waitFor()
    await page.getByRole('switch', { name: /Trust/ }).click()
    await page.getByText('History').click()
    for (const words of ['Its claims are trusted.', 'picture: Run without asking.', 'The server was added.']) await page.getByText(words).waitFor()

    await page.getByRole('button', { name: 'Change', exact: true }).click()
    await page.getByLabel('Name', { exact: true }).fill('workspace')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('is that of the built-in server', { exact: false }).waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Restart' }).click()
    await page.getByText('Ready · 2 tools').waitFor()
    assert.doesNotMatch(await page.content(), /s3cret-value/)
  })

  it('gives pictures that are shown', async () => {
    const { id } = await helpdesk()
    await server.call('PATCH', `/mcp-servers/${id}`, { autoApproveTools: ['picture'] })
    const page = await visit(`/t/${await server.topic('call helpdesk__picture {}', { model: 'openai/caller' })}`)
    const image = page.getByRole('img', { name: 'Image from picture' })
    await image.waitFor()
    assert.equal(await image.evaluate((e) => e.decode().then(() => e.naturalWidth)), 24)
    await status(page, 'Done')
    await page.locator('.line summary').first().click()
    await page.getByText('Structured content').click()
    await page.getByText('width:').waitFor()
  })

  it('asks a person while a tool runs, and goes on with the answer', async () => {
    await helpdesk()
    const topicId = await server.topic('call helpdesk__file_ticket {"title":"Broken login"}', { model: 'openai/caller' })
    const page = await visit(`/t/${topicId}`)
    await rested(page)
    await cards(page).getByRole('button', { name: /^Approve once/ }).click()
    const question = page.locator('[data-question]')
    await question.getByText('How urgent is it?').waitFor()
    await status(page, 'Needs you · 1')
    assert.deepEqual(await axe(page), [])
    await shot(page, 'real-question')
    const other = await visit(`/t/${topicId}`)
    await other.locator('[data-question]').waitFor()
    await question.getByLabel('Hours').fill('3')
    await rested(page)
    await question.getByRole('button', { name: /^Answer/ }).click()
    await question.getByText('is needed').waitFor()
    await question.getByLabel('Urgency').selectOption({ label: 'high' })
    await question.getByRole('button', { name: /^Answer/ }).click()
    await page.getByText('It said: ', { exact: false }).filter({ hasText: 'high, 3 hours' }).waitFor()
    await status(page, 'Done')
    await other.locator('.line', { hasText: 'You answered helpdesk' }).waitFor()
  })

  it('whose settings change has its card asked again, with the reason', async () => {
    const { id, args } = await helpdesk()
    const page = await visit(`/t/${await server.topic('call helpdesk__file_ticket {"title":"x"}', { model: 'openai/caller' })}`)
    const before = await cards(page).getAttribute('data-approval')
    await server.call('PATCH', `/mcp-servers/${id}`, { args: [...args, '--more'] })
    await cards(page).getByText('Asked again, since something changed.').waitFor()
    assert.notEqual(await cards(page).getAttribute('data-approval'), before)
    await rested(page)
    await cards(page).getByRole('button', { name: /^Deny/ }).click()
    await cards(page).getByRole('button', { name: /^Deny/ }).click()
    await status(page, 'Done')
  })
})

describe('always allow', () => {
  it('settles the card and the others of the tool, and is taken back from the line', async () => {
    const page = await visit(`/t/${await server.topic('write for-good1.txt and for-good2.txt')}`)
    await count(cards(page), 2)
    await rested(page)
    const first = cards(page).first()
    await first.getByRole('button', { name: 'More ways to approve' }).click()
    await first.getByRole('button', { name: 'Always allow…' }).click()
    await first.getByText('The tool “write_file” of the server “workspace” runs without asking', { exact: false }).waitFor()
    await first.getByText('Another call that waits now runs with it').waitFor()
    await typed(page)
    await first.getByRole('button', { name: 'Approve and always allow' }).click()
    await count(cards(page), 0)
    await status(page, 'Done')
    await page.locator('.line', { hasText: 'write_file done for-good2.txt' }).filter({ hasText: 'by rule “auto-approve”' }).waitFor()
    await page.getByText('You allowed write_file for good, in every chat.').waitFor()
    await shot(page, 'real-always-allowed')
    await page.getByRole('button', { name: 'Ask again from now on' }).click()
    await page.getByText('write_file is asked for again from now on.').waitFor()
    await page.getByRole('link', { name: 'Settings of workspace' }).click()
    await page.getByText('History').click()
    await page.getByText('write_file: Run without asking.').waitFor()
    await page.getByRole('button', { name: 'a card' }).click()
    await page.getByText('You allowed write_file for good, in every chat.').waitFor()
  })
})

describe('a rule', () => {
  it('is tried, saved, switched off and deleted', async () => {
    const page = await visit(`/t/${await server.topic('list files')}`)
    await status(page, 'Done')
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByRole('link', { name: 'Rules' }).click()
    await page.getByRole('button', { name: 'Add a rule' }).click()
    await page.getByLabel('Name', { exact: true }).fill('No listing')
    await page.getByRole('radio', { name: 'Deny' }).check()
    await page.getByLabel('When').fill('tool ==')
    await page.getByRole('button', { name: 'Try on past calls' }).click()
    await page.locator('.field-problem').first().waitFor()
    // Every example of the cheat sheet is one that the server takes.
    await page.getByText('What an expression can look at').click()
    for (const example of await page.locator('.insert').allTextContents()) {
      await page.getByLabel('When').fill(example)
      await page.getByRole('button', { name: 'Try on past calls' }).click()
      await page.locator('.rule-trial:not(.stale)').waitFor()
    }
    await page.getByLabel('When').fill('tool == "list_files"')
    await page.getByRole('button', { name: 'Try on past calls' }).click()
    await page.getByText(/would have matched [1-9]/).waitFor()
    await page.getByRole('button', { name: 'Add rule' }).click()
    const rule = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'No listing' }) })
    await rule.getByRole('switch').click()
    await rule.getByRole('switch', { name: 'Off' }).waitFor()
    await rule.getByText('History').click()
    await rule.getByText('Switched off.').waitFor()
    await rule.getByRole('button', { name: /^Delete/ }).click()
    await rested(page)
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await rule.waitFor({ state: 'detached' })
  })
})

describe('an assistant', () => {
  it('is added, and a topic that starts from it is held to its mode', async () => {
    const page = await visit('/settings/assistants')
    await page.getByRole('button', { name: 'Add an assistant' }).click()
    await page.getByLabel('Name', { exact: true }).fill('Careful')
    await page.getByRole('radio', { name: 'Ask for everything' }).check()
    await page.getByRole('button', { name: 'Add assistant' }).click()
    await page.getByRole('heading', { name: 'Careful' }).waitFor()
    await page.getByRole('link', { name: 'New topic' }).click()
    await page.getByLabel('Assistant').selectOption({ label: 'Careful' })
    await page.getByLabel('Message').fill('list files')
    await page.keyboard.press('Enter')
    await page.locator('.assistant-name', { hasText: 'Careful' }).waitFor()
    await cards(page).waitFor()
    assert.deepEqual(await axe(page), [])
  })
})
