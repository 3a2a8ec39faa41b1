import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ApiKeyStore } from '../../lib/access/api-keys.ts'
import { createUnknownCallers, type UnknownCallers } from '../../lib/api/unknown-callers.ts'
import { STORE_UNAVAILABLE } from '../../lib/base/errors.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'

const WAITING_MAX = 5000
const REMEMBERED_MAX = 10_000

/** Creates the callers of a store with the given lookup. */
function createCallers(identify: ApiKeyStore['identify'] = async () => new Map(), deadlineMs = 3000) {
  const store = createMemoryStore()
  return createUnknownCallers({ apiKeys: { ...store.apiKeys, identify } }, deadlineMs)
}

/** Creates lookups in a store that delays all results until `release` is called. */
function createHeldLookups() {
  let release = (): void => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const lookups = createCallers(async () => {
    await held
    return new Map()
  })
  /** One lookup is running, and the maximum number of digests is waiting. */
  const waiting = Promise.allSettled(
    Array.from({ length: WAITING_MAX + 1 }, (_, index) => lookups.find(`${index}`, null, 'peer')),
  )
  return { lookups, waiting, release }
}

test('find() rejects one more lookup than can wait', async () => {
  const { lookups, waiting, release } = createHeldLookups()
  await assert.rejects(lookups.find('more', null, 'peer'), { code: STORE_UNAVAILABLE })
  release()
  assert.ok((await waiting).every(({ status }) => status === 'fulfilled'))
})

test('if no more lookups can wait, a place moves from the peer with the most to one with fewer', async () => {
  const { lookups, waiting, release } = createHeldLookups()
  const other = lookups.find('other', null, 'other peer')
  release()
  assert.equal(await other, null)
  const refused = (await waiting).filter(({ status }) => status === 'rejected')
  assert.equal(refused.length, 1)
})

test('a single lookup finds all waiting digests, with peers taking turns', async () => {
  const asked: (readonly string[])[] = []
  const lookups = createCallers(async (digests) => {
    asked.push(digests)
    return new Map([['valid', 'org']])
  })
  const invented = Array.from({ length: 1500 }, (_, index) => lookups.find(`${index}`, null, 'peer'))
  assert.equal(await lookups.find('valid', null, 'other peer'), 'org')
  assert.deepEqual(
    asked.map(({ length }) => length),
    [1, 1000],
  )
  assert.deepEqual(new Set(await Promise.all(invented)), new Set([null]))
  assert.equal(asked.length, 3)
  assert.equal(lookups.organizationOf('valid'), 'org')
})

test('find() looks up a digest once if several requests wait for it, and fails if the store does', async () => {
  const asked: (readonly string[])[] = []
  const failure = new Error('The store is broken')
  const lookups = createCallers(async (digests) => {
    asked.push(digests)
    throw failure
  })
  for (const find of ['first', 'same', 'same', 'same'].map((digest) => lookups.find(digest, null, 'peer'))) {
    await assert.rejects(find, failure)
  }
  assert.deepEqual(asked, [['first'], ['same']])
})

test('organizationOf() keeps a limited number of keys and forgets the least recently used one', async () => {
  const lookups = createCallers(async (digests) => new Map(digests.map((digest) => [digest, 'org'])))
  for (let index = 0; index < REMEMBERED_MAX; index++) await lookups.find(`${index}`, null, 'peer')
  assert.equal(lookups.organizationOf('0'), 'org')
  await lookups.find('one more', null, 'peer')
  assert.equal(lookups.organizationOf('0'), 'org')
  assert.equal(lookups.organizationOf('1'), undefined)
  lookups.forget('0')
  assert.equal(lookups.organizationOf('0'), undefined)
})

test('a lookup times out if the store never responds, and the next one is started', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let asked = 0
  const lookups = createCallers(() =>
    asked++ === 0 ? new Promise(() => {}) : Promise.resolve(new Map([['next', 'org']])),
  )
  const unanswered = lookups.find('first', null, 'peer')
  const next = lookups.find('next', null, 'peer')
  t.mock.timers.tick(5000)
  await assert.rejects(unanswered, { code: STORE_UNAVAILABLE })
  // The pause after a failure starts in this turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
  t.mock.timers.tick(5000)
  assert.equal(await next, 'org')
})

