import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { Host } from '../settings-page/_host.ts'
import { ORGANIZATION } from '../settings-page/_page.ts'
import { missingBrowser, useStage, watch } from './_browser.ts'

// Secrets that are shown once: after a reload, Back, a second press, and a return to a page in the browser's memory.

const SECRET = /(bapi_live_[0-9A-Za-z]{49}|whsec_[\w+/=-]{20,})/

interface Flow {
  /** The page from which the form is opened. */
  from(host: Host): string
  /** The form. */
  form(host: Host): string
  fill(page: Page): Promise<void>
}

const FLOWS: Readonly<Record<string, Flow>> = {
  'a new key': {
    from: () => '/keys',
    form: () => '/keys/new',
    async fill(page) {
      await page.fill('#name', 'By hand')
      await page.check('#scope')
      await page.check('#expiry')
    },
  },
  'a rotated key': {
    from: ({ seeded }) => `/keys/${seeded.activeKey}`,
    form: ({ seeded }) => `/keys/${seeded.activeKey}/rotate`,
    fill: async () => {},
  },
  'a new endpoint': {
    from: () => '/endpoints',
    form: () => '/endpoints/new',
    async fill(page) {
      await page.fill('#url', 'https://hooks.example.com/new')
      await page.check('#wants')
    },
  },
  'a rotated signing secret': {
    from: ({ seeded }) => `/endpoints/${seeded.endpoint}`,
    form: ({ seeded }) => `/endpoints/${seeded.endpoint}/rotate`,
    fill: async () => {},
  },
}

const SEND = '.ba-form button:not([type=button])'

describe('a secret that is shown once', { skip: missingBrowser, concurrency: false }, () => {
  const stage = useStage()

  /** The changes that the flows make, each once. */
  async function countChanges(): Promise<number> {
    const { data } = await stage.host.settings.audit.list(ORGANIZATION, { limit: 200 })
    return data.length
  }

  /** Opens the form from the previous page, and fills in the fields. */
  async function openForm({ from, form, fill }: Flow, javaScriptEnabled: boolean) {
    const opened = await stage.open(from(stage.host), { javaScriptEnabled })
    opened.page.on('dialog', (dialog) => void dialog.accept())
    await opened.page.goto(stage.host.base + form(stage.host))
    await fill(opened.page)
    return opened
  }

  for (const [name, flow] of Object.entries(FLOWS)) {
    for (const javaScriptEnabled of [true, false]) {
      const title = `${name}, JavaScript ${javaScriptEnabled ? 'on' : 'off'}`

      test(`${title}: is in the response alone; a reload and Back do not show it again and repeat nothing`, async () => {
        const before = await countChanges()
        const { page, context } = await openForm(flow, javaScriptEnabled)
        const heard = watch(page)
        await page.click(SEND)
        await page.waitForSelector('[data-secret]')
        const [secret = 'missing'] = SECRET.exec(await page.content()) ?? []
        assert.doesNotMatch(page.url(), SECRET)
        assert.doesNotMatch(await page.title(), SECRET)
        await page.reload()
        assert.ok(!(await page.content()).includes(secret), 'after a reload')
        await page.goBack()
        assert.ok(!(await page.content()).includes(secret), 'after Back')
        // Without a script the browser asks for leave to send the form again, on a page of the browser.
        await page.goForward().catch(() => null)
        await page.waitForTimeout(300)
        assert.ok(!(await page.content()).includes(secret), 'after Forward')
        assert.equal(await countChanges(), before + 1)
        assert.deepEqual(await context.cookies(), [])
        // A form that was sent again is answered 409, which the browser puts on the console itself.
        assert.deepEqual(
          heard.filter((line) => !line.includes('409 (Conflict)')),
          [],
        )
        await context.close()
      })

      test(`${title}: two quick presses of the button make one`, async () => {
        const before = await countChanges()
        const { page, context } = await openForm(flow, javaScriptEnabled)
        await page.dblclick(SEND)
        await page.waitForSelector('[data-secret], .ba-notice')
        await page.waitForTimeout(200)
        assert.equal(await countChanges(), before + 1)
        await context.close()
      })
    }

    test(`${name}: leaving removes the secret from the document, and no kept page has the secret`, async () => {
      const { page, context } = await openForm(flow, true)
      await page.click(SEND)
      await page.waitForSelector('[data-secret]')
      const [secret = 'missing'] = SECRET.exec(await page.content()) ?? []
      await page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
      assert.ok(!(await page.content()).includes(secret))
      await context.close()
    })

    test(`${name}: the browser asks before leaving a secret that was not copied, not after "Done"`, async () => {
      const { page, context } = await openForm(flow, true)
      page.removeAllListeners('dialog')
      const asked: string[] = []
      page.on('dialog', (dialog) => {
        asked.push(dialog.type())
        void dialog.dismiss()
      })
      await page.click(SEND)
      await page.waitForSelector('[data-secret]')
      await page.click('.ba-nav a').catch(() => null)
      await page.waitForTimeout(300)
      assert.deepEqual(asked, ['beforeunload'])
      assert.equal(await page.locator('[data-secret]').count(), 1)
      await page.click('.ba-main > p > a.ba-button-main')
      await page.waitForSelector('[data-secret]', { state: 'detached' })
      assert.deepEqual(asked, ['beforeunload'])
      await context.close()
    })
  }
})
