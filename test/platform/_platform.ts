import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { RESOURCES, type Resource, SCOPES, type Scope } from '../../lib/access/scopes.ts'
import { createIds } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform, type Platform, type PlatformOptions } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresPlatform, type PostgresStore } from '../../lib/postgres.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertRepresentations } from '../postgres/_representations.ts'

// The calls for the host's own code on every store. The results must not depend on the store.

/** A new organization and the host's calls. */
export interface Host<Calls extends Platform = Platform> {
  readonly organizationId: string
  readonly store: BusinessApiStore
  readonly platform: Calls
  /** The newest records of a resource in the form of the API, newest first. */
  list(resource: Resource): Promise<readonly Record<string, unknown>[]>
  /** The published events, oldest first. */
  events(): Promise<readonly PublishedEvent[]>
  /** Everything the organization has, for comparisons. */
  everything(): Promise<object>
}

/** What a call needs from a host. */
export type Caller = Pick<Host, 'organizationId' | 'platform'>

/** An event in the form for subscribers. */
export interface PublishedEvent {
  readonly id: string
  readonly type: string
  readonly createdAt: string
  readonly data: Record<string, unknown>
}

/** Creates a host with a new organization. */
export type NewHost<Calls extends Platform = Platform> = (options?: PlatformOptions) => Promise<Host<Calls>>

/** Registers tests for each store. */
export function describeOnEveryStore(register: (newHost: NewHost) => void): void {
  describe('on the memory store', () => {
    register((options) => {
      const store = createMemoryStore()
      return hostOf(store, createPlatform(store, options), async (id) => store.recordedEvents(id))
    })
  })
  describe('on PostgreSQL', () => {
    const opened = openPostgres()
    register(opened.newHost)
    test('the stored representations equal representations computed anew', () =>
      assertRepresentations(opened.sql()))
  })
}

/** A database for the tests of a `describe` or file, with stores and hosts. */
export interface Opened {
  readonly newHost: NewHost<PostgresPlatform>
  /** The host's own pool. */
  sql(): Sql
  database(): TestDatabase
  /** Another store on the same data, as in another process. */
  secondStore(): PostgresStore
}

/** Creates a database before the tests and drops it afterwards. */
export function openPostgres(): Opened {
  const opened: { database?: TestDatabase; sql?: Sql; stores: PostgresStore[] } = { stores: [] }
  before(async () => {
    opened.database = await createTestDatabase()
    opened.sql = opened.database.sql()
    opened.stores.push(createPostgresStore(opened.database.url), createPostgresStore(opened.database.url))
  })
  after(async () => {
    await Promise.all(opened.stores.map((store) => store.close()))
    await opened.database?.drop()
  })
  const sql = () => given(opened.sql)
  return {
    sql,
    database: () => given(opened.database),
    secondStore: () => given(opened.stores[1]),
    newHost(options) {
      const store = given(opened.stores[0])
      return hostOf(store, createPlatform(store, options), async (id) => {
        return sql()<EventRecord[]>`
          select id, body from business_api.events where organization_id = ${id} order by id`
      })
    },
  }
}

function given<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('The database is opened before the first test')
  return value
}

let organizations = 0
const ids = createIds()

async function hostOf<Calls extends Platform>(
  store: BusinessApiStore,
  platform: Calls,
  readEvents: (organizationId: string) => Promise<readonly Pick<EventRecord, 'body'>[]>,
): Promise<Host<Calls>> {
  organizations++
  const organizationId = `org_platform_${organizations}`
  const keyDigest = await insertKey(store, organizationId)

  async function list(resource: Resource): Promise<readonly Record<string, unknown>[]> {
    const scope: Scope = `${resource}:read`
    const { page } = await store[resource].admitAndList(
      { keyDigest, scope, rateLimits: null },
      { limit: 200 },
    )
    return JSON.parse(String(page))
  }

  async function events(): Promise<readonly PublishedEvent[]> {
    return (await readEvents(organizationId)).map(({ body }) => JSON.parse(body))
  }

  return {
    organizationId,
    store,
    platform,
    list,
    events,
    async everything() {
      const lists = await Promise.all(RESOURCES.map(list))
      return { lists, events: await events() }
    },
  }
}

async function insertKey(store: BusinessApiStore, organizationId: string): Promise<string> {
  const digest = digestApiKey(generateApiKey('bapi', 0))
  await store.apiKeys.insert({
    organizationId,
    limit: 1000,
    key: {
      id: ids('key'),
      name: 'Test',
      scopes: SCOPES,
      prefix: 'bapi_live_',
      lastFour: 'abcd',
      rateLimit: null,
      createdAt: new Date().toISOString(),
      expiresAt: null,
      digest,
    },
    entry: newEntry(),
  })
  return digest
}

/** Returns the types of the published events, oldest first. */
export async function typesOf(host: Pick<Host, 'events'>): Promise<readonly string[]> {
  return (await host.events()).map(({ type }) => type)
}
