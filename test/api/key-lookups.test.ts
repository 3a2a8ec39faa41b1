import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createKeyLookups } from '../../lib/api/key-lookups.ts'
import { STORE_UNAVAILABLE } from '../../lib/base/errors.ts'

const WAITING_MAX = 5000
const REMEMBERED_MAX = 10_000

/** Look-ups in a store that holds back every answer until `release`. */
function createHeldLookups() {
  let release = (): void => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const lookups = createKeyLookups({
    async identify() {
      await held
      return new Map()
    },
  })
  /** A look-up is under way, and as many digests wait as may. */
  const waiting = Promise.allSettled(
    Array.from({ length: WAITING_MAX + 1 }, (_, index) => lookups.find(`${index}`, 'peer')),
  )
  return { lookups, waiting, release }
}

test('find() refuses one look-up more than may wait', async () => {
  const { lookups, waiting, release } = createHeldLookups()
  await assert.rejects(lookups.find('more', 'peer'), { code: STORE_UNAVAILABLE })
  release()
  assert.ok((await waiting).every(({ status }) => status === 'fulfilled'))
})

test('when no more may wait, a place goes from the peer with most to one with fewer', async () => {
  const { lookups, waiting, release } = createHeldLookups()
  const other = lookups.find('other', 'other peer')
  release()
  assert.equal(await other, null)
  const refused = (await waiting).filter(({ status }) => status === 'rejected')
  assert.equal(refused.length, 1)
})

test('a single look-up finds all waiting digests, each peer in its turn', async () => {
  const asked: (readonly string[])[] = []
  const lookups = createKeyLookups({
    async identify(digests) {
      asked.push(digests)
      return new Map([['valid', 'org']])
    },
  })
  const invented = Array.from({ length: 1500 }, (_, index) => lookups.find(`${index}`, 'peer'))
  assert.equal(await lookups.find('valid', 'other peer'), 'org')
  assert.deepEqual(
    asked.map(({ length }) => length),
    [1, 1000],
  )
  assert.deepEqual(new Set(await Promise.all(invented)), new Set([null]))
  assert.equal(asked.length, 3)
  assert.equal(lookups.remembered('valid'), 'org')
})

test('find() asks once for a digest that several requests wait for, and fails with the store', async () => {
  const asked: (readonly string[])[] = []
  const failure = new Error('The store is broken')
  const lookups = createKeyLookups({
    async identify(digests) {
      asked.push(digests)
      throw failure
    },
  })
  for (const find of ['first', 'same', 'same', 'same'].map((digest) => lookups.find(digest, 'peer'))) {
    await assert.rejects(find, failure)
  }
  assert.deepEqual(asked, [['first'], ['same']])
})

test('remembered() holds a bounded number of keys, and forgets the least recently used key', async () => {
  const lookups = createKeyLookups({
    identify: async (digests) => new Map(digests.map((digest) => [digest, 'org'])),
  })
  for (let index = 0; index < REMEMBERED_MAX; index++) await lookups.find(`${index}`, 'peer')
  assert.equal(lookups.remembered('0'), 'org')
  await lookups.find('one more', 'peer')
  assert.equal(lookups.remembered('0'), 'org')
  assert.equal(lookups.remembered('1'), undefined)
  lookups.forget('0')
  assert.equal(lookups.remembered('0'), undefined)
})

test('a look-up that the store never answers is given up, and the next look-up is made', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let asked = 0
  const lookups = createKeyLookups({
    identify: () => (asked++ === 0 ? new Promise(() => {}) : Promise.resolve(new Map([['next', 'org']]))),
  })
  const unanswered = lookups.find('first', 'peer')
  const next = lookups.find('next', 'peer')
  t.mock.timers.tick(5000)
  await assert.rejects(unanswered, { code: STORE_UNAVAILABLE })
  // The pause after a failure begins in this turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve))
  t.mock.timers.tick(5000)
  assert.equal(await next, 'org')
})
