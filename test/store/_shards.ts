import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import {
  createPostgresStore,
  createShardedStore,
  type DatabaseOptions,
  type ShardedStore,
  slotOf,
} from '../../lib/postgres.ts'
import type { ClaimRequest, Claims } from '../../lib/store.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

/** The names of the shards of the tests. */
export const NAMES = ['a', 'b', 'c'] as const

type Name = (typeof NAMES)[number]

/** Three databases, which are shards. */
export interface TestShards {
  readonly databases: readonly TestDatabase[]
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
  return {
    databases,
    open: (options, urls = databases.map(({ url }) => url)) =>
      createShardedStore({
        shards: Object.fromEntries(
          NAMES.map((name, index) => [name, createPostgresStore(urls[index] ?? '', options)]),
        ),
      }),
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
  let id = ''
  for (let index = 0, left = number; left >= 0; index++) {
    id = `org_${index}`
    if (shardNameOf(id) === name) left--
  }
  return id
}

/**
 * Gives a store over shards the claims of the delivery loops of its shards: of the loop of the organization's shard, and of the
 * shards of all organizations for which a claim names a capacity.
 */
export async function withClaims(store: ShardedStore, organizationId: string): Promise<BusinessApiStore> {
  const own = await store.shardOf(organizationId)
  const { continuePurge } = own.store.deliveries

  async function claim(request: ClaimRequest): Promise<Claims> {
    const named = await Promise.all(Object.keys(request.capacity.organizations).map(store.shardOf))
    const [first, ...others] = await Promise.all(
      [...new Set([own, ...named])].map((shard) => shard.store.deliveries.claim(request)),
    )
    assert.ok(first)
    return {
      ...first,
      deliveries: [first, ...others].flatMap(({ deliveries }) => deliveries),
      unread: [first, ...others].flatMap(({ unread }) => unread),
      failed: [first, ...others].flatMap(({ failed }) => failed),
    }
  }

  return { ...store, deliveries: { ...store.deliveries, claim, continuePurge } }
}
