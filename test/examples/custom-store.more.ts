import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { assertError, call, type Prepared, prepareDatabase, visit } from './_host.ts'
import { endProgram, type Program, readBaseUrl, startSource } from './_program.ts'

let prepared: Prepared
let tracker: Server
let program: Program
let url: string
let projects: readonly { readonly id: string }[]
const asked: (string | undefined)[] = []
let trackerStatus = 200

before(async () => {
  prepared = await prepareDatabase()
  const store = createPostgresStore(prepared.databaseUrl)
  const platform = createPlatform(store)
  projects = [
    await platform.projects.create('org_example', {
      name: 'Showroom relaunch',
      billingType: 'fixed',
      value: 12_000,
    }),
    await platform.projects.create('org_example', { name: 'Signage', billingType: 'hourly', value: 300 }),
  ]
  await store.close()
  tracker = createServer((request, response) => {
    asked.push(request.url)
    response.writeHead(trackerStatus).end(JSON.stringify({ [projects[0]?.id ?? '']: 'in review' }))
  })
  await once(tracker.listen(0, '127.0.0.1'), 'listening')
  program = startSource(['examples/custom-store.ts'], {
    DATABASE_URL: prepared.databaseUrl,
    PORT: '0',
    TRACKER_URL: `http://127.0.0.1:${(tracker.address() as AddressInfo).port}`,
  })
  url = await readBaseUrl(program)
})

after(async () => {
  tracker.close()
  await endProgram(program)
  await prepared.drop()
})

test("examples/custom-store lists projects with the tracker's statuses, and its own where the tracker has none", async () => {
  const [relaunch, signage] = projects
  const response = await call(`${url}/api/v1/projects?limit=7`, prepared.key)
  assert.deepEqual(await response.json(), { data: [signage, { ...relaunch, status: 'in review' }] })
  assert.deepEqual(asked, [`/organizations/org_example/statuses?projects=${signage?.id}%2C${relaunch?.id}`])
})

test('examples/custom-store does not ask the tracker for a caller without a key', async () => {
  asked.length = 0
  await assertError(await fetch(`${url}/api/v1/projects`), 401)
  assert.deepEqual(asked, [])
})

test('examples/custom-store keeps everything else in PostgreSQL', () => visit(url, prepared.key))

test('examples/custom-store answers 503 while the tracker fails, and the rest goes on', async () => {
  trackerStatus = 500
  await assertError(await call(`${url}/api/v1/projects`, prepared.key), 503)

  tracker.close()
  tracker.closeAllConnections()
  const response = await call(`${url}/api/v1/projects`, prepared.key)
  assert.equal(response.headers.get('retry-after'), '1')
  assert.doesNotMatch(await assertError(response, 503), /tracker/i)
  assert.equal((await call(`${url}/api/v1/clients`, prepared.key)).status, 200)
})
