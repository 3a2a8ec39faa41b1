import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../lib/base/errors.ts'
import type { Database, StatementWait, TextRow } from '../../lib/postgres/connection/database.ts'
import type { Share } from '../../lib/postgres/connection/turns.ts'
import { createNodes, type Nodes } from '../../lib/postgres/distributed/nodes.ts'

// What the loops do beside a node that is silent, slow or away, on statements that the test answers, with a clock that the test moves.
// citus-nodes.test.ts does the same with real nodes.

/** A statement that was sent. */
interface Sent {
  readonly share: Share | null
  readonly wait: StatementWait | undefined
  answer(): void
  fail(error: Error): void
}

const STEP_MS = 100

describe('createNodes()', () => {
  let now = 0
  /** The statements and the pings that were sent, in order. */
  let statements: Sent[]
  let pings: Sent[]
  let nodes: Nodes

  beforeEach(() => {
    now = 1_000_000
    mock.method(performance, 'now', () => now)
    mock.timers.enable({ apis: ['setTimeout'] })
    statements = []
    pings = []
    const database: Pick<Database, 'rowFor'> = {
      rowFor: (share, build, wait) =>
        new Promise<TextRow>((resolve, fail) => {
          build((() => '') as never, '' as never)
          const sent = { share, wait, answer: () => resolve(['']), fail }
          if (typeof share === 'symbol') pings.push(sent)
          else statements.push(sent)
        }),
    }
    nodes = createNodes(database as Database)
  })
  afterEach(() => {
    mock.timers.reset()
    mock.restoreAll()
  })

  async function pass(ms: number): Promise<void> {
    await settleDown()
    // A timer may set another one, from the time that it finds.
    for (let left = ms; left > 0; left -= STEP_MS) {
      now += Math.min(left, STEP_MS)
      mock.timers.tick(Math.min(left, STEP_MS))
      await settleDown()
    }
  }

  /** Sends a statement, and tells what became of it. */
  function send(node = 'a'): { outcome: string } {
    const told = { outcome: 'pending' }
    nodes
      .send({ node, organizationId: `org_${node}` }, () => '' as never)
      .then(
        () => {
          told.outcome = 'answered'
        },
        (error) => {
          told.outcome = error.code
        },
      )
    return told
  }

  async function sendAll(count: number, node = 'a'): Promise<readonly { outcome: string }[]> {
    const told = Array.from({ length: count }, () => send(node))
    await settleDown()
    return told
  }

  const outcomes = (told: readonly { outcome: string }[]): string[] => told.map(({ outcome }) => outcome)

  test('a statement that must not be sent again is passed on as such', async () => {
    void nodes.send({ node: 'a', organizationId: 'org_a' }, () => '' as never, { isOnce: true })
    await sendAll(1)
    assert.deepEqual(
      statements.map(({ wait }) => wait?.isOnce),
      [true, undefined],
    )
  })

  test('a node gets three statements at a time, in order, and another node is not held up', async () => {
    const told = await sendAll(5)
    await sendAll(1, 'b')
    assert.equal(statements.length, 4)
    statements[1]?.answer()
    await settleDown()
    assert.deepEqual(outcomes(told), ['pending', 'answered', 'pending', 'pending', 'pending'])
    assert.equal(statements.length, 5)
    for (const at of [0, 2, 4]) statements[at]?.answer()
    await settleDown()
    statements[5]?.answer()
    await settleDown()
    assert.deepEqual(outcomes(told), Array(5).fill('answered'))
  })

  test('a node that answers no ping is silent: every caller gives up, and nothing is sent until a ping is answered', async () => {
    const told = await sendAll(5)
    await pass(499)
    assert.equal(pings.length, 0)
    await pass(1)
    assert.equal(pings.length, 1)
    await pass(499)
    assert.deepEqual([outcomes(told), nodes.isSilent('a')], [Array(5).fill('pending'), false])
    await pass(1)
    assert.deepEqual([outcomes(told), nodes.isSilent('a')], [Array(5).fill('store_unavailable'), true])
    const [later] = await sendAll(1)
    assert.deepEqual([later?.outcome, statements.length, pings.length], ['store_unavailable', 3, 1])
    // The store ends the statements and the ping.
    for (const { fail } of statements) fail(storeUnavailable('No answer'))
    await pass(4000)
    pings[0]?.fail(storeUnavailable('No answer'))
    await settleDown()
    const [again] = await sendAll(1)
    assert.deepEqual([again?.outcome, statements.length, pings.length], ['store_unavailable', 3, 2])
    pings[1]?.answer()
    await settleDown()
    const back = await sendAll(3)
    assert.equal(statements.length, 6)
    for (const { answer } of statements) answer()
    await settleDown()
    assert.deepEqual(outcomes(back), Array(3).fill('answered'))
  })

  test('a statement without an answer does not make a node silent that answers the ping', async () => {
    const [slow] = await sendAll(1)
    await pass(500)
    pings[0]?.answer()
    await pass(10_000)
    assert.deepEqual([slow?.outcome, nodes.isSilent('a'), pings.length], ['pending', false, 1])
    const [other] = await sendAll(1)
    statements[1]?.answer()
    await settleDown()
    assert.equal(other?.outcome, 'answered')
  })

  test('a node that answers the ping late is slow: statements and pings get five seconds, until one is quick', async () => {
    await sendAll(1)
    await pass(1000)
    statements[0]?.fail(storeUnavailable('No answer'))
    await pass(1000)
    pings[0]?.answer()
    await settleDown()
    assert.equal(nodes.isSilent('a'), false)
    await sendAll(1)
    assert.deepEqual([statements[0]?.wait?.answerMs, statements[1]?.wait?.answerMs], [1000, 5000])
    await pass(500)
    await pass(3000)
    assert.deepEqual([pings.length, nodes.isSilent('a')], [2, false])
    pings[1]?.answer()
    statements[1]?.answer()
    await settleDown()
    await sendAll(1)
    assert.equal(statements[2]?.wait?.answerMs, 5000)
    statements[2]?.answer()
    await settleDown()
    await sendAll(1)
    assert.equal(statements[3]?.wait?.answerMs, 1000)
  })

  test('a node that answers pings too late to be well, and too early for a second, is slow as well', async () => {
    await sendAll(1)
    await pass(500)
    await pass(700)
    assert.equal(nodes.isSilent('a'), true)
    pings[0]?.answer()
    await settleDown()
    await sendAll(1)
    assert.deepEqual([nodes.isSilent('a'), statements[1]?.wait?.answerMs], [false, 5000])
  })

  test('a caller whose statement was not sent does not give up before the statement is sent', async () => {
    let build = (): void => {}
    let sent = 0
    const database: Pick<Database, 'rowFor'> = {
      rowFor: (share, make) =>
        new Promise(() => {
          const send = (): void => void make((() => '') as never, '' as never)
          if (typeof share === 'symbol' || sent === 0) send()
          else build = send
        }),
    }
    nodes = createNodes(database as Database)
    const told = { first: '', second: '' }
    for (const name of ['first', 'second'] as const) {
      const statement = (): never => {
        sent++
        return '' as never
      }
      nodes.send({ node: 'a', organizationId: name }, statement).catch(({ code }) => {
        told[name] = code
      })
      await settleDown()
    }
    await pass(1000)
    assert.deepEqual([told, sent], [{ first: 'store_unavailable', second: '' }, 1])
    build()
    await settleDown()
    assert.deepEqual([told.second, sent], ['store_unavailable', 2])
  })

  test('a ping that is sent with no time left says nothing', async () => {
    await sendAll(1)
    await pass(1000)
    assert.equal(nodes.isSilent('a'), true)
    pings[0]?.fail(storeUnavailable('No answer'))
    await settleDown()
    await sendAll(1)
    pings[1]?.fail(storeUnavailable('No answer in the time that was left'))
    await settleDown()
    assert.equal(nodes.isSilent('a'), true)
    await sendAll(1)
    pings[2]?.fail(storeUnavailable('Refused', Object.assign(new Error('refused'), { code: '08006' })))
    await settleDown()
    assert.equal(nodes.isSilent('a'), false)
  })

  test('a node that is refused fails the waiting statements at once, and is tried again', async () => {
    const told = await sendAll(5)
    const cause = Object.assign(new Error('refused'), { code: '08006' })
    statements[0]?.fail(storeUnavailable('Cannot reach PostgreSQL', cause))
    await settleDown()
    assert.deepEqual(
      [outcomes(told), statements.length],
      [['store_unavailable', 'pending', 'pending', 'store_unavailable', 'store_unavailable'], 3],
    )
    const [next] = await sendAll(1)
    statements[3]?.answer()
    await settleDown()
    assert.deepEqual([next?.outcome, pings.length], ['answered', 0])
  })

  test('a lock that is not free fails no other statement', async () => {
    const told = await sendAll(4)
    const cause = Object.assign(new Error('locked'), { code: '55P03' })
    statements[0]?.fail(storeUnavailable('Cannot carry out a statement', cause))
    await settleDown()
    assert.deepEqual(outcomes(told), ['store_unavailable', 'pending', 'pending', 'pending'])
    assert.equal(statements.length, 4)
  })

  test('a statement waits for the others of its node for five seconds at most, and no turn is lost', async () => {
    const told = await sendAll(4)
    await pass(500)
    pings[0]?.answer()
    await pass(4500)
    assert.deepEqual(outcomes(told), ['pending', 'pending', 'pending', 'store_unavailable'])
    for (const { answer } of statements) answer()
    await settleDown()
    await sendAll(4)
    assert.equal(statements.length, 6)
  })

  test('a slow node whose ping fails late is silent: callers give up without waiting for their own answers', async () => {
    await sendAll(1)
    await pass(1200)
    pings[0]?.answer()
    await settleDown()
    const told = await sendAll(4)
    await pass(500)
    await pass(600)
    assert.deepEqual([outcomes(told), nodes.isSilent('a')], [Array(4).fill('pending'), false])
    pings[1]?.fail(storeUnavailable('No answer'))
    await settleDown()
    assert.deepEqual([outcomes(told), nodes.isSilent('a')], [Array(4).fill('store_unavailable'), true])
  })

  test('a statement that waits for a turn at the connections is no sign of silence', async () => {
    const database: Pick<Database, 'rowFor'> = { rowFor: () => new Promise(() => {}) }
    nodes = createNodes(database as Database)
    const [told] = await sendAll(1)
    await pass(60_000)
    assert.deepEqual([told?.outcome, nodes.isSilent('a')], ['pending', false])
  })
})

async function settleDown(): Promise<void> {
  for (let turns = 0; turns < 5; turns++) await turn()
}
