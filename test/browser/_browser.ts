import { existsSync } from 'node:fs'
import { type Browser, chromium, type Page } from 'playwright-core'

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
