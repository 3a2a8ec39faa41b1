import assert from 'node:assert/strict'
import type { Sql } from 'postgres'
import type { PageRequest, Since } from '../../lib/access/admission.ts'
import { digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { createIds } from '../../lib/base/ids.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import type { Client } from '../../lib/resources/clients.ts'
import { newEntry } from '../_audit.ts'

// A syncing client, and transactions that are ended by a test.

const ids = createIds()

/** All clients of an organization, as kept by a customer's program. */
export interface Mirror {
  readonly records: ReadonlyMap<string, Client>
  /** The position from which the program would continue. */
  position: Since
  /** Reads a page. Returns its ids and whether it was the last one. */
  readPage(limit: number): Promise<{ readonly ids: readonly string[]; readonly isLast: boolean }>
  /** Reads all pages. Returns the ids. */
  sync(limit?: number): Promise<readonly string[]>
}

export async function createMirror(store: PostgresStore, organizationId: string): Promise<Mirror> {
  const key = generateApiKey('bapi', 0)
  const keyDigest = digestApiKey(key)
  await store.apiKeys.insert({
    organizationId,
    limit: 1000,
    key: {
      id: ids('key'),
      digest: keyDigest,
      name: 'Sync',
      scopes: ['clients:read'],
      prefix: 'bapi_live_',
      lastFour: key.slice(-4),
      rateLimit: null,
      createdAt: new Date().toISOString(),
      expiresAt: null,
    },
    entry: newEntry(),
  })
  const request = { keyDigest, scope: 'clients:read', rateLimits: null } as const
  const records = new Map<string, Client>()
  const mirror: Mirror = {
    records,
    position: { position: '' },
    async readPage(limit) {
      const asked: PageRequest = { limit, since: mirror.position }
      const { page, next, position } = await store.clients.admitAndList(request, asked)
      assert.ok(typeof position === 'string')
      const clients: Client[] = JSON.parse(String(page))
      for (const client of clients) records.set(client.id, client)
      mirror.position = { position }
      return { ids: clients.map(({ id }) => id), isLast: next === null }
    },
    async sync(limit = 200) {
      const read: string[] = []
      for (;;) {
        const page = await mirror.readPage(limit)
        read.push(...page.ids)
        if (page.isLast) return read
      }
    },
  }
  return mirror
}

/** The actual contents of the database, by id. */
export async function clientsOf(sql: Sql, organizationId: string): Promise<ReadonlyMap<string, Client>> {
  const rows = await sql<{ id: string; json: Client }[]>`
    select client_id as id, representation::json as json from business_api.businesses
    where organization_id = ${organizationId} and client_id is not null`
  return new Map(rows.map(({ id, json }) => [id, json]))
}

/** A transaction of the host. */
export interface OpenTransaction {
  readonly store: ReturnType<PostgresStore['using']>
  commit(): Promise<void>
  rollback(): Promise<void>
}

const ROLLBACK = new Error('rolled back')

/** Begins a transaction that stays open until it's ended explicitly. */
export async function begin(sql: Sql, store: PostgresStore): Promise<OpenTransaction> {
  let end: (how: 'commit' | 'rollback') => void = () => {}
  const ended = new Promise<'commit' | 'rollback'>((resolve) => {
    end = resolve
  })
  let began: (inTransaction: OpenTransaction['store']) => void = () => {}
  const ready = new Promise<OpenTransaction['store']>((resolve) => {
    began = resolve
  })
  const done = sql
    .begin(async (tx) => {
      began(store.using(tx))
      if ((await ended) === 'rollback') throw ROLLBACK
    })
    .catch((error) => {
      if (error !== ROLLBACK) throw error
    })
  const inTransaction = await Promise.race([ready, done.then(() => assert.fail('the transaction has ended'))])
  return {
    store: inTransaction,
    async commit() {
      end('commit')
      await done
    },
    async rollback() {
      end('rollback')
      await done
    },
  }
}

/** Creates a generator of random numbers from 0 to `below - 1`, which are always the same for a seed (mulberry32). */
export function randomOf(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
