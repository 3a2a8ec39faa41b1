import assert from 'node:assert/strict'
import { test } from 'node:test'
import { STORE_UNAVAILABLE } from '../../lib/base/errors.ts'
import { createTurns, type Turns } from '../../lib/postgres/connection/turns.ts'

const LONG_MS = 60_000

/** Requests a turn for each share. Returns the shares that have had a turn, in order. */
async function take(turns: Turns, ...shares: readonly string[]): Promise<string[]> {
  const begun: string[] = []
  for (const share of shares) {
    turns.take(share, LONG_MS).then(
      () => begun.push(share),
      () => {},
    )
  }
  await settled()
  return begun
}

function settled(): Promise<void> {
  return new Promise(setImmediate)
}

test('one organization can use up to half of the connections', async (t) => {
  const turns = createTurns(10, 100)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  assert.equal((await take(turns, ...'aaaaaaaa')).length, 5)
})

test('a quarter of the connections is reserved for organizations without a connection', async (t) => {
  const turns = createTurns(10, 100)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  assert.deepEqual(await take(turns, ...'aaaaabbbbbcdef'), [...'aaaaabbcde'])
})

test('with fewer than four connections, a single organization can use all of them', async (t) => {
  const turns = createTurns(3, 100)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  assert.deepEqual(await take(turns, ...'aaaab'), [...'aaa'])
})

test('waiting statements are served round-robin by organization', async (t) => {
  const turns = createTurns(1, 100)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  const begun = await take(turns, ...'aaaabbcd')
  for (let ended = 0; ended < 7; ended++) {
    turns.end(begun.at(-1) ?? '')
    await settled()
  }
  assert.deepEqual(begun, [...'aabcdaba'].slice(0, 8))
})

test("an organization whose statements wait for a lock doesn't get more when other statements end", async (t) => {
  const turns = createTurns(4, 100)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  assert.deepEqual(await take(turns, ...'aaaab'), [...'aab'])
  turns.end('b')
  assert.deepEqual(await take(turns, 'b', 'c'), ['b', 'c'])
})

test('take() gives up after timeoutMs and frees its place', async (t) => {
  const turns = createTurns(1, 2)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  await take(turns, 'a')
  assert.equal(await turns.take('b', 10), false)
  assert.equal(await turns.take('b', 10), false)
  turns.end('a')
  assert.equal(await turns.take('a', 10), true)
})

test('take() rejects one statement more than may wait', async (t) => {
  const turns = createTurns(1, 3)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  await take(turns, 'a', 'a', 'a')
  await assert.rejects(turns.take('a', LONG_MS), { code: STORE_UNAVAILABLE })
})

test('when no more may wait, the organization with the most gives a place to one with fewer', async (t) => {
  const turns = createTurns(1, 5)
  t.after(() => turns.rejectWaiting(new Error('The test has ended')))
  await take(turns, 'a')
  const oldest = turns.take('a', LONG_MS)
  await take(turns, 'a', 'a', 'a')
  void take(turns, 'b')
  await assert.rejects(oldest, { code: STORE_UNAVAILABLE })
  // Three statements of a and one of b are waiting. a gives up a place, so both have two.
  void take(turns, 'b')
  await settled()
  await assert.rejects(turns.take('b', LONG_MS), { code: STORE_UNAVAILABLE })
  await assert.rejects(turns.take('a', LONG_MS), { code: STORE_UNAVAILABLE })
})

test('rejectWaiting() rejects all waiting requests, and later requests can wait again', async () => {
  const turns = createTurns(1, 10)
  await take(turns, 'a')
  const waiting = [turns.take('a', LONG_MS), turns.take('b', LONG_MS)]
  const failure = new Error('No connection')
  turns.rejectWaiting(failure)
  for (const { reason } of (await Promise.allSettled(waiting)) as PromiseRejectedResult[]) {
    assert.equal(reason, failure)
  }
  const later = turns.take('b', LONG_MS)
  turns.end('a')
  assert.equal(await later, true)
})

test('use() counts the connections in use and the statements that are waiting, were rejected or timed out', async () => {
  const turns = createTurns(2, 4)
  assert.deepEqual(turns.use(), { max: 2, inUse: 0, waiting: 0, refused: 0, timedOut: 0 })
  await take(turns, ...'aa')
  assert.equal(await turns.take('b', 5), false)
  const displaced = [turns.take('a', LONG_MS), turns.take('a', LONG_MS)]
  await assert.rejects(turns.take('a', LONG_MS), { code: STORE_UNAVAILABLE })
  assert.deepEqual(turns.use(), { max: 2, inUse: 2, waiting: 2, refused: 1, timedOut: 1 })
  turns.end('a')
  turns.rejectWaiting(new Error('The test has ended'))
  await Promise.allSettled(displaced)
  assert.deepEqual(turns.use(), { max: 2, inUse: 2, waiting: 0, refused: 1, timedOut: 1 })
})
