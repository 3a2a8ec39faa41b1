import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { programArguments } from '../_program.ts'
import { startReceiver } from './_receiver.ts'

const run = promisify(execFile)
const PROGRAM = join(import.meta.dirname, '_program.ts')

test('the environment’s proxy is not used, and undici is loaded by the first attempt that sends something', async (context) => {
  const proxy = await startReceiver(context)
  const receiver = await startReceiver(context)
  const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy']
  const proxies = Object.fromEntries(names.map((name) => [name, proxy.origin]))
  const env = { PATH: process.env.PATH, ...proxies, NODE_USE_ENV_PROXY: '1' }
  // Less than the timeout of an attempt, because an attempt that has ended doesn't keep a process alive.
  const options = { env, timeout: 9000 }
  const { stdout } = await run(process.execPath, [...programArguments(PROGRAM), receiver.origin], options)
  assert.deepEqual(JSON.parse(stdout), {
    // None of these loads or opens anything: importing, creating a sender, a rejected destination, closing
    // an unused sender.
    before: { isLoaded: false, resources: [] },
    status: 200,
    after: { isLoaded: true },
  })
  assert.equal(receiver.requests.length, 1)
  assert.equal(proxy.accepted, 0)
})
