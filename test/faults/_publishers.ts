import { randomInt, randomUUID } from 'node:crypto'
import type { Sql, TransactionSql } from 'postgres'
import { type BusinessApi, createBusinessApi } from '../../lib/index.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { toEventRecord } from '../../lib/writes/event-envelope.ts'
import { makeApiKey, UNREACHED_RATE_LIMIT, until } from './_fixture.ts'

/** The published events, by the publishers' own knowledge. */
export interface Published {
  /** Events by id that must exist, and events that must not. */
  readonly committed: Set<string>
  readonly rolledBack: Set<string>
  /** Events that came with records: the publishers do not know the ids. */
  unnamed: number
}

/** Publishes in every way for an organization. */
export interface Publisher {
  /** By `events.publish` with an id, repeated until the store confirms the event. */
  publish(): Promise<void>
  /** By `POST /clients`: two events. */
  createClient(): Promise<void>
  /** By SQL in a transaction of the host's: one to three events, sometimes rolled back. */
  transact(commits: boolean): Promise<void>
}

/** A host of a single organization. */
export interface PublisherParts {
  readonly sql: Sql
  readonly store: PostgresStore
  readonly databaseUrl: string
}

const GIVE_UP_MS = 20_000

export function createPublished(): Published {
  return { committed: new Set(), rolledBack: new Set(), unnamed: 0 }
}

/** The number of events that must exist. */
export function countOf({ committed, unnamed }: Published): number {
  return committed.size + unnamed
}

/** @param published the record of published events */
export async function createPublisher(
  { sql, store, databaseUrl }: PublisherParts,
  organizationId: string,
  published: Published,
): Promise<Publisher> {
  const api = createBusinessApi(store, { rateLimit: UNREACHED_RATE_LIMIT, logger: false })
  const { key } = await makeApiKey(databaseUrl, organizationId)

  return {
    async publish() {
      const id = `evt_${randomUUID()}`
      const data = { projectId: 'proj_1', name: 'Fliesen „Étoile“ 🏺' }
      const event = toEventRecord(id, 'project.completed', data, Date.now())
      const attempt = (): Promise<boolean> =>
        store.events.publish(organizationId, event).then(
          () => true,
          () => false,
        )
      await until('an event is published', attempt, GIVE_UP_MS)
      published.committed.add(id)
    },

    async createClient() {
      await createClient(api, key)
      published.unnamed += 2
    },

    async transact(commits) {
      const ids: string[] = []
      const work = sql.begin(async (transaction) => {
        for (let left = randomInt(1, 4); left > 0; left--) {
          ids.push(await publishBySql(transaction, organizationId))
        }
        if (!commits) throw new RolledBack()
      })
      await work.catch((error) => {
        if (!(error instanceof RolledBack)) throw error
      })
      const noted = commits ? published.committed : published.rolledBack
      for (const id of ids) noted.add(id)
    },
  }
}

/** Publishes a few events in a random way; now and then the transaction is rolled back. */
export async function publishSome(publisher: Publisher): Promise<void> {
  const choice = randomInt(10)
  if (choice < 4) await Promise.all(Array.from({ length: 4 }, () => publisher.publish()))
  else if (choice < 6) await Promise.all([publisher.createClient(), publisher.createClient()])
  else await publisher.transact(choice < 9)
}

/** Publishes an event by SQL; returns the id. */
export async function publishBySql(sql: Sql | TransactionSql, organizationId: string): Promise<string> {
  const [id = ''] = await publishBurst(sql, organizationId, 1)
  return id
}

/** Publishes events by SQL, all in the same moment; returns the ids. */
export async function publishBurst(
  sql: Sql | TransactionSql,
  organizationId: string,
  events: number,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select
      business_api.publish_event(
        ${organizationId}::text, 'project.completed',
        jsonb_build_object('projectId', 'proj_' || number, 'name', 'By SQL 🏺')
      ) as id
    from generate_series(1, ${events}::int) as number`
  return rows.map(({ id }) => id)
}

/** The error that ends a transaction of the host in a rollback. */
class RolledBack extends Error {}

async function createClient(api: BusinessApi, key: string): Promise<void> {
  const answer = await api(
    new Request('http://localhost/api/v1/clients', {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'Faults' }),
    }),
  )
  if (answer.status !== 200) throw new Error(`Cannot create a client: ${answer.status}`)
}
