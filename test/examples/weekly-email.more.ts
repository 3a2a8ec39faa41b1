import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { prepareDatabase } from './_host.ts'
import { startSource } from './_program.ts'

test('examples/weekly-email names what was delivered, what failed, and the endpoint that needs somebody', async () => {
  const { databaseUrl, organizationId, drop } = await prepareDatabase()
  const store = createPostgresStore(databaseUrl)
  const { endpoints } = createDeveloperSettings(store, {
    allowPlaintextSecrets: true,
    lookup: async () => [{ address: '1.2.3.4', family: 4 }],
  })
  for (const host of ['works', 'fails'])
    await endpoints.register(organizationId, { url: `https://${host}.example/hooks?token=secret` })
  await store.events.publish(organizationId, {
    ...{ id: 'evt_1', type: 'lead.created', body: '{}' },
  })
  const sender = {
    async send({ url }: { url: string }) {
      return { status: url.includes('works') ? 200 : 500, error: null, bodyExcerpt: '', durationMs: 12 }
    },
    async close() {},
  }
  const loop = createDeliveryLoop(store, sender, { allowPlaintextSecrets: true, retryDelaysMs: [] })
  await loop.runOnce()
  await store.close()
  const program = startSource(['examples/weekly-email.ts', organizationId], { DATABASE_URL: databaseUrl })
  assert.equal(await program.exit, 0, program.stderr())
  const text = program.stdout()
  assert.match(text, /^Delivered: 1 \(50 %\)$/m)
  assert.match(text, /^Failed: 1, most of them on 20\d\d-\d\d-\d\d$/m)
  assert.match(text, /^Failed deliveries that can be sent again: 1$/m)
  assert.match(text, /^fails\.example fails \(failed attempts in a row: 1\), mostly 5xx$/m)
  assert.doesNotMatch(text, /works\.example|secret/)
  await drop()
})
