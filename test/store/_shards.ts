import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import {
  createPostgresStore,
  createShardedStore,
  type DatabaseOptions,
  type Shard,
  type ShardedStore,
  slotOf,
} from '../../lib/postgres.ts'
import type { DeliveryStore } from '../../lib/store.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

/** The names of the shards of the tests. */
export const NAMES = ['a', 'b', 'c'] as const

type Name = (typeof NAMES)[number]

/** Three databases, which are shards. */
export interface TestShards {
  readonly databases: readonly TestDatabase[]
  /** Connections behind the store's back, in the order of the names. */
  readonly sqlsByName: readonly Sql[]
  /** Makes the first start. */
  begin(): Promise<void>
  /** Creates a store over the shards. @param urls connection strings in the order of the names. Default: of the databases */
  open(options?: DatabaseOptions, urls?: readonly string[]): ShardedStore
  /** A connection to the database of an organization, behind the store's back. */
  sqlOf(organizationId: string): Sql
  drop(): Promise<void>
}

/** Makes three databases on the server of the tests. */
export async function createTestShards(): Promise<TestShards> {
  const databases = await Promise.all(NAMES.map(() => createTestDatabase()))
  const sqls = databases.map((database) => database.sql())
  const open: TestShards['open'] = (options, urls = databases.map(({ url }) => url)) =>
    createShardedStore({
      shards: Object.fromEntries(
        NAMES.map((name, index) => [name, createPostgresStore(urls[index] ?? '', options)]),
      ),
    })
  return {
    databases,
    sqlsByName: sqls,
    async begin() {
      const store = open()
      await store.shardOf('')
      await store.close()
    },
    open,
    sqlOf: (organizationId) => sqls[NAMES.indexOf(shardNameOf(organizationId))] as Sql,
    drop: async () => {
      await Promise.all(databases.map((database) => database.drop()))
    },
  }
}

/** The name of the shard of an organization in a new installation. */
export function shardNameOf(organizationId: string): Name {
  return NAMES[slotOf(organizationId) % NAMES.length] as Name
}

/** An organization of a shard. @param number tells organizations of the same shard apart */
export function organizationOn(name: Name, number = 0): string {
  return organizationOf(NAMES.length, NAMES.indexOf(name), number)
}

/**
 * Writes into the map that organizations without rows are not on the shards of their slots, but each on the shard that follows.
 *
 * @returns connections to the databases where the organizations are now
 */
export async function organizationsElsewhere(
  { sqlsByName }: TestShards,
  organizations: readonly string[],
): Promise<ReadonlyMap<string, Sql>> {
  const homes = organizations.map((id) => (NAMES.indexOf(shardNameOf(id)) + 1) % NAMES.length)
  for (const [index, sql] of sqlsByName.entries()) {
    const rows = organizations.map((id, at) => [id, NAMES[homes[at] ?? 0], homes[at] === index])
    await sql`
      insert into business_api.shard_places (organization_id, name, version, is_here)
      select r ->> 0, r ->> 1, 2, (r ->> 2)::boolean from jsonb_array_elements(${JSON.stringify(rows)}::text::jsonb) as r`
  }
  return new Map(organizations.map((id, at) => [id, sqlsByName[homes[at] ?? 0] as Sql]))
}

/** An organization of one of several shards, by the place of the shard's name. */
export function organizationOf(shards: number, shard: number, number = 0): string {
  let id = ''
  for (let index = 0, left = number; left >= 0; index++) {
    id = `org_${index}`
    if (slotOf(id) % shards === shard) left--
  }
  return id
}

/**
 * Gives a store over shards the verbs of the delivery loops of its shards: of the loop of the organization's shard, and of the
 * shards of the other organizations that a call names.
 */
export async function withLoops(store: ShardedStore, organizationId: string): Promise<BusinessApiStore> {
  const own = await store.shardOf(organizationId)
  const { continuePurge, purge, watch } = own.store.deliveries

  /** Makes a call on the shard of each item's organization, with its items. */
  async function callEach<Item extends { readonly organizationId: string }, Answer>(
    items: readonly Item[],
    call: (loop: DeliveryStore, items: readonly Item[]) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    const owners = await Promise.all(items.map((item) => store.shardOf(item.organizationId)))
    const ownItems = (shard: Shard) => items.filter((_, index) => owners[index] === shard)
    const shards = [...new Set([own, ...owners])]
    return Promise.all(shards.map((shard) => call(shard.store.deliveries, ownItems(shard))))
  }

  const loops: Partial<DeliveryStore> = {
    continuePurge,
    purge,
    watch,
    async claim(request) {
      const named = Object.keys(request.capacity.organizations).map((id) => ({ organizationId: id }))
      const [first, ...others] = await callEach(named, (loop) => loop.claim(request))
      assert.ok(first)
      return {
        ...first,
        deliveries: [first, ...others].flatMap(({ deliveries }) => deliveries),
        unread: [first, ...others].flatMap(({ unread }) => unread),
        failed: [first, ...others].flatMap(({ failed }) => failed),
      }
    },
    read: async (claims) => (await callEach(claims, (loop, each) => loop.read(each))).flat(),
    release: async (claims) => void (await callEach(claims, (loop, each) => loop.release(each))),
    async writeResults(results, limit) {
      const reports = await callEach(results, (loop, each) => loop.writeResults(each, limit))
      return {
        lost: reports.flatMap(({ lost }) => lost),
        endpoints: reports.flatMap(({ endpoints }) => endpoints),
        failed: reports.flatMap(({ failed }) => failed),
      }
    },
  }
  return { ...store, deliveries: { ...store.deliveries, ...loops } }
}
