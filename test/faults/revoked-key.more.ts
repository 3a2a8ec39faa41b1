import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { createCaller } from './_client.ts'
import { makeApiKey } from './_fixture.ts'
import { startHost } from './_host.ts'

test('a key revoked in one process is rejected on the next request in every other', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const { key, id } = await makeApiKey(database.url, 'org_revoked')
  const hosts = await Promise.all([
    startHost({ databaseUrl: database.url, pool: 'own' }),
    startHost({ databaseUrl: database.url, pool: 'host' }),
  ])
  t.after(() => Promise.all(hosts.map((host) => host.stop())))
  const callers = hosts.map(({ port }) => createCaller(port, key))
  t.after(() => {
    for (const caller of callers) caller.close()
  })
  const store = createPostgresStore(database.url)
  t.after(() => store.close())
  const ask = (): Promise<unknown[]> =>
    Promise.all(
      callers.map(async (caller) => (await caller.send({ method: 'GET', path: '/api/v1/leads' })).status),
    )

  // Often enough to fill every cache that could keep a key.
  for (let round = 0; round < 20; round++) assert.deepEqual(await ask(), [200, 200])
  await createDeveloperSettings(store).apiKeys.revoke('org_revoked', id)
  assert.deepEqual(await ask(), [401, 401])
  assert.deepEqual(await ask(), [401, 401])
})
