import assert from 'node:assert/strict'
import { afterEach, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { BASE, ORGANIZATION } from '../settings-page/_page.ts'
import { choose, focusedText, missingBrowser, press, tabTo, useStage, watch } from './_browser.ts'

// Every flow without a mouse: controls are reached by Tab, which shows a ring, and pressed by Enter or Space.

const SECRET = /(bapi_live_[0-9A-Za-z]{49}|whsec_[\w+/=-]+)/
const CLIPBOARD = { permissions: ['clipboard-read', 'clipboard-write'] }

/** The button of the page's own form, not a button beside the heading. */
const SEND = '.ba-form button:not([type=button])'

const link = (path: string): string => `a[href="${BASE}${path}"]`
const button = (path: string): string => `form[action="${BASE}${path}"] button:not([type=button])`

describe('by the keyboard alone', { skip: missingBrowser, concurrency: false }, () => {
  const stage = useStage()
  let page: Page
  let heard: string[]
  afterEach(async () => {
    assert.deepEqual(heard, [])
    await page.context().close()
  })

  async function open(path: string): Promise<void> {
    page = (await stage.open(path, CLIPBOARD)).page
    heard = watch(page)
    page.on('dialog', (dialog) => heard.push(`${dialog.type()} ${dialog.message()}`))
  }

  /** Copies the secret that is shown, and leads on. */
  async function storeSecret(leadsTo: string): Promise<void> {
    await page.waitForSelector('[data-secret]')
    assert.equal(await focusedText(page), 'Copy')
    await page.keyboard.press('Enter')
    await page.waitForFunction(() => document.querySelector('[data-status]')?.textContent === 'Copied')
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), SECRET)
    await press(page, '.ba-main > p > a.ba-button-main')
    await page.waitForURL(`**${leadsTo}*`)
    assert.doesNotMatch(await page.content(), SECRET)
  }

  /** Opens a question, leaves by Escape, opens the question again, passes Cancel and presses the verb. */
  async function answer(opener: string, title: string, verb: string, dismiss = 'Cancel'): Promise<void> {
    await press(page, opener)
    await page.waitForSelector('dialog[open]')
    assert.equal(await focusedText(page), title)
    const opened = await page.evaluate(() => document.querySelector('dialog')?.matches(':modal'))
    assert.equal(opened, true)
    await page.keyboard.press('Escape')
    await page.waitForSelector('dialog', { state: 'detached' })
    assert.ok(await page.evaluate((wanted) => document.activeElement?.matches(wanted), opener))
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog[open]')
    // Enter on the heading does nothing.
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    assert.equal(await focusedText(page), dismiss)
    await page.keyboard.press('Tab')
    assert.equal(await focusedText(page), verb)
    await page.keyboard.press('Enter')
  }

  async function says(text: string): Promise<void> {
    await page.locator('.ba-main').getByText(text).first().waitFor()
  }

  test('the first Tab offers to skip to the content', async () => {
    await open('/keys')
    await press(page, '.ba-skip')
    await page.waitForFunction(() => document.activeElement?.id === 'ba-main')
    await page.keyboard.press('Tab')
    assert.equal(await focusedText(page), 'Create API key')
  })

  test('the summary of a rejected form leads to each field, and nothing that was typed is lost', async () => {
    await open('/keys/new')
    await tabTo(page, '#name')
    await page.keyboard.type('Kept')
    await press(page, SEND)
    await page.waitForSelector('[role=alert]')
    assert.match(await focusedText(page), /Couldn't create API key/)
    await press(page, '[role=alert] a[href="#expiry"]')
    await page.waitForTimeout(500)
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'expiry')
    assert.equal(await page.inputValue('#name'), 'Kept')
    // The browser says itself that the form was answered 422.
    heard = heard.filter((line) => !line.includes('422'))
  })

  test('a key is made, renamed, rotated and revoked', async () => {
    await open('/keys')
    await press(page, link('/keys/new'))
    await page.waitForURL('**/keys/new')
    await tabTo(page, '#name')
    await page.keyboard.type('By keyboard')
    await press(page, '#scope', 'Space')
    await press(page, '#expiry', 'Space')
    await press(page, SEND)
    await storeSecret('/keys/key_')
    const id = new URL(page.url()).pathname.split('/').at(-1)

    await press(page, link(`/keys/${id}/edit`))
    await page.waitForURL('**/edit')
    await tabTo(page, '#name')
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('Renamed')
    await press(page, SEND)
    await says('API key renamed')

    await press(page, link(`/keys/${id}/rotate`))
    await page.waitForURL('**/rotate')
    await tabTo(page, 'input[name=overlap]:checked')
    await page.keyboard.press('ArrowUp')
    assert.equal(await page.locator('input[name=overlap]:checked').getAttribute('value'), '1h')
    await press(page, SEND)
    await storeSecret('/keys/key_')
    await answer('[data-dialog]', 'Revoke Renamed?', 'Revoke API key')
    await says('API key revoked')
    assert.match(await focusedText(page), /Renamed/)
  })

  test('a rotation without overlap asks first', async () => {
    await open(`/keys/${stage.host.seeded.activeKey}/rotate`)
    await tabTo(page, 'input[name=overlap]:checked')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowUp')
    await press(page, SEND)
    await says('Requests with the current key of Website are rejected')
    assert.equal(await focusedText(page), 'Expire the current key immediately?')
    await page.keyboard.press('Tab')
    assert.equal(await focusedText(page), 'Cancel')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await storeSecret('/keys/key_')
  })

  test('an endpoint is added with types found by name, then changed', async () => {
    await open('/endpoints')
    await press(page, link('/endpoints/new'))
    await page.waitForURL('**/endpoints/new')
    await tabTo(page, '#url')
    await page.keyboard.type('https://hooks.example.com/keyboard')
    await tabTo(page, '#description')
    await page.keyboard.type('By keyboard')
    await tabTo(page, '#wants')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('ArrowDown')
    await tabTo(page, '[data-find]')
    await page.keyboard.type('invoice')
    await page.keyboard.press('Enter')
    assert.equal(await page.locator('.ba-types label:visible').count(), 4)
    await press(page, '[data-tick=yes]')
    await press(page, 'input[name=type]', 'Space')
    await tabTo(page, 'input[name="header-name"]')
    await page.keyboard.type('X-Team')
    await page.keyboard.press('Tab')
    await page.keyboard.type('7')
    await press(page, SEND)
    await storeSecret('/endpoints/we_')
    const [endpoint] = await stage.host.settings.endpoints.list(ORGANIZATION)
    assert.deepEqual(
      [endpoint?.types, endpoint?.headerNames],
      [['invoice.paid', 'invoice.overdue'], ['X-Team']],
    )

    await press(page, link(`/endpoints/${endpoint?.id}/edit`))
    await page.waitForURL('**/edit')
    await tabTo(page, '#description')
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('Changed')
    await press(page, '[data-tick=no]')
    await press(page, 'input[value="client.created"]', 'Space')
    await choose(page, '#known-0', 'Delete')
    await press(page, SEND)
    await says('Changes saved')
    const { description, types, headerNames } = await stage.host.settings.endpoints.get(
      ORGANIZATION,
      endpoint?.id ?? '',
    )
    assert.deepEqual([description, types, headerNames], ['Changed', ['client.created'], []])
  })

  test('an endpoint is tested, paused, resumed, disabled, enabled and removed', async () => {
    const path = `/endpoints/${stage.host.seeded.endpoint}`
    await open(path)
    await choose(page, '#type', 'invoice.paid')
    await press(page, SEND)
    await says('Test event delivered (invoice.paid)')
    await press(page, button(`${path}/pause`))
    await says('Endpoint paused')
    await press(page, button(`${path}/resume`))
    await says('Endpoint resumed')
    await answer(link(`${path}/disable`), 'Disable Billing?', 'Disable endpoint')
    await says('Endpoint disabled')
    await press(page, button(`${path}/enable`))
    await says('Skipped deliveries stay skipped')
    await answer(link(`${path}/delete`), 'Delete Billing?', 'Delete endpoint')
    await says('Endpoint deleted')
    assert.equal(await focusedText(page), 'Webhook endpoints')
  })

  test('a signing secret is rotated', async () => {
    const path = `/endpoints/${stage.host.seeded.endpoint}`
    await open(path)
    await press(page, link(`${path}/rotate`))
    await page.waitForURL('**/rotate')
    await press(page, SEND)
    await storeSecret('/endpoints/we_')
    await says('Previous secret expires')
  })

  test('a failed delivery is found by the filters and sent again; a pending one is cancelled', async () => {
    const { failedDelivery, pendingDelivery } = stage.host.seeded
    await open('/deliveries')
    await choose(page, '#state', 'Failed')
    await page.waitForURL('**state=failed**')
    // The list has changed, and the focus has stayed.
    await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 1)
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'state')
    await choose(page, '#type', 'client')
    await choose(page, '#period', 'Custom')
    await tabTo(page, '#from')
    await page.waitForURL('**period=custom**')
    await press(page, link(`/deliveries/${failedDelivery}`))
    await page.waitForURL(`**${failedDelivery}`)
    await press(page, 'summary', 'Space')
    // With the list's filter, to which the page leads back.
    await press(page, `form[action*="/${failedDelivery}/redeliver?"] button`)
    await says('Resend queued')
    await press(page, '.ba-up a')
    await page.waitForURL('**/deliveries?state=failed&type=client.created&period=custom')
    await page.goto(`${stage.host.base}/deliveries/${pendingDelivery}`)
    await answer(
      link(`/deliveries/${pendingDelivery}/cancel`),
      'Cancel delivery?',
      'Cancel delivery',
      "Don't cancel",
    )
    await says('Delivery cancelled')
  })

  test('selected deliveries are sent again', async () => {
    const { failedDelivery } = stage.host.seeded
    await open('/deliveries')
    await press(page, `input[value="${failedDelivery}"]`, 'Space')
    await page.goto(`${stage.host.base}/deliveries?type=client.created`)
    await press(page, '[data-all] input', 'Space')
    await page.keyboard.press('Tab')
    assert.equal(await focusedText(page), 'Resend 5 deliveries')
    await press(page, 'tbody input', 'Space')
    assert.equal(await page.locator('[data-count]').textContent(), 'Resend 4 deliveries')
    assert.equal(await page.locator('[data-all] input').isChecked(), false)
    await press(page, '[data-count]')
    await says('deliveries queued')
    const { state } = await stage.host.settings.deliveries.get(ORGANIZATION, failedDelivery)
    assert.equal(state, 'pending')
  })

  test('failed deliveries are sent again together, and updates are paused', async () => {
    await open('/deliveries')
    await press(page, '[data-pause]', 'Space')
    assert.equal(await focusedText(page), 'Resume live updates')
    await answer('[data-dialog]', 'Resend failed deliveries?', 'Resend 5 deliveries')
    await says('5 deliveries queued')
    await press(page, link('/deliveries'))
    await page.waitForURL('**/deliveries')
  })

  test('the audit is filtered by change, person and time', async () => {
    await open('/audit')
    await choose(page, '#action', 'Disabled')
    await tabTo(page, '#actor')
    await page.keyboard.type('grace@example.com')
    await page.keyboard.press('Enter')
    await page.waitForURL('**action=endpoint.disabled&actor=grace**')
    await page.waitForFunction(() => document.querySelectorAll('.ba-log tbody tr').length === 1)
    await choose(page, '#period', 'Last')
    await page.waitForURL('**period=**')
    await press(page, '[data-clear]')
    await page.waitForURL('**/audit')
    await press(page, '.ba-log .ba-quiet-link')
    await page.waitForURL('**subject=**')
  })

  test('the reference is read, and its code is copied', async () => {
    await open('/reference')
    await press(page, link('/reference/createClient'))
    await page.waitForURL('**/createClient')
    await press(page, '[data-copy]')
    await page.waitForFunction(() => document.querySelector('[data-status]')?.textContent === 'Copied')
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl https:/)
    // Else the next copy would not be announced, and the message would cover the page for good.
    await page.waitForFunction(() => document.querySelector('[data-status]')?.textContent === '')
  })
})
