import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import type { AdmissionRequest } from '../../lib/access/admission.ts'
import type { RateLimits } from '../../lib/access/rate-limit.ts'
import {
  createDatabase,
  type Database,
  type DatabaseOptions,
} from '../../lib/postgres/connection/database.ts'
import { createDistributionReader } from '../../lib/postgres/distributed/state.ts'
import { createStoreOn } from '../../lib/postgres/store.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { newEntry } from '../../lib/testing/store-contract/audit-entry.ts'
import { ids, newKey } from '../../lib/testing/store-contract/tenant.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { findRefusedForms } from './_distributed-forms.ts'
import { readFacts } from './_distribution-facts.ts'

// Requests that wait at the same time are judged and answered by one statement. Nobody must notice but by the speed.

const LIMITS: RateLimits = {
  key: { perSecond: 0.001, burst: 100 },
  organization: { perSecond: 0.001, burst: 100 },
}
/** Far below the 4 s for which a statement waits for a lock. */
const AT_ONCE_MS = 1000

let database: TestDatabase
let sql: Sql
let organizations = 0

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 2 })
})
after(() => database.drop())

/** A statement for several requests. */
interface Batch {
  readonly requests: number
}

interface Observed {
  readonly server: Database
  readonly store: PostgresStore
  /** The batches so far. */
  readonly batches: Batch[]
  /** Holds further batches back until the returned function is called. */
  hold(): () => void
}

/** Opens a store that tells of its batches. */
function openStore(
  t: { after(work: () => Promise<void>): void },
  options: DatabaseOptions = {},
  change: (server: Database) => Partial<Database> = () => ({}),
): Observed {
  const server = createDatabase(database.url, options)
  const batches: Batch[] = []
  let held = Promise.resolve()
  const rowsFor: Database['rowsFor'] = async (share, build) => {
    await held
    const rows = await server.rowsFor(share, build)
    batches.push({ requests: rows.length })
    return rows
  }
  const store = createStoreOn({ ...server, rowsFor, ...change(server) }, createDistributionReader(server))
  t.after(() => store.close())
  return {
    server,
    store,
    batches,
    hold() {
      let release = (): void => {}
      held = new Promise((resolve) => {
        release = resolve
      })
      return release
    },
  }
}

/** Makes an organization with a key and a client. */
async function makeOrganization(
  store: PostgresStore,
  organizationHint = `org_${++organizations}`,
  rateLimits: RateLimits | null = null,
): Promise<AdmissionRequest & { readonly organizationHint: string }> {
  const key = newKey()
  await store.apiKeys.insert({ organizationId: organizationHint, limit: 10, key, entry: newEntry() })
  const { record } = newClient({ name: `Client of ${organizationHint}` }, { ids, now: Date.now() })
  await store.clients.create({ organizationId: organizationHint, record, events: [], idempotency: null })
  return { keyDigest: key.digest, scope: 'clients:read', rateLimits, organizationHint }
}

async function namesOf(store: PostgresStore, request: AdmissionRequest): Promise<readonly string[] | string> {
  const { admission, page } = await store.clients.admitAndList(request, { limit: 50 })
  if (page === null) return admission.outcome
  return JSON.parse(String(page)).map(({ business }: { business: { name: string } }) => business.name)
}

