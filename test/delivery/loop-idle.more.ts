import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { addEndpoint, createTestSender, describeOnStores, publish, until, withDeliveries } from './_loop.ts'

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
    if (canBeIdle) await until('the loop is busy again', async () => states.at(-1) === false)
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

  test("is busy again after any wake-up, because commits are serialized while it's idle", async () => {
    let wake = (): void => {}
    const states: boolean[] = []
    const store = withDeliveries(under.store, {
      watch(onDue) {
        wake = onDue
        return {
          async setIdle(isIdle) {
            states.push(isIdle)
            return isIdle
          },
          end() {},
        }
      },
    })
    under.loop(createTestSender(), { pollIntervalMs: 20 }, store).start()
    await until('the loop is idle', async () => states.length > 0)
    await sleep(200)
    wake()
    await until('the loop is busy', async () => states.at(-1) === false)
  })
})
