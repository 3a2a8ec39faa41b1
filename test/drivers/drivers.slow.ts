import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { openPostgres } from '../platform/_platform.ts'
import { testTransactions } from '../platform/_transactions.ts'
import '../tools/_install.ts'

// platform.using(tx) with the drivers of hosts. Not part of the ordinary run, because the test installs them.

const run = promisify(execFile)
const cwd = import.meta.dirname

// Prisma's client needs no engine. The generator asks for the engine of migrations and does not run it: any program will do.
const environment = { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' }
await run('npx', ['prisma', 'generate'], { cwd, env: { ...process.env, ...environment } })
const { DRIVERS, mistakes } = await import('./_drivers.ts')

const opened = openPostgres()
for (const [name, open] of Object.entries(DRIVERS)) {
  describe(name, () => {
    let driver: ReturnType<typeof open> | undefined
    after(() => driver?.end())
    testTransactions(
      name,
      opened,
      () => {
        driver ??= open(opened.database().url)
        return driver
      },
      !name.endsWith('postgres.js'),
    )
  })
}

test('a database of a driver is no transaction', () => {
  for (const mistake of mistakes('postgres://127.0.0.1:9/nowhere')) {
    assert.throws(mistake, { name: 'TypeError', message: /is not the argument of the callback of/ })
  }
})

test("the types of every driver's transaction fit", async () => {
  const tsc = join(cwd, '../../node_modules/typescript/bin/tsc')
  const { stdout } = await run(process.execPath, [tsc, '--noEmit', '-p', cwd]).catch((error) => error)
  assert.equal(stdout, '')
})
