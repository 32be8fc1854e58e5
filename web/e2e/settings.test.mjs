// The settings, and what tools ask and give, in front of the fake server.
import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { axe, count, inView, launch, open, overflow, phone, rested, shot, typed } from './browser.mjs'
import { FakeServer, fill } from './fake-server.mjs'
import { fillSettings } from './fake-settings.mjs'

let browser, server, context, complaints

before(async () => {
  browser = await launch()
})
after(() => browser?.close())
beforeEach(async () => {
  complaints = []
  server = await fill(new FakeServer()).start()
  fillSettings(server.settings)
  server.me = 'owner'
  context = await browser.newContext({ viewport: { width: 1180, height: 900 } })
  context.setDefaultTimeout(10_000)
})
afterEach(async () => {
  await context.close()
  await server.stop()
  assert.deepEqual(complaints, [])
})

const visit = (path, ctx = context) => open(ctx, server.url + path, complaints)
const cards = (page) => page.locator('[data-approval]')
const focused = (page) => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent)
const requests = (method, path) => server.settings.requests.filter(([m, p]) => m === method && p === path).map(([, , body]) => body)

/** Presses Tab until what has the focus is what is wanted. */
async function tabTo(page, locator, key = 'Tab') {
  for (let i = 0; i < 80; i++) {
    if ((await locator.count()) > 0 && (await locator.first().evaluate((e) => e === document.activeElement))) return
    await page.keyboard.press(key)
  }
  throw new Error(`the focus does not come to ${locator}; it is at ${await focused(page)}`)
}

