import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Slices, Unnamed } from '../../lib/postgres/shards/routes.ts'

/** A slice with verbs that are added later. */
interface Later {
  ofOrganization(organizationId: string): Promise<void>
  ofRequest(request: { readonly organizationId: string; readonly limit: number }): Promise<void>
  ofMany(digests: readonly string[]): Promise<void>
  ofAllOrOne(target: { readonly organizationId: string } | null): Promise<void>
  watch(onDue: () => void): () => void
}

test('the types ask for a way for each verb whose first argument may name no organization', () => {
  const ways: Record<Unnamed<Later>, true> = { ofMany: true, ofAllOrOne: true }
  // @ts-expect-error ofMany has no way
  const missing: Record<Unnamed<Later>, true> = { ofAllOrOne: true }
  const none: Record<Unnamed<Slices['businesses']>, true> = {}
  assert.deepEqual(
    [Object.keys(ways).length, Object.keys(missing).length, Object.keys(none).length],
    [2, 1, 0],
  )
})
