import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { createTestDatabase, type TestDatabase } from './_database.ts'
import { installProject, type Packed, pack, ROOT } from './_packed.ts'

// The package as a user gets it: packed, installed into an empty project elsewhere, type-checked there under the strictest
// settings, and served from there.

const run = promisify(execFile)

/** A host that uses every door of the package and exports the results: every type must have a name (TS2742). */
const HOST = `
import { createServer } from 'node:http'
import { createBusinessApi, type BusinessApiStore, EVENT_TYPES } from 'business-api-kit'
import { jsonText } from 'business-api-kit/store'
import { createMemoryStore } from 'business-api-kit/memory'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'

const url = process.env['DATABASE_URL'] ?? ''
export const report = await migrate(url)
export const store = createPostgresStore(url)
export const settings = createDeveloperSettings(store)
export const created = await settings.apiKeys.create('org_package', { name: 'Package', scopes: ['clients:read', 'clients:write'] })
export const api = createBusinessApi(store)
export const GET = api.fetch
export const text = jsonText([EVENT_TYPES.length])
const other: BusinessApiStore = createMemoryStore()
export const server = createServer(api).listen(0, '127.0.0.1', () => {
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  console.log(JSON.stringify({ port, key: created.key, memory: Object.keys(other).length }))
})
`

/** A host that exports results and imports only two doors: the types of the results must have names there. */
const SUBPATHS = `
import { createMemoryStore } from 'business-api-kit/memory'
import { createPlatform } from 'business-api-kit/platform'
import { createDeveloperSettings } from 'business-api-kit/settings'

const store = createMemoryStore()
export const platform = createPlatform(store)
export const settings = createDeveloperSettings(store)
export const { service } = settings
export const won = await platform.leads.convert('org_package', { leadId: 'lead_1' })
export const invoice = await platform.invoices.issue('org_package', { invoiceId: 'inv_1' })
export const page = await settings.deliveries.list('org_package')
export const delivery = await settings.deliveries.get('org_package', 'dlv_1')
export const endpoints = await settings.endpoints.list('org_package')
export const entries = await settings.audit.list('org_package')
export const rotated = await settings.apiKeys.rotate('org_package', 'key_1')
`

/**
 * A host that exports the result of every factory of every door. The host depends on none of our dependencies, so that a type of
 * a dependency that shows through has no name (TS2742).
 */