describe('Requests that come at the same time', () => {
  test('share a statement, and each gets the answer to it', async (t) => {
    const { store, batches } = openStore(t)
    // Names that an array's text must quote.
    const names = [
      'org "quoted"',
      'org \\ {braces}, comma',
      'NULL',
      '',
      "org 'apostrophe'",
      'ünïcode ✓',
      ' org ',
    ]
    const requests = await Promise.all(names.map((name) => makeOrganization(store, name)))
    batches.length = 0
    const found = await Promise.all(requests.map((request) => namesOf(store, request)))
    assert.deepEqual(
      found,
      names.map((name) => [`Client of ${name}`]),
    )
    assert.deepEqual(batches, [{ requests: names.length }])
  })

  test('are judged each by the own key, scope and limits', async (t) => {
    const { store, batches } = openStore(t)
    const admitted = await makeOrganization(store, undefined, LIMITS)
    const revoked = await makeOrganization(store, undefined, LIMITS)
    await sql`update business_api.api_keys set revoked_at = now() where digest = ${revoked.keyDigest}`
    const once = { perSecond: 0.001, burst: 1 }
    const limited = await makeOrganization(store, undefined, { key: once, organization: once })
    await namesOf(store, limited)
    const foreign = { ...admitted, organizationHint: limited.organizationHint }
    const forbidden = await makeOrganization(store, undefined, LIMITS)
    await sql`update business_api.api_keys set scopes = '{leads:read}' where digest = ${forbidden.keyDigest}`
    batches.length = 0
    const outcomes = await Promise.all(
      [admitted, revoked, limited, foreign, forbidden].map((request) => namesOf(store, request)),
    )
    assert.deepEqual(outcomes, [
      [`Client of ${admitted.organizationHint}`],
      'unauthenticated',
      'limited',
      'unauthenticated',
      'forbidden',
    ])
    assert.equal(batches[0]?.requests, 5)
  })

  test('take tokens each from the own buckets, also several requests from one bucket', async (t) => {
    const { store } = openStore(t)
    const limits = { key: { perSecond: 0.001, burst: 5 }, organization: { perSecond: 0.001, burst: 100 } }
    const requests = [
      await makeOrganization(store, undefined, limits),
      await makeOrganization(store, undefined, limits),
    ]
    for (const request of requests) await namesOf(store, request)
    const outcomes = await Promise.all(
      requests.flatMap((request) => Array.from({ length: 7 }, () => namesOf(store, request))),
    )
    for (const half of [outcomes.slice(0, 7), outcomes.slice(7)]) {
      assert.equal(half.filter((outcome) => outcome === 'limited').length, 3)
    }
  })

  test('are at most 16 in a statement, and fewer if they ask for long pages', async (t) => {
    const { store, batches, hold } = openStore(t, { maxConnections: 4 })
    const request = await makeOrganization(store)
    await namesOf(store, request)
    const release = hold()
    const lists = [1, ...Array.from({ length: 40 }, () => 1), ...Array.from({ length: 8 }, () => 200)]
    const answers = Promise.all(lists.map((limit) => store.clients.admitAndList(request, { limit })))
    await new Promise(setImmediate)
    batches.length = 0
    release()
    assert.equal((await answers).length, lists.length)
    const sizes = batches.map(({ requests }) => requests)
    assert.equal(
      sizes.reduce((sum, size) => sum + size, 0),
      lists.length,
    )
    assert.ok(
      sizes.every((size) => size <= 16),
      sizes.join(' '),
    )
    // 4 × 200 records.
    assert.equal(sizes.at(-1), 4)
  })

  test('have their turns in round robin of the organizations', async (t) => {
    const { store, hold } = openStore(t, { maxConnections: 4 })
    const busy = await makeOrganization(store)
    const other = await makeOrganization(store)
    await namesOf(store, busy)
    const release = hold()
    const answered: string[] = []
    const ask = async (request: AdmissionRequest): Promise<void> => {
      await namesOf(store, request)
      answered.push(request.keyDigest)
    }
    const all = [...Array.from({ length: 100 }, () => ask(busy)), ask(other)]
    await new Promise(setImmediate)
    release()
    await Promise.all(all)
    // The first batch had no place left, the second has one.
    assert.ok(answered.indexOf(other.keyDigest) < 32, `${answered.indexOf(other.keyDigest)}`)
  })
})

