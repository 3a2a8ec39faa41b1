import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { makeDirectory, serverOwner } from '../../examples/demo/postgres-machine.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { request } from '../api/_api.ts'
import { cliOn, jsonOf, textOf } from '../cli/_cli.ts'
import { startPgBouncer, WITH_PGBOUNCER } from '../faults/_pgbouncer.ts'
import { folderWith } from './_servers.ts'

// Backups as people make them, and how a restored database behaves: nothing is sent from it until someone says so,
// doctor doesn't report anything, and keys, sync tokens, creates and deliveries continue to work.

const run = promisify(execFile)
const tools = await folderWith('pg_dump')
const ORG = 'org_restored'

let subscriber: Server
let received = 0
let server: PostgresServer
let directory: string
let key = ''
let token = ''

async function withSql<T>(url: string, work: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}

function urlOf(of: PostgresServer, name: string): string {
  const url = new URL(of.url)
  url.pathname = `/${name}`
  return url.href
}

async function deliver(url: string, installation: string): Promise<number> {
  await using store = createPostgresStore(url)
  await using sender = createWebhookSender({ localDevelopment: true })
  const loop = createDeliveryLoop(store, sender, { installation, allowPlaintextSecrets: true, logger: false })
  return (await loop.runOnce()).delivered
}

async function createClient(url: string): Promise<void> {
  await using store = createPostgresStore(url)
  const api = createBusinessApi(store, { logger: false })
  const created = await request(api, '/api/v1/clients', { key, json: { name: 'Atlas' } })
  assert.equal(created.status, 200, created.text)
}

async function sync(url: string, from: string): Promise<{ count: number; token: string }> {
  await using store = createPostgresStore(url)
  const api = createBusinessApi(store, { logger: false })
  const answer = await request(api, `/api/v1/clients?updatedSince=${from}`, { key })
  assert.equal(answer.status, 200, answer.text)
  return { count: JSON.parse(answer.text).data.length, token: answer.headers.get('sync-token') ?? '' }
}

/** Creates the production database with three clients, one of which still has webhooks to be sent. */
async function produce(url: string): Promise<void> {
  await migrate(url, { logger: false })
  {
    await using store = createPostgresStore(url)
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowHttp: true,
      allowPrivateNetworks: true,
    })
    const { port } = subscriber.address() as AddressInfo
    await settings.endpoints.register(ORG, { url: `http://127.0.0.1:${port}/` })
    ;({ key } = await settings.apiKeys.create(ORG, {
      name: 'Restored',
      scopes: ['clients:read', 'clients:write'],
    }))
    const platform = createPlatform(store)
    const { id: invoiceId } = await platform.invoices.create(ORG, {
      currency: 'EUR',
      total: '5',
      dueDate: new Date(Date.now() + 86_400_000),
    })
    await platform.invoices.issue(ORG, { invoiceId })
  }
  await createClient(url)
  await createClient(url)
  assert.equal(await deliver(url, 'production'), 5)
  ;({ token } = await sync(url, '2000-01-01T00:00:00Z'))
  await createClient(url)
  // So old that doctor warns, however long the tests take.
  await withSql(
    url,
    (sql) => sql`update business_api.open_deliveries set due_at = due_at - interval '2 minutes'`,
  )
}

interface Restored {
  /**
   * Number of clients returned by a sync with the old token. It's all of them, or those since the token if the token
   * considers the server to be the same.
   */
  readonly synced: 1 | 3
  /** Whether doctor reports that it was moved if it has no name. */
  readonly isMoved: boolean
}