const FACTORIES = `
import { createBusinessApi, createIds, defineEvent, defineRoute, defineService, type EventsOf, page as pageOf, readPage, type StandardSchema, withJsonSchema } from 'business-api-kit'
import { createApiClient } from 'business-api-kit/client'
import { createMemoryStore } from 'business-api-kit/memory'
import { createMetrics } from 'business-api-kit/metrics'
import { createPlatform } from 'business-api-kit/platform'
import { createPostgresStore, createShardedStore, migrate } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'
import { createSettingsPage } from 'business-api-kit/settings-page'
import { formatNumber, jsonText, storeUnavailable, takeToken } from 'business-api-kit/store'
import { captureWebhooks, createFakeClock, waitForDelivery } from 'business-api-kit/testing'
import { createDeliveryLoop, createDeliverySlots, createPublicLookup, createWebhookSender, receiveWebhook, signWebhook, verifyWebhook } from 'business-api-kit/webhooks'

declare const bookingSchema: StandardSchema<{ bookingId: string; guests?: number }, { bookingId: string; guests: number }>
export const bookingCreated = defineEvent({
  type: 'booking.created',
  description: 'A booking was made',
  data: bookingSchema,
  example: { bookingId: 'bkg_1' },
  subject: 'bookingId',
})
declare const listSchema: StandardSchema<{ data: { id: string }[] }>
export const response = withJsonSchema(listSchema, { type: 'object' })
export const listBookings = defineRoute({
  method: 'GET',
  path: '/rooms/{room}/bookings',
  operationId: 'listBookings',
  summary: 'List bookings',
  tag: 'Bookings',
  scope: 'bookings:read',
  paged: /^bkg_/,
  response,
  handle: (context) => pageOf([{ id: context.input.params.room + readPage(context).limit }], context),
})
export const { handle, query } = listBookings
export const service = defineService({ name: 'Acme API', events: [bookingCreated], scopes: ['bookings:read'], routes: [listBookings] })
export const store = createPostgresStore('postgres://localhost/app', { service })
export const sharded = createShardedStore({ shards: { store } })
export const slots = createDeliverySlots(8)
export const memory = createMemoryStore()
export const client = createApiClient({ url: 'https://x.example', key: 'x' })
export const { clients, leads, projects } = client
export const listed = client.clients.list().pages()
export const report = migrate('postgres://localhost/app')
export const api = createBusinessApi(store)
export const { fetch, authenticate } = api
export const caller = api.authenticate(new Request('https://x.example'), { scope: 'bookings:read' })
// @ts-expect-error no such scope
api.authenticate(new Request('https://x.example'), { scope: 'bookings:write' })
export const served = api.fetch(new Request('https://x.example'), { rawBody: '{}' })
export const platform = createPlatform(store)
export const { using, publish, invoices } = platform
export const inMemory = createPlatform(memory)
export const settings = createDeveloperSettings(store)
export const { endpoints, deliveries, audit, apiKeys } = settings
export const page = createSettingsPage(settings, { api, authorize: () => null })
export const sender = createWebhookSender()
export const clock = createFakeClock()
export const captured = captureWebhooks({ settings, organizationId: 'org_1', clock })
export const next = captured.then((webhooks) => webhooks.next('invoice.paid'))
export const waited = waitForDelivery(store, { organizationId: 'org_1', eventId: 'evt_1' })
export const loop = createDeliveryLoop(store, sender)
export const stats = loop.stats()
export const metrics = createMetrics(store, { loop })
export const health = metrics.health()
export const lookup = createPublicLookup()
export const ids = createIds()
export const text = jsonText([])
export const token = takeToken
export const number = formatNumber
export const failure = storeUnavailable('x')
export const signed = signWebhook
export const verified = verifyWebhook
export const inTransaction = platform.using(null as never)
export const once = inTransaction.idempotent(null as never, () => ({ data: [] }))
export const key = apiKeys.create('org_1', { name: 'Website', scopes: ['bookings:read', 'leads:write'] })
// @ts-expect-error no such scope
apiKeys.create('org_1', { name: 'Website', scopes: ['bookings:write'] })
export const published = inTransaction.publish('org_1', 'booking.created', { bookingId: 'bkg_1' })
// @ts-expect-error no such type
inTransaction.publish('org_1', 'booking.creatd', { bookingId: 'bkg_1' })
export const registered = endpoints.register('org_1', { url: 'https://x.example', types: ['booking.created'] })
export const onShard = sharded.shardOf('org_1').then((shard) => createPlatform(shard.store))
export const bookings = captureWebhooks<EventsOf<typeof service>>({ settings, organizationId: 'org_1' })
export const booked = bookings.then((webhooks) => webhooks.next('booking.created'))
export const received = receiveWebhook<EventsOf<typeof service>>(new Request('https://x.example'), { secret: 'x' })
export const paid = (...args: Parameters<typeof invoices.recordPayment>) => invoices.recordPayment(...args)
export default { store, api, platform, settings, sender, loop }
`

/** A host that passes a transaction of postgres.js, also with custom types, and must not pass a pool. */
const TRANSACTION = `
import postgres from 'postgres'
import { createPlatform } from 'business-api-kit/platform'
import { createPostgresStore, type PostgresTransaction, type SqlTransaction } from 'business-api-kit/postgres'

const platform = createPlatform(createPostgresStore('postgres://localhost/app'))
const sql = postgres()
export const done = sql.begin((tx) => platform.using(tx).clients.create('org_1', { name: 'Atlas' }))
export const nested = sql.begin((tx) => tx.savepoint((inner) => platform.using(inner).clients.create('org_1', { name: 'Atlas' })))
const typed = postgres({ types: { bigint: postgres.BigInt } })
export const withTypes = typed.begin((tx) => platform.using(tx).clients.create('org_1', { name: 'Atlas' }))
export function keep(transaction: PostgresTransaction) {
  return platform.using(transaction)
}
export function keepOther(transaction: SqlTransaction) {
  return platform.using(transaction)
}
// @ts-expect-error a pool is no transaction
platform.using(sql)
`

const TSCONFIG = {
  compilerOptions: {
    target: 'es2022',
    module: 'nodenext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    declaration: true,
    skipLibCheck: false,
    types: ['node'],
    outDir: 'out',
  },
  include: ['host.ts'],
}

const NEEDS = ['typescript@5.9', '@types/node@20']

let database: TestDatabase
let directory: string
let packed: Packed

before(async () => {
  database = await createTestDatabase()
  directory = await mkdtemp(join(tmpdir(), 'business-api-package-'))
  packed = await pack(directory)
})

after(async () => {
  await database?.drop()
  await rm(directory, { recursive: true, force: true })
})

