import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { type Copy, createSubscriber, openCopy } from '../../examples/sync-clients-by-webhook.ts'
import type { Client } from '../../lib/index.ts'
import { businessOf } from '../_business.ts'
import { call } from './_host.ts'
import {
  assertRefusals,
  bodyOf,
  freeUrl,
  listen,
  post,
  startPlatform,
  type TestPlatform,
  temporaryPath,
} from './_platform.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

const SECRET = 'whsec_test'

/** Starts the subscriber in this process; returns the URL. */
async function start(t: TestContext, path: string, secret = SECRET): Promise<string> {
  const server = createSubscriber(secret, await openCopy(path))
  t.after(() => server.close())
  t.mock.method(console, 'error', () => {})
  return listen(server)
}

async function readCopy(path: string): Promise<Copy> {
  return JSON.parse(await readFile(path, 'utf8'))
}

function clientOf(id: string, status = 'active'): Client {
  const business = businessOf({ id: `biz_${id}` })
  const convertedAt = '2026-03-14T09:26:53.589Z'
  return { id, status, totalRevenue: 0, monthlyRevenue: 0, convertedAt, business }
}

function created(eventId: string, client: Client, createdAt?: string): string {
  const data = { clientId: client.id, businessId: client.business.id, client }
  return bodyOf(eventId, 'client.created', data, createdAt)
}

describe('examples/sync-clients-by-webhook with the real API', () => {
  let platform: TestPlatform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform.close())

  const clients = () => `${platform.url}/api/v1/clients`
  async function list(): Promise<Client[]> {
    const { data } = (await (await call(clients(), platform.key)).json()) as { data: Client[] }
    return data
  }

  test('examples/sync-clients-by-webhook has each created client once, across repeated events', async () => {
    const path = temporaryPath('clients.json')
    const url = await freeUrl()
    const env = { SIGNING_SECRET: await platform.register(url), PORT: new URL(url).port }
    const program = startSource(['examples/sync-clients-by-webhook.ts', path], env)
    await readBaseUrl(program)
    for (const name of ['Atlas Ceramics', 'Bleu Nuit']) await call(clients(), platform.key, { name })
    await platform.deliver()
    const copy = await readCopy(path)
    assert.deepEqual(new Set(Object.values(copy.clients).map(({ client }) => client)), new Set(await list()))
    assert.equal(copy.eventIds.length, 2)

    program.signal('SIGKILL')
    await program.exit
    const again = startSource(['examples/sync-clients-by-webhook.ts', path], env)
    await readBaseUrl(again)
    const { mtimeMs } = await stat(path)
    await platform.redeliverAll()
    await platform.deliver()
    assert.equal((await stat(path)).mtimeMs, mtimeMs)
    assert.equal(await platform.countAttempts(), 8)
    await endProgram(again)
    assert.equal(await again.exit, 0)
    assert.equal(program.stderr() + again.stderr(), '')
  })

  test('examples/sync-clients-by-webhook gets an event again that could not be written', async (t) => {
    const path = temporaryPath('missing/clients.json')
    const url = await freeUrl()
    const server = createSubscriber(await platform.register(url), await openCopy(path))
    t.after(() => server.close())
    const failed = t.mock.method(console, 'error', () => mkdirSync(dirname(path)))
    await once(server.listen(Number(new URL(url).port), '127.0.0.1'), 'listening')
    await call(clients(), platform.key, { name: 'Cap Blanc' })
    await platform.deliver()
    assert.equal(failed.mock.callCount(), 1)
    assert.deepEqual(
      Object.values((await readCopy(path)).clients).map(({ client }) => client.business.name),
      ['Cap Blanc'],
    )
  })
})

describe('examples/sync-clients-by-webhook by itself', () => {
  test('examples/sync-clients-by-webhook upserts by id, and the latest event stands in any order of arrival', async (t) => {
    const path = temporaryPath('clients.json')
    const url = await start(t, path)
    const events = [
      created('evt_1', clientOf('cli_1'), '2026-03-14T10:00:00.000Z'),
      created('evt_2', clientOf('cli_1', 'inactive'), '2026-03-14T10:00:02.000Z'),
      created('evt_3', clientOf('cli_1', 'late'), '2026-03-14T10:00:01.000Z'),
      created('evt_2', clientOf('cli_1', 'not what was sent first'), '2026-03-14T10:00:03.000Z'),
    ]
    for (const event of events) assert.equal(await post(url, event, SECRET), 204)
    assert.deepEqual(await readCopy(path), {
      clients: { cli_1: { asOf: '2026-03-14T10:00:02.000Z', client: clientOf('cli_1', 'inactive') } },
      eventIds: ['evt_1', 'evt_2', 'evt_3'],
    })
  })

  test('examples/sync-clients-by-webhook loses no event of many that come at once, each several times', async (t) => {
    const path = temporaryPath('clients.json')
    const url = await start(t, path)
    const ids = Array.from({ length: 20 }, (_, index) => `cli_${index}`)
    const sent = [...ids, ...ids, ...ids].map((id) => post(url, created(`evt_${id}`, clientOf(id)), SECRET))
    assert.deepEqual(new Set(await Promise.all(sent)), new Set([204]))
    const { clients, eventIds } = await readCopy(path)
    assert.deepEqual(Object.keys(clients).sort(), ids.sort())
    assert.equal(eventIds.length, 20)
  })

  test('examples/sync-clients-by-webhook answers 500 to every attempt that could not be written, and does not remember the event', async (t) => {
    const path = temporaryPath('missing/clients.json')
    const url = await start(t, path)
    const body = created('evt_1', clientOf('cli_1'))
    const attempts = Array.from({ length: 3 }, () => post(url, body, SECRET))
    assert.deepEqual(await Promise.all(attempts), [500, 500, 500])
    await mkdir(dirname(path))
    assert.equal(await post(url, body, SECRET), 204)
    assert.deepEqual((await readCopy(path)).eventIds, ['evt_1'])
  })

  test('examples/sync-clients-by-webhook answers 204 to events of other types and keeps nothing', async (t) => {
    const path = temporaryPath('clients.json')
    const url = await start(t, path)
    const data = { invoiceId: 'inv_1', number: 'INV-1' }
    assert.equal(await post(url, bodyOf('evt_1', 'invoice.paid', data), SECRET), 204)
    await assert.rejects(readCopy(path), { code: 'ENOENT' })
  })

  test('examples/sync-clients-by-webhook takes the previous copy when a write was cut short', async (t) => {
    const path = temporaryPath('clients.json')
    await writeFile(`${path}.new`, '{"clients":{"cli_')
    const url = await start(t, path)
    assert.equal(await post(url, created('evt_1', clientOf('cli_1')), SECRET), 204)
    assert.deepEqual(Object.keys((await readCopy(path)).clients), ['cli_1'])
  })

  test('examples/sync-clients-by-webhook takes nothing that is not signed', async (t) => {
    const path = temporaryPath('clients.json')
    await assertRefusals(await start(t, path), created('evt_1', clientOf('cli_1')), SECRET)
    await assert.rejects(readCopy(path), { code: 'ENOENT' })
  })

  test('examples/sync-clients-by-webhook names the missing setting', async () => {
    const program = startSource(['examples/sync-clients-by-webhook.ts'], { SIGNING_SECRET: SECRET })
    assert.equal(await program.exit, 2)
    assert.match(program.stderr(), /^Usage: SIGNING_SECRET=.*\n$/)
  })
})