describe('A batch', () => {
  test('waits for the locked bucket of no organization', async (t) => {
    const { store, batches } = openStore(t)
    const locked = await makeOrganization(store, undefined, LIMITS)
    const other = await makeOrganization(store, undefined, LIMITS)
    await Promise.all([namesOf(store, locked), namesOf(store, other)])
    batches.length = 0
    let late: Promise<unknown> = Promise.resolve()
    await sql.begin(async (tx: TransactionSql) => {
      await tx`
        select 1 from business_api.rate_buckets
        where organization_id = ${locked.organizationHint} and bucket = 'organization' for update`
      late = namesOf(store, locked)
      const beganAt = performance.now()
      assert.deepEqual(await namesOf(store, other), [`Client of ${other.organizationHint}`])
      assert.ok(performance.now() - beganAt < AT_ONCE_MS)
      assert.deepEqual(batches, [{ requests: 2 }])
      await untilWaiting(sql, 1)
    })
    assert.deepEqual(await late, [`Client of ${locked.organizationHint}`])
  })

  test('that fails is asked for each request alone', async (t) => {
    const { store } = openStore(t, {}, (server) => ({
      // As a record that PostgreSQL cannot read would do.
      rowsFor: async (share, build) => {
        await server.rowsFor(share, build)
        throw new Error('Cannot read a record')
      },
    }))
    const requests = [await makeOrganization(store), await makeOrganization(store)]
    assert.deepEqual(await Promise.all(requests.map((request) => namesOf(store, request))), [
      [`Client of ${requests[0]?.organizationHint}`],
      [`Client of ${requests[1]?.organizationHint}`],
    ])
  })

  test('of one organization is refused when a thousand requests wait, and gives way to others', async (t) => {
    const { store, hold } = openStore(t, { maxConnections: 4, maxPending: 20 })
    const busy = await makeOrganization(store)
    const other = await makeOrganization(store)
    await namesOf(store, busy)
    const release = hold()
    const first = namesOf(store, busy)
    await new Promise(setImmediate)
    const flood = Promise.allSettled(Array.from({ length: 30 }, () => namesOf(store, busy)))
    const welcome = namesOf(store, other)
    assert.equal(store.connectionUse?.().waiting, 20)
    release()
    assert.deepEqual(await first, [`Client of ${busy.organizationHint}`])
    assert.deepEqual(await welcome, [`Client of ${other.organizationHint}`])
    const refused = (await flood).filter(({ status }) => status === 'rejected')
    // Ten had no place, and one gave its place away.
    assert.equal(refused.length, 11)
    assert.equal(store.connectionUse?.().refused, 11)
    for (const outcome of refused)
      assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'store_unavailable')
  })

  test('is not sent for a request that has waited too long', async (t) => {
    const { store, batches, hold } = openStore(t, { maxConnections: 4, statementTimeoutMs: 200 })
    const request = await makeOrganization(store)
    await namesOf(store, request)
    const release = hold()
    const first = namesOf(store, request)
    await new Promise(setImmediate)
    const late = assert.rejects(namesOf(store, request), { code: 'store_unavailable' })
    await new Promise((resolve) => setTimeout(resolve, 300))
    batches.length = 0
    release()
    await Promise.all([first, late])
    assert.deepEqual(batches, [{ requests: 1 }])
    assert.equal(store.connectionUse?.().timedOut, 1)
  })

  test('leaves no request waiting when no connection can be opened', async (t) => {
    const { store } = openStore(t, { maxConnections: 4 }, () => ({}))
    await store.close()
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, () =>
        store.clients.admitAndList(
          { keyDigest: 'x', organizationHint: 'org', scope: 'clients:read', rateLimits: null },
          { limit: 1 },
        ),
      ),
    )
    assert.ok(outcomes.every(({ status }) => status === 'rejected'))
  })
})

describe('The statement of a batch', () => {
  const pages = {
    'the newest records': {},
    'older records': { before: 'cli_01' },
    'changes since a time': { since: { time: '2026-03-14T09:26:53.589Z' } },
  }
  for (const [what, position] of Object.entries(pages)) {
    for (const rateLimits of [null, LIMITS]) {
      test(`is planned once for ${what}, also for a single request, ${rateLimits ? 'with' : 'without'} rate limits`, async (t) => {
        const { store, server } = openStore(t, { maxConnections: 1 })
        const request = await makeOrganization(store, undefined, rateLimits)
        for (let round = 0; round < 8; round++)
          await store.clients.admitAndList(request, { limit: 1, ...position })
        const plans = await server.row(
          (sql, answerTag) => sql`
            select custom_plans::text, ${answerTag} from pg_prepared_statements
            where statement like '%string_agg%' and statement like '%ordinality%' and statement not like '%prepared%'`,
        )
        // PostgreSQL plans the first five executions anew at any cost.
        assert.equal(plans[0], '5')
      })
    }
  }

  test('has a form for a single request that a distributed database takes', async (t) => {
    const { store } = openStore(t)
    const request = await makeOrganization(store)
    const texts = new Set<string>()
    const { clients, leads, invoices, proposals, projects } = store.using({
      query(text, parameters) {
        texts.add(text)
        return sql.unsafe(text, [...parameters])
      },
    })
    for (const { admitAndList } of [clients, leads, invoices, proposals, projects]) {
      for (const rateLimits of [null, LIMITS]) {
        for (const position of Object.values(pages))
          await admitAndList({ ...request, rateLimits }, { limit: 1, ...position })
      }
    }
    // Each of five resources has three lists, each with a token at hand and without. The buckets are made by one statement more.
    assert.equal([...texts].filter((text) => text.includes('string_agg')).length, 30)
    const facts = await readFacts(sql)
    for (const text of texts) assert.deepEqual(findRefusedForms(text, facts), [], text)
  })
})
