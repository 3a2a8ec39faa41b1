import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { type Host, startHost } from '../settings-page/_host.ts'
import { BASE, ORGANIZATION } from '../settings-page/_page.ts'
import { launch, missingBrowser, watch } from './_browser.ts'

const KEY = /bapi_live_[0-9A-Za-z]{49}/

/** Presses Tab until an element has the focus. */
async function tabTo(page: Page, selector: string): Promise<void> {
  for (let presses = 0; presses < 120; presses++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)) return
  }
  assert.fail(`Tab never reaches ${selector}`)
}

function focusedText(page: Page): Promise<string> {
  return page.evaluate(() => document.activeElement?.textContent ?? '')
}

describe('flows in a browser', { skip: missingBrowser, concurrency: false }, () => {
  let host: Host
  let browser: Browser
  before(async () => {
    browser = await launch()
  })
  after(() => browser.close())
  beforeEach(async () => {
    host = await startHost()
  })
  afterEach(() => host.close())

  async function open(
    path: string,
    options: Parameters<Browser['newContext']>[0] = {},
  ): Promise<{ page: Page; context: BrowserContext }> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
    const page = await context.newPage()
    await page.goto(host.base + path)
    return { page, context }
  }

  const keyCount = async () => (await host.settings.apiKeys.list(ORGANIZATION)).length

  async function fillKey(page: Page): Promise<void> {
    await page.fill('#name', 'By hand')
    await page.check('#scope')
    await page.check('#expiry')
  }

  test('a key is made, stored and revoked by the keyboard alone', async () => {
    const { page, context } = await open('/keys', { permissions: ['clipboard-read', 'clipboard-write'] })
    const heard = watch(page)
    await tabTo(page, `a[href="${BASE}/keys/new"]`)
    await page.keyboard.press('Enter')
    await page.waitForURL('**/keys/new')
    await tabTo(page, '#name')
    await page.keyboard.type('By keyboard')
    await tabTo(page, '#scope')
    await page.keyboard.press('Space')
    await tabTo(page, '#expiry')
    await page.keyboard.press('Space')
    await tabTo(page, 'button:not([type=button])')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[data-secret]')
    assert.equal(await focusedText(page), 'Copy')
    await page.keyboard.press('Enter')
    await page.waitForFunction(() => document.querySelector('[data-status]')?.textContent === 'Copied')
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), KEY)
    await tabTo(page, 'a.ba-button-main')
    await page.keyboard.press('Enter')
    await page.waitForURL(/keys\/key_/)
    await tabTo(page, '[data-dialog]')
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog[open]')
    assert.equal(await focusedText(page), 'Revoke By keyboard?')
    await page.keyboard.press('Escape')
    await page.waitForSelector('dialog', { state: 'detached' })
    assert.equal(await focusedText(page), 'Revoke')
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog[open]')
    await page.keyboard.press('Tab')
    assert.equal(await focusedText(page), 'Cancel')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByText('By keyboard was revoked').waitFor()
    assert.deepEqual(heard, [])
    await context.close()
  })

  for (const javaScriptEnabled of [true, false]) {
    const name = `JavaScript ${javaScriptEnabled ? 'on' : 'off'}`
    test(`${name}: a one-time secret is gone after a reload and after Back, and no second key is made`, async () => {
      const before = await keyCount()
      const { page, context } = await open('/keys', { javaScriptEnabled })
      page.on('dialog', (dialog) => void dialog.accept())
      await page.click(`a[href="${BASE}/keys/new"]`)
      await fillKey(page)
      await page.click('button.ba-button-main')
      await page.waitForSelector('[data-secret]')
      assert.match(await page.content(), KEY)
      assert.doesNotMatch(page.url(), KEY)
      assert.doesNotMatch(await page.title(), KEY)
      await page.reload()
      assert.doesNotMatch(await page.content(), KEY)
      await page.goBack()
      // Without a script the browser asks on another page before sending the form again.
      await page.goForward().catch(() => null)
      await page.waitForTimeout(500)
      assert.doesNotMatch(await page.content(), KEY)
      assert.equal(await keyCount(), before + 1)
      await context.close()
    })

    test(`${name}: two quick presses of the button make one key`, async () => {
      const before = await keyCount()
      const { page, context } = await open('/keys/new', { javaScriptEnabled })
      await fillKey(page)
      await page.dblclick('button.ba-button-main')
      await page.waitForSelector('[data-secret], .ba-notice')
      assert.equal(await keyCount(), before + 1)
      await context.close()
    })
  }

  test('leaving removes the secret from the document, so that no kept page has it', async () => {
    const { page, context } = await open('/keys/new')
    await fillKey(page)
    await page.click('button.ba-button-main')
    await page.waitForSelector('[data-secret]')
    await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
    assert.doesNotMatch(await page.content(), KEY)
    await context.close()
  })

  test('a refused form puts the focus on the summary, and keeps the typed values', async () => {
    const { page, context } = await open('/keys/new')
    await page.fill('#name', 'Kept')
    await page.click('button.ba-button-main')
    await page.waitForSelector('[role=alert]')
    assert.match(await focusedText(page), /The key was not made/)
    assert.equal(await page.inputValue('#name'), 'Kept')
    assert.match(await page.title(), /^Error: /)
    await context.close()
  })

  test('an ended session keeps the typed values, and says what to do', async () => {
    const { page, context } = await open('/keys/new')
    await fillKey(page)
    host.access = { redirect: '/login' }
    await page.click('button.ba-button-main')
    await page.getByText('Your session has ended.').waitFor()
    assert.equal(await page.inputValue('#name'), 'By hand')
    await context.close()
  })

  test('a test of an endpoint is sent and shown without leaving the page', async () => {
    const { page, context } = await open(`/endpoints/${host.seeded.endpoint}`)
    await page.click('text=Send test')
    await page.getByText('was delivered').waitFor()
    await context.close()
  })

  test('forms of another port, another host, a data: page and a sandboxed frame are refused; so is framing', async () => {
    const before = await keyCount()
    const action = `${host.base}/keys/new`
    const form = `<form method="post" action="${action}"><input name="name" value="Evil"><input name="scope" value="clients:read"><input name="expiry" value="never"><button>Go</button></form>`
    const pages: Record<string, string> = {
      '/form': form,
      '/frame': `<iframe sandbox="allow-forms" srcdoc="${form.replaceAll('"', '&quot;')}"></iframe>`,
      '/framing': `<iframe src="${host.base}/keys"></iframe>`,
    }
    const other = createServer((request, response) => {
      response.setHeader('Content-Type', 'text/html').end(pages[request.url ?? ''] ?? '')
    })
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const { port } = other.address() as AddressInfo
    const { page, context } = await open('/keys')
    for (const url of [
      `http://127.0.0.1:${port}/form`,
      `http://localhost:${port}/form`,
      `data:text/html,${encodeURIComponent(form)}`,
      `http://127.0.0.1:${port}/frame`,
    ]) {
      await page.goto(url)
      const answer = page.waitForResponse(action)
      const frame = page.frames().at(-1)
      await frame?.click('button')
      assert.equal((await answer).status(), 403, url)
    }
    assert.equal(await keyCount(), before)
    await page.goto(`http://127.0.0.1:${port}/framing`)
    await page.waitForTimeout(300)
    const framed = await page.frames().at(-1)?.content()
    assert.doesNotMatch(framed ?? '', /ba-main/)
    await context.close()
    other.close()
  })
})
