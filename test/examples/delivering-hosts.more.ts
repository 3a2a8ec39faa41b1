import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { receiveWebhook } from '../../lib/webhooks.ts'
import { createTestDatabase } from '../_database.ts'
import { call, visit } from './_host.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

const ORGANIZATION = 'org_1'
const LOCAL = { allowHttp: true, allowPrivateNetworks: true }

/** A database with a key and with an endpoint that is a server of this test. */
async function prepare(t: TestContext) {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const store = createPostgresStore(database.sql())
  const secretKey = randomBytes(32).toString('base64')
  const settings = createDeveloperSettings(store, { ...LOCAL, secretKeys: [secretKey] })
  const { key } = await settings.apiKeys.create(ORGANIZATION, {
    name: 'Test',
    scopes: ['clients:read', 'clients:write', 'leads:write'],
  })
  const received: string[] = []
  let secret = ''
  const subscriber = createServer(async (request, response) => {
    const { event } = await receiveWebhook(request, { secret })
    received.push(event.type)
    response.writeHead(204).end()
  })
  await once(subscriber.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    subscriber.close()
    subscriber.closeAllConnections()
  })
  const { port } = subscriber.address() as AddressInfo
  const endpoint = await settings.endpoints.register(ORGANIZATION, { url: `http://127.0.0.1:${port}/` })
  secret = endpoint.secret
  const env = {
    DATABASE_URL: database.url,
    BUSINESS_API_SECRET_KEYS: secretKey,
    LOCAL_DEVELOPMENT: '1',
    PORT: '0',
  }
  return { env, key, received, platform: createPlatform(store) }
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!condition()) {
    assert.ok(Date.now() < deadline, 'has not happened within 20 seconds')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

test('examples/express-with-webhooks serves, delivers, and ends by SIGTERM', async (t) => {
  const { env, key, received, platform } = await prepare(t)
  const program = startSource(['examples/express-with-webhooks.ts'], env)
  const url = await readBaseUrl(program)
  await visit(`${url}/platform`, key)
  await until(() => received.includes('client.created'))
  const project = await platform.projects.create(ORGANIZATION, {
    name: 'Showroom',
    billingType: 'fixed',
    value: 100,
  })
  assert.equal((await call(`${url}/projects/${project.id}/complete`, key, {})).status, 200)
  await until(() => received.includes('project.completed'))
  program.signal('SIGTERM')
  assert.equal(await program.exit, 0, program.stderr())
})

test('examples/worker delivers the events of other processes, and ends by SIGTERM', async (t) => {
  const { env, received, platform } = await prepare(t)
  const program = startSource(['examples/worker.ts'], env)
  await program.prints(/Delivering/)
  await platform.clients.create(ORGANIZATION, { name: 'Atlas Ceramics' })
  await until(() => received.length === 2)
  program.signal('SIGTERM')
  assert.equal(await program.exit, 0, program.stderr())
})

test('examples/deliver-once delivers the due webhooks and ends', async (t) => {
  const { env, received, platform } = await prepare(t)
  await platform.clients.create(ORGANIZATION, { name: 'Atlas Ceramics' })
  const program = startSource(['examples/deliver-once.ts'], env)
  assert.equal(await program.exit, 0, program.stderr())
  assert.deepEqual(received.sort(), ['business.created', 'client.created'])
  assert.match(program.stdout(), /delivered: 2/)
})

test('examples/express-with-webhooks ends on SIGTERM although a connection never sends a whole request', async (t) => {
  const { env } = await prepare(t)
  const program = startSource(['examples/express-with-webhooks.ts'], env)
  const url = new URL(await readBaseUrl(program))
  const halfOpen = connect(Number(url.port), url.hostname)
  t.after(() => halfOpen.destroy())
  halfOpen.on('error', () => {})
  await once(halfOpen, 'connect')
  halfOpen.write('GET / HTTP/1.1\r\nHost: x')
  // The first request shows that the server has read half of the other request.
  await fetch(url)
  await endProgram(program)
  assert.equal(await program.exit, 0)
})
