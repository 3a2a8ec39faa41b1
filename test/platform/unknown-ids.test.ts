import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPlatform } from '../../lib/platform.ts'
import { CALLS, invoke } from './_calls.ts'
import { describeOnEveryStore } from './_platform.ts'

// Ids that the organization doesn't have. Ids of another organization are treated like unknown ones.

describeOnEveryStore((newHost) => {
  for (const call of CALLS) {
    const { name, idField } = call
    if (idField === undefined) continue
    test(`${name} finds nothing for an unknown id, an unusual id, or that of another organization`, async () => {
      const [ours, theirs] = [await newHost(), await newHost()]
      // With the memory store each host has its own store.
      const theirPlatform = createPlatform(ours.store)
      const foreign = await call.make({ ...theirs, platform: theirPlatform })
      await call.make(ours)
      const before = await ours.everything()
      for (const id of [
        foreign,
        'cli_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC',
        '',
        'a\0b',
        '\ud800',
        'x'.repeat(10_000),
      ]) {
        const attempt = invoke(ours, call, { [idField]: id })
        await assert.rejects(attempt, (error: Error) => {
          assert.equal(Reflect.get(error, 'code'), 'not_found')
          assert.match(
            error.message,
            /^Cannot [a-z ]+ because the organization has no (such record|business with this id)$/,
          )
          return true
        })
      }
      assert.deepEqual(await ours.everything(), before)
    })
  }
})
