import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  addEndpoint,
  countIn,
  createTestLog,
  createTestSender,
  describeOnStores,
  publish,
  until,
} from './_loop.ts'

// A sender that can't send is reported when the loop starts, without using up attempts.

describeOnStores('a sender that is not ready', (under) => {
  test("is reported even if nothing is due, claims nothing, and delivers once it's ready", async () => {
    const sent = createTestSender()
    const failure = new Error('Cannot send webhooks because something is missing')
    let missing: Error | null = failure
    let prepared = 0
    const errors: unknown[] = []
    const log = createTestLog()
    const sender = {
      ...sent,
      async prepare() {
        prepared++
        if (missing) throw missing
      },
    }
    const loop = under.loop(sender, { logger: log.logger, onError: (error) => errors.push(error) })
    loop.start()
    await until('onError is called', () => errors.length > 0)
    assert.equal(errors[0], failure)
    assert.match(JSON.stringify(log.lines[0]), /"warn".*something is missing.*held up/)

    await addEndpoint(under.store)
    await publish(under.store)
    const before = prepared
    await until('the loop has tried twice more', () => prepared >= before + 2)
    assert.equal(sent.requests.length, 0)
    assert.equal(await countIn(under.store, 'pending'), 1)

    missing = null
    await sent.sent(1)
    await until('it is delivered', async () => (await countIn(under.store, 'delivered')) === 1)
  })

  test('makes runOnce() reject, and the next one delivers', async () => {
    const sent = createTestSender()
    const failures: Error[] = [new Error('not ready')]
    const sender = {
      ...sent,
      async prepare() {
        const failure = failures.pop()
        if (failure) throw failure
      },
    }
    await addEndpoint(under.store)
    await publish(under.store)
    const loop = under.loop(sender)
    await assert.rejects(loop.runOnce(), /not ready/)
    assert.equal(await countIn(under.store, 'pending'), 1)
    assert.equal((await loop.runOnce()).delivered, 1)
  })
})
