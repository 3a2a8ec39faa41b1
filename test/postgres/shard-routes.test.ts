import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { Slices, Unnamed } from '../../lib/postgres/shards/routes.ts'

/** A part of a store whose methods are added later. */
interface Later {
  ofOrganization(organizationId: string): Promise<void>
  ofRequest(request: { readonly organizationId: string; readonly limit: number }): Promise<void>
  ofMany(digests: readonly string[]): Promise<void>
  ofAllOrOne(target: { readonly organizationId: string } | null): Promise<void>
  watch(onDue: () => void): () => void
}

test('the types require an entry for each method whose first argument may not have an organization', () => {
  const ways: Record<Unnamed<Later>, true> = { ofMany: true, ofAllOrOne: true }
  // @ts-expect-error ofMany has no entry
  const missing: Record<Unnamed<Later>, true> = { ofAllOrOne: true }
  const none: Record<Unnamed<Slices['businesses']>, true> = {}
  assert.deepEqual(
    [Object.keys(ways).length, Object.keys(missing).length, Object.keys(none).length],
    [2, 1, 0],
  )
})

test('the types require an entry even for the methods of an optional part', () => {
  const ways: Record<Unnamed<Later | undefined>, true> = { ofMany: true, ofAllOrOne: true }
  // @ts-expect-error check has no organization and no entry
  const missing: Record<Unnamed<BusinessApiStore['installation']>, true> = {}
  // @ts-expect-error the name of an installation isn't an organization, so the installation isn't routed
  const routed: keyof Slices = 'installation'
  assert.deepEqual([Object.keys(ways).length, Object.keys(missing).length, routed], [2, 0, 'installation'])
})
