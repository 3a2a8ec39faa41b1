import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { screensOf } from '../settings-page/_seed.ts'
import { answersOf } from './_answers.ts'
import { missingBrowser, useStage } from './_browser.ts'

// The accessibility tree of every page, as a screen reader gets the page: UPDATE_SNAPSHOTS=1 writes aria-snapshots.yaml anew,
// for review as a diff.

const FILE = join(import.meta.dirname, 'aria-snapshots.yaml')

/** Without ids, secrets and times, which differ from run to run. */
function steady(text: string): string {
  return (
    text
      .replace(/\b(key|we|dlv|evt|aud|req|chg|evt_test)_[0-9A-Z]{26}/g, '$1_…')
      // Not the ids in the reference's examples, which begin with 01J.
      .replace(/\b(biz|cli)_01[K-Z][0-9A-Z]{23}/g, '$1_…')
      .replace(/bapi_live_…\w{4}/g, 'bapi_live_…')
      .replace(/bapi_live_\w{49}/g, 'bapi_live_')
      .replace(/whsec_[\w+/=-]{20,}/g, 'whsec_')
      .replace(/\b\w{3} \d+, \d{4}, \d+:\d+\s[AP]M UTC/g, '<time>')
      .replace(/\b[A-Z]\w\w \d+, \d\d:00\b/g, '<hour>')
      .replace(/\b(from|period)=\d{4}-[^&\s]+/g, '$1=<time>')
      .replace(
        /\b((?<!(Pending|Failed|Retry) )now|this minute|(in )?\d+ ?(s|seconds?|minutes?)( ago)?)\b/g,
        'just now',
      )
      .replace(/"createdAt": "[^"]*"/g, '"createdAt": "…"')
      .replace(/\\"createdAt\\":\s?\\"[^"]*\\"/g, '"createdAt": "…"')
  )
}

describe('for a screen reader', { skip: missingBrowser, concurrency: false }, () => {
  const stage = useStage()

  test('every page is what aria-snapshots.yaml says', async () => {
    const { host } = stage
    const { page, context } = await stage.open('/')
    page.on('dialog', (dialog) => void dialog.accept())
    const seen: string[] = []
    const take = async (name: string) => {
      const snapshot = await page.locator('body').ariaSnapshot()
      seen.push(`# ${steady(name)}\n${steady(snapshot)}\n`)
    }
    for (const path of screensOf(host.seeded)) {
      await page.goto(host.base + path)
      await take(path)
    }
    for (const { name, path, act } of answersOf(host.seeded)) {
      await page.goto(host.base + path)
      await act(page)
      await take(name)
    }
    await context.close()
    const text = seen.join('\n')
    if (process.env.UPDATE_SNAPSHOTS) await writeFile(FILE, text)
    assert.equal(text, await readFile(FILE, 'utf8'))
  })
})
