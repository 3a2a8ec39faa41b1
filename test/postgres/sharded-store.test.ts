import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { BusinessApiError, STORE_UNAVAILABLE, WRONG_SHARD } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { addShard } from '../../lib/postgres/shards/first-start.ts'
import {
  createPostgresStore,
  createShardedStore,
  type PostgresStore,
  type ShardedStore,
} from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { createTestDatabase } from '../_database.ts'
import { named } from '../_service.ts'
import { newKey, requestOf, UNKNOWN_KEY } from '../contract/tenant.ts'
import { until } from '../delivery/_loop.ts'
import { createTestShards, NAMES, organizationOn, shardNameOf, type TestShards } from '../store/_shards.ts'

let shards: TestShards
let store: ShardedStore

before(async () => {
  shards = await createTestShards()
  store = shards.open()
})

after(async () => {
  await store.close()
  await shards.drop()
})

const [ofA, ofB, ofC] = [organizationOn('a'), organizationOn('b'), organizationOn('c')] as const

/** Opens a store with the given databases by name, and closes it after the test. */
function openNamed(
  t: { after(end: () => unknown): void },
  urls: Readonly<Record<string, string>>,
): ShardedStore {
  const stores = Object.entries(urls).map(([name, url]) => [name, createPostgresStore(url)] as const)
  const opened = createShardedStore({ shards: Object.fromEntries(stores) })
  t.after(() => opened.close())
  return opened
}

const urlOf = (name: (typeof NAMES)[number]): string => shards.databases[NAMES.indexOf(name)]?.url ?? ''

function isCode(code: string, text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof BusinessApiError, String(error))
    assert.equal(error.code, code)
    assert.match(error.message, text)
    return true
  }
}