describe('the settings', () => {
  it('can be used with the keyboard alone: a server is tried and added, a tool switched, a rule tried and saved', async () => {
    const page = await visit('/t/one')
    await cards(page).waitFor()
    await tabTo(page, page.getByRole('link', { name: 'Settings' }))
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Tool servers', level: 2 }).waitFor()
    assert.equal(new URL(page.url()).pathname, '/settings/servers')

    await tabTo(page, page.getByRole('button', { name: 'Add a server' }))
    await page.keyboard.press('Enter')
    const name = page.getByLabel('Name', { exact: true })
    await name.waitFor()
    await tabTo(page, name)
    await page.keyboard.type('helpdesk')
    await tabTo(page, page.getByLabel('Command'))
    await page.keyboard.type(`npx -y @example/tickets-mcp 'two words'`)
    await tabTo(page, page.getByRole('button', { name: 'Add a variable' }))
    await page.keyboard.press('Enter')
    await page.keyboard.type('TOKEN')
    await page.keyboard.press('Tab')
    await page.keyboard.type('s3cret')
    await tabTo(page, page.getByRole('button', { name: 'Test connection' }))
    await page.keyboard.press('Enter')
    await page.getByText('Connected to tickets-mcp 1.4.0.').waitFor()
    const wanted = { name: 'helpdesk', transport: 'stdio', command: 'npx', args: ['-y', '@example/tickets-mcp', 'two words'], env: { TOKEN: 's3cret' }, disabled: false }
    assert.deepEqual(requests('POST', '/mcp-servers/test'), [wanted])
    await tabTo(page, page.getByRole('button', { name: 'Add server' }), 'Shift+Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'helpdesk' }).waitFor()
    assert.deepEqual(requests('POST', '/mcp-servers'), [wanted])
    assert.equal(await focused(page), 'helpdesk', 'the focus is at the heading of what was added')
    assert.doesNotMatch(await page.content(), /s3cret/)

    // It gets ready by itself, and its tools appear without a reload.
    const choices = page.getByRole('radiogroup', { name: /comment/ })
    await choices.waitFor()
    await tabTo(page, choices.getByRole('radio', { name: 'Ask', exact: true }))
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Space')
    await page.getByText('comment runs without asking.').waitFor()
    const id = decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1))
    assert.deepEqual(requests('PATCH', `/mcp-servers/${id}`), [{ disabledTools: [], autoApproveTools: ['comment'], alwaysAskTools: [], version: 1 }])

    await tabTo(page, page.getByRole('link', { name: 'Rules' }), 'Shift+Tab')
    await page.keyboard.press('Enter')
    await tabTo(page, page.getByRole('button', { name: 'Add a rule' }))
    await page.keyboard.press('Enter')
    await tabTo(page, page.getByLabel('Name', { exact: true }))
    await page.keyboard.type('Comments')
    await tabTo(page, page.getByRole('radio', { name: 'Ask' }))
    await page.keyboard.press('ArrowDown')
    await tabTo(page, page.getByLabel('When'))
    await page.keyboard.type('tool ==')
    await tabTo(page, page.getByRole('button', { name: 'Try on past calls' }))
    await page.keyboard.press('Enter')
    await page.getByText('mismatched input').waitFor()
    await tabTo(page, page.getByLabel('When'), 'Shift+Tab')
    await page.keyboard.press('End')
    await page.keyboard.type(' "comment"')
    await tabTo(page, page.getByRole('button', { name: 'Try on past calls' }))
    await page.keyboard.press('Enter')
    await page.getByText('It would have matched 12 of the last 50 calls').waitFor()
    await tabTo(page, page.getByRole('button', { name: 'Add rule' }), 'Shift+Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('region', { name: 'Rules that allow' }).getByRole('heading', { name: 'Comments' }).waitFor()
    assert.deepEqual(requests('POST', '/policy/rules'), [{ name: 'Comments', verdict: 'allow', expression: 'tool == "comment"', reason: '', enabled: true }])

    for (let i = 0; i < 3; i++) await page.goBack()
    await cards(page).waitFor()
    assert.equal(new URL(page.url()).pathname, '/t/one')
  })

  it('leads back to the conversation that it was called from, also by the shortcut', async () => {
    const page = await visit('/t/one')
    await cards(page).waitFor()
    await page.keyboard.press('Control+,')
    await page.getByRole('link', { name: 'Rules' }).click()
    await page.getByRole('heading', { name: 'Rules', level: 2 }).waitFor()
    await page.getByRole('link', { name: 'Back to the conversation' }).click()
    await cards(page).waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: 'Rules', level: 2 }).waitFor()
  })

  it('shows how servers are doing at once, also after the connection was lost', async () => {
    const page = await visit('/settings')
    const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'browser', exact: true }) })
    await row.getByText('Starting').waitFor()
    server.settings.servers.get('srv-web').state = { phase: 'failed', error: '401 Unauthorized' }
    server.announceSettings('mcp-servers')
    await row.getByText('401 Unauthorized').waitFor()
    // What is announced while nobody listens is read when the stream is back.
    for (const stream of server.streams) stream.response.destroy()
    server.settings.servers.get('srv-web').state = { phase: 'ready' }
    await row.getByText('Ready').waitFor()
  })

  it('keeps secrets to the server: they can be replaced and removed, and are never shown', async () => {
    const page = await visit('/settings/servers/srv-tickets')
    await page.getByRole('button', { name: 'Change', exact: true }).click()
    await page.getByRole('button', { name: 'Replace the value of TICKETS_TOKEN' }).click()
    await page.keyboard.type('n3w')
    await page.getByRole('button', { name: 'Add a variable' }).click()
    await page.keyboard.type('MORE')
    await page.getByLabel('Value of MORE').fill('x')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: 'Restart' }).waitFor()
    assert.deepEqual(requests('PATCH', '/mcp-servers/srv-tickets'), [{ env: { TICKETS_TOKEN: 'n3w', TICKETS_URL: null, MORE: 'x' }, version: 4 }])
    assert.doesNotMatch(await page.content(), /n3w/)
  })

  it('shows at the field what the server says of it, and keeps what was entered', async () => {
    const page = await visit('/settings/servers')
    await page.getByRole('button', { name: 'Add a server' }).click()
    await page.getByLabel('Name', { exact: true }).fill('workspace')
    await page.getByLabel('Command').fill('x')
    await page.getByRole('button', { name: 'Add server' }).click()
    // The built-in one has that name.
    await page.getByRole('alert').filter({ hasText: 'already' }).waitFor()
    server.settings.servers.delete('workspace')
    await page.getByRole('button', { name: 'Add server' }).click()
    const name = page.getByLabel('Name', { exact: true })
    await page.getByText('is that of the built-in server').waitFor()
    assert.equal(await name.getAttribute('aria-invalid'), 'true')
    assert.equal(await page.getByLabel('Command').inputValue(), 'x')
  })

  it('shows a trial that fails with what the program wrote, and one that takes long can be left', async () => {
    let release
    server.settings.trial = () => new Promise((done) => (release = done))
    const page = await visit('/settings/servers/srv-mail')
    await page.getByRole('button', { name: 'Test connection' }).click()
    await page.getByText('Connecting…').waitFor()
    await page.getByRole('button', { name: 'Stop waiting' }).click()
    await page.getByText('Connecting…').waitFor({ state: 'detached' })
    release({ state: { phase: 'ready' }, tools: [] })
    server.settings.trial = { state: { phase: 'failed', error: 'the process ended', stderr: ['no account is configured'] }, tools: [] }
    await page.getByRole('button', { name: 'Test connection' }).click()
    await page.locator('.trial').getByText('no account is configured').waitFor()
    assert.equal(await page.getByText('It offers no tools').count(), 0, 'the answer of the trial that was left is not shown')
  })

  it('imports a file, and says what was added and what was left out', async () => {
    const page = await visit('/settings/servers')
    await page.getByRole('button', { name: 'Import' }).click()
    const file = '{"mcpServers":{"tickets":{"command":"x"},"db":{"command":"db-mcp","env":{"N":"1"}}}}'
    await page.setInputFiles('input[type=file]', { name: 'mcp.json', mimeType: 'application/json', buffer: Buffer.from(file) })
    await page.getByText('Servers in it: tickets and db').waitFor()
    await page.getByRole('button', { name: 'Import', exact: true }).click()
    await page.getByRole('alert').filter({ hasText: 'names already: tickets' }).waitFor()
    await page.getByLabel('Leave out servers').check()
    await page.getByRole('button', { name: 'Import', exact: true }).click()
    await page.getByText('Added one server.').waitFor()
    await page.getByText('Left out, since there are servers of these names already: tickets.').waitFor()
    assert.equal(await page.locator('.server-list').getByRole('link', { name: 'db', exact: true }).count(), 1)
  })

  it('asks before a server is deleted, and says what becomes of its cards', async () => {
    const page = await visit('/settings/servers/srv-tickets')
    await page.getByRole('button', { name: 'Delete…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('Cards of its tools that wait stay open').waitFor()
    await rested(page)
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { name: 'Tool servers', level: 2 }).waitFor()
    await page.getByRole('link', { name: 'tickets', exact: true }).waitFor({ state: 'detached' })
  })

  it('lets others than the owner only say which tools ask', async () => {
    server.me = 'ada'
    const page = await visit('/settings/servers')
    await page.getByText('Only the owner of this installation').waitFor()
    assert.equal(await page.getByRole('button', { name: /Add a server|Import/ }).count(), 0)
    await page.getByRole('link', { name: 'tickets', exact: true }).click()
    await page.getByText('Only the owner of this installation').waitFor()
    assert.equal(await page.getByRole('button', { name: /^(Change|Restart|Test connection|Delete…)$/ }).count(), 0)
    await page.getByRole('button', { name: 'Ask for it again' }).click()
    await page.getByText('read_ticket runs without asking.').waitFor({ state: 'detached' })
  })

  it('says so when the server does not allow something after all', async () => {
    const page = await visit('/settings/servers')
    await page.getByRole('button', { name: 'Add a server' }).click()
    server.me = 'ada'
    await page.getByLabel('Name', { exact: true }).fill('x')
    await page.getByLabel('Command').fill('x')
    await page.getByRole('button', { name: 'Add server' }).click()
    await page.getByRole('alert').filter({ hasText: 'Only the owner may add tool servers' }).waitFor()
  })

  it('tells who changed what, and leads to the card on which it was', async () => {
    server.explanations.set('approval-old', { topicId: 'one', anchorId: 'one-m1', toolCallId: 'c', toolName: 't', state: 'output-available', why: '' })
    const page = await visit('/settings/servers/srv-tickets')
    await page.getByText('History').click()
    await page.getByText('read_ticket: Run without asking.').waitFor()
    await page.getByText('A value that is not shown was changed.').waitFor()
    await page.getByRole('button', { name: 'a card' }).click()
    await cards(page).waitFor()
    assert.equal(new URL(page.url()).pathname, '/t/one')
  })

  it('makes and changes assistants, and a topic starts from one', async () => {
    const page = await visit('/settings/assistants')
    await page.getByRole('button', { name: 'Change Reader' }).click()
    await page.getByRole('radio', { name: 'Of these servers' }).check()
    await page.getByLabel('tickets', { exact: true }).check()
    await page.getByRole('radio', { name: 'Ask for everything' }).check()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('tools of tickets').first().waitFor()
    const reader = server.settings.assistants.find((a) => a.name === 'Reader')
    assert.deepEqual(requests('PATCH', `/assistants/${reader.id}`), [{ mode: 'ask-all', mcpServerIds: ['srv-tickets'], version: 1 }])

    await page.getByRole('link', { name: 'New topic' }).click()
    await page.getByLabel('Assistant').selectOption({ label: 'Reader' })
    await page.getByText('Looks things up.').waitFor()
    await page.getByLabel('Message').fill('hello')
    await page.keyboard.press('Enter')
    await page.locator('.topic-head .assistant-name', { hasText: 'Reader' }).waitFor()
    assert.deepEqual(server.created, [{ assistantId: reader.id }])
  })

  const views = {
    servers: '/settings/servers', server: '/settings/servers/srv-tickets', 'server-failed': '/settings/servers/srv-mail', 'server-built-in': '/settings/servers/workspace',
    'server-gone': '/settings/servers/nope', rules: '/settings/rules', assistants: '/settings/assistants', missing: '/settings/nothing',
  }
  for (const [mode, options] of [['light', {}], ['dark', { colorScheme: 'dark' }], ['phone', phone]]) {
    it(`is accessible and fits in every view: ${mode}`, async () => {
      const own = await browser.newContext({ viewport: { width: 1180, height: 900 }, ...options })
      own.setDefaultTimeout(10_000)
      try {
        const page = await visit('/settings', own)
        const check = async (name) => {
          await page.locator('.settings h2').first().waitFor()
          await page.waitForFunction(() => !document.querySelector('main').innerText.includes('Loading…'))
          assert.deepEqual(await axe(page), [], name)
          assert.equal(await overflow(page), 0, name)
          await shot(page, `settings-${name}-${mode}`)
        }
        for (const [name, path] of Object.entries(views)) {
          await page.goto(server.url + path)
          await check(name)
        }
        for (const [name, path, button] of [['add', '/settings/servers', 'Add a server'], ['import', '/settings/servers', 'Import'], ['edit', '/settings/servers/srv-web', 'Change'], ['rule', '/settings/rules', 'Add a rule'], ['assistant', '/settings/assistants', 'Change Release manager']]) {
          await page.goto(server.url + path)
          await page.getByRole('button', { name: button, exact: true }).click()
          await page.locator('form.panel').waitFor()
          for (const summary of await page.locator('form.panel summary').all()) await summary.click()
          await check(name)
        }
        server.settings.servers.clear()
        server.settings.rules = []
        server.settings.assistants = []
        for (const section of ['servers', 'rules', 'assistants']) {
          await page.goto(`${server.url}/settings/${section}`)
          await page.locator('.empty-state').waitFor()
          await check(`empty-${section}`)
        }
      } finally {
        await own.close()
      }
    })
  }
})

