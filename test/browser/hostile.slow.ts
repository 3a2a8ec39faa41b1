import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { type Host, SENDER, startHost } from '../settings-page/_host.ts'
import { HOSTILE } from '../settings-page/_hostile.ts'
import { EVERYTHING } from '../settings-page/_page.ts'
import { screensOf } from '../settings-page/_seed.ts'
import { launch, missingBrowser, watch } from './_browser.ts'

// Hostile text in every stored field, in the bodies of events and in subscribers' answers, with a browser that would run the
// text.

/** Lists the elements of a page that come from no template; empty when the hostile text stayed text. */
function strangersOf(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    // The charts are the only SVG of the templates. They hold paths, and one group of links with a title and a path each.
    const strange =
      'svg:not(.ba-bars, .ba-spark), svg :not(path, .ba-bars > g, .ba-bars > g > a, .ba-bars > g > a > title:first-child), title *, img, iframe, style, base, template, object, embed, dialog, [style], [autofocus], [srcdoc]'
    const found = [...document.querySelectorAll(strange)].map((each) => each.outerHTML)
    if (document.scripts.length !== 1) found.push(`${document.scripts.length} scripts`)
    for (const each of document.querySelectorAll('*')) {
      for (const { name } of each.attributes) if (name.startsWith('on')) found.push(each.outerHTML)
    }
    for (const each of document.querySelectorAll('a[href], form[action]')) {
      const { origin } = new URL(
        each.getAttribute('href') ?? each.getAttribute('action') ?? '',
        location.href,
      )
      if (origin !== location.origin) found.push(each.outerHTML)
    }
    return found
  })
}

async function openHostile(text: string): Promise<Host> {
  const sender = {
    ...SENDER,
    send: async () => ({ ...(await SENDER.send({} as never)), status: 500, bodyExcerpt: text }),
  }
  const seeds = {
    name: text,
    excerpt: text,
    body: text,
    url: `https://hooks.example.com/?${encodeURI(text)}#${encodeURI(text)}`,
  }
  const host = await startHost({ seeds, sender })
  host.access = { ...EVERYTHING, organizationName: text, actor: text }
  return host
}

describe('hostile text in a browser', { skip: missingBrowser, concurrency: false }, () => {
  test('every hostile text in every field is shown as text on every screen, and nothing of it runs', async (t) => {
    const browser = await launch()
    let screens = 0
    for (const text of HOSTILE) {
      const host = await openHostile(text)
      const context = await browser.newContext()
      const page = await context.newPage()
      const heard = watch(page)
      page.on('dialog', (dialog) => {
        heard.push(`${page.url()} ${dialog.type()} ${dialog.message()}`)
        void dialog.dismiss()
      })
      page.on('request', (request) => {
        if (!request.url().startsWith(host.origin)) heard.push(`${page.url()} asks ${request.url()}`)
      })
      const see = async (where: string) => {
        assert.deepEqual(await strangersOf(page), [], `${text} on ${where}`)
        screens++
      }
      for (const path of screensOf(host.seeded)) {
        await page.goto(host.base + path)
        await see(path)
      }
      // A test's answer, a refused form, and a question in a dialog take another way into the page: the script's.
      await page.goto(`${host.base}/endpoints/${host.seeded.endpoint}`)
      await page.click('button:has-text("Send test event")')
      await page.getByText("Couldn't deliver test event").waitFor()
      await see('the result of a test')
      await page.click('a[href$="/delete"]')
      await page.waitForSelector('dialog[open]')
      await page.evaluate(() => document.querySelector('dialog')?.remove())
      await page.goto(`${host.base}/keys/new`)
      await page.fill('#name', text.slice(0, 100))
      await page.click('button.ba-button-main')
      await page.waitForSelector('[role=alert]')
      await see('a refused form')
      await page.check('#scope')
      await page.check('#expiry')
      await page.click('button.ba-button-main')
      await page.waitForSelector('[data-secret]')
      await see('a new key')
      // The browser says itself that a form was answered 422.
      const unexpected = heard.filter((line) => !line.includes('422 (Unprocessable Entity)'))
      assert.deepEqual(unexpected, [], text)
      await page.evaluate(() => document.querySelector('[data-secret]')?.remove())
      await context.close()
      await host.close()
    }
    await browser.close()
    t.diagnostic(`${HOSTILE.length} texts, ${screens} screens`)
  })
})
