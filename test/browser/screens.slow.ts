import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { type Host, startHost } from '../settings-page/_host.ts'
import { screensOf } from '../settings-page/_seed.ts'
import { launch, missingBrowser, watch } from './_browser.ts'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8')
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

interface AxeReport {
  readonly violations: readonly {
    readonly id: string
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[]
  }[]
}

async function violationsOf(page: Page): Promise<string[]> {
  const report = (await page.evaluate(
    (rules) =>
      (globalThis as unknown as { axe: { run(root: Document, options: object): unknown } }).axe.run(
        document,
        { runOnly: rules },
      ),
    RULES,
  )) as AxeReport
  return report.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`),
  )
}

describe('in a browser', { skip: missingBrowser, concurrency: false }, () => {
  let host: Host
  let browser: Browser
  before(async () => {
    host = await startHost()
    browser = await launch()
  })
  after(async () => {
    await browser.close()
    await host.close()
  })

  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [1280, 320]) {
      for (const javaScriptEnabled of [true, false]) {
        const name = `${colorScheme}, ${width} px, JavaScript ${javaScriptEnabled ? 'on' : 'off'}`
        test(`${name}: every screen has no violation of WCAG 2.2 AA or of the policy, and a silent console`, async () => {
          const context = await browser.newContext({
            colorScheme,
            viewport: { width, height: 800 },
            javaScriptEnabled,
          })
          const page = await context.newPage()
          const heard = watch(page)
          const wrong: string[] = []
          for (const path of screensOf(host.seeded)) {
            await page.goto(host.base + path)
            // axe needs another script; an evaluation loads the script in spite of the policy.
            if (javaScriptEnabled) {
              await page.evaluate(AXE)
              wrong.push(...(await violationsOf(page)).map((violation) => `${path} ${violation}`))
              const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
              if (overflow > 0) wrong.push(`${path} is ${overflow} px too wide`)
            } else if (width === 1280) {
              // Between the layouts of the two widths.
              for (const between of [640, 960, 1040]) {
                await page.setViewportSize({ width: between, height: 800 })
                const { width: wide = 0 } = (await page.locator('.ba').boundingBox()) ?? {}
                const { width: main = 0, x = 0 } = (await page.locator('.ba-main').boundingBox()) ?? {}
                const tables = await page.locator('.ba-table').all()
                for (const table of tables) {
                  const box = await table.boundingBox()
                  if (box && box.x + box.width > Math.max(wide, x + main))
                    wrong.push(`${path} at ${between} px: a table is too wide`)
                }
              }
            }
          }
          assert.deepEqual([...new Set(wrong)], [])
          assert.deepEqual(heard, [])
          await context.close()
        })
      }
    }
  }
})
