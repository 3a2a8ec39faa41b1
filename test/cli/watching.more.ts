import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { Sql } from 'postgres'
import { Webhook } from 'standardwebhooks'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { everyDelivery } from '../_deliveries.ts'
import { type Program, startSource } from '../examples/_program.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { assertFailed, cli, cliOn, jsonOf, type Result, SECRET_KEY, textOf } from './_cli.ts'
import { publish } from './_events.ts'
import { addEndpoint, newOrganization } from './_settings.ts'

// The command that watches an organization as a process, and the commands that create events.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 3 })
  run = cliOn(database.url)
})

after(() => database.drop())

async function start(t: TestContext, ...args: readonly string[]): Promise<Program> {
  const program = startSource(['lib/cli.ts', ...args], { DATABASE_URL: database.url })
  t.after(() => program.signal('SIGKILL'))
  await program.prints(/Forwarding|started/)
  return program
}

/** A port that nothing is listening on. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

/** Ends a program like Ctrl-C does. */
async function stop(program: Program): Promise<void> {
  program.signal('SIGINT')
  assert.equal(await program.exit, 0, program.stderr())
  assert.equal(program.stderr(), '')
}

const linesOf = (program: Program): ReturnType<typeof JSON.parse>[] =>
  program
    .stdout()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** What an organization's endpoints should receive. */
const deliveryStates = async (org: string): Promise<string[]> =>
  (await sql`select state from ${everyDelivery(sql)} as delivery where organization_id = ${org}`).map(
    ({ state }) => state,
  )