describe('always allow', () => {
  const first = (page) => cards(page).first()
  it('shows the rule, goes back with Escape, and is decided with it', async () => {
    const page = await visit('/t/lasting')
    await rested(page)
    await first(page).getByRole('button', { name: 'More ways to approve' }).click()
    await first(page).getByRole('button', { name: 'Always allow…' }).waitFor()
    await typed(page)
    await page.keyboard.press('Enter')
    await first(page).getByText('What this changes').waitFor()
    await first(page).getByText('2 other calls that wait now run with it').waitFor()
    assert.deepEqual(await axe(page), [])
    await shot(page, 'always-allow')
    await page.keyboard.press('Escape') // in the first moment nothing is taken
    await typed(page)
    await page.keyboard.press('Escape')
    await first(page).getByRole('button', { name: /^Approve once/ }).waitFor()
    assert.deepEqual(server.decisions, [])

    await first(page).getByRole('button', { name: 'More ways to approve' }).click()
    await first(page).getByRole('button', { name: 'Always allow…' }).click()
    await typed(page)
    const id = await first(page).getAttribute('data-approval')
    await first(page).getByRole('button', { name: 'Approve and always allow' }).click()
    await count(cards(page), 3)
    assert.deepEqual(JSON.parse(server.decisions[0]), { approvalId: id, approved: true, remember: 'always-allow' })
    await page.getByText('You allowed write_file for good, in every chat.').waitFor()
  })

  it('can be had on a telephone: both the call and the rule are seen before it is given', async () => {
    const small = await browser.newContext(phone)
    small.setDefaultTimeout(10_000)
    try {
      const page = await visit('/t/lasting', small)
      await rested(page)
      const tap = async (locator) => {
        // At its place on the screen, as a thumb does: nothing is scrolled to.
        const box = await locator.boundingBox()
        await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height / 2)
      }
      await tap(first(page).getByRole('button', { name: 'More ways to approve' }))
      const item = first(page).getByRole('button', { name: 'Always allow…' })
      await item.waitFor()
      assert.equal(await inView(item), true)
      await tap(item)
      await first(page).getByText('What this changes').waitFor()
      assert.equal(await overflow(page), 0)
      const confirm = first(page).getByRole('button', { name: 'Approve and always allow' })
      for (let i = 0; i < 3 && server.decisions.length === 0; i++) {
        await typed(page)
        await shot(page, `always-allow-phone-${i}`)
        await tap(confirm)
        await page.waitForTimeout(200)
      }
      assert.equal(server.decisions.length, 1)
    } finally {
      await small.close()
    }
  })

  it('is taken back from the line of the call', async () => {
    server.settings.servers.get('workspace').autoApproveTools = ['write_file', 'read_file']
    const page = await visit('/t/lasting')
    await page.getByRole('button', { name: 'Ask again from now on' }).first().click()
    await page.getByText('write_file is asked for again from now on.').waitFor()
    assert.deepEqual(server.settings.servers.get('workspace').autoApproveTools, ['read_file'])
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText('allowed write_file for good again.').waitFor()
    assert.deepEqual(server.settings.servers.get('workspace').autoApproveTools, ['read_file', 'write_file'])
  })

  it('says on a card why it is asked again, and that a tool is gone', async () => {
    const page = await visit('/t/lasting')
    await count(cards(page), 4)
    await cards(page).nth(2).getByText('Asked again, since something changed.').waitFor()
    await cards(page).nth(3).getByText('Asked again: the tool is gone.').waitFor()
  })
})

