import { randomUUID } from 'node:crypto'
import type { Sql } from 'postgres'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { writeGrants } from '../../lib/postgres/schema/grants.ts'
import { PARTS, type Part } from '../../lib/postgres/schema/privileges.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { PLAIN_RESOURCES, type PlainSlices } from '../../lib/resources/records.ts'
import type { TestDatabase } from '../_database.ts'

/** The parts of an application, each under a database role with only the privileges of that part. */
export interface Roles {
  /** A pool of the part's role. */
  pool(part: Part): Sql
  /** A store of the part's role. */
  store(part: Part): PostgresStore
  /** A store that runs each verb under the role of a part that needs the verb. */
  readonly shared: BusinessApiStore
  close(): Promise<void>
}

/** Makes a role for each part, with the grants of that part. */
export async function createRoles(database: TestDatabase): Promise<Roles> {
  const sql = database.sql({ max: 1 })
  // Roles belong to the whole server, and other processes may be using the server. The names need quotes.
  const name = (part: Part): string => `Business "API" ${part} ${randomUUID()}`.slice(0, 60)
  const roles = PARTS.map((part) => ({ part, role: name(part) }))
  for (const { role } of roles) await sql`create role ${sql.unsafe(`"${role.replaceAll('"', '""')}"`)}`
  for (const statement of writeGrants(roles)) await sql.unsafe(statement)
  const pools = new Map<Part, Sql>()
  const stores = new Map<Part, PostgresStore>()
  for (const { part, role } of roles) {
    const pool = database.sql({ max: 4, connection: { role } })
    pools.set(part, pool)
    stores.set(part, createPostgresStore(pool))
  }
  const pool = (part: Part): Sql => of(pools, part)
  const store = (part: Part): PostgresStore => of(stores, part)

  return {
    pool,
    store,
    shared: share(store),
    async close() {
      await Promise.all([...stores.values()].map((each) => each.close()))
      for (const { role } of roles) {
        const quoted = `"${role.replaceAll('"', '""')}"`
        await sql.unsafe(`drop owned by ${quoted}; drop role ${quoted}`)
      }
    },
  }
}

function of<Value>(values: ReadonlyMap<Part, Value>, part: Part): Value {
  const value = values.get(part)
  if (value === undefined) throw new Error(`No role for ${part}`)
  return value
}

function share(store: (part: Part) => PostgresStore): BusinessApiStore {
  const [api, platform, settings, worker] = [
    store('api'),
    store('platform'),
    store('settings'),
    store('worker'),
  ]
  const administrator = store('administrator')
  const plain = Object.keys(PLAIN_RESOURCES).map((name) => {
    const resource = name as keyof PlainSlices
    return [name, { ...platform[resource], admitAndList: api[resource].admitAndList }]
  })
  let calls = 0
  const eitherOf = <Slice>(some: Slice, other: Slice): Slice => (calls++ % 2 === 0 ? some : other)
  // Only the API creates on behalf of API keys.
  const creatorOf = ({ apiKeyId }: { readonly apiKeyId?: string | undefined }): PostgresStore =>
    apiKeyId === undefined ? eitherOf(api, platform) : api
  return {
    service: api.service,
    businesses: platform.businesses,
    clients: {
      ...platform.clients,
      admitAndList: api.clients.admitAndList,
      create: (creation) => creatorOf(creation).clients.create(creation),
    },
    leads: {
      ...platform.leads,
      admitAndList: api.leads.admitAndList,
      create: (creation) => creatorOf(creation).leads.create(creation),
    },
    invoices: {
      ...platform.invoices,
      admitAndList: api.invoices.admitAndList,
      markOverdue: (request) => eitherOf(worker, platform).invoices.markOverdue(request),
    },
    proposals: { ...platform.proposals, admitAndList: api.proposals.admitAndList },
    ...(Object.fromEntries(plain) as object as PlainSlices),
    events: platform.events,
    imports: {
      write: (organizationId, records) =>
        eitherOf(platform, administrator).imports.write(organizationId, records),
    },
    apiKeys: { ...settings.apiKeys, admit: api.apiKeys.admit, markUsed: api.apiKeys.markUsed },
    endpoints: settings.endpoints,
    deliveries: {
      ...worker.deliveries,
      list: settings.deliveries.list,
      get: settings.deliveries.get,
      listAttempts: settings.deliveries.listAttempts,
      count: settings.deliveries.count,
      countRecoverable: settings.deliveries.countRecoverable,
      recover: settings.deliveries.recover,
      cancel: settings.deliveries.cancel,
      readActivity: settings.deliveries.readActivity,
      redeliverEvent: settings.deliveries.redeliverEvent,
      countQueue: (target) =>
        (target ? settings : eitherOf(worker, administrator)).deliveries.countQueue(target),
      // The audit entries of a purge by hand.
      purge: (request) => (request.entry ? administrator : worker).deliveries.purge(request),
    },
    notices: worker.notices,
    audit: settings.audit,
    requests: { ...settings.requests, write: api.requests.write },
    organizations: store('eraser').organizations,
    backfills: settings.backfills,
    eventLog: settings.eventLog,
  }
}
