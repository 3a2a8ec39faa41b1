import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { ORGANIZATION } from '../settings-page/_page.ts'
import { focusedText, missingBrowser, useStage } from './_browser.ts'

describe('flows in a browser', { skip: missingBrowser, concurrency: false }, () => {
  const stage = useStage()
  const { open } = stage

  const keyCount = async () => (await stage.host.settings.apiKeys.list(ORGANIZATION)).length

  async function fillKey(page: Page): Promise<void> {
    await page.fill('#name', 'By hand')
    await page.check('#scope')
    await page.check('#expiry')
  }

  test('a rejected form puts the focus on the summary, and keeps what was typed', async () => {
    const { page, context } = await open('/keys/new')
    await page.fill('#name', 'Kept')
    await page.click('button.ba-button-main')
    await page.waitForSelector('[role=alert]')
    assert.match(await focusedText(page), /Couldn't create API key/)
    assert.equal(await page.inputValue('#name'), 'Kept')
    assert.match(await page.title(), /^Error: /)
    await context.close()
  })

  test('an ended session keeps the typed values, and says what to do', async () => {
    const { page, context } = await open('/keys/new')
    await fillKey(page)
    stage.host.access = { redirect: '/login' }
    await page.click('button.ba-button-main')
    await page.getByText('Session expired.').waitFor()
    assert.equal(await page.inputValue('#name'), 'By hand')
    await context.close()
  })

  test('without JavaScript, a custom period takes one submit', async () => {
    const { page, context } = await open('/deliveries', { javaScriptEnabled: false })
    assert.equal(await page.isVisible('#from'), false)
    await page.selectOption('#period', 'custom')
    await page.fill('#from', '2026-01-02T03:04')
    await page.click('.ba-filters > button')
    await page.waitForURL('**period=custom&from=2026-01-02T03%3A04**')
    assert.equal(await page.inputValue('#from'), '2026-01-02T03:04')
    await context.close()
  })

  test('"All events" sends no types that were ticked before, and hides them', async () => {
    const { page, context } = await open('/endpoints/new')
    await page.fill('#url', 'https://hooks.example.com/all')
    assert.equal(await page.isVisible('input[name=group]'), false)
    await page.check('input[name=wants][value=some]')
    await page.locator('input[name=group]').first().check()
    await page.check('#wants')
    assert.equal(await page.isVisible('input[name=group]'), false)
    await page.click('button.ba-button-main')
    await page.waitForSelector('[data-secret]')
    const [endpoint] = await stage.host.settings.endpoints.list(ORGANIZATION)
    assert.deepEqual([endpoint?.url, endpoint?.types], ['https://hooks.example.com/all', null])
    await page.click('.ba-main a.ba-button-main')
    await context.close()
  })

  test("a resource's box is ticked exactly while all of its types are", async () => {
    const { page, context } = await open('/endpoints/new')
    await page.check('input[name=wants][value=some]')
    const group = page.locator('input[name=group][value=lead]')
    const types = page.locator('input[name=type][value^="lead."]')
    await types.nth(0).check()
    assert.equal(await group.isChecked(), false)
    await types.nth(1).check()
    assert.equal(await group.isChecked(), true)
    await types.nth(0).uncheck()
    assert.equal(await group.isChecked(), false)
    await group.check()
    assert.equal(await types.nth(0).isChecked(), true)
    await group.uncheck()
    assert.equal(await types.nth(0).isChecked(), false)
    await page.fill('[data-find]', 'lead.')
    await page.click('[data-tick=yes]')
    assert.equal(await group.isChecked(), true)
    await page.fill('[data-find]', 'lead.created')
    await page.click('[data-tick=no]')
    assert.equal(await group.isChecked(), false)
    await context.close()
  })

  test('every exact time names its zone, with the script and without; lists have a date after a day, in whole', async () => {
    const year = new Date().getUTCFullYear() + 1
    const { id } = await stage.host.settings.apiKeys.create(ORGANIZATION, {
      name: 'Zone',
      scopes: ['clients:read'],
      expiresAt: new Date(`${year}-12-31T12:00:00Z`),
    })
    const expiry = (page: Page) => page.locator('dt:text-is("Expires") + dd').textContent()
    const newYork = await open(`/keys/${id}`, { timezoneId: 'America/New_York' })
    assert.match((await expiry(newYork.page)) ?? '', /^Dec 31, \d{4}, 7:00\sAM EST/)
    await newYork.context.close()
    for (const width of [1280, 375]) {
      const kolkata = await open('/deliveries', {
        timezoneId: 'Asia/Kolkata',
        viewport: { width, height: 800 },
      })
      await kolkata.page.clock.install({ time: Date.now() + 25 * 3_600_000 })
      await kolkata.page.reload()
      const time = kolkata.page.locator('td:last-child time').first()
      assert.match((await time.textContent()) ?? '', /^[A-Z]\w\w \d+, \d\d:\d\d$/)
      assert.match((await time.getAttribute('title')) ?? '', /GMT\+5:30$/)
      const rows = await kolkata.page.locator('tbody tr').evaluateAll((rows) =>
        rows.map((row) => {
          const [name, cell] = [row.querySelector('th'), row.querySelector('td:last-child')]
          if (!name || !cell) return false
          const end =
            name.getBoundingClientRect().right - Number.parseFloat(getComputedStyle(name).paddingRight)
          return cell.scrollWidth <= cell.clientWidth && end <= cell.getBoundingClientRect().left
        }),
      )
      assert.ok(rows.length > 0 && rows.every(Boolean), `${width} px`)
      await kolkata.context.close()
    }
    const plain = await open(`/keys/${id}`, { javaScriptEnabled: false, timezoneId: 'America/New_York' })
    assert.equal(await expiry(plain.page), `Dec 31, ${year}, 12:00 UTC`)
    await plain.context.close()
  })

  test("the script works in a host's layout whose language is no language tag", async () => {
    const { page, context } = await open('/keys')
    const errors: Error[] = []
    page.on('pageerror', (error) => errors.push(error))
    await page.route('**/keys', async (route) => {
      const response = await route.fetch()
      const body = (await response.text()).replace(/<html lang="[^"]*"/, '<html lang="en_US"')
      await route.fulfill({ response, body })
    })
    await page.reload()
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'en_US')
    assert.notEqual(await page.locator('time[title]').count(), 0)
    assert.deepEqual(errors, [])
    await context.close()
  })

  test('a test of an endpoint is sent and told without leaving the page', async () => {
    const { page, context } = await open(`/endpoints/${stage.host.seeded.endpoint}`)
    await page.click('button:has-text("Send test event")')
    await page.getByText('Test event delivered').waitFor()
    await page.reload()
    assert.equal(page.url(), `${stage.host.base}/endpoints/${stage.host.seeded.endpoint}`)
    await context.close()
  })

  test('forms of another port, another host, a data: page and a sandboxed frame are rejected; so is framing', async () => {
    const before = await keyCount()
    const action = `${stage.host.base}/keys/new`
    const form = `<form method="post" action="${action}"><input name="name" value="Evil"><input name="scope" value="clients:read"><input name="expiry" value="never"><button>Go</button></form>`
    const pages: Record<string, string> = {
      '/form': form,
      '/frame': `<iframe sandbox="allow-forms" srcdoc="${form.replaceAll('"', '&quot;')}"></iframe>`,
      '/framing': `<iframe src="${stage.host.base}/keys"></iframe>`,
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