describe('a question', () => {
  const question = (page) => page.locator('[data-question]')
  it('is counted, announced, reached and answered with the keyboard, with its types', async () => {
    const page = await visit('/t/question')
    await question(page).waitFor()
    await page.locator('.topic-head .chip', { hasText: 'Needs you · 1' }).waitFor()
    assert.match(await page.locator('[data-announcer]').textContent(), /A tool asks you: Some things are not clear yet.*Alt\+A/)
    assert.deepEqual(await axe(page), [])
    await shot(page, 'question')
    await page.keyboard.press('Alt+a')
    assert.equal(await page.evaluate(() => document.activeElement.matches('[data-question]')), true)
    await typed(page)
    await page.keyboard.press('Control+Enter')
    await question(page).getByText('is needed').first().waitFor()
    assert.deepEqual(server.answers, [])
    assert.equal(await page.evaluate(() => document.activeElement.dataset.field), 'project')
    await page.keyboard.type('The server')
    await tabTo(page, page.getByLabel('Hours'))
    await page.keyboard.type('12345678901234567890')
    await tabTo(page, page.getByLabel('In a few words'))
    await page.keyboard.type('Broken login')
    await page.keyboard.press('Control+Enter')
    await page.locator('.line', { hasText: 'You answered tickets' }).waitFor()
    assert.equal(server.answers[0], '{"action":"accept","content":{"project":"api","urgency":"low","estimate":12345678901234567890,"notify":true,"summary":"Broken login"}}')
    assert.equal(await page.evaluate(() => document.activeElement.dataset.answered), 'q-open', 'the focus goes on at the line')
    await page.locator('.topic-head .chip', { hasText: 'Writing' }).waitFor()
  })

  it('keeps its draft over a reload, and sees what another tab answers', async () => {
    const page = await visit('/t/question')
    await question(page).getByLabel('In a few words').fill('half a sen')
    await page.reload()
    assert.equal(await question(page).getByLabel('In a few words').inputValue(), 'half a sen')
    server.answer('question', 'q-open', { action: 'decline' }, 'grace')
    await page.locator('.line', { hasText: 'grace declined to answer tickets' }).waitFor()
    assert.equal(await question(page).count(), 0)
  })

  it('shows at the fields what the server finds', async () => {
    const page = await visit('/t/question')
    await question(page).getByLabel('Project').selectOption({ label: 'The page' })
    await question(page).getByLabel('In a few words').fill('Broken')
    await rested(page)
    server.answerQuestion = () => ({ status: 422, title: 'Invalid', body: { detail: 'The answer breaks the schema.', errors: [{ pointer: '/content/summary', message: 'is too vague' }] } })
    await question(page).getByRole('button', { name: /^Answer/ }).click()
    await question(page).getByText('is too vague').waitFor()
    assert.deepEqual(await axe(page), [])
  })

  it('fits on a telephone', async () => {
    const small = await browser.newContext(phone)
    try {
      const page = await visit('/t/question', small)
      await question(page).waitFor()
      assert.equal(await overflow(page), 0)
      assert.equal(await inView(question(page).getByRole('button', { name: /^Answer/ })), true)
      assert.deepEqual(await axe(page), [])
    } finally {
      await small.close()
    }
  })
})

