import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, type TestContext, test } from 'node:test'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { serverOwner } from '../../examples/demo/postgres-machine.ts'
import { migrate } from '../../lib/postgres.ts'
import { createTestDatabase } from '../_database.ts'
import { programArguments } from '../_program.ts'
import { CERTIFICATE, PRIVATE_KEY } from '../sender/_receiver-certificate.ts'
import { type NetworkProxy, startProxy } from './_proxy.ts'

const ENDING = join(import.meta.dirname, '_ending-host.ts')
const IDLE = join(import.meta.dirname, '_idle-host.ts')
/** Half a second is given, and four seconds are the default of a store. */
const CLOSED_WITHIN_MS = 3500
const EXITS_WITHIN_MS = 20_000

describe('a process ends in a network that has fallen silent', () => {
  let directory: string
  let encrypted: PostgresServer

  before(async () => {
    directory = await mkdtemp('/tmp/business-api-silent-tls-')
    const owner = await serverOwner()
    for (const [name, content] of Object.entries({ certificate: CERTIFICATE, key: PRIVATE_KEY })) {
      await writeFile(join(directory, name), content, { mode: 0o600 })
      if (owner) await chown(join(directory, name), owner.uid, owner.gid)
    }
    if (owner) await chown(directory, owner.uid, owner.gid)
    const settings = [
      'ssl=on',
      `ssl_cert_file=${join(directory, 'certificate')}`,
      `ssl_key_file=${join(directory, 'key')}`,
    ]
    encrypted = await startPostgres({ postgresFlags: settings.flatMap((setting) => ['-c', setting]) })
    await migrate(encrypted.url)
  })
  after(async () => {
    await encrypted.stop()
    await rm(directory, { recursive: true, force: true })
  })

  test('with a connection string', async (t) => {
    const database = await createTestDatabase()
    t.after(() => database.drop())
    await assertEndsSilent(t, database.url)
  })

  test('over TLS', (t) => assertEndsSilent(t, encrypted.url, '?sslmode=require'))

  test('while the listening connection waits for the first answer', async (t) => {
    const proxy = await startProxy(encrypted.url)
    t.after(() => proxy.close())
    proxy.silenceAt('listen ')
    await assertEnds(t, proxy, () => {})
  })

  test('idle connections keep no process alive, with and without TLS', async () => {
    for (const parameters of ['', '?sslmode=require']) {
      const child = spawn(process.execPath, [...programArguments(IDLE), encrypted.url + parameters], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const exited = once(child, 'exit')
      const [line] = await once(createInterface({ input: child.stdout }), 'line')
      assert.equal(line, '"idle"')
      await assertExits(child, exited)
    }
  })
})

async function assertExits(child: ChildProcess, exited: Promise<unknown[]>): Promise<void> {
  const timer = setTimeout(() => child.kill('SIGKILL'), EXITS_WITHIN_MS)
  const [code] = await exited
  clearTimeout(timer)
  assert.equal(code, 0, 'the process did not end by itself')
}

async function assertEndsSilent(t: TestContext, databaseUrl: string, parameters = ''): Promise<void> {
  const proxy = await startProxy(databaseUrl)
  t.after(() => proxy.close())
  await assertEnds(t, proxy, () => proxy.fallSilent(), parameters)
}

async function assertEnds(
  t: TestContext,
  proxy: NetworkProxy,
  fallSilent: () => void,
  parameters = '',
): Promise<void> {
  const child = spawn(process.execPath, [...programArguments(ENDING), proxy.url + parameters], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  assert.equal((await lines.next()).value, '"busy"')

  fallSilent()
  const exited = once(child, 'exit')
  child.stdin.end()
  const times = JSON.parse((await lines.next()).value) as number[]
  const closedAt = performance.now()
  t.diagnostic(`loop, sender and store closed after ${times} ms`)
  for (const ms of times) assert.ok(ms < CLOSED_WITHIN_MS, `a close took ${ms} ms`)
  await assertExits(child, exited)
  t.diagnostic(`the process ended ${Math.round(performance.now() - closedAt)} ms later`)
}
