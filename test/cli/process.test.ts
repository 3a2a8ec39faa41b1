import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { ROOT, startSource } from '../examples/_program.ts'

// The program as a process: what it makes of its arguments, its environment and its streams.

test('a result goes to stdout, and the exit code is 0', async () => {
  const program = startSource(['lib/cli.ts', '--help'])
  assert.equal(await program.exit, 0)
  assert.match(program.stdout(), /^business-api: operates/)
  assert.equal(program.stderr(), '')
})

test('a failure goes to stderr, and the exit code says of which kind it is', async () => {
  const unknown = startSource(['lib/cli.ts', 'migrat'])
  const refused = startSource(['lib/cli.ts', 'status'], { DATABASE_URL: 'postgres://127.0.0.1:1/none' })
  assert.deepEqual([await unknown.exit, await refused.exit], [2, 1])
  assert.deepEqual([unknown.stdout(), refused.stdout()], ['', ''])
  assert.match(unknown.stderr(), /^business-api: Unknown command [^\n]+\n$/)
  assert.match(refused.stderr(), /^business-api: Cannot reach PostgreSQL: [^\n]+\n$/)
})

test('a reader that has seen enough is no failure', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', 'lib/cli.ts', 'migrate', '--print'], {
    cwd: ROOT,
    env: { ...process.env, DATABASE_URL: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const [code] = await once(child, 'close')
  assert.deepEqual([code, stderr], [0, ''])
})