test('the declarations of every door compile from TypeScript 5.4 on, without skipLibCheck', async () => {
  const { exports } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  const doors = Object.keys(exports).filter((door) => !door.endsWith('.json'))
  const text = doors.map(
    (door, index) => `export * as door${index} from '${door.replace('.', 'business-api-kit')}'`,
  )
  const older = join(directory, 'typescript-5.4')
  const files = { 'package.json': { private: true, type: 'module' }, 'doors.ts': text.join('\n') }
  await installProject(older, files, [packed.tarball, 'typescript@5.4', '@types/node@20'])
  const options = [
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--module',
    'nodenext',
    '--skipLibCheck',
    'false',
  ]
  assert.equal(await compile(older, ...options, 'doors.ts'), '')
})

/** The output of tsc for a project; empty without errors. */
async function compile(project: string, ...options: string[]): Promise<string> {
  const tsc = join(project, 'node_modules/typescript/bin/tsc')
  const { stdout } = await run(process.execPath, [tsc, ...options], { cwd: project }).catch((error) => error)
  return stdout
}

describe('the package, packed and installed into an empty project', () => {
  let project: string
  let installed: string
  let said: string

  before(async () => {
    project = join(directory, 'project')
    installed = join(project, 'node_modules/business-api-kit')
    const files = {
      'package.json': { private: true, type: 'module' },
      'tsconfig.json': TSCONFIG,
      'host.ts': HOST,
      'subpaths/tsconfig.json': { ...TSCONFIG, include: ['.'] },
      'subpaths/host.ts': SUBPATHS,
    }
    said = await installProject(project, files, [packed.tarball])
    await installProject(project, {}, NEEDS)
  })

  test('holds the programs and the documents, and nothing else', async (t) => {
    t.diagnostic(
      `${packed.files.length} files, ${kilobytes(packed.size)} packed, ${kilobytes(packed.unpackedSize)} unpacked`,
    )
    const top = [
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'dist',
      'examples',
      'lib',
      'package.json',
      'sql',
      'test',
    ]
    assert.deepEqual((await readdir(installed)).sort(), top)
    assert.deepEqual((await readdir(join(installed, 'test'))).sort(), ['README.md', 'bench', 'schema.sql'])
    const sources = await readdir(join(ROOT, 'lib'), { recursive: true })
    // The pictures are those of the README files.
    const read = sources.filter((file) => /\.(ts|md|png)$/.test(file)).sort()
    const shipped = await readdir(join(installed, 'lib'), { recursive: true })
    assert.deepEqual(shipped.filter((file) => /\.[a-z]+$/.test(file)).sort(), read)
  })

  test('is installed without a warning, and runs no script', () => {
    // Of the configuration of the machine that the test runs on, npm warns each time.
    const warnings = said
      .split('\n')
      .filter((line) => !/^$|Unknown (user|env|project|builtin) config/.test(line))
    assert.deepEqual(warnings, [])
  })

  test('says where it comes from', async () => {
    const manifest = JSON.parse(await readFile(join(installed, 'package.json'), 'utf8'))
    for (const address of [manifest.repository.url, manifest.homepage, manifest.bugs]) {
      assert.match(address, /^(git\+)?https:\/\/\S+business-api-kit/)
    }
  })

  test('has a manifest that npm publishes without a correction', async () => {
    const copy = join(directory, 'manifest')
    const text = await readFile(join(installed, 'package.json'), 'utf8')
    await mkdir(copy)
    await writeFile(join(copy, 'package.json'), text)
    await run('npm', ['pkg', 'fix'], { cwd: copy })
    assert.deepEqual(JSON.parse(await readFile(join(copy, 'package.json'), 'utf8')), JSON.parse(text))
  })

  test('leads from the built code and types to the sources', async () => {
    const built = (await readdir(join(installed, 'dist'), { recursive: true })).filter(isBuilt)
    assert.ok(built.length > 100)
    for (const file of built) {
      const path = join(installed, 'dist', file)
      const [, map = ''] = /\/\/# sourceMappingURL=(\S+)\s*$/.exec(await readFile(path, 'utf8')) ?? []
      assert.notEqual(map, '', `${file} has no map`)
      const { sources } = JSON.parse(await readFile(join(dirname(path), map), 'utf8'))
      assert.equal(sources.length, 1)
      const source = await readFile(join(dirname(path), sources[0]), 'utf8')
      assert.ok(source.length > 0)
    }
  })

  test('type-checks without skipLibCheck, and its host can emit declarations', async () => {
    assert.equal(await compile(project), '')
    assert.deepEqual((await readdir(join(project, 'out'))).sort(), ['host.d.ts', 'host.js'])
  })

  test('names the types of each door, also where no other door is imported', async () => {
    assert.equal(await compile(project, '-p', 'subpaths'), '')
  })

  test('migrates, makes a key and serves', async () => {
    const host = spawn(process.execPath, ['out/host.js'], {
      cwd: project,
      env: { ...process.env, DATABASE_URL: database.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      const [line] = await once(host.stdout, 'data')
      const { port, key, memory } = JSON.parse(String(line))
      assert.equal(memory > 0, true)
      const url = `http://127.0.0.1:${port}/api/v1/clients`
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const posted = await fetch(url, { method: 'POST', headers, body: '{"name":"Atlas Ceramics"}' })
      assert.equal(posted.status, 200)
      const listed = JSON.parse(await (await fetch(url, { headers })).text())
      assert.equal(listed.data[0].business.name, 'Atlas Ceramics')
      const described = JSON.parse(await (await fetch(`http://127.0.0.1:${port}/openapi.json`)).text())
      assert.equal(described.info.version, '1.0.0')
    } finally {
      host.kill()
    }
  })

  test('brings the command line with the migrations, without reading sql/', async () => {
    await rm(join(installed, 'sql'), { recursive: true })
    const bin = join(project, 'node_modules/.bin/business-api-kit')
    const help = await run(bin, ['--help'], { cwd: project })
    assert.match(help.stdout, /^business-api-kit: operates/)
    const env = { ...process.env, DATABASE_URL: database.url }
    const { stdout } = await run(bin, ['migrate', '--dry-run', '--json'], { cwd: project, env })
    const { pending, current } = JSON.parse(stdout)
    assert.ok(current > 0 && pending.length === 0)
  })

  test('has one door for each export, and no other', async () => {
    const script =
      "import('business-api-kit/postgres/store.js').then(() => process.exit(1), (e) => console.log(e.code))"
    const { stdout } = await run(process.execPath, ['-e', script], { cwd: project })
    assert.equal(stdout.trim(), 'ERR_PACKAGE_PATH_NOT_EXPORTED')
  })
})

describe('the package installed by pnpm, where packages see only their own dependencies', () => {
  let project: string

  before(async () => {
    project = join(directory, 'pnpm')
    const files = {
      'package.json': { private: true, type: 'module' },
      'tsconfig.json': TSCONFIG,
      'host.ts': FACTORIES,
    }
    await installProject(project, files, [])
    const tool = join(directory, 'pnpm-itself')
    // The last version that runs on Node 20.
    await installProject(tool, { 'package.json': { private: true } }, ['pnpm@10'])
    const pnpm = join(tool, 'node_modules/pnpm/bin/pnpm.cjs')
    const args = [pnpm, 'add', '--ignore-workspace', packed.tarball, ...NEEDS]
    await run(process.execPath, args, { cwd: project })
  })

  test('the host does not see the dependencies of the package', async () => {
    const script = "import('undici').then(() => process.exit(1), (e) => console.log(e.code))"
    const { stdout } = await run(process.execPath, ['-e', script], { cwd: project })
    assert.equal(stdout.trim(), 'ERR_MODULE_NOT_FOUND')
  })

  test('a host exports the result of every factory with declarations, without skipLibCheck', async () => {
    assert.equal(await compile(project), '')
    const declared = await readFile(join(project, 'out/host.d.ts'), 'utf8')
    assert.match(declared, /platform: .*TransactionalPlatform</)
    assert.doesNotMatch(declared, /"(postgres|valibot|undici|itty-router)|\.pnpm/)
  })

  test('every factory of every door is called by the host of that test', async () => {
    const { exports } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    const doors = Object.keys(exports).filter((door) => !door.endsWith('.json'))
    const specifiers = doors.map((door) => door.replace('.', 'business-api-kit'))
    const script = `
      const doors = await Promise.all(${JSON.stringify(specifiers)}.map((door) => import(door)))
      console.log(JSON.stringify(doors.flatMap(Object.keys)))
    `
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script], { cwd: project })
    const names: string[] = JSON.parse(stdout)
    const factories = names.filter((name) => name.startsWith('create'))
    assert.ok(factories.includes('createPlatform'))
    assert.deepEqual(
      factories.filter((name) => !new RegExp(`= ${name}\\(`).test(FACTORIES)),
      [],
    )
  })
})

test("a host's own transaction is a transaction of postgres.js with any types, and no pool", async () => {
  const project = join(directory, 'transaction')
  const files = {
    'package.json': { private: true, type: 'module' },
    'tsconfig.json': TSCONFIG,
    'host.ts': TRANSACTION,
  }
  await installProject(project, files, [packed.tarball, 'postgres@3', ...NEEDS])
  assert.equal(await compile(project), '')
})

function isBuilt(file: string): boolean {
  // The build writes this text from sql/.
  return /\.(js|d\.ts)$/.test(file) && file !== 'postgres/schema/migration-texts.js'
}

function kilobytes(bytes: number): string {
  return `${Math.round(bytes / 1000)} kB`
}