/** Asserts that a restored database is in order and sends nothing until it's adopted. */
async function assertRestored(url: string, { synced, isMoved }: Restored): Promise<void> {
  received = 0
  const staging = cliOn(url, { env: { BUSINESS_API_INSTALLATION: 'staging', BUSINESS_API_SECRET_KEYS: '' } })
  await assert.rejects(deliver(url, 'staging'), { code: 'invalid_state' })
  const anonymous = cliOn(url, { env: { BUSINESS_API_SECRET_KEYS: '' } })
  const { ok, checks } = jsonOf(await anonymous('doctor', '--json'))
  assert.ok(ok)
  const notOk = (checks as { name: string; level: string }[]).filter(({ level }) => level !== 'ok')
  assert.deepEqual(
    notOk.map(({ name }) => name),
    ['backlog', 'installation', 'secrets'],
  )
  const { applied } = await migrate(url, { logger: false })
  assert.deepEqual(applied, [])
  const dry = jsonOf(await staging('deliveries', 'cancel', '--pending', '--dry-run', '--json'))
  assert.deepEqual(dry, { dryRun: true, pending: 2, installation: 'production', isMoved })
  assert.equal((await sync(url, token)).count, synced)
  assert.equal(received, 0)
  textOf(await staging('deliveries', 'cancel', '--pending', '--yes'))
  textOf(await staging('adopt', '--yes'))
  await createClient(url)
  assert.equal(await deliver(url, 'staging'), 2)
  assert.equal(received, 2)
}

