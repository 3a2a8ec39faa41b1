import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, afterEach, before, beforeEach } from 'node:test'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'
import { type Host, type HostOptions, startHost } from '../settings-page/_host.ts'

/** Debian's Chromium, or the binary of CHROMIUM. Nothing is installed by itself. */
export const CHROMIUM: string = process.env.CHROMIUM ?? '/usr/bin/chromium'

/** The reason why the browser tests cannot run; false when the tests can. */
export const missingBrowser: string | false = existsSync(CHROMIUM)
  ? false
  : `there is no browser at ${CHROMIUM}: apt-get install chromium, or set CHROMIUM`

if (missingBrowser) console.error(`The browser tests are skipped because ${missingBrowser}`)

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
}

/** Collects everything on the console of a page, including violations of the policy. */
export function watch(page: Page): string[] {
  const heard: string[] = []
  page.on('console', (message) => heard.push(`${page.url()} ${message.text()}`))
  page.on('pageerror', (error) => heard.push(`${page.url()} ${error.message}`))
  return heard
}

/** The host and the browser of the tests of a `describe`, each test with a host of its own. */
export interface Stage {
  readonly host: Host
  readonly browser: Browser
  open(path: string, options?: BrowserContextOptions): Promise<{ page: Page; context: BrowserContext }>
}

export function useStage(options: HostOptions = {}): Stage {
  let host: Host
  let browser: Browser
  before(async () => {
    browser = await launch()
  })
  after(() => browser.close())
  beforeEach(async () => {
    host = await startHost(options)
  })
  afterEach(() => host.close())
  return {
    get host() {
      return host
    },
    get browser() {
      return browser
    },
    async open(path, contextOptions = {}) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...contextOptions })
      const page = await context.newPage()
      await page.goto(host.base + path)
      return { page, context }
    },
  }
}

/** Presses Tab until an element has the focus, whose ring must be seen. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let presses = 0; presses < 150; presses++) {
    await page.keyboard.press('Tab')
    if (!(await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector)))
      continue
    const ring = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement ?? document.body)
      return `${outlineStyle} ${outlineWidth}`
    })
    assert.equal(ring, 'solid 2px', selector)
    return
  }
  assert.fail(`Tab never reaches ${selector} on ${page.url()}`)
}

/** Goes to a control by Tab and presses it. */
export async function press(page: Page, selector: string, key: 'Enter' | 'Space' = 'Enter'): Promise<void> {
  await tabTo(page, selector)
  await page.keyboard.press(key)
}

/** Chooses an option of a select by typing the beginning of its text. */
export async function choose(page: Page, selector: string, beginning: string): Promise<void> {
  await tabTo(page, selector)
  await page.keyboard.type(beginning)
}

export function focusedText(page: Page): Promise<string> {
  return page.evaluate(() => document.activeElement?.textContent ?? '')
}
