import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { createTestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { createCaller } from './_client.ts'
import { makeApiKey, until } from './_fixture.ts'
import { startHost } from './_host.ts'

const database = await createTestDatabase()
after(() => database.drop())
const sql = database.sql({ max: 2 })
const { key } = await makeApiKey(database.url, 'org_lost')

const IDEMPOTENCY_KEY = 'form-4711'
const BODY = JSON.stringify({ name: 'Atlas Ceramics' })

test('a caller that dies after the commit and before the reply gets the same record on the next attempt', async (t) => {
  const host = await startHost({ databaseUrl: database.url, pool: 'own' })
  t.after(() => host.stop())
  const caller = createCaller(host.port, key)
  t.after(() => caller.close())

  // The caller never reads, so no reply can have arrived, and is gone as soon as the record is visible.
  const socket = connect(host.port, '127.0.0.1').pause()
  await once(socket, 'connect')
  socket.write(postRequest(BODY))
  await until('the client is in the database', async () => (await readClients()).length > 0, 30_000)
  socket.resetAndDestroy()

  const retry = await caller.send({
    method: 'POST',
    path: '/api/v1/clients',
    body: JSON.parse(BODY),
    idempotencyKey: IDEMPOTENCY_KEY,
  })
  assert.equal(retry.status, 200)
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.deepEqual(await readClients(), [JSON.parse(retry.body).data.id])
  host.assertUnharmed()
})

test('a caller that dies while the create waits for a lock gets a single record on the next attempt', async (t) => {
  const host = await startHost({ databaseUrl: database.url, pool: 'own' })
  t.after(() => host.stop())
  const caller = createCaller(host.port, key)
  t.after(() => caller.close())
  const before = (await readClients()).length
  const body = { name: 'Held up' }
  const idempotencyKey = 'form-4712'

  const socket = connect(host.port, '127.0.0.1')
  await once(socket, 'connect')
  await sql.begin(async (tx) => {
    await tx`lock table business_api.businesses in share mode`
    socket.write(postRequest(JSON.stringify(body), idempotencyKey))
    await untilWaiting(sql)
    socket.resetAndDestroy()
  })

  const retry = await caller.send({ method: 'POST', path: '/api/v1/clients', body, idempotencyKey })
  assert.equal(retry.status, 200)
  assert.equal(retry.headers['idempotent-replayed'], 'true')
  assert.equal((await readClients()).length, before + 1)
  host.assertUnharmed()
})

function postRequest(body: string, idempotencyKey: string = IDEMPOTENCY_KEY): string {
  return [
    'POST /api/v1/clients HTTP/1.1',
    'Host: localhost',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Idempotency-Key: ${idempotencyKey}`,
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n')
}

async function readClients(): Promise<string[]> {
  const rows = await sql`select client_id as id from business_api.businesses order by client_id`
  return rows.map(({ id }) => id)
}