describe('A restored database', {
  skip: tools === undefined && 'no pg_dump in PG_BIN or /usr/lib/postgresql',
}, () => {
  const bin = tools ?? ''
  const program = (name: string, ...args: string[]) => run(join(bin, name), args, { maxBuffer: 1e8 })

  before(async () => {
    subscriber = createServer((incoming, response) => {
      received++
      incoming.resume().on('end', () => response.writeHead(204).end())
    }).listen(0, '127.0.0.1')
    await once(subscriber, 'listening')
    directory = await makeDirectory(await serverOwner())
    server = await startPostgres({ binDirectory: bin, dataDirectory: directory })
    await withSql(server.url, async (sql) => {
      await sql`create database production`
      await sql`create role app_other login superuser`
    })
    await produce(urlOf(server, 'production'))
  })
  after(async () => {
    subscriber.closeAllConnections()
    subscriber.close()
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  })

  const DUMPS: Readonly<Record<string, readonly [dump: string[], restore: string[]]>> = {
    plain: [['--format=plain'], []],
    custom: [['--format=custom'], []],
    parallel: [['--format=directory', '--jobs=2'], ['--jobs=2']],
    'without owner and privileges, by another role': [
      ['--format=custom', '--no-owner', '--no-privileges'],
      ['--no-owner', '--no-privileges', '--role=app_other'],
    ],
    'of the schema alone': [['--format=custom', '--schema=business_api'], []],
  }

  async function restore(to: PostgresServer, name: string, kind: string): Promise<string> {
    const [dumping = [], restoring = []] = DUMPS[kind] ?? []
    const file = join(await mkdtemp('/tmp/business-api-dump-'), 'dump')
    const url = urlOf(to, name)
    await program('pg_dump', ...dumping, `--file=${file}`, urlOf(server, 'production'))
    await withSql(to.url, (sql) => sql`create database ${sql(name)}`)
    if (kind === 'plain') await program('psql', '-v', 'ON_ERROR_STOP=1', '-q', '-f', file, url)
    else await program('pg_restore', '--exit-on-error', ...restoring, `--dbname=${url}`, file)
    await rm(join(file, '..'), { recursive: true })
    return url
  }

  for (const [index, kind] of Object.keys(DUMPS).entries())
    test(`from a dump: ${kind}`, async () => {
      await assertRestored(await restore(server, `restored_${index}`, kind), { synced: 3, isMoved: true })
    })

  test('from a dump, on the packaged server, which is newer', async (context) => {
    const newer = await startPostgres()
    context.after(() => newer.stop())
    await assertRestored(await restore(newer, 'newer', 'custom'), { synced: 3, isMoved: true })
  })

  test('behind PgBouncer waits too', WITH_PGBOUNCER, async (context) => {
    const url = await restore(server, 'pooled', 'custom')
    const pooler = await startPgBouncer({ url }, 3)
    context.after(() => pooler.close())
    const options = { sessions: false, prepare: false }
    await using store = createPostgresStore(pooler.url, options)
    await using sender = createWebhookSender({ localDevelopment: true })
    const loopOf = (installation: string) =>
      createDeliveryLoop(store, sender, { installation, allowPlaintextSecrets: true, logger: false })
    const loop = loopOf('staging')
    await assert.rejects(loop.runOnce(), { code: 'invalid_state' })
    received = 0
    loop.start()
    await new Promise((resolve) => setTimeout(resolve, 1000))
    assert.equal(received, 0)
    assert.match(loop.health().heldBecause ?? '', /installation 'production'/)
    // A waiting loop continues on its own.
    await store.installation.adopt('staging')
    while (received < 2) await new Promise((resolve) => setTimeout(resolve, 100))
    await loop.stop()
  })

  /** Starts a base backup of the running server as a separate server. */
  async function copyServer(): Promise<{ directory: string; server: PostgresServer }> {
    const owner = await serverOwner()
    const copied = await makeDirectory(owner)
    const data = join(copied, 'data')
    await program('pg_basebackup', '-d', server.url, '-D', data, '-X', 'stream', '-c', 'fast', '--no-sync')
    await writeFile(join(copied, 'password'), await readFile(join(directory, 'password')))
    if (owner) await run('chown', ['-R', `${owner.uid}:${owner.gid}`, copied])
    await run('chmod', ['-R', 'go-rwx', data])
    return { directory: copied, server: await startPostgres({ binDirectory: bin, dataDirectory: copied }) }
  }

  test('from a base backup that was promoted', async (context) => {
    const copied = await copyServer()
    context.after(async () => {
      await copied.server.stop()
      await rm(copied.directory, { recursive: true, force: true })
    })
    // The copy has the same identifier and database name as production, so only the name of the
    // installation is different.
    await assertRestored(urlOf(copied.server, 'production'), { synced: 1, isMoved: false })
  })

  test('pg_upgrade changes the identifier, and production continues to deliver', async (context) => {
    const old = await copyServer()
    const owner = await serverOwner()
    const upgraded = await makeDirectory(owner)
    const made = await startPostgres({ binDirectory: bin, dataDirectory: upgraded })
    await made.stop()
    await old.server.stop()
    await writeFile(join(upgraded, 'password'), await readFile(join(old.directory, 'password')))
    const work = await makeDirectory(owner)
    context.after(() =>
      Promise.all([old.directory, upgraded, work].map((path) => rm(path, { recursive: true, force: true }))),
    )
    const data = (of: string) => join(of, 'data')
    for (const of of [old.directory, upgraded]) {
      await writeFile(join(data(of), 'pg_hba.conf'), 'local all all trust\nhost all all 127.0.0.1/32 trust\n')
      if (owner) await chown(join(data(of), 'pg_hba.conf'), owner.uid, owner.gid)
    }
    await run(
      join(bin, 'pg_upgrade'),
      ['-b', bin, '-B', bin, '-d', data(old.directory), '-D', data(upgraded), '-U', 'postgres'],
      { ...(owner ?? {}), cwd: work, env: { ...process.env, PGHOST: work } },
    )
    const running = await startPostgres({ binDirectory: bin, dataDirectory: upgraded })
    context.after(() => running.stop())
    const url = urlOf(running, 'production')
    const env = { BUSINESS_API_INSTALLATION: 'production', BUSINESS_API_SECRET_KEYS: '' }
    const { ok } = jsonOf(await cliOn(url, { env })('doctor', '--json'))
    assert.ok(ok)
    received = 0
    assert.equal(await deliver(url, 'production'), 2)
    assert.equal(received, 2)
    await createClient(url)
    assert.equal((await sync(url, token)).count, 4)
  })
})
