import type { Fragment, ISql } from 'postgres'
import type { Installation } from '../../webhooks/installation.ts'
import { QUEUE_COUNT_MAX, type QueueCounts } from '../../webhooks/queue-counts.ts'
import type { SealedHeaders } from '../../webhooks/secret-sealing.ts'
import { createDatabase, type Database } from '../connection/database.ts'
import { countQueue } from '../queue-counts.ts'
import { type RetentionState, readRetention } from '../retention.ts'
import { deliveriesOf } from '../statements/delivery-selection.ts'
import { type Catalogue, compareCatalogues, readCatalogue, type SchemaDrift } from './catalogue.ts'
import { SCHEMA_FINGERPRINT } from './fingerprint.ts'
import type { SchemaState } from './migrations.ts'
import { readSchemaState } from './schema-fault.ts'
import type { ServerKind } from './server-fault.ts'

// This file is over 250 lines because the interface has every query that the command line needs.

// --- Types ---

/** A server's version, database and clock. */
export interface ServerState extends ServerKind {
  readonly database: string
  /** How far the database's clock is ahead of ours, in milliseconds. */
  readonly clockAheadMs: number
  /** Maximum error of `clockAheadMs` in milliseconds, i.e. half of the fastest round trip. */
  readonly clockErrorMs: number
}

/** Record counts across organizations. */
export interface RecordCounts {
  readonly endpoints: {
    readonly enabled: number
    readonly paused: number
    readonly disabled: number
    /** Number of enabled or paused endpoints whose last attempt failed. */
    readonly failing: number
  }
  readonly apiKeys: { readonly active: number; readonly expired: number; readonly revoked: number }
  /** Number of failed and skipped deliveries, where 10,001 means more than 10,000. */
  readonly recoverable: number
}

/** Expired leases of dead processes that no loop has reclaimed. */
export interface EndedLeases {
  readonly count: number
  /** Milliseconds since the oldest lease expired, or 0 if there are none. */
  readonly oldestMs: number
}

/** An endpoint's stored credentials. */
export interface StoredSecrets extends SealedHeaders {
  readonly organizationId: string
  readonly endpointId: string
  readonly sealedSecrets: readonly string[]
}

/** Preview of a purge, based on the oldest events. */
export interface PurgePreview {
  readonly events: number
  /** Number of affected organizations. */
  readonly organizations: number
  /** Number of failed deliveries that could still be recovered. */
  readonly failed: number
  /** If `true`, there are more old events than we counted. */
  readonly isPartial: boolean
}

/** The state of the daily event partitions. See sql/34-days.sql. */
export interface DaysState {
  /** How far ahead partitions exist, in ms from now. 0 if the current time has no partition. */
  readonly aheadMs: number
  /** Names of up to 100 days that have a table, but no row or different bounds in the list of days. Oldest first. */
  readonly unlisted: readonly string[]
  /** Names of up to 100 days whose tables are missing or detached, oldest first. */
  readonly incomplete: readonly string[]
}

/** A database's place among the shards, and the number of organizations that aren't where the shard map says. */
export interface ShardState {
  /** The shard's name, or `null` if the database isn't a shard. */
  readonly name: string | null
  /** Names of all shards that have slots or organizations. */
  readonly used: readonly string[]
  /** Number of organizations between two shards, during a move or after an interrupted one. */
  readonly moving: number
  /** Number of organizations that have moved to another shard but still have rows here. */
  readonly left: number
  /** Number of organizations with API keys here that the map never assigned to this shard. */
  readonly foreign: number
}

/** Reads a database's state for operators. Never writes, and never returns an organization's business data. */
export interface Inspector {
  /** Reads the state of the migrations, even if the schema doesn't exist yet. */
  schema(): Promise<SchemaState>
  server(): Promise<ServerState>
  /** Compares the schema with this version's fingerprint. `null` if the database is at a different migration. */
  drift(): Promise<SchemaDrift | null>
  catalogue(): Promise<Catalogue>
  counts(): Promise<RecordCounts>
  /** Counts queued deliveries across organizations. */
  backlog(): Promise<QueueCounts>
  endedLeases(): Promise<EndedLeases>
  days(): Promise<DaysState>
  retention(): Promise<RetentionState>
  /** Returns the database's installation, or `null` if no loop has ever been started. */
  installation(): Promise<Installation | null>
  shard(): Promise<ShardState>
  /** Counts active keys by prefix, for example `bapi_live_`. Imported keys in another format have an empty prefix. */
  keyPrefixes(): Promise<Readonly<Record<string, number>>>
  /** Returns the credentials of up to `limit` endpoints that haven't been removed. */
  secrets(limit: number): Promise<readonly StoredSecrets[]>
  /** Counts the events a purge would delete (old, without a pending delivery). Reads up to `max` events. */
  previewPurge(eventsAfterMs: number, max: number): Promise<PurgePreview>
  close(): Promise<void>
}

