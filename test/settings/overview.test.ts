import assert from 'node:assert/strict'
import { test } from 'node:test'
import { INVALID_INPUT } from '../../lib/base/errors.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { assertRefused, untyped } from './_refusals.ts'

test('overview.get() refuses an organization id that no store can hold, and names the field', async () => {
  const store = createMemoryStore()
  const { overview } = createDeveloperSettings(store, { allowPlaintextSecrets: true })
  for (const id of ['', 'x'.repeat(65), 'nul \0', untyped<string>(7), untyped<string>(null)]) {
    await assertRefused(
      overview.get(id),
      INVALID_INPUT,
      'Cannot show the overview',
      /because organizationId must /,
    )
  }
  assert.equal((await overview.get('org_1')).hasEndpoint, false)
})