/** Counts an organization's businesses on every shard. */
async function countBusinesses(organizationId: string): Promise<Record<string, number>> {
  const counts = NAMES.map(async (name) => {
    const sql = shards.sqlOf(organizationOn(name))
    const [row] = await sql`
      select count(*)::int as count from business_api.businesses where organization_id = ${organizationId}`
    return [name, row?.count] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

test('a sharded store only writes an organization on its shard', async () => {
  const platform = createPlatform(store)
  for (const [organization, name] of [
    [ofA, 'a'],
    [ofB, 'b'],
    [ofC, 'c'],
  ] as const) {
    await platform.clients.create(organization, { name: 'Atlas' })
    assert.deepEqual(await countBusinesses(organization), { a: 0, b: 0, c: 0, [name]: 1 })
    assert.equal((await platform.clients.list(organization)).data.length, 1)
  }
})

test('the first start writes the same map on all shards, each with its own name', async () => {
  await store.shardOf(ofA)
  await Promise.all(store.shards.map(({ store: own }) => own.apiKeys.list(ofA).catch(() => {})))
  const places = await Promise.all(store.shards.map(({ store: own }) => own.shardPlace()))
  assert.deepEqual(
    places.map((place) => place?.name),
    ['a', 'b', 'c'],
  )
  assert.deepEqual(
    places.map((place) => [place?.version, new Set(place?.slots).size, place?.slots.length]),
    [
      [1, 3, 1024],
      [1, 3, 1024],
      [1, 3, 1024],
    ],
  )
  assert.deepEqual(places[0]?.slots, places[1]?.slots)
  assert.deepEqual(places[0]?.slots, places[2]?.slots)
})

test('many concurrent first starts agree on the map', async (t) => {
  const fresh = await createTestShards()
  t.after(() => fresh.drop())
  const stores = Array.from({ length: 4 }, () => fresh.open())
  t.after(() => Promise.all(stores.map((each) => each.close())))
  const found = await Promise.all(stores.map((each) => each.shardOf(ofB)))
  assert.deepEqual(
    found.map(({ name }) => name),
    ['b', 'b', 'b', 'b'],
  )
})

/**
 * Opens new databases with an incomplete first start, given as the versions of the places in the order of the names.
 * `null` means no place.
 */
async function begunWith(
  t: { after(end: () => unknown): void },
  versions: readonly (number | null)[],
): Promise<ShardedStore> {
  const fresh = await createTestShards()
  t.after(() => fresh.drop())
  const slots = (await store.shards[0]?.store.shardPlace())?.slots ?? []
  for (const [index, version] of versions.entries()) {
    if (version === null) continue
    const own = createPostgresStore(fresh.databases[index]?.url ?? '')
    for (let each = 0; each <= version; each++) {
      await own.shardPlace({ name: NAMES[index] ?? '', version: each, slots })
    }
    await own.close()
  }
  const opened = fresh.open()
  t.after(() => opened.close())
  return opened
}

test("a database without a place, next to shards with an active map, is rejected with what to do and isn't changed", async (t) => {
  for (const versions of [
    [1, 1, null],
    [null, 1, 1],
    [1, 0, null],
  ]) {
    const opened = await begunWith(t, versions)
    const blank = versions.indexOf(null)
    const code = isCode(
      WRONG_SHARD,
      /^Cannot use shard '[ac]' because its database has no data of the installation.* restore that database$/,
    )
    await assert.rejects(opened.apiKeys.list(blank === 0 ? ofA : ofC), code)
    await assert.rejects(opened.deliveries.countQueue(null), code)
    assert.equal(versions[1] === 1 && (await opened.apiKeys.list(ofB)).length, versions[1] === 1 && 0)
    const places = await Promise.all(opened.shards.map(({ store: own }) => own.shardPlace()))
    assert.deepEqual(
      places.map((place) => place?.version ?? null),
      versions,
    )
  }
})

test('a first start that was interrupted at any point is completed by the next one', async (t) => {
  for (const versions of [
    [0, null, null],
    [0, 0, null],
    [0, 0, 0],
    [1, 0, 0],
    [1, 1, 0],
  ]) {
    const opened = await begunWith(t, versions)
    for (const organization of [ofC, ofA, ofB]) assert.deepEqual(await opened.apiKeys.list(organization), [])
    const places = await Promise.all(opened.shards.map(({ store: own }) => own.shardPlace()))
    assert.deepEqual(
      places.map((place) => [place?.name, place?.version]),
      NAMES.map((name) => [name, 1]),
    )
  }
})

test("the order of the names doesn't matter", async (t) => {
  const reversed = openNamed(t, { c: urlOf('c'), b: urlOf('b'), a: urlOf('a') })
  for (const organization of [ofA, ofB, ofC]) {
    const { name } = await reversed.shardOf(organization)
    assert.equal(name, shardNameOf(organization))
  }
})

test("a shard that hasn't been added yet can be used with the others, gets no organizations, and isn't written to", async (t) => {
  await store.shardOf(ofA)
  const spare = await createTestDatabase()
  t.after(() => spare.drop())
  const opened = openNamed(t, { a: urlOf('a'), b: urlOf('b'), c: urlOf('c'), d: spare.url })
  for (const organization of [ofA, ofB, ofC])
    assert.equal((await opened.shardOf(organization)).name, shardNameOf(organization))
  assert.equal((await opened.apiKeys.identify([UNKNOWN_KEY.digest])).size, 0)
  assert.equal(await opened.shards[3]?.store.shardPlace(), null)
})

/** Opens a store whose shards' places are read and written after `before`, and then given to `after`. */
function openSlowly(
  t: { after(end: () => unknown): void },
  urls: Readonly<Record<string, string>>,
  before: (name: string, version: number | undefined) => Promise<unknown>,
  after: (name: string, version: number | undefined) => void,
): ShardedStore {
  const stores = Object.entries(urls).map(([name, url]) => {
    const own = createPostgresStore(url)
    const shardPlace: typeof own.shardPlace = async (first, ...rest) => {
      await before(name, first?.version)
      const place = await own.shardPlace(first, ...rest)
      after(name, first?.version)
      return place
    }
    return [name, { ...own, shardPlace }] as const
  })
  const opened = createShardedStore({ shards: Object.fromEntries(stores) })
  t.after(() => opened.close())
  return opened
}

test("a database of another installation isn't added, and rejected beside the shards", async (t) => {
  await store.shardOf(ofA)
  const other = await createTestDatabase()
  t.after(() => other.drop())
  const alone = openNamed(t, { d: other.url })
  await alone.shardOf('')
  const urls = { a: urlOf('a'), b: urlOf('b'), c: urlOf('c'), d: other.url }
  const text = /their maps have different slots: give connection strings of one installation/
  await assert.rejects(addShard(openNamed(t, urls).shards, 'd'), isCode(WRONG_SHARD, text))

  await assert.rejects(openNamed(t, urls).deliveries.countQueue(null), isCode(WRONG_SHARD, text))
  let isFirst = true
  const opened = openSlowly(
    t,
    urls,
    (name) => until('shard d has responded', () => name === 'd' || !isFirst),
    () => {
      isFirst = false
    },
  )
  const organization = organizationOn('a', 4)
  const creation = createPlatform(opened).clients.create(organization, { name: 'Atlas' })
  await assert.rejects(creation, isCode(WRONG_SHARD, text))
  assert.deepEqual((await createPlatform(alone).clients.list(organization)).data, [])
})

test('of two first starts with different shards at the same time, one is rejected, and the map is the same on all shards', async (t) => {
  const [fresh, added] = await Promise.all([createTestShards(), createTestDatabase()])
  t.after(() => Promise.all([fresh.drop(), added.drop()]))
  const [a = '', b = '', c = ''] = fresh.databases.map(({ url }) => url)
  const written = new Set<string>()
  let [waiting, isLargerOver] = [0, false]
  // The larger one reads first. Then the smaller one writes its map everywhere but activates it on the first shard only.
  const smaller = openSlowly(
    t,
    { a, b, c },
    (name, version) =>
      until(
        'the larger start',
        () => version === undefined || (name === 'b' && version === 1 ? isLargerOver : waiting === 4),
      ),
    (name, version) => written.add(`${name} ${version}`),
  )
  const larger = openSlowly(
    t,
    { a, b, c, d: added.url },
    (_, version) => {
      if (version === 0) waiting++
      return until('the smaller start', () => version === undefined || written.has('a 1'))
    },
    () => {},
  )
  const begun = Promise.allSettled([smaller.shardOf(ofA)])
  const rejected = larger.shardOf(ofA).finally(() => {
    isLargerOver = true
  })
  await assert.rejects(rejected, isCode(WRONG_SHARD, /the same shards to every process/))
  assert.deepEqual(
    (await begun).map(({ status }) => status),
    ['fulfilled'],
  )
  for (const opened of [smaller, larger]) assert.equal((await opened.shardOf(ofC)).name, 'c')
  const places = await Promise.all(larger.shards.map(({ store: own }) => own.shardPlace()))
  const slots = places[0]?.slots
  assert.deepEqual(
    places.map((place) => place?.slots),
    [slots, slots, slots, undefined],
  )
})

test('shards with other names than the stored ones are rejected with what to do', async (t) => {
  await store.shardOf(ofA)
  const wrong = {
    missing: { a: urlOf('a'), b: urlOf('b') },
    renamed: { a: urlOf('a'), b: urlOf('b'), d: urlOf('c') },
  }
  for (const [what, urls] of Object.entries(wrong)) {
    const opened = openNamed(t, urls)
    const { apiKeys } = createDeveloperSettings(opened)
    for (const organization of [ofA, ofB, ofC]) {
      await assert.rejects(
        apiKeys.list(organization),
        isCode(
          WRONG_SHARD,
          /the shards 'a', 'b', 'c': give every shard of the installation under its own name/,
        ),
        what,
      )
    }
  }
})

test('databases whose names were swapped are rejected', async (t) => {
  await Promise.all([ofA, ofB, ofC].map((organization) => store.apiKeys.list(organization)))
  const swapped = openNamed(t, { a: urlOf('b'), b: urlOf('a'), c: urlOf('c') })
  await assert.rejects(
    swapped.apiKeys.list(ofA),
    isCode(WRONG_SHARD, /shard 'a' because its database is shard 'b'/),
  )
  assert.deepEqual(await swapped.apiKeys.list(ofC), [])
})

test('anything but stores by name is rejected immediately, without showing a connection string', () => {
  const url = 'postgres://app:s3cret@one/app'
  const [{ store: own }] = store.shards as [ShardedStore['shards'][number]]
  const odd = [undefined, null, url, [url], { a: url }, { a: null }, { a: {} }, { a: store }, { [url]: own }]
  for (const given of odd) {
    assert.throws(() => createShardedStore({ shards: given as never }), {
      name: 'TypeError',
      message: /^Option 'shards' must be 1 to 1024 stores of createPostgresStore\(\) (?!.*s3cret)/,
    })
  }
})

test('invalid names are rejected immediately', () => {
  assert.throws(() => createShardedStore({ shards: {} }), {
    name: 'TypeError',
    message: /current names are none$/,
  })
  for (const name of ['A', 'a b', 'a=b', '-a', 'x'.repeat(64)]) {
    assert.throws(
      () => createShardedStore({ shards: { [name]: store.shards[0]?.store as PostgresStore } }),
      /Option 'shards' must be/,
    )
  }
})

// --- A shard's store ---

test('a shard’s store rejects organizations of other shards and writes nothing', async () => {
  const { name, store: own } = await store.shardOf(ofA)
  assert.equal(name, 'a')
  const platform = createPlatform(own)
  await assert.rejects(
    platform.clients.create(ofB, { name: 'Wrong' }),
    isCode(
      WRONG_SHARD,
      /Cannot use shard 'a' because organization .* belongs to shard 'b'; nothing was written/,
    ),
  )
  await assert.rejects(platform.invoices.markOverdue(ofB), isCode(WRONG_SHARD, /belongs to shard 'b'/))
  await assert.rejects(own.deliveries.list(ofB, {}, 10, null), isCode(WRONG_SHARD, /belongs to shard 'b'/))
  assert.equal((await countBusinesses(ofB)).a, 0)
})

test('using(tx) writes in the host’s transaction on the shard', async () => {
  const organization = organizationOn('b', 1)
  const { store: own } = await store.shardOf(organization)
  const sql = shards.sqlOf(organization)
  await sql.begin((tx) => createPlatform(own).using(tx).clients.create(organization, { name: 'Kept' }))
  const undone = sql.begin(async (tx) => {
    await createPlatform(own).using(tx).clients.create(organization, { name: 'Undone' })
    throw new Error('undo')
  })
  await assert.rejects(undone, /undo/)
  assert.deepEqual(await countBusinesses(organization), { a: 0, b: 1, c: 0 })
})

test('using(tx) rejects an organization of another shard, and a transaction on another shard', async () => {
  const organization = organizationOn('b', 2)
  const { store: own } = await store.shardOf(organization)
  const wrongOrganization = shards
    .sqlOf(organization)
    .begin((tx) => createPlatform(own).using(tx).clients.create(ofC, { name: 'Wrong' }))
  await assert.rejects(wrongOrganization, isCode(WRONG_SHARD, /belongs to shard 'c'/))
  const wrongServer = shards
    .sqlOf(ofA)
    .begin((tx) => createPlatform(own).using(tx).clients.create(organization, { name: 'Wrong' }))
  await assert.rejects(
    wrongServer,
    isCode(WRONG_SHARD, /the transaction is on shard 'a'; nothing was written/),
  )
  assert.deepEqual(await countBusinesses(organization), { a: 0, b: 0, c: 0 })
})

// --- Calls for several shards ---

test('admit() without a hint finds the shard of the key', async () => {
  const keys = await Promise.all(
    [ofA, ofB, ofC].map(async (organizationId) => {
      const key = newKey()
      const entry = {
        id: `aud_${key.id.slice(4)}`,
        actor: null,
        action: 'api_key.created' as const,
        subjectId: key.id,
        details: {},
      }
      await store.apiKeys.insert({ organizationId, key, limit: 100, entry })
      return { organizationId, key }
    }),
  )
  for (const { organizationId, key } of keys) {
    const admission = await store.apiKeys.admit(requestOf(key))
    assert.ok(admission.outcome === 'admitted')
    assert.equal(admission.caller.organizationId, organizationId)
    const { admission: listing } = await store.clients.admitAndList(requestOf(key), { limit: 10 })
    assert.equal(listing.outcome, 'admitted')
  }
  assert.deepEqual(await store.apiKeys.admit(requestOf(UNKNOWN_KEY)), { outcome: 'unauthenticated' })
  const { admission, page } = await store.clients.admitAndList(requestOf(UNKNOWN_KEY), { limit: 10 })
  assert.deepEqual([admission.outcome, page], ['unauthenticated', null])
})

test('an import asks all shards for the digest, even during another import, and writes nothing while one is down', async (t) => {
  const importing = { importedKeys: { pattern: /^old_/ } }
  const settings = createDeveloperSettings(named(store, importing))
  const given = (digest: string) =>
    ({ digest, prefix: 'old_', lastFour: '7f3a', name: 'Old', scopes: ['clients:read'] }) as const
  const exists = isCode('already_exists', /because a key with its id or digest already exists$/)
  const first = newKey().digest
  await settings.apiKeys.import(ofA, given(first))
  for (const organization of [ofA, ofB, ofC])
    await assert.rejects(settings.apiKeys.import(organization, given(first)), exists)
  const { key } = await settings.apiKeys.create(ofB, { name: 'Made here', scopes: ['clients:read'] })
  await assert.rejects(settings.apiKeys.import(ofC, given(digestApiKey(key))), exists)

  const raced = given(newKey().digest)
  const results = await Promise.allSettled([ofA, ofB, ofC].map((org) => settings.apiKeys.import(org, raced)))
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)

  const withoutC = openNamed(t, { a: urlOf('a'), b: urlOf('b'), c: 'postgres://127.0.0.1:1/none' })
  const { apiKeys } = createDeveloperSettings(named(withoutC, importing))
  const before = await apiKeys.list(ofA)
  await assert.rejects(apiKeys.import(ofA, given(newKey().digest)), isCode(STORE_UNAVAILABLE, /Shard 'c'/))
  assert.deepEqual(await apiKeys.list(ofA), before)
})

test('the methods of a delivery loop belong to one shard', async () => {
  await assert.rejects(store.deliveries.release([]), /create a loop for each of the store's 'shards'/)
  await assert.rejects(
    store.deliveries.continuePurge({ eventsAfterMs: 1, limit: 1, share: 1 }),
    /create a loop for each/,
  )
  assert.throws(() => store.deliveries.watch(() => {}), /create a loop for each/)
})

test('a loop with the name of its installation delivers on every shard', async (t) => {
  const sender = createWebhookSender({ allowPrivateNetworks: true })
  const fresh = await createTestShards()
  t.after(() => fresh.drop())
  const opened = fresh.open()
  t.after(() => Promise.all([opened.close(), sender.close()]))
  for (const installation of ['production', undefined, 'staging']) {
    for (const { name, store: own } of opened.shards) {
      const loop = createDeliveryLoop(own, sender, { installation })
      if (installation === 'production') {
        assert.deepEqual(await loop.runOnce(), { delivered: 0, retried: 0, failed: 0 }, name)
        assert.equal((await own.installation.check(null)).name, 'production')
      } else await assert.rejects(loop.runOnce(), /belongs to the installation 'production'/, name)
    }
  }
  assert.equal('installation' in opened, false)
})

test("the name of an installation isn't written to a database that belongs to another shard", async (t) => {
  await Promise.all([ofA, ofB].map((organization) => store.apiKeys.list(organization)))
  const swapped = openNamed(t, { a: urlOf('b'), b: urlOf('a'), c: urlOf('c') })
  const [first] = swapped.shards
  await assert.rejects(
    async () => first?.store.installation.adopt('other'),
    isCode(WRONG_SHARD, /is shard 'b'/),
  )
  const entry = { id: 'aud_1', actor: 'olga', action: 'delivery.cancelled' } as const
  await assert.rejects(
    async () => first?.store.installation.cancelPending(entry)[Symbol.asyncIterator]().next(),
    isCode(WRONG_SHARD, /is shard 'b'/),
  )
  assert.equal((await store.shards[1]?.store.installation.check(null))?.name, null)
})

test('countQueue(null) and listSealed() query all shards', async () => {
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  const organizations = NAMES.map((name) => organizationOn(name, 3))
  for (const organization of organizations) {
    await settings.endpoints.register(organization, { url: 'https://127.0.0.1:8443/' })
    await createPlatform(store).clients.create(organization, { name: 'Atlas' })
  }
  const { due, isPartial } = await store.deliveries.countQueue(null)
  assert.deepEqual([due, isPartial], [6, undefined])
  const sealed = await store.endpoints.listSealed(10, null)
  assert.deepEqual(
    sealed.map(({ organizationId }) => organizationId),
    organizations.toSorted(),
  )
  assert.equal((await store.endpoints.listSealed(2, null)).length, 2)
})

test('a shard that is down only fails the calls that need it, with its name', async (t) => {
  await Promise.all([ofA, ofB, ofC].map((organization) => store.apiKeys.list(organization)))
  const gone = new URL(urlOf('c'))
  gone.port = '1'
  const partial = openNamed(t, { a: urlOf('a'), b: urlOf('b'), c: gone.href })
  assert.ok(Array.isArray(await partial.apiKeys.list(ofA)))
  assert.ok(Array.isArray(await partial.apiKeys.list(ofB)))
  await assert.rejects(partial.apiKeys.list(ofC), isCode(STORE_UNAVAILABLE, /^Shard 'c': /))
  assert.equal((await partial.deliveries.countQueue(null)).isPartial, true)
  await assert.rejects(partial.endpoints.listSealed(10, null), isCode(STORE_UNAVAILABLE, /^Shard 'c': /))
  await assert.rejects(
    partial.apiKeys.identify([UNKNOWN_KEY.digest]),
    isCode(STORE_UNAVAILABLE, /^Shard 'c': /),
  )
})

test('a shard that was migrated by a newer release can be used with the others', async (t) => {
  const sql = shards.sqlOf(ofB)
  await sql`insert into business_api.migrations (id, name, breaking) values (9999, '9999-to-come.sql', false)`
  t.after(() => sql`delete from business_api.migrations where id = 9999`)
  const opened = shards.open()
  t.after(() => opened.close())
  const platform = createPlatform(opened)
  for (const organization of [ofA, ofB, ofC]) {
    const { id } = await platform.clients.create(organization, { name: 'Mixed' })
    assert.equal((await platform.clients.list(organization)).data[0]?.id, id)
  }
  assert.equal((await opened.deliveries.countQueue(null)).isPartial, undefined)
})

test('listSealed() sorts organizations like PostgreSQL, so a walk in parts misses none', async () => {
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  // UTF-16 sorts these in the opposite order.
  const organizations = ['zz_\ufb00', 'zz_\u{10400}']
  for (const organization of organizations) {
    await settings.endpoints.register(organization, { url: 'https://127.0.0.1:8443/' })
  }
  const [first] = await store.endpoints.listSealed(1, { organizationId: 'zz_', endpointId: '' })
  const [second] = await store.endpoints.listSealed(1, first ?? null)
  assert.deepEqual([first?.organizationId, second?.organizationId], organizations)
})

test("a new installation doesn't start while a shard is down", async (t) => {
  const fresh = await createTestShards()
  t.after(() => fresh.drop())
  const [a, b, c] = fresh.databases.map(({ url }) => url)
  const gone = new URL(c ?? '')
  gone.port = '1'
  const partial = openNamed(t, { a: a ?? '', b: b ?? '', c: gone.href })
  await assert.rejects(partial.apiKeys.list(ofA), isCode(STORE_UNAVAILABLE, /^Shard 'c': /))
  const whole = fresh.open()
  t.after(() => whole.close())
  assert.deepEqual(await whole.apiKeys.list(ofA), [])
})

test("a request rejected by one shard isn't counted as running on any shard", async () => {
  const stores = NAMES.map((name) => createPostgresStore(urlOf(name)))
  const [a, b, c] = stores as [PostgresStore, PostgresStore, PostgresStore]
  const partial = createShardedStore({ shards: { a, b, c } })
  await c.close()
  assert.throws(() => partial.beginRequest?.(), isCode(STORE_UNAVAILABLE, /being closed/))
  const begunAt = performance.now()
  await partial.close({ timeoutMs: 5000 })
  assert.ok(performance.now() - begunAt < 2500, 'waits for a request that was refused')
})

test('closing a sharded store closes it on all shards', async () => {
  const closed = shards.open()
  const end = closed.beginRequest?.()
  await closed.apiKeys.list(ofA)
  const closing = closed.close({ timeoutMs: 200 })
  assert.throws(() => closed.beginRequest?.(), isCode(STORE_UNAVAILABLE, /being closed/))
  end?.()
  await closing
  await assert.rejects(closed.apiKeys.list(ofA), isCode(STORE_UNAVAILABLE, /Shard 'a'/))
})
