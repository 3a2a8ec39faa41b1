import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  addEndpoint,
  createTestSender,
  describeOnStores,
  publish,
  type TestSender,
  until,
  withDeliveries,
} from './_loop.ts'

// How often a loop polls if it has nothing to deliver.

describeOnStores('A loop without work', (under) => {
  /** Counts the claims per second of a loop that polls every 20 ms when busy. */
  async function claimsOfASecond(canBeIdle: boolean): Promise<number> {
    let claims = 0
    const states: boolean[] = []
    const store = withDeliveries(under.store, {
      claim(request) {
        claims++
        return under.store.deliveries.claim(request)
      },
      watch: (onDue) => ({
        ...under.store.deliveries.watch(onDue),
        async setIdle(isIdle) {
          states.push(isIdle)
          return isIdle && canBeIdle
        },
      }),
    })
    const sender = createTestSender()
    const loop = under.loop(sender, { pollIntervalMs: 20 }, store)
    loop.start()
    await until('the loop asks to be told', async () => states.length > 0)
    await sleep(50)
    claims = 0
    await sleep(1000)
    const counted = claims
    await publish(under.store)
    await sender.sent(1)
    await loop.stop()
    return counted
  }

  test('polls once a second if its store reports every commit', async () => {
    await addEndpoint(under.store)
    const claims = await claimsOfASecond(true)
    assert.ok(claims <= 3, `${claims} claims`)
  })

  test("polls as often as before if its store doesn't", async () => {
    await addEndpoint(under.store)
    const claims = await claimsOfASecond(false)
    assert.ok(claims > 10, `${claims} claims`)
  })

  /** Starts a loop on a store that reports every commit, and waits until it's idle. */
  async function startIdleLoop(): Promise<{ sender: TestSender; states: boolean[]; wake: () => void }> {
    let wake = (): void => {}
    const states: boolean[] = []
    const store = withDeliveries(under.store, {
      watch(onDue) {
        wake = onDue
        return {
          ...under.store.deliveries.watch(onDue),
          async setIdle(isIdle) {
            states.push(isIdle)
            return isIdle
          },
        }
      },
    })
    const sender = createTestSender()
    under.loop(sender, { pollIntervalMs: 20 }, store).start()
    await until('the loop is idle', async () => states.length > 0)
    return { sender, states, wake: () => wake() }
  }

  test("is busy again after many wake-ups in a second, because commits are serialized while it's idle", async () => {
    const { states, wake } = await startIdleLoop()
    await until('the loop is busy', async () => {
      wake()
      return states.includes(false)
    })
  })

  test('stays idle at a few events a second', async () => {
    await addEndpoint(under.store)
    const { sender, states } = await startIdleLoop()
    for (let published = 1; published <= 10; published++) {
      await publish(under.store)
      await sender.sent(published)
    }
    await sleep(1100)
    assert.ok(!states.includes(false))
  })
})
