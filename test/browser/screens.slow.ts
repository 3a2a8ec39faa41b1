import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { EVERYTHING } from '../settings-page/_page.ts'
import { screensOf } from '../settings-page/_seed.ts'
import { answersOf } from './_answers.ts'
import { violationsOf } from './_axe.ts'
import { missingBrowser, useStage, watch } from './_browser.ts'

/** Screens of an organization that has nothing yet. */
const EMPTY = [
  '/',
  '/keys',
  '/endpoints',
  '/events',
  '/requests',
  '/deliveries',
  '/deliveries/recover',
  '/audit',
]

/**
 * The page without the script: axe never ends in a browser with JavaScript switched off, because the steps of axe need
 * JavaScript. The flows of secrets.slow.ts switch JavaScript off.
 */
const withoutScript = (route: Route): Promise<void> =>
  route.fulfill({ contentType: 'text/javascript', body: '' })

/** The browser says itself that a page was answered 404 or 422. */
const isOwn = (line: string): boolean =>
  / Failed to load resource: the server responded with a status of 4\d\d/.test(line)

describe('in a browser', { skip: missingBrowser, concurrency: false }, () => {
  const stage = useStage()

  async function judge(page: Page, where: string): Promise<string[]> {
    const wrong = (await violationsOf(page)).map((violation) => `${where} ${violation}`)
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    if (overflow > 0) wrong.push(`${where} is ${overflow} px too wide`)
    return wrong
  }

  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 320]) {
      for (const hasScript of [true, false]) {
        const name = `${colorScheme}, ${width} px, JavaScript ${hasScript ? 'on' : 'off'}`
        test(`${name}: every screen and every answer has no violation of WCAG 2.2 AA or of the policy, and a silent console`, async (t) => {
          const { host } = stage
          const viewport = { width, height: 800 }
          const { page, context } = await stage.open('/', { colorScheme, viewport })
          if (!hasScript) await context.route('**/-/settings.*.js', withoutScript)
          page.on('dialog', (dialog) => void dialog.accept())
          const heard = watch(page)
          const wrong: string[] = []
          let pages = 0
          for (const path of screensOf(host.seeded)) {
            await page.goto(host.base + path)
            wrong.push(...(await judge(page, path)))
            pages++
          }
          for (const { name: answer, path, act, needsScript } of answersOf(host.seeded)) {
            if (needsScript && !hasScript) continue
            await page.goto(host.base + path)
            await act(page)
            wrong.push(...(await judge(page, answer)))
            pages++
          }
          for (const access of [null, { ...EVERYTHING, organizationId: 'org_empty' }]) {
            host.access = access
            for (const path of access === null ? ['/'] : EMPTY) {
              await page.goto(host.base + path)
              wrong.push(...(await judge(page, `${path} ${access === null ? 'signed out' : 'empty'}`)))
              pages++
            }
          }
          t.diagnostic(`${pages} pages`)
          assert.deepEqual([...new Set(wrong)], [])
          assert.deepEqual(
            heard.filter((line) => !isOwn(line)),
            [],
          )
          await context.close()
        })
      }
    }
  }

  test('the list of events shows in whole how many deliveries each has, and its time', async () => {
    for (const javaScriptEnabled of [true, false]) {
      const { page, context } = await stage.open('/events', { javaScriptEnabled })
      const texts = page.locator('td:is(:nth-child(2), :last-child)')
      const all = (await texts.allTextContents()).join('; ')
      assert.match(all, /1\sFailed, 1\sPending, 1\sDelivered, 1\sSkipped/)
      const cut = await texts.evaluateAll((cells) =>
        cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent),
      )
      assert.deepEqual(cut, [])
      await context.close()
    }
  })

  test('on a touch screen the target of a copy button is 44 px, in rows as high as for a mouse', async () => {
    const path = `/deliveries/${stage.host.seeded.failedDelivery}`
    for (const width of [375, 1280]) {
      const heights: number[][] = []
      for (const hasTouch of [false, true]) {
        const viewport = { width, height: 800 }
        const { page, context } = await stage.open(path, { viewport, hasTouch, isMobile: hasTouch })
        // Texts must have the same lines: a mouse's scrollbar takes room, and a time gets longer while the tests run.
        await page.evaluate(() => {
          document.documentElement.style.setProperty('scrollbar-width', 'none')
          for (const time of document.querySelectorAll('time'))
            time.textContent = 'Nov 27, 2026, 12:46 PM UTC · 12 minutes ago'
        })
        heights.push(
          await page
            .locator('.ba-facts > div')
            .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height)),
        )
        if (hasTouch) {
          assert.deepEqual(await judge(page, path), [])
          const missed = await page.locator('.ba-copy').evaluateAll((buttons) =>
            buttons.flatMap((button) => {
              button.scrollIntoView({ block: 'center' })
              const { x, y, width, height } = button.getBoundingClientRect()
              // The rows of a wide screen are two pixels closer together than the targets are high.
              return [
                [0, -21],
                [0, 19],
                [-21, 0],
                [21, 0],
              ].filter(([right = 0, down = 0]) => {
                const hit = document.elementFromPoint(x + width / 2 + right, y + height / 2 + down)
                return hit !== button
              })
            }),
          )
          assert.deepEqual(missed, [], `${width} px`)
        }
        await context.close()
      }
      assert.deepEqual(heights[0], heights[1])
    }
  })

  test('no screen is too wide at the widths between the layouts, nor with text of twice the size', async () => {
    const { page, context } = await stage.open('/', { javaScriptEnabled: false })
    const wrong: string[] = []
    for (const path of screensOf(stage.host.seeded)) {
      await page.goto(stage.host.base + path)
      for (const width of [640, 641, 960, 961, 1040]) {
        await page.setViewportSize({ width, height: 800 })
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
        if (overflow > 0) wrong.push(`${path} at ${width} px is ${overflow} px too wide`)
      }
      await page.setViewportSize({ width: 1280, height: 800 })
      const overflow = await page.evaluate(() => {
        document.documentElement.style.fontSize = '200%'
        return document.documentElement.scrollWidth - innerWidth
      })
      if (overflow > 0) wrong.push(`${path} with large text is ${overflow} px too wide`)
    }
    assert.deepEqual(wrong, [])
    await context.close()
  })
})
