import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRefusalPace } from '../../lib/api/refusal-pace.ts'

test('thousands of refusals at once all go out within their share of the deadline, and spaced out', async () => {
  const deadlineMs = 3000
  const pace = createRefusalPace(deadlineMs)
  const startedAt = performance.now()
  const waits = await Promise.all(
    Array.from({ length: 3000 }, async (_, index) => {
      await pace(`peer ${index % 7}`)
      return (performance.now() - startedAt) / deadlineMs
    }),
  )
  const last = Math.max(...waits)
  assert.ok(last < 0.75, `the last one waited for ${last.toFixed(2)} of the deadline`)
  const early = waits.filter((wait) => wait < 0.25).length
  assert.ok(early < 2000, `${early} went out in the first quarter`)
})