describe('listen', () => {
  test("forwards an organization's events to a URL, signed with the secret it prints, and no others", async (t) => {
    const receiver = await startReceiver(t)
    const org = newOrganization()
    await publish(sql, org)
    const url = `${receiver.origin}/hooks?a=b`
    const flags = ['--forward-to', url, '--standard-webhooks']
    const program = await start(t, 'listen', '-o', org, ...flags)
    const [, secret = ''] = await program.prints(/Signing secret: (whsec_\S+)\n/)
    await publish(sql, newOrganization())
    await publish(sql, org, 2, 'invoice.paid')
    await program.prints(/invoice\.paid.*\n.*invoice\.paid.*\n/)
    await stop(program)
    assert.equal(receiver.requests.length, 2)
    for (const { headers, body, path } of receiver.requests) {
      assert.equal(path, '/hooks?a=b')
      assert.equal(headers['x-service-event-type'], 'invoice.paid')
      verifyWebhook(body, headers['x-service-signature'], secret)
      const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
      new Webhook(secret).verify(body, texts)
    }
    assert.match(program.stdout(), /^\d\d:\d\d:\d\dZ {2}200 {2}\d+ ms {2}invoice\.paid {2}evt_\w+$/m)
    assert.match(program.stdout(), /\nStopped: 2 forwarded, 0 failed\n$/)
  })

  test("doesn't change endpoints or deliveries, and prints failures", async (t) => {
    const receiver = await startReceiver(t, (response) => response.writeHead(503).end('busy'))
    const org = newOrganization()
    const { id } = await addEndpoint(run, org)
    const program = await start(t, 'listen', '-o', org, '--forward-to', receiver.origin, '--json')
    await publish(sql, org)
    await program.prints(/"event":"failed"/)
    await stop(program)
    const [started, failed, stopped] = linesOf(program)
    assert.deepEqual([started.event, started.forwardTo], ['started', `${receiver.origin}/`])
    assert.deepEqual([failed.event, failed.type, failed.status], ['failed', 'project.completed', 503])
    assert.deepEqual(stopped, { event: 'stopped', forwarded: 0, failed: 1 })
    assert.deepEqual(await deliveryStates(org), ['pending'])
    const [endpoint] = await sql`select failures, state from business_api.webhook_endpoints where id = ${id}`
    assert.deepEqual({ ...endpoint }, { failures: 0, state: 'enabled' })
  })

  test('forwards an event whose transaction commits after a newer event was forwarded', async (t) => {
    const receiver = await startReceiver(t)
    const org = newOrganization()
    const program = await start(
      t,
      'listen',
      '-o',
      org,
      '--forward-to',
      receiver.origin,
      '--types',
      'client.created,invoice.paid',
    )
    const held = await sql.reserve()
    await held`begin`
    await held`select business_api.publish_event(${org}, 'client.created', '{}', 'evt_held')`
    await publish(sql, org, 1, 'invoice.paid')
    await publish(sql, org, 1, 'project.completed')
    await program.prints(/invoice\.paid/)
    await held`commit`
    held.release()
    await program.prints(/evt_held/)
    await stop(program)
    assert.equal(receiver.requests.length, 2)
  })

  test("says why a URL doesn't respond, and exits right away while a receiver hangs", async (t) => {
    const org = newOrganization()
    const refused = await start(
      t,
      'listen',
      '-o',
      org,
      '--forward-to',
      `http://127.0.0.1:${await closedPort()}/`,
    )
    await publish(sql, org)
    await refused.prints(/failed: connection_refused/)
    await stop(refused)
    const receiver = await startReceiver(t, () => {})
    const hanging = await start(t, 'listen', '-o', org, '--forward-to', receiver.origin)
    await publish(sql, org)
    const deadline = Date.now() + 10_000
    while (receiver.requests.length === 0) {
      assert.ok(Date.now() < deadline, 'a request within 10 s')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const begunAt = Date.now()
    await stop(hanging)
    assert.ok(Date.now() - begunAt < 5000)
    assertFailed(await run('listen', '-o', org, '--forward-to', 'localhost:4000'), 2, /--forward-to must be/)
  })
})

describe('trigger', () => {
  test('publishes an example with a test id, and only asks if an endpoint is subscribed', async () => {
    const org = newOrganization()
    const trigger = ['trigger', 'invoice.paid', '-o', org]
    const published = jsonOf(await run(...trigger, '--json'))
    assert.match(published.id, /^evt_test_[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.deepEqual([published.type, published.endpoints], ['invoice.paid', 0])
    const { id } = await addEndpoint(run, org, '--types', 'invoice.paid')
    assert.equal((await run('trigger', 'client.created', '-o', org)).exitCode, 0)
    assertFailed(
      await run(...trigger),
      2,
      new RegExp(`which goes to ${id} \\(http://127\\.0\\.0\\.1:4000/hook\\)`),
    )
    const env = { DATABASE_URL: database.url, BUSINESS_API_SECRET_KEYS: SECRET_KEY }
    assert.equal((await cli(trigger, { env, columns: 80, answer: 'n' })).exitCode, 1)
    assert.deepEqual(await deliveryStates(org), [])
    assert.match(
      textOf(await run(...trigger, '--yes')),
      /^Published evt_test_\w+ \(invoice\.paid\) for 1 endpoint\n$/,
    )
    assert.deepEqual(await deliveryStates(org), ['pending'])
    // The delivery to a disabled endpoint is recorded as skipped and can be sent later.
    await sql`update business_api.webhook_endpoints set state = 'disabled' where id = ${id}`
    assertFailed(await run(...trigger), 2, /4000\/hook, disabled\)/)
    assertFailed(await run('trigger', 'invoice.payd', '-o', org), 2, /did you mean 'invoice\.paid'\?/)
    assertFailed(await run('trigger', 'x', '-o', org), 2, /TYPE must be one of client\.created/)
  })
})

describe('events', () => {
  test('list shows events in pages, even without an endpoint, and show prints the deliveries and the body', async () => {
    const org = newOrganization()
    await publish(sql, org)
    await addEndpoint(run, org)
    await publish(sql, org, 1, 'invoice.paid')
    const list = ['events', 'list', '-o', org]
    const { data, next } = jsonOf(await run(...list, '--limit', '1', '--json'))
    assert.deepEqual([data[0].type, data[0].deliveries, next], ['invoice.paid', { pending: 1 }, data[0].id])
    const rest = jsonOf(await run(...list, '--before', next, '--json'))
    assert.deepEqual([rest.data[0].type, rest.data[0].deliveries, rest.next], ['project.completed', {}, null])
    const { stdout, stderr } = await run(...list, '--limit', '1')
    assert.match(
      stdout,
      /^ID +TYPE +PUBLISHED +DELIVERIES\nevt_\w+ +invoice\.paid +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +1 pending\n$/,
    )
    assert.equal(stderr, `More: --before ${next}\n`)
    assert.equal(jsonOf(await run(...list, '--type', 'invoice.paid', '--json')).data.length, 1)
    assert.equal(jsonOf(await run(...list, '--until', '1h', '--json')).data.length, 0)

    const shown = textOf(await run('events', 'show', next, '-o', org))
    assert.match(shown, new RegExp(`^Event +${next}\nType +invoice\\.paid\n`))
    assert.match(shown, /^dlv_\w+ +we_\w+ +pending +0 +- +-$/m)
    const details = jsonOf(await run('events', 'show', next, '-o', org, '--json'))
    assert.ok(shown.endsWith(`\n${details.body}\n`))
    assert.match(
      textOf(await run('events', 'show', rest.data[0].id, '-o', org)),
      /No deliveries: no endpoint subscribes to this type/,
    )
    assertFailed(await run('events', 'show', 'evt_unknown', '-o', org), 1, /no such record/)
  })
})