describe('what a tool gives', () => {
  it('is shown without anything being fetched or run', async () => {
    const fetched = []
    context.on('request', (request) => fetched.push(request.url()))
    const page = await visit('/t/media')
    const image = page.getByRole('img', { name: /Image 1 of 2 from take_picture/ })
    await image.waitFor()
    assert.equal(await image.evaluate((e) => e.complete && e.naturalWidth > 0), true)
    assert.equal(await page.locator('main img').count(), 1, 'no SVG and nothing that is no image')
    await page.locator('audio').evaluate((e) => new Promise((done, fail) => (e.readyState > 0 ? done() : ((e.onloadedmetadata = done), (e.onerror = () => fail(new Error('the policy forbids the sound')))))))
    await page.locator('.line summary').first().click()
    await page.getByText('image image/svg+xml', { exact: false }).waitFor()
    await page.getByText('Structured content').click()
    await page.getByText('12345678901234567890').waitFor()
    assert.equal(await page.locator('a[href^="javascript:"]').count(), 0)
    assert.equal(await page.getByRole('link', { name: 'https://example.test/report?id=7' }).count(), 1)
    assert.deepEqual(await axe(page), [])
    assert.deepEqual([...new Set(fetched.filter((u) => !u.startsWith('data:')).map((u) => new URL(u).host))], [new URL(server.url).host])
    await shot(page, 'media')
  })
})