test('a hundred rejections are sent immediately', async ({ mock }) => {
  mock.method(performance, 'now', () => 0)
  mock.timers.enable({ apis: ['setTimeout'] })
  const { awaitRefusal } = createCallers()
  let passed = 0
  for (let index = 0; index < 150; index++) void awaitRefusal('peer').then(() => passed++)
  await nextTurn()
  assert.equal(passed, 100)
})

test('thousands of concurrent rejections are all sent within their share of the deadline, and spaced out', async ({
  mock,
}) => {
  // The test controls the time, so a busy machine makes no difference.
  let now = 0
  mock.method(performance, 'now', () => now)
  mock.timers.enable({ apis: ['setTimeout'] })
  const deadlineMs = 3000
  const { awaitRefusal } = createCallers(undefined, deadlineMs)
  const waits: number[] = []
  for (let index = 0; index < 3000; index++) {
    void awaitRefusal(`peer ${index % 7}`).then(() => waits.push(now / deadlineMs))
  }
  while (waits.length < 3000 && now < deadlineMs) {
    now++
    mock.timers.tick(1)
    await nextTurn()
  }
  assert.equal(waits.length, 3000)
  const last = Math.max(...waits)
  assert.ok(last < 0.75, `the last one waited for ${last.toFixed(2)} of the deadline`)
  const early = waits.filter((wait) => wait < 0.25).length
  assert.ok(early < 2000, `${early} went out in the first quarter`)
})

test('a rejection for another peer is sent in the next ticks, before the crowd', async ({ mock }) => {
  let now = 0
  mock.method(performance, 'now', () => now)
  mock.timers.enable({ apis: ['setTimeout'] })
  const { awaitRefusal } = createCallers()
  let crowd = 0
  for (let index = 0; index < 1100; index++) void awaitRefusal('one').then(() => crowd++)
  let isOut = false
  void awaitRefusal('other').then(() => {
    isOut = true
  })
  while (!isOut && now < 3000) {
    now++
    mock.timers.tick(1)
    await nextTurn()
  }
  assert.ok(isOut && crowd < 150, `${crowd} of the crowd went out before`)
})

/** Sends a number of concurrent requests for a peer, and counts those that have entered. */
function crowd(enter: UnknownCallers['enter'], peer: string, count: number): { in: number } {
  const entered = { in: 0 }
  for (let asked = 0; asked < count; asked++) {
    const wait = enter(() => peer)
    if (wait) void wait.then(() => entered.in++)
    else entered.in++
  }
  return entered
}

test('of a thousand concurrent unknown callers, a few enter in each turn of the event loop', async () => {
  const entered = crowd(createCallers().enter, 'one', 1000)
  assert.ok(entered.in <= 8, `${entered.in} entered at once`)
  for (let turns = 1; turns < 200; turns++) {
    await nextTurn()
    assert.ok(entered.in <= 8 * (turns + 2), `${entered.in} entered in ${turns} turns`)
  }
  assert.equal(entered.in, 1000)
})

test('an unknown caller from another peer enters in the next turns, before the crowd', async () => {
  const { enter } = createCallers()
  const first = crowd(enter, 'one', 1000)
  const second = crowd(enter, 'two', 1)
  for (let turns = 0; turns < 3; turns++) await nextTurn()
  assert.equal(second.in, 1)
  assert.ok(first.in < 40, `${first.in} of the crowd entered`)
})

test('a few unknown callers enter without waiting, turn after turn', async () => {
  const { enter } = createCallers()
  for (let turns = 0; turns < 5; turns++) {
    assert.equal(crowd(enter, 'one', 4).in, 4)
    await nextTurn()
    await nextTurn()
  }
})

test("the host's own pages, with the API mounted in front of them, don't wait for the turn of an unknown caller", async () => {
  let asked = 0
  const peerAddress = (): string => `peer ${asked++}`
  const api = createBusinessApi(createMemoryStore(), { peerAddress, logger: false })
  const get = (path: string): Promise<Response> => api(new Request(`http://localhost${path}`))
  const answers = await Promise.all(Array.from({ length: 100 }, (_, index) => get(`/pages/${index}`)))
  assert.ok(answers.every(({ status }) => status === 404))
  assert.equal(asked, 0)
})
