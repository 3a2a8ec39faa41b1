import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { ageEvents } from '../_days.ts'
import { everyDelivery } from '../_deliveries.ts'
import { type Environment, type Program, startSource } from '../examples/_program.ts'
import { until } from '../faults/_fixture.ts'
import { startProxy } from '../faults/_proxy.ts'
import { type Receiver, startReceiver } from '../sender/_receiver.ts'
import { cli, cliOn, jsonOf, type Result, SECRET_KEY } from './_cli.ts'
import { publish } from './_events.ts'
import { writeService } from './_service.ts'

const ORG = 'org_1'
const DEVELOPMENT = ['--allow-http', '--allow-private-networks']

let database: TestDatabase
let sql: Sql
let env: Environment & Record<string, string>
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  env = { DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: SECRET_KEY }
  run = cliOn(database.url)
})

after(() => database.drop())

afterEach(
  () =>
    sql`
    truncate business_api.events, business_api.open_deliveries, business_api.finished_deliveries, business_api.delivery_attempts,
      business_api.webhook_endpoints`,
)

async function addEndpoint({ origin }: Receiver): Promise<{ id: string; secret: string }> {
  const args = [
    'endpoints',
    'add',
    '--organization',
    ORG,
    '--url',
    `${origin}/hook`,
    ...DEVELOPMENT,
    '--json',
  ]
  return jsonOf(await run(...args))
}

async function readDeliveries(): Promise<{ state: string; attempts: number }[]> {
  const rows = await sql<{ state: string; attempts: number }[]>`
    select state, attempts from ${everyDelivery(sql)} as delivery order by id`
  return rows.map((row) => ({ ...row }))
}

/** Resolves when this many processes are listening for events, which means that they deliver and aren't stopping yet. */
async function listeners(count: number): Promise<void> {
  const listening = () => sql`
    select from pg_stat_activity where datname = current_database() and query = 'listen business_api_deliveries'`
  await until(`${count} processes listen`, async () => (await listening()).length === count, 30_000)
}

/** Starts the command in a separate process and waits until it says that it's delivering. */
async function startDeliver(...flags: readonly string[]): Promise<Program> {
  const program = startSource(['lib/cli.ts', 'deliver', ...DEVELOPMENT, ...flags], env)
  await program.prints(/Delivering|started/)
  return program
}

/** A subscriber that responds when the test tells it to. */
async function startSlowReceiver(context: Parameters<typeof startReceiver>[0]) {
  const arrived = new EventEmitter()
  const receiver = await startReceiver(context, (response) => arrived.emit('request', response))
  return {
    receiver,
    nextRequest: async (): Promise<ServerResponse> => (await once(arrived, 'request'))[0],
  }
}

describe('deliver, as a process', () => {
  test('delivers events, lets attempts finish after the signal to stop, and exits with 0', async (t) => {
    const { receiver, nextRequest } = await startSlowReceiver(t)
    const { secret } = await addEndpoint(receiver)
    const program = await startDeliver()
    const request = nextRequest()
    await publish(sql, ORG)
    const response = await request
    await listeners(1)
    program.signal('SIGTERM')
    await listeners(0)
    assert.equal(program.hasEnded(), false)
    response.end('ok')
    assert.equal(await program.exit, 0)
    assert.deepEqual(
      [program.stdout(), program.stderr()],
      ['Delivering. Ctrl-C or SIGTERM stops.\nStopped: 1 delivered, 0 to be retried, 0 failed\n', ''],
    )
    const [{ headers, body } = assert.fail()] = receiver.requests
    verifyWebhook(body, headers['x-service-signature'], secret)
    assert.deepEqual(await readDeliveries(), [{ state: 'delivered', attempts: 1 }])
  })

  test('exits immediately on a second signal and leaves attempts in flight to their leases', async (t) => {
    const { receiver, nextRequest } = await startSlowReceiver(t)
    await addEndpoint(receiver)
    const program = await startDeliver()
    const request = nextRequest()
    await publish(sql, ORG)
    await request
    // Two signals right after each other count as one, because npm forwards a signal that the terminal
    // has already sent.
    program.signal('SIGINT')
    program.signal('SIGINT')
    const again = setInterval(() => program.signal('SIGINT'), 100)
    assert.equal(await program.exit, 130)
    clearInterval(again)
    assert.deepEqual(await readDeliveries(), [{ state: 'sending', attempts: 1 }])
  })

  test("exits after a signal even if its database doesn't respond anymore", async (t) => {
    const proxy = await startProxy(database.url)
    t.after(() => proxy.close())
    const program = startSource(['lib/cli.ts', 'deliver', '--timeout', '1s'], {
      ...env,
      DATABASE_URL: proxy.url,
    })
    await program.prints(/Delivering/)
    proxy.fallSilent()
    program.signal('SIGTERM')
    await program.prints(/Stopped/)
    const left = setTimeout(() => program.signal('SIGKILL'), 10_000)
    assert.equal(await program.exit, 0)
    clearTimeout(left)
  })

  test('prints two lines of JSON with --json', async () => {
    const program = await startDeliver('--json')
    program.signal('SIGINT')
    assert.equal(await program.exit, 0)
    const lines = program.stdout().trimEnd().split('\n')
    assert.deepEqual(
      lines.map((line) => JSON.parse(line)),
      [{ event: 'started' }, { event: 'stopped', delivered: 0, retried: 0, failed: 0 }],
    )
  })
})

