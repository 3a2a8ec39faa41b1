// An installation with records, events and a backlog goes from one PostgreSQL to a cluster: less than a minute.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createEmptyCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { setScene } from './_deliveries.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT } from './_fixture.ts'
import { createPublished } from './_publishers.ts'
import { assertDelivered, untilDelivered } from './_tally.ts'

const ORGANIZATIONS = ['org_one', 'org_two', 'org_three', 'org_four']
const ROUNDS = 15

test(
  'an installation with data is distributed: records, numbers, tokens, keys and the backlog go on',
  WITH_CITUS,
  async (t) => {
    const database = await createEmptyCitusDatabase()
    t.after(() => database.drop())
    await migrate(database.url)
    const scene = await setScene(t, database.url)
    const keys = new Map<string, string>()
    const created = new Map(ORGANIZATIONS.map((id) => [id, [] as string[]]))
    const copies = new Map(
      ORGANIZATIONS.map((id) => [id, { known: new Set<string>(), token: new Date(0).toISOString() }]),
    )
    const replies = new Map<string, string>()
    for (const organizationId of ORGANIZATIONS) {
      await scene.subscribe(organizationId, 'answering')
      keys.set(organizationId, (await makeApiKey(database.url, organizationId)).key)
    }

    /** Works as the processes of an installation do, which are started anew with each call. */
    async function work(withBacklog: boolean): Promise<void> {
      const store = createPostgresStore(database.url)
      const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
      const platform = createPlatform(store)
      const send = async (
        organizationId: string,
        path: string,
        init: RequestInit = {},
      ): Promise<Response> => {
        const headers = {
          authorization: `Bearer ${keys.get(organizationId)}`,
          'content-type': 'application/json',
        }
        const answer = await api(
          new Request(`http://localhost/api/v1/${path}`, {
            ...init,
            headers: { ...headers, ...init.headers },
          }),
        )
        assert.equal(answer.status, 200, `${path} of ${organizationId}`)
        return answer
      }
      const create = async (organizationId: string, name: string): Promise<string> => {
        const body = JSON.stringify({ name })
        const answer = await send(organizationId, 'clients', {
          method: 'POST',
          body,
          headers: { 'idempotency-key': name },
        })
        return answer.text()
      }
      try {
        for (const organizationId of ORGANIZATIONS) {
          // A reply from before the move is given again.
          for (const [name, reply] of replies) {
            if (name.startsWith(`${organizationId}-`)) assert.equal(await create(organizationId, name), reply)
          }
          if (withBacklog) {
            for (let round = 0; round < ROUNDS; round++) {
              const name = `${organizationId}-${replies.size}`
              const reply = await create(organizationId, name)
              replies.set(name, reply)
              created.get(organizationId)?.push(JSON.parse(reply).data.id)
              await platform.invoices.create(organizationId, {
                currency: 'EUR',
                total: '10.00',
                dueDate: new Date(Date.now() + 86_400_000),
              })
            }
          }
          const copy = copies.get(organizationId)
          assert.ok(copy)
          for (let size = 5; size === 5; ) {
            const answer = await send(
              organizationId,
              `clients?limit=5&updatedSince=${encodeURIComponent(copy.token)}`,
            )
            const { data } = (await answer.json()) as { data: { id: string }[] }
            for (const { id } of data) copy.known.add(id)
            copy.token = answer.headers.get('sync-token') ?? ''
            size = data.length
          }
          assert.deepEqual(
            [...copy.known].sort(),
            created.get(organizationId)?.sort(),
            'the list of changes has everything',
          )
        }
      } finally {
        await store.close()
      }
    }

    await work(true)
    const counts = async (): Promise<unknown> =>
      await scene.sql`
      select (select count(*)::int from business_api.clients) as clients, (select count(*)::int from business_api.events) as events,
             (select count(*)::int from business_api.open_deliveries) as backlog, (select count(*)::int from business_api.api_keys) as keys,
             (select count(*)::int from business_api.idempotency_keys) as replies, (select sum(last)::int from business_api.number_series) as numbers`
    const before = await counts()
    const { distributed = [] } = await migrate(database.url, { distributed: true })
    assert.ok(distributed.length > 10, 'the tables are distributed')
    assert.deepEqual(await counts(), before)
    await work(false)
    await work(true)

    for (const organizationId of ORGANIZATIONS) {
      const rows = await scene.sql<{ number: string }[]>`
      select number from business_api.invoices where organization_id = ${organizationId} order by number`
      const year = new Date().getUTCFullYear()
      const expected = Array.from(
        { length: 2 * ROUNDS },
        (_, n) => `INV-${year}-${String(n + 1).padStart(4, '0')}`,
      )
      assert.deepEqual(
        rows.map(({ number }) => number),
        expected,
        'the numbers have no gap',
      )
    }
    const deliverer = await scene.startDeliverer()
    await untilDelivered(scene, 60_000)
    deliverer.assertUnharmed()
    const published = createPublished()
    published.unnamed = 2 * replies.size
    const tally = await assertDelivered(scene, published)
    assert.equal(tally.arrivals, tally.deliveries, 'every event was delivered once')
  },
)
