import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOM = join(import.meta.dirname, '..', '..', 'lib', 'settings-page')

test('assets.ts is what npm run client makes of the stylesheet and the script', async () => {
  const file = join(ROOM, 'assets.ts')
  const { STYLESHEET, SCRIPT } = await import('../../lib/settings-page/assets.ts')
  const before = readFileSync(file)
  try {
    execFileSync(process.execPath, [join(ROOM, 'client', 'embed.mjs')])
    const made = readFileSync(file, 'utf8')
    assert.ok(made.includes(JSON.stringify(STYLESHEET)), 'the stylesheet: npm run client')
    assert.ok(made.includes(JSON.stringify(SCRIPT)), 'the script: npm run client')
  } finally {
    writeFileSync(file, before)
  }
})
