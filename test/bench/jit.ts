import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import postgres from 'postgres'
import { startPostgres } from '../../examples/demo/postgres.ts'
import type { AdmissionRequest } from '../../lib/access/admission.ts'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore, migrate, type PostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { TODAY } from '../_days.ts'
import { percentile } from '../_percentile.ts'
import { FOLDERS, folderWith } from '../postgres/_servers.ts'
import { addEndpoint } from './deliveries/parts.ts'

// No statement is slower on a server that compiles plans: lists, creates, claims and logs on a PostgreSQL with LLVM (`PG_BIN`, or of
// Debian), by a store behind a pooler, which cannot turn jit off, on a database with jit = on and with jit = off. Calls take turns. ROWS
// clients, open deliveries and finished ones each.

const ROWS = Number(process.env.ROWS ?? 200_000)
const ROUNDS = 7
const CALLS = 60
const OWNER = 'org_bench'
const LIMIT = { perSecond: 1e6, burst: 1e9 }

const folder = await folderWith('../lib/llvmjit.so')
if (folder === undefined) throw new Error(`No PostgreSQL with LLVM in ${FOLDERS.join(', ') || 'PG_BIN'}`)
const server = await startPostgres({ binDirectory: folder })
const sql = postgres(server.url, { max: 1, onnotice: () => {} })
const stores = ['on', 'off'].map((jit) =>
  createPostgresStore(`${server.url}?jit=${jit}`, { sessions: false, maxConnections: 1 }),
)
try {
  await migrate(server.url, { logger: false })
  const [of] = await sql`select version(), pg_jit_available() as llvm`
  console.log(`${of?.version}, LLVM: ${of?.llvm}, ${ROWS} rows, ${join(folder)}`)
  const [on = {}, off = {}] = await Promise.all(stores.map((store) => prepare(store)))
  await fill()
  console.log('call'.padEnd(34), 'jit on, ms', ' off, ms', ' ratio', ' of the rounds')
  for (const name of Object.keys(on)) {
    const times = { on: [] as number[], off: [] as number[] }
    for (let round = 0; round < ROUNDS; round++)
      for (const [jit, calls] of round % 2 === 0
        ? ([
            ['on', on],
            ['off', off],
          ] as const)
        : ([
            ['off', off],
            ['on', on],
          ] as const))
        times[jit].push(await medianOf(calls[name] ?? fail))
    const ratios = times.on.map((ms, round) => ms / (times.off[round] ?? Number.NaN))
    const [least, middle, most] = [0, 0.5, 1].map((share) => percentile(ratios, share).toFixed(2))
    const of = (jit: 'on' | 'off') => percentile(times[jit], 0.5).toFixed(2).padStart(9)
    console.log(name.padEnd(34), of('on'), of('off'), `  ${middle}`, `  ${least} to ${most}`)
  }
} finally {
  await Promise.all(stores.map((store) => store.close()))
  await sql.end()
  await server.stop()
}

function fail(): never {
  throw new Error('No such call')
}

async function medianOf(call: () => Promise<unknown>): Promise<number> {
  const times: number[] = []
  for (let made = 0; made < CALLS; made++) {
    const begunAt = performance.now()
    await call()
    times.push(performance.now() - begunAt)
  }
  return percentile(times, 0.5)
}

/** Prepares the calls of a store, on the one organization of both. */
async function prepare(store: PostgresStore): Promise<Record<string, () => Promise<unknown>>> {
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true })
  const scopes = ['clients:read', 'clients:write'] as const
  const { key } = await settings.apiKeys.create(OWNER, { name: 'bench', scopes, rateLimit: LIMIT })
  await addEndpoint(store, OWNER, 'http://127.0.0.1:9/')
  const ids = createIds()
  const request: AdmissionRequest = {
    keyDigest: digestApiKey(key),
    scope: 'clients:read',
    rateLimits: { key: LIMIT, organization: LIMIT },
    organizationHint: OWNER,
  }
  const claim = {
    isRepeat: false,
    limit: 50,
    maxBytes: 1_000_000,
    capacity: { endpoint: 50, organization: 50, endpoints: {}, organizations: {} },
    scanLimit: 1000,
    cursor: null,
    leaseMs: 60_000,
    maxAttempts: 5,
  }
  return {
    'list of 50': () => store.clients.admitAndList(request, { limit: 50 }),
    'list of 50 changes': () =>
      store.clients.admitAndList(request, { limit: 50, since: { time: '2000-01-01T00:00:00.000Z' } }),
    admission: () => store.apiKeys.admit(request),
    'create with an idempotency key': () => {
      const { record, events, representation } = newClient({ name: 'Atlas' }, { ids, now: Date.now() })
      const idempotency = {
        operation: 'POST /api/v1/clients',
        key: record.id,
        fingerprint: 'f'.repeat(64),
        reply: JSON.stringify({ data: representation }),
        windowMs: 604_800_000,
        waitMs: 4000,
      }
      return store.clients.create({ organizationId: OWNER, record, events, idempotency })
    },
    'claim of 50, and release': async () => {
      const token = randomUUID()
      const { deliveries } = await store.deliveries.claim({ ...claim, token })
      if (deliveries.length !== 50) throw new Error(`${deliveries.length} were claimed`)
      await store.deliveries.release(
        deliveries.map(({ organizationId, id: deliveryId }) => ({ organizationId, deliveryId, token })),
      )
    },
    'delivery log': () => store.deliveries.list(OWNER, {}, 50, null),
    'delivery log, failed': () => store.deliveries.list(OWNER, { states: ['failed'] }, 50, null),
    'event log': () => store.eventLog.list(OWNER, {}, 50, null),
    'counts of the queue': () => store.deliveries.countQueue(null),
    'part of a purge': () => store.deliveries.purge({ eventsAfterMs: 86_400_000, limit: 100 }),
  }
}

/** The ids are older than those that the benchmark makes. */
async function fill(): Promise<void> {
  const number = "lpad(upper(to_hex(n)), 24, '0')"
  await sql.unsafe(`
    insert into business_api.businesses
      (organization_id, id, name, city, client_id, client_status, total_revenue, monthly_revenue, converted_at)
    select '${OWNER}', 'biz_00' || ${number}, 'Atlas', 'Tunis', 'cli_00' || ${number}, 'active', 0, 0, now()
    from generate_series(1, ${ROWS}) as n;
    insert into business_api.events (organization_id, id, type, body, delivery_prefix)
    select '${OWNER}', 'evt_00' || ${number}, 'client.created', repeat('x', 400), '${TODAY}' || lpad(upper(to_hex(n)), 16, '0')
    from generate_series(1, ${2 * ROWS}) as n;
    insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, attempts)
    select '${OWNER}', '${TODAY}' || lpad(upper(to_hex(n)), 16, '0'), 'evt_00' || ${number}, 'client.created', e.id, now(), 0
    from generate_series(1, ${ROWS}) as n, (select id from business_api.webhook_endpoints limit 1) as e;
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, attempts, reason, finished_at)
    select '${OWNER}', '${TODAY}' || lpad(upper(to_hex(n)), 16, '0'), 'evt_00' || ${number}, 'client.created', e.id,
           case when n % 1000 = 0 then 'failed' else 'delivered' end, now(), 1, case when n % 1000 = 0 then 'http_500' end, now()
    from generate_series(${ROWS + 1}, ${2 * ROWS}) as n, (select id from business_api.webhook_endpoints limit 1) as e;
    analyze`)
}
