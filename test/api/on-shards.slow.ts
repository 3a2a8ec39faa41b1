import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

// Runs the tests of the API again with a store on three shards instead of a single PostgreSQL database.

const run = promisify(execFile)

test('the API passes its tests on three shards', async () => {
  const files = (await readdir(import.meta.dirname)).filter((file) => file.endsWith('.test.ts'))
  // Remove NODE_TEST_CONTEXT, which would make the runner report to this one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const args = [
    '--import',
    'tsx',
    '--test',
    '--test-concurrency=2',
    ...files.map((file) => join(import.meta.dirname, file)),
  ]
  const { stdout } = await run(process.execPath, args, {
    env: { ...env, API_ON_SHARDS: '1' },
    maxBuffer: 64 * 1024 * 1024,
  }).catch((error) => error)
  const failed = [...stdout.matchAll(/^ *not ok .*$/gm)].map(([line]) => line.trim())
  assert.deepEqual(failed, [])
  assert.match(stdout, /^# fail 0$/m)
})
