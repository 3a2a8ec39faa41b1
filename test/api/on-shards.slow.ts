import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'

// The tests of the API once more, with a store over three shards in the place of one PostgreSQL.

const run = promisify(execFile)

test('the API on three shards keeps the tests of the API', async () => {
  const files = (await readdir(import.meta.dirname)).filter((file) => file.endsWith('.test.ts'))
  // Without NODE_TEST_CONTEXT, which would have the runner report to this one.
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