describe('deliver, in this process', () => {
  test('--once delivers due events and exits', async (t) => {
    const receiver = await startReceiver(t, (response) => response.writeHead(500).end())
    await addEndpoint(receiver)
    await publish(sql, ORG, 2)
    const once = ['deliver', '--once', '--concurrency', '1', '--retention', 'never', ...DEVELOPMENT]
    assert.deepEqual(jsonOf(await run(...once, '--json')), { delivered: 0, retried: 2, failed: 0 })
    assert.equal((await run(...once)).stdout, 'Done: 0 delivered, 0 to be retried, 0 failed\n')
    assert.equal(receiver.requests.length, 2)
  })

  describe('on a terminal', () => {
    const onTerminal = (...flags: readonly string[]) =>
      cliOn(database.url, { columns: 80 })('deliver', '--once', ...DEVELOPMENT, ...flags)

    test('prints a line with the response of each attempt', async (t) => {
      const statuses = [204, 500]
      await addEndpoint(
        await startReceiver(t, (response) => response.writeHead(statuses.shift() ?? 204).end()),
      )
      await publish(sql, ORG, 2)
      const { stdout, stderr } = await onTerminal('--concurrency', '1')
      const [first = '', second = '', last] = stdout.split('\n')
      assert.match(
        first,
        /^\d\d:\d\d:\d\dZ {2}204 {2}[\d.]+ m?s {2}project\.completed {2}dlv_\w{26} {2}org_1$/,
      )
      assert.match(second, /^\S+Z {2}failed: 500 {2}[\d.]+ m?s {2}project\.completed {2}dlv_\w{26} {2}org_1$/)
      assert.equal(last, 'Done: 1 delivered, 1 to be retried, 0 failed')
      assert.equal(stderr, '')
      await sql`update business_api.open_deliveries set due_at = now() where claim_token is null`
      assert.match((await onTerminal()).stdout, /204 .* org_1 {2}attempt 2\n/)
    })

    test('names the flags that would allow a rejected destination, but only once', async (t) => {
      await addEndpoint(await startReceiver(t))
      await publish(sql, ORG, 2)
      const { stdout } = await cliOn(database.url, { columns: 80 })('deliver', '--once')
      assert.equal(stdout.split('failed: destination_not_allowed').length, 3)
      assert.equal(stdout.split('--allow-private-networks and --allow-http').length, 2)
    })

    test('--quiet and --json print no progress', async (t) => {
      await addEndpoint(await startReceiver(t))
      await publish(sql, ORG)
      assert.equal((await onTerminal('--quiet')).stdout, 'Done: 1 delivered, 0 to be retried, 0 failed\n')
      await publish(sql, ORG)
      assert.deepEqual(jsonOf(await onTerminal('--json')), { delivered: 1, retried: 0, failed: 0 })
    })

    test('prints a limited number of lines per second and how many were left out', async (t) => {
      await addEndpoint(await startReceiver(t))
      await publish(sql, ORG, 400)
      const { stdout } = await onTerminal()
      const lines = stdout.split('\n').filter((line) => line.includes('dlv_')).length
      const more = [...stdout.matchAll(/^… and ([\d,]+) more$/gm)].map(([, count]) => Number(count))
      assert.ok(lines >= 50)
      assert.equal(
        more.reduce((sum, count) => sum + count, lines),
        400,
      )
      assert.match(stdout, /\nDone: 400 delivered, /)
    })
  })

  test('--once --mark-overdue marks overdue invoices and delivers the events', async (t) => {
    const receiver = await startReceiver(t)
    await addEndpoint(receiver)
    const store = createPostgresStore(database.url)
    t.after(() => store.close())
    const { invoices } = createPlatform(store)
    const [issueDate, dueDate] = ['2026-01-01T00:00:00Z', '2026-02-01T00:00:00Z']
    const { id } = await invoices.create(ORG, { currency: 'TND', total: '1', issueDate, dueDate })
    await invoices.issue(ORG, { invoiceId: id })
    await run('deliver', '--once', ...DEVELOPMENT)
    await run('deliver', '--once', '--mark-overdue', ...DEVELOPMENT)
    await run('deliver', '--once', '--mark-overdue', ...DEVELOPMENT)
    const types = receiver.requests.map(({ headers }) => headers['x-service-event-type'])
    assert.deepEqual(types, ['invoice.issued', 'invoice.overdue'])
  })

  test('--once purges events older than --retention', async (t) => {
    await addEndpoint(await startReceiver(t))
    await publish(sql, ORG)
    await ageEvents(sql, 4 * 86_400_000)
    const count = async (...flags: readonly string[]): Promise<number> => {
      await run('deliver', '--once', ...flags, ...DEVELOPMENT)
      return (await sql`select from business_api.events`).length
    }
    assert.deepEqual(
      [await count(), await count('--retention', '5d'), await count('--retention', '2d')],
      [1, 1, 0],
    )
  })

  test('--service determines the names of the headers', async (t) => {
    const receiver = await startReceiver(t)
    await addEndpoint(receiver)
    await publish(sql, ORG)
    await run(
      ...['deliver', '--once', '--service', await writeService({ headerPrefix: 'X-Acme' })],
      ...['--pooler', ...DEVELOPMENT],
    )
    assert.equal(receiver.requests[0]?.headers['x-acme-event-type'], 'project.completed')
  })

  test("--timeout 0 doesn't wait for attempts, which any process then repeats", async (t) => {
    const signals = new EventEmitter()
    const receiver = await startReceiver(t, () => signals.emit('SIGTERM'))
    await addEndpoint(receiver)
    await publish(sql, ORG)
    const result = await cli(['deliver', '--timeout', '0', ...DEVELOPMENT], { env, signals })
    assert.deepEqual([result.exitCode, result.stderr], [0, ''])
    assert.deepEqual(await readDeliveries(), [{ state: 'pending', attempts: 1 }])
  })

  test('only delivers to public addresses unless --allow-private-networks is passed', async (t) => {
    const receiver = await startReceiver(t)
    await addEndpoint(receiver)
    await publish(sql, ORG)
    assert.equal(jsonOf(await run('deliver', '--once', '--json')).retried, 1)
    const [attempt] = await sql`select error from business_api.delivery_attempts`
    assert.deepEqual([attempt?.error, receiver.requests.length], ['destination_not_allowed', 0])
  })

  test("warns with lines of JSON without stack traces if it can't open a secret", async (t) => {
    await addEndpoint(await startReceiver(t))
    await publish(sql, ORG)
    const otherKey = { ...env, BUSINESS_API_SECRET_KEYS: Buffer.alloc(32, 9).fill(1, 31).toString('base64') }
    const { exitCode, stderr } = await cli(['deliver', '--once', ...DEVELOPMENT], { env: otherKey })
    assert.equal(exitCode, 0)
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual([lines[0].level, lines[0].unopened], ['warn', 1])
    assert.match(lines[0].time, /^\d{4}-.*Z$/)
    assert.match(lines[0].message, /BUSINESS_API_SECRET_KEYS/)
    assert.match(lines[1].error.message, /Cannot open the signing secret of endpoint we_/)
    assert.match(lines[1].error.message, / is not among the keys of BUSINESS_API_SECRET_KEYS$/)
    assert.doesNotMatch(stderr, /secretKeys/)
    assert.equal(lines[1].error.stack, undefined)
    assert.ok(!stderr.includes(SECRET_KEY) && !stderr.includes(otherKey.BUSINESS_API_SECRET_KEYS))
  })
})