/** Timeout in ms for statements that may read many rows while an operator waits. */
const STATEMENT_TIMEOUT_MS = 30_000
/**
 * Timeout in ms for short reads, which is also how long we keep dialling if the port belongs to some other program that
 * closes every connection. Longer than the connect timeout, because connection errors are more helpful.
 */
const QUICK_TIMEOUT_MS = 6000

// --- Calls ---

/** Creates an inspector for a connection string. Connects on the first call, even through a transaction pooler. */
export function createInspector(url: string): Inspector {
  const open = (statementTimeoutMs: number): Database =>
    createDatabase(url, { prepare: false, sessions: false, maxConnections: 1, statementTimeoutMs })
  const database = open(STATEMENT_TIMEOUT_MS)
  const quick = open(QUICK_TIMEOUT_MS)
  /** Reads the JSON that a query returns in its only row. */
  async function read<Answer>(build: (sql: ISql) => Fragment): Promise<Answer> {
    const [json] = await database.row((sql, mark) => sql`select (${build(sql)})::text, ${mark}`)
    return JSON.parse(json ?? 'null')
  }

  return {
    schema: () => readSchemaState(quick.row),
    server: () => readServerState(quick),
    catalogue: () => readCatalogue(database),

    async drift() {
      const { current, pending, newer, renamed } = await readSchemaState(quick.row)
      const isKnown =
        current === SCHEMA_FINGERPRINT.migration && pending.length + newer.length + renamed.length === 0
      return isKnown ? compareCatalogues(await readCatalogue(database), SCHEMA_FINGERPRINT.objects) : null
    },

    counts: () =>
      read(
        (sql) => sql`
          select pg_catalog.json_build_object(
            'endpoints', (
              select pg_catalog.json_build_object(
                'enabled', count(*) filter (where state = 'enabled'),
                'paused', count(*) filter (where state = 'paused'),
                'disabled', count(*) filter (where state = 'disabled'),
                'failing', count(*) filter (where state in ('enabled', 'paused') and failures > 0)
              )
              from business_api.webhook_endpoints
            ),
            'apiKeys', (
              select pg_catalog.json_build_object(
                'active', count(*) filter (where not is_revoked and not is_expired),
                'expired', count(*) filter (where not is_revoked and is_expired),
                'revoked', count(*) filter (where is_revoked)
              )
              from business_api.api_keys, lateral (
                select
                  coalesce(revoked_at <= now(), false) as is_revoked,
                  coalesce(expires_at <= now(), false) as is_expired
              ) as judged
            ),
            'recoverable', (
              select count(*) from (
                select 1 from business_api.finished_deliveries
                where state in ('failed', 'skipped')
                -- The order of the index for these deliveries: without it, few of them cost a scan of the table.
                order by organization_id, state, endpoint_id, id limit ${QUEUE_COUNT_MAX + 1}::int
              ) as counted
            )
          )`,
      ),

    backlog: () => countQueue(database, null),

    endedLeases: () =>
      read(
        (sql) => sql`
          select pg_catalog.json_build_object(
            'count', count(*),
            'oldestMs', coalesce(extract(epoch from now() - min(lease_until)) * 1000, 0)
          )
          from business_api.open_deliveries where lease_until <= now()`,
      ),

    days: () =>
      read(
        (sql) => sql`
          select pg_catalog.json_build_object(
            'aheadMs', extract(epoch from business_api.days_end(now()) - now()) * 1000,
            'unlisted', coalesce((
              select pg_catalog.json_agg(unlisted.name order by unlisted.begins_at) from (
                select d.name, min(d.begins_at) as begins_at from business_api.unlisted_days() as d
                group by d.name order by 2 limit 100
              ) as unlisted
            ), '[]'),
            'incomplete', coalesce((
              select pg_catalog.json_agg(incomplete.name order by incomplete.begins) from (
                select d.name, d.begins from business_api.event_days d
                where d.organization_id = '' and d.dropped_at is null
                  and exists (
                    select 1 from unnest(array['events', 'finished_deliveries', 'delivery_attempts']) as parent
                    where not exists (
                      select 1 from pg_catalog.pg_inherits i
                      where i.inhparent = pg_catalog.to_regclass('business_api.' || parent)
                        and i.inhrelid = pg_catalog.to_regclass('business_api.' || parent || '_' || d.name)
                    )
                  )
                order by d.begins limit 100
              ) as incomplete
            ), '[]')
          )`,
      ),

    retention: () => readRetention(database),

    installation: () =>
      read(
        (sql) => sql`
          select pg_catalog.json_build_object('name', i.name, 'isMoved', i.identity <> business_api.database_identity())
          from business_api.installation i where i.organization_id = ''`,
      ),

    shard: () =>
      read(
        (sql) => sql`
          with own as (
            select * from business_api.shard_places where organization_id = '' order by version desc limit 1
          ), place as (
            select distinct on (organization_id) * from business_api.shard_places
            where organization_id <> '' order by organization_id, version desc
          )
          select pg_catalog.json_build_object(
            'name', (select name from own),
            'used', array(select unnest(slots) from own union select name from place order by 1),
            'moving', (select count(*) from place where version % 2 = 1),
            'left', (
              select count(*) from place where version % 2 = 0 and not is_here and (
                exists (select from business_api.api_keys k where k.organization_id = place.organization_id)
                or exists (select from business_api.businesses b where b.organization_id = place.organization_id)
                or exists (select from business_api.events e where e.organization_id = place.organization_id)
              )
            ),
            'foreign', (
              select count(distinct k.organization_id) from business_api.api_keys k, own
              where not exists (select from place where place.organization_id = k.organization_id)
                and own.slots[(((hashtextextended(k.organization_id, 8816678312871386365) & 1023) + 227)::int & 1023) + 1]
                  <> own.name
            )
          )`,
      ),

    keyPrefixes: () =>
      read(
        (sql) => sql`
          select coalesce(pg_catalog.json_object_agg(prefix, keys), '{}') from (
            select case when prefix ~ '^[a-z][a-z0-9]{0,15}_live_$' then prefix else '' end as prefix, count(*) as keys
            from business_api.api_keys
            where coalesce(revoked_at > now(), true) and coalesce(expires_at > now(), true)
            group by 1
          ) as counted`,
      ),

    secrets: (limit) =>
      read(
        (sql) => sql`
          select coalesce(pg_catalog.json_agg(item), '[]') from (
            select
              organization_id as "organizationId", id as "endpointId",
              header_names as "headerNames", sealed_headers as "sealedHeaders",
              case
                when previous_secret_expires_at > now() then array[sealed_secret, previous_sealed_secret]
                else array[sealed_secret]
              end as "sealedSecrets"
            from business_api.webhook_endpoints
            where state <> 'removed' and sealed_secret is not null
            limit ${limit}::int
          ) as item`,
      ),

    previewPurge: (eventsAfterMs, max) =>
      read(
        (sql) => sql`
          select pg_catalog.json_build_object(
            'events', count(*) filter (where unsent = 0),
            'organizations', count(distinct organization_id) filter (where unsent = 0),
            'failed', coalesce(sum(failed) filter (where unsent = 0), 0),
            'isPartial', count(*) = ${max}::int
          )
          from (
            select event.organization_id, delivered.unsent, delivered.failed
            from business_api.events event, lateral (
              select
                count(*) filter (where state in ('pending', 'sending')) as unsent,
                count(*) filter (where state = 'failed') as failed
              from ${deliveriesOf(sql, 'event')} as delivery
            ) as delivered
            where event.delivery_prefix < business_api.day_bound(now() - ${eventsAfterMs}::float8 * interval '1 millisecond')
            order by event.delivery_prefix
            limit ${max}::int
          ) as judged`,
      ),

    close: async () => void (await Promise.all([database.close(), quick.close()])),
  }
}

/** How many times to read the clock. Only the fastest one counts, since the first has to open the connection. */
const CLOCK_READINGS = 4

async function readServerState(database: Database): Promise<ServerState> {
  let best: ServerState | undefined
  for (let reading = 0; reading < CLOCK_READINGS; reading++) {
    const state = await readServerOnce(database)
    if (!best || state.clockErrorMs < best.clockErrorMs) best = state
  }
  return best ?? readServerOnce(database)
}

async function readServerOnce(database: Database): Promise<ServerState> {
  const sentAt = Date.now()
  const begunAt = performance.now()
  const [version, versionNumber, encoding, name, clock] = await database.row(
    (sql, mark) => sql`
      select
        pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_version_num'),
        pg_catalog.current_setting('server_encoding'),
        pg_catalog.current_database()::text, (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::text, ${mark}`,
  )
  const clockErrorMs = (performance.now() - begunAt) / 2
  return {
    version: version?.split(' ')[0] ?? '',
    versionNumber: Number(versionNumber),
    encoding: encoding ?? '',
    database: name ?? '',
    clockAheadMs: Number(clock) - (sentAt + clockErrorMs),
    clockErrorMs,
  }
}
