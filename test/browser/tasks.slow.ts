import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import { createSettingsPage } from '../../lib/settings-page.ts'
import { createDeliveryLoop, createWebhookSender, verifyWebhook } from '../../lib/webhooks.ts'
import { named } from '../_service.ts'
import { launch, missingBrowser, watch } from './_browser.ts'

// Ten tasks of an administrator with the page alone, from the overview on, by the words that are on the screen. API,
// delivery loop, sender and subscriber are real. SCREENSHOTS=<folder> keeps a picture of every step.

const ORGANIZATION = 'org_tasks'

describe('ten tasks of a new administrator', { skip: missingBrowser, concurrency: false }, () => {
  let browser: Browser
  let page: Page
  let heard: string[]
  let settings: DeveloperSettings
  let publish: () => Promise<unknown>
  let pay: (invoiceId: string) => Promise<unknown>
  const servers: Server[] = []
  const endings: (() => Promise<unknown>)[] = []

  /** The subscriber, which answers 401 to a delivery with a wrong signature. */
  const subscriber = {
    secret: '',
    isDown: false,
    status: 503,
    answer: 'The queue is full',
    verified: [] as string[],
    refused: 0,
  }
  /** The events that the endpoint Archive got. */
  const archived: string[] = []
  /** Milliseconds by which the clock of the store and the page is ahead. */
  let aheadMs = 0
  let apiUrl: string
  let apiKey: string
  let flushLog: () => Promise<unknown>
  let subscriberUrl: string
  let steps = 0

  async function listen(handler: Parameters<typeof createServer>[1]): Promise<string> {
    const server = createServer(handler as never)
    servers.push(server)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  before(async () => {
    browser = await launch()
    const secretKeys = [randomBytes(32)]
    const local = { allowHttp: true, allowPrivateNetworks: true }
    const sender = createWebhookSender(local)
    apiUrl = await listen((request, response) => void api(request, response))
    const clock = () => Date.now() + aheadMs
    const store = named(createMemoryStore({ clock }), { baseUrl: apiUrl })
    const api = createBusinessApi(store, { logger: false, requestLog: 'all' })
    flushLog = () => api.requestLog.flush()
    settings = createDeveloperSettings(store, { secretKeys, sender, localDevelopment: true, clock })
    const platform = createPlatform(store)
    publish = () => platform.publish(ORGANIZATION, 'project.completed', { projectId: 'proj_1', name: 'Site' })
    pay = (invoiceId) => platform.publish(ORGANIZATION, 'invoice.paid', { invoiceId, number: 'INV-7' })
    const loop = createDeliveryLoop(store, sender, {
      secretKeys,
      logger: false,
      retryDelaysMs: [20, 20, 20, 20],
    })
    loop.start()
    endings.push(() => loop.stop())
    const settingsPage = createSettingsPage(settings, {
      api,
      clock,
      logger: false,
      authorize: () => ({ organizationId: ORGANIZATION, actor: 'ada@example.com', can: 'everything' }),
    })
    const origin = await listen((request, response) => void settingsPage(request, response))
    subscriberUrl = await listen(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      if (request.url === '/archive') {
        archived.push(String(request.headers['x-service-event-id']))
        return void response.writeHead(204).end()
      }
      if (subscriber.isDown) return void response.writeHead(subscriber.status).end(subscriber.answer)
      try {
        const signature = request.headers['x-service-signature'] as string
        verifyWebhook(Buffer.concat(chunks).toString(), signature, subscriber.secret, { clock })
        subscriber.verified.push(String(request.headers['x-service-event-id']))
        response.writeHead(204).end()
      } catch {
        subscriber.refused++
        response.writeHead(401).end('The signature is wrong')
      }
    })
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    page = await context.newPage()
    heard = watch(page)
    await page.goto(origin)
  })
  after(async () => {
    for (const end of endings) await end()
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
    await browser.close()
  })

  /** Presses the button or link with these words. */
  async function press(words: string): Promise<void> {
    const control = page
      .getByRole('link', { name: words, exact: true })
      .or(page.getByRole('button', { name: words, exact: true }))
    await control.first().click()
    await screenshot(words)
  }

  async function sees(words: string | RegExp, timeout = 12_000): Promise<void> {
    await page.locator('.ba-main').getByText(words).filter({ visible: true }).first().waitFor({ timeout })
  }

  async function screenshot(name: string): Promise<void> {
    const folder = process.env.SCREENSHOTS
    if (folder === undefined) return
    await page.waitForLoadState()
    await sleep(150)
    const file = `${String(++steps).padStart(2, '0')}-${name.replace(/\W+/g, '-').toLowerCase()}.png`
    await page.screenshot({ path: join(folder, file), fullPage: true })
  }

  test('makes a key and calls the API with it', async () => {
    await screenshot('overview')
    await press('Create API key')
    await page.getByLabel('Name').fill('Website')
    await page.getByLabel('Clients: read').check()
    await page.getByLabel('90 days').check()
    await press('Create API key')
    await sees('Copy it now.')
    const curl = await page.getByLabel('Example request', { exact: true }).innerText()
    apiKey = /Bearer (\w+)/.exec(curl)?.[1] ?? ''
    const { stdout } = await promisify(execFile)('sh', ['-c', `${curl} --silent`])
    assert.deepEqual(JSON.parse(stdout), { data: [] })
    await press('Copy')
    await press('Done')
    await sees('Active')
    await press('Overview')
    await sees('✓ First request received')
  })

  test('registers an endpoint and sees a verified event', async () => {
    await press('Create endpoint')
    await page.getByLabel('URL').fill(`${subscriberUrl}/hook`)
    await page.getByLabel('Description').fill('Billing')
    await page.getByLabel('All events').check()
    await press('Create endpoint')
    await sees('Copy it now.')
    subscriber.secret = await page.getByLabel('Signing secret').inputValue()
    await press('Done')
    await press('Send test event')
    await sees(/Test event delivered/)
    assert.equal(subscriber.verified.length, 1)
    await publish()
    await press('Deliveries')
    await sees(/^Delivered$/)
    assert.equal(subscriber.verified.length, 2)
  })

  test('finds out why a delivery failed, and sends it again', async () => {
    subscriber.isDown = true
    await publish()
    while ((await settings.deliveries.count(ORGANIZATION, { states: ['failed'] })) === 0) await sleep(20)
    await press('Overview')
    await sees('1 delivery failed')
    await press('View failed deliveries')
    await press('project.completed')
    await sees('503 Service Unavailable')
    await sees('The queue is full')
    subscriber.isDown = false
    await press('Resend')
    await sees('Resend queued')
    // The page refreshes itself until the delivery has ended. The endpoint backs off after its 503s: 16 seconds after the last.
    await sees(/^Delivered$/, 40_000)
    await screenshot('delivered')
    assert.equal(subscriber.verified.length, 3)
  })

  test('rotates a secret without losing an event', async () => {
    await press('Webhook endpoints')
    await press('Billing')
    await press('Rotate secret')
    await press('Rotate secret')
    await sees('Copy it now.')
    const secret = await page.getByLabel('Signing secret').inputValue()
    // The program still has the old secret.
    await publish()
    while (subscriber.verified.length < 4) await sleep(20)
    subscriber.secret = secret
    await publish()
    while (subscriber.verified.length < 5) await sleep(20)
    await press('Copy')
    await press('Done')
    await sees('Previous secret expires')
    assert.equal(subscriber.refused, 0)
  })

  test('shows that the error rate fell after a change', async () => {
    const before = subscriber.verified.length
    aheadMs += 2 * 60 * 60 * 1000
    for (let event = 0; event < 3; event++) await publish()
    while (subscriber.verified.length < before + 3) await sleep(20)
    await press('Overview')
    await page.getByText('Show as table').click()
    const table = page.getByRole('table', { name: /^Deliveries per hour/ })
    const rates = (await table.getByRole('row').allInnerTexts()).flatMap(
      (row) => /([\d.]+)%/.exec(row)?.[1] ?? [],
    )
    await screenshot('error-rate')
    assert.equal(rates[0], '0')
    assert.ok(rates.length >= 2 && Number(rates.at(-1)) > 0, rates.join())
  })

  test('finds a request by its id', async () => {
    const headers = { Authorization: `Bearer ${apiKey}` }
    const refused = await fetch(`${apiUrl}/api/v1/clients`, { method: 'POST', headers, body: '{}' })
    assert.equal(refused.status, 403)
    await flushLog()
    await press('API requests')
    await page.getByLabel('Request ID').fill(refused.headers.get('x-request-id') ?? '')
    await page.getByLabel('Request ID').press('Enter')
    await sees(/lacks the required scope clients:write/)
    await screenshot('request')
  })

  test("finds an invoice's events", async () => {
    for (const id of ['inv_6', 'inv_7', 'inv_8']) await pay(id)
    await press('Events')
    await page.getByLabel('Resource ID').fill('inv_7')
    await page.getByLabel('Resource ID').press('Enter')
    await page.waitForURL(/record=inv_7/)
    await press('invoice.paid')
    await sees(/"invoiceId": "inv_7"/)
    await screenshot('event')
  })

  test('resends one event to another endpoint', async () => {
    await settings.endpoints.register(ORGANIZATION, {
      url: `${subscriberUrl}/archive`,
      description: 'Archive',
    })
    await press('Events')
    await press('project.completed')
    await page.getByLabel('Endpoint').selectOption('Archive')
    await press('Resend event')
    await sees('Resend queued')
    while (archived.length === 0) await sleep(20)
    assert.equal(archived.length, 1)
    assert.ok(subscriber.verified.includes(archived[0] ?? ''), 'another event')
  })

  test('finds out why deliveries failed yesterday evening', async () => {
    // Deliveries of earlier tasks would fail too.
    while ((await settings.deliveries.count(ORGANIZATION, { states: ['pending', 'sending'] })) > 0)
      await sleep(20)
    Object.assign(subscriber, { isDown: true, status: 500, answer: 'No space left on device' })
    await publish()
    while ((await settings.deliveries.count(ORGANIZATION, { states: ['failed'] })) === 0) await sleep(20)
    const evening = Date.now() + aheadMs
    aheadMs += 20 * 60 * 60 * 1000
    await press('Deliveries')
    const minute = (ms: number) => new Date(ms).toISOString().slice(0, 16)
    await page.getByLabel('Created').selectOption({ label: 'Last hour' })
    await sees('No deliveries match these filters.')
    await page.getByLabel('Created').selectOption({ label: 'Custom range (UTC)' })
    await page.getByLabel('From').fill(minute(evening - 3_600_000))
    await page.getByLabel('To', { exact: true }).fill(minute(evening + 3_600_000))
    await page.getByLabel('Status').selectOption({ label: 'Failed' })
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
    await screenshot('yesterday-evening')
    await press('project.completed')
    await sees('500 Internal Server Error')
    await sees('No space left on device')
    Object.assign(subscriber, { isDown: false })
  })

  test('sees who disabled an endpoint', async () => {
    const endpoint = (await settings.endpoints.list(ORGANIZATION)).at(-1)
    await settings.endpoints.disable(ORGANIZATION, endpoint?.id ?? '', { actor: 'grace@example.com' })
    await press('Overview')
    await sees('Billing is disabled')
    await press('View endpoint')
    await press('View in audit log')
    await sees('grace@example.com')
    await sees('disabled endpoint')
    assert.deepEqual(heard, [])
  })
})
