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
import { createStoreOn } from '../../lib/postgres/store.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { untilWaiting } from '../_waiting.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { ids, newKey } from '../contract/tenant.ts'

// Requests that wait at the same time are checked and answered by one statement. The only visible difference
// must be speed.

const LIMITS: RateLimits = {
  key: { perSecond: 0.001, burst: 100 },
  organization: { perSecond: 0.001, burst: 100 },
}

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
  readonly work: 'judge' | 'list'
  /** The number of keys that are checked, or of pages. */
  readonly requests: number
}

/** A page has fewer columns than a check. */
const PAGE_COLUMNS = 5

interface Observed {
  readonly server: Database
  readonly store: PostgresStore
  /** The batches so far. */
  readonly batches: Batch[]
  /** Holds back all further batches until the returned function is called. */
  hold(): () => void
}

/** Opens a store that records its batches. */
function openStore(
  t: { after(work: () => Promise<void>): void },
  { source = database.url, ...options }: DatabaseOptions & { readonly source?: string | Sql } = {},
  change: (server: Database) => Partial<Database> = () => ({}),
): Observed {
  const server = createDatabase(source, options)
  const batches: Batch[] = []
  let held = Promise.resolve()
  const rowsFor: Database['rowsFor'] = async (share, build, wait) => {
    await held
    const rows = await server.rowsFor(share, build, wait)
    const work = (rows[0]?.length ?? 0) > PAGE_COLUMNS ? 'judge' : 'list'
    batches.push({ work, requests: rows.length })
    return rows
  }
  const store = createStoreOn({ ...server, rowsFor, ...change(server) })
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

/** Creates an organization with a key and a client. */
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

/** Requests are sent in the next turn of the event loop. */
async function untilSent(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
}

/** Both statements of a list are sent at once, and either may end first. */
function byWork(batches: readonly Batch[]): readonly Batch[] {
  return batches.toSorted((a, b) => a.work.localeCompare(b.work))
}

async function namesOf(store: PostgresStore, request: AdmissionRequest): Promise<readonly string[] | string> {
  const { admission, page, error } = await store.clients.admitAndList(request, { limit: 50 })
  if (error !== undefined) throw error
  if (page === null) return admission.outcome
  return JSON.parse(String(page)).map(({ business }: { business: { name: string } }) => business.name)
}

describe('Requests at the same time', () => {
  test('share a statement, and each gets its own result', async (t) => {
    const { store, batches } = openStore(t)
    // Names that must be quoted in an array.
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
    assert.deepEqual(byWork(batches), [
      { work: 'judge', requests: names.length },
      { work: 'list', requests: names.length },
    ])
  })

  test('are each checked by their own key, scope and limits', async (t) => {
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
      [`Client of ${admitted.organizationHint}`],
      'forbidden',
    ])
    // Two requests have the same key, but one of them has another organization as a hint. A hint
    // doesn't authorize anything.
    assert.deepEqual(byWork(batches)[0], { work: 'judge', requests: 4 })
  })

  test('each take tokens from their own buckets, including several requests from one bucket', async (t) => {
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

  test('are limited to 16 per statement, and fewer if they ask for long pages', async (t) => {
    const { store, batches, hold } = openStore(t, { maxConnections: 4 })
    const request = await makeOrganization(store)
    await namesOf(store, request)
    const release = hold()
    const lists = [1, ...Array.from({ length: 40 }, () => 1), ...Array.from({ length: 8 }, () => 200)]
    const answers = Promise.all(lists.map((limit) => store.clients.admitAndList(request, { limit })))
    await untilSent()
    batches.length = 0
    release()
    assert.equal((await answers).length, lists.length)
    const sizes = batches.filter(({ work }) => work === 'list').map(({ requests }) => requests)
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

  test('are served round-robin by organization, whatever they ask for', async (t) => {
    const { store, hold } = openStore(t, { maxConnections: 4 })
    const busy = await makeOrganization(store)
    const other = await makeOrganization(store)
    await sql`update business_api.api_keys set scopes = '{clients:read,leads:read,projects:read,proposals:read}'`
    await namesOf(store, busy)
    const release = hold()
    const answered: string[] = []
    const ask = async (answer: Promise<unknown>, name: string): Promise<void> => {
      await answer
      answered.push(name)
    }
    const { clients, leads, projects, proposals } = store
    const lists = [
      () => clients.admitAndList({ ...busy, scope: 'clients:read' }, { limit: 1, before: 'cli_1' }),
      () => leads.admitAndList({ ...busy, scope: 'leads:read' }, { limit: 1 }),
      () => projects.admitAndList({ ...busy, scope: 'projects:read' }, { limit: 1 }),
      () => proposals.admitAndList({ ...busy, scope: 'proposals:read' }, { limit: 1 }),
    ]
    const all = Array.from({ length: 64 }, (_, index) =>
      ask(lists[index % 4]?.() ?? Promise.reject(), 'busy'),
    )
    all.push(ask(namesOf(store, other), 'other'))
    await untilSent()
    release()
    await Promise.all(all)
    assert.ok(answered.indexOf('other') <= 33, `${answered.indexOf('other')}`)
  })

  test('are served round-robin by organization', async (t) => {
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
    await untilSent()
    release()
    await Promise.all(all)
    // There was no room left in the first batch, but there is in the second.
    assert.ok(answered.indexOf(other.keyDigest) < 32, `${answered.indexOf(other.keyDigest)}`)
  })
})

describe('The page of a list', () => {
  const once = { perSecond: 0.001, burst: 1 }
  const onePerKey = { key: once, organization: { perSecond: 1000, burst: 1000 } }

  test('is read during the check, but no longer once the key is over its limit', async (t) => {
    const { store, batches } = openStore(t)
    const request = await makeOrganization(store, undefined, onePerKey)
    batches.length = 0
    assert.deepEqual(await namesOf(store, request), [`Client of ${request.organizationHint}`])
    assert.equal(await namesOf(store, request), 'limited')
    // The check doesn't wait for a page that isn't needed.
    while (batches.length < 4) await new Promise(setImmediate)
    assert.deepEqual(byWork(batches), [
      { work: 'judge', requests: 1 },
      { work: 'judge', requests: 1 },
      { work: 'list', requests: 1 },
      { work: 'list', requests: 1 },
    ])
    batches.length = 0
    for (let round = 0; round < 3; round++) assert.equal(await namesOf(store, request), 'limited')
    assert.deepEqual(batches, Array(3).fill({ work: 'judge', requests: 1 }))
    await sql`delete from business_api.rate_buckets where organization_id = ${request.organizationHint}`
    assert.deepEqual(await namesOf(store, request), [`Client of ${request.organizationHint}`])
  })

  test("doesn't delay the check, and its failure doesn't hide the result", async (t) => {
    const { store } = openStore(t, { statementTimeoutMs: 400 })
    const request = await makeOrganization(store, undefined, onePerKey)
    assert.deepEqual(await namesOf(store, request), [`Client of ${request.organizationHint}`])
    await sql.begin(async (tx: TransactionSql) => {
      await tx`lock table business_api.businesses in access exclusive mode`
      assert.equal(await namesOf(store, request), 'limited')
      // The unused page fails after the check, which must not crash the process.
      await new Promise((resolve) => setTimeout(resolve, 600))
    })
  })

  test('belongs to the organization that owns the key, whatever the hint was', async (t) => {
    const { store } = openStore(t)
    const [own, other] = [await makeOrganization(store), await makeOrganization(store)]
    const request = { ...own, organizationHint: other.organizationHint }
    assert.deepEqual(await namesOf(store, request), [`Client of ${own.organizationHint}`])
  })
})

const SLOW_LOCK = 4711

describe('A batch', () => {
  test("doesn't wait for the locked bucket of any organization", async (t) => {
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
      assert.deepEqual(await namesOf(store, other), [`Client of ${other.organizationHint}`])
      assert.deepEqual(byWork(batches), [
        { work: 'judge', requests: 2 },
        { work: 'list', requests: 2 },
      ])
      await untilWaiting(sql, 1)
    })
    assert.deepEqual(await late, [`Client of ${locked.organizationHint}`])
  })

  test('that fails is sent again separately for each request', async (t) => {
    const { store } = openStore(t, {}, (server) => ({
      // Like a record that PostgreSQL can't read.
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

  test("that failed doesn't split the requests of a key while they wait for a connection", async (t) => {
    let judgements = 0
    const { store } = openStore(t, { maxConnections: 4 }, (server) => ({
      rowsFor: () => Promise.reject(new Error('The connection broke')),
      bytesFor: async (...statement) => {
        const row = await server.bytesFor(...statement)
        if (row.length > PAGE_COLUMNS) judgements++
        return row
      },
    }))
    const request = await makeOrganization(store, undefined, LIMITS)
    await store.apiKeys.admit(request)
    judgements = 0
    const admissions: Promise<unknown>[] = []
    await sql.begin(async (tx: TransactionSql) => {
      await tx`
        select 1 from business_api.rate_buckets where organization_id = ${request.organizationHint} for update`
      for (let turn = 0; turn < 20; turn++) {
        admissions.push(store.apiKeys.admit(request))
        await untilSent()
      }
      await untilWaiting(sql, 2)
    })
    await Promise.all(admissions)
    assert.ok(judgements <= 4, `${judgements} judgements`)
  })

  test('is rejected for an organization when too many requests are waiting, and its requests make room for others', async (t) => {
    const { store } = openStore(t, { maxConnections: 4, maxPending: 20 })
    const busy = await makeOrganization(store)
    const other = await makeOrganization(store)
    // They're checked together and then ask for their pages at once.
    const flood = Promise.allSettled(Array.from({ length: 30 }, () => namesOf(store, busy)))
    assert.deepEqual(await namesOf(store, other), [`Client of ${other.organizationHint}`])
    const refused = (await flood).filter(({ status }) => status === 'rejected')
    // Ten of them had no room, and one made room for others.
    assert.equal(refused.length, 11)
    assert.equal(store.connectionUse?.().refused, 11)
    for (const outcome of refused)
      assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'store_unavailable')
  })

  test('has room for every key, even if another key has more requests than may wait', async (t) => {
    const { store, hold } = openStore(t, { maxConnections: 4, maxPending: 20 })
    const [busy, other] = [await makeOrganization(store), await makeOrganization(store)]
    await namesOf(store, busy)
    const release = hold()
    const admit = (request: AdmissionRequest, count: number) =>
      Promise.allSettled(Array.from({ length: count }, () => store.apiKeys.admit(request)))
    const [flood, few, more] = [admit(busy, 30), admit(other, 5), admit(busy, 5)]
    await untilSent()
    release()
    const refused = (await Promise.all([flood, few, more])).map(
      (outcomes) => outcomes.filter(({ status }) => status === 'rejected').length,
    )
    assert.deepEqual(refused, [10, 0, 5])
  })

  test("isn't sent for a request that has waited too long", async (t) => {
    const { store, batches, hold } = openStore(t, { maxConnections: 4, statementTimeoutMs: 200 })
    const request = await makeOrganization(store)
    await namesOf(store, request)
    const release = hold()
    const first = store.apiKeys.admit(request)
    await untilSent()
    const late = assert.rejects(store.apiKeys.admit(request), { code: 'store_unavailable' })
    await new Promise((resolve) => setTimeout(resolve, 300))
    batches.length = 0
    release()
    await Promise.all([first, late])
    assert.deepEqual(batches, [{ work: 'judge', requests: 1 }])
    assert.equal(store.connectionUse?.().timedOut, 1)
  })

  test("gives each request its own timeout, even if it's checked with an earlier request of its key", async (t) => {
    const { store, hold } = openStore(t, { maxConnections: 4, statementTimeoutMs: 800 })
    const [request, other] = [await makeOrganization(store), await makeOrganization(store)]
    await namesOf(store, request)
    const release = hold()
    const first = store.apiKeys.admit(other)
    await untilSent()
    const early = assert.rejects(store.apiKeys.admit(request), { code: 'store_unavailable' })
    await new Promise((resolve) => setTimeout(resolve, 600))
    const later = store.apiKeys.admit(request)
    await new Promise((resolve) => setTimeout(resolve, 300))
    release()
    await early
    assert.deepEqual(
      (await Promise.all([first, later])).map(({ outcome }) => outcome),
      ['admitted', 'admitted'],
    )
  })

  test("that gets no connection lets the waiting requests wait for their turns, where they're rejected immediately", async (t) => {
    const nowhere = new URL(database.url)
    nowhere.port = '1'
    const { store } = openStore(t, { maxConnections: 4, source: nowhere.href })
    const request = {
      keyDigest: 'x',
      organizationHint: 'org',
      scope: 'clients:read',
      rateLimits: null,
    } as const
    const outcomes = await Promise.allSettled(
      Array.from({ length: 100 }, () => store.clients.admitAndList(request, { limit: 1 })),
    )
    assert.equal(store.connectionUse?.().timedOut, 0)
    for (const outcome of outcomes)
      assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'store_unavailable')
  })

  test('that fails after some rows leaves none of them to the next statement', async (t) => {
    const { store, server } = openStore(t, { maxConnections: 1 })
    const request = await makeOrganization(store)
    for (let round = 0; round < 3; round++) {
      const failing = server.rowsFor(null, (sql, answerTag) =>
        sql.unsafe('select (1 / (3 - n))::text, $1::text from generate_series(1, 5) as n', [answerTag]),
      )
      await assert.rejects(failing)
      assert.deepEqual(await namesOf(store, request), [`Client of ${request.organizationHint}`])
    }
    // A statement with a single row may also fail after the row, and the connection stays open.
    const [row] = await server.bytesFor(null, (sql, answerTag) =>
      sql.unsafe('select $1::text, $1::text', [answerTag]),
    )
    assert.ok(row)
  })

  test('that waits for a locked table only delays others for a moment', async (t) => {
    let failures = 0
    const { store } = openStore(t, { maxConnections: 4 }, (server) => ({
      rowsFor: (share, build, wait) =>
        server.rowsFor(share, build, wait).catch((error) => {
          failures++
          throw error
        }),
    }))
    const request = await makeOrganization(store)
    const other = await makeOrganization(store)
    await sql`update business_api.api_keys set scopes = '{clients:read,invoices:read}'`
    await namesOf(store, other)
    let waiting: Promise<unknown>[] = []
    await sql.begin(async (tx: TransactionSql) => {
      await tx`lock table business_api.invoices in access exclusive mode`
      const listInvoices = () =>
        store.invoices.admitAndList({ ...request, scope: 'invoices:read' }, { limit: 1 })
      waiting = [listInvoices(), listInvoices()]
      await new Promise((resolve) => setTimeout(resolve, 20))
      const givenUp: number[] = []
      for (let round = 0; round < 5; round++) {
        assert.deepEqual(await namesOf(store, other), [`Client of ${other.organizationHint}`])
        givenUp.push(failures)
        waiting.push(listInvoices())
      }
      // The statement for invoices is no longer sent for several requests, so we don't wait for it again.
      assert.deepEqual(givenUp, Array(5).fill(1))
    })
    for (const answer of await Promise.allSettled(waiting)) assert.equal(answer.status, 'fulfilled')
  })

  test('with a slow request is abandoned, and the others are sent separately', async (t) => {
    const { store } = openStore(t)
    const slow = await makeOrganization(store, 'org_slow', LIMITS)
    const others = await Promise.all(
      Array.from({ length: 5 }, () => makeOrganization(store, undefined, LIMITS)),
    )
    await Promise.all([slow, ...others].map((request) => namesOf(store, request)))
    // A record of the organization takes as long to read as a lock is held.
    const role = `business_api_slow_${process.pid}`
    await sql.unsafe(`
      create role ${role};
      grant usage on schema business_api to ${role};
      grant all on all tables in schema business_api to ${role};
      grant execute on all functions in schema business_api to ${role};
      alter table business_api.businesses enable row level security;
      create policy slow on business_api.businesses using (
        organization_id <> 'org_slow' or pg_advisory_xact_lock_shared(${SLOW_LOCK}) is not null
      )`)
    const limited = openStore(t, { source: database.sql({ connection: { role } }) })
    t.after(async () => {
      await limited.store.close()
      await sql.unsafe(`
        drop policy slow on business_api.businesses;
        alter table business_api.businesses disable row level security;
        drop owned by ${role};
        drop role ${role}`)
    })
    await limited.store.apiKeys.list('org')
    const { late, names } = await sql.begin(async (tx: TransactionSql) => {
      await tx`select pg_advisory_xact_lock(${SLOW_LOCK})`
      const asked = namesOf(limited.store, slow)
      return {
        names: await Promise.all(others.map((request) => namesOf(limited.store, request))),
        late: { asked },
      }
    })
    assert.deepEqual(
      names,
      others.map(({ organizationHint }) => [`Client of ${organizationHint}`]),
    )
    assert.deepEqual(await late.asked, ['Client of org_slow'])
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
      test(`is only planned once for ${what}, even for a single request, ${rateLimits ? 'with' : 'without'} rate limits`, async (t) => {
        const { store, server } = openStore(t, { maxConnections: 1 })
        const request = await makeOrganization(store, undefined, rateLimits)
        for (let round = 0; round < 8; round++)
          await store.clients.admitAndList(request, { limit: 1, ...position })
        const plans = await server.row(
          (sql, answerTag) => sql`
            select custom_plans::text, ${answerTag} from pg_prepared_statements
            where statement like '%string_agg%' and statement like '%ordinality%' and statement not like '%prepared%'`,
        )
        // PostgreSQL always plans the first five executions.
        assert.equal(plans[0], '5')
      })
    }
  }

  test('has another form for a single request', async (t) => {
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
    // Each of the five resources has three lists. The check is another statement.
    assert.equal([...texts].filter((text) => text.includes('string_agg')).length, 15)
    assert.equal(texts.size, 16)
  })
})
