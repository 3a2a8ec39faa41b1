import { once } from 'node:events'
import { after, afterEach, before, beforeEach, describe } from 'node:test'
import type { Sql } from 'postgres'
import { createIds } from '../../lib/base/ids.ts'
import type { Logger } from '../../lib/base/log.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createDeliveryLoop, type DeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import type { DeliveryLoopOptions } from '../../lib/delivery/loop-options.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import type { DeliveryDetails, DeliveryState, DeliveryStore } from '../../lib/webhooks/deliveries.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import type { EndpointRecord } from '../../lib/webhooks/endpoints.ts'
import type { WebhookAnswer, WebhookRequest, WebhookSender } from '../../lib/webhooks/webhook-sender.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'

// Helpers for testing delivery loops on both stores, which are empty at the start of each test because a loop works on
// all organizations. Includes senders that do what a test needs, endpoints and events.

export const ORG = 'org_1'
export const SECRET = 'whsec_current'

export const ids: ReturnType<typeof createIds> = createIds()

/** Longer than any test waits. If something happens, it's not because this time is over. */
export const AN_HOUR_MS: number = 60 * 60 * 1000

/** With these options, only the test wakes the loop. */
export const NO_POLL: DeliveryLoopOptions = { pollIntervalMs: AN_HOUR_MS }

/** Allows values that the compiler would reject, which JavaScript hosts could pass. */
export function untyped<T>(value: unknown): T {
  return value as T
}

// --- Stores ---

/** The parts of a store that a loop needs. */
export type LoopStore = Pick<BusinessApiStore, 'service' | 'deliveries' | 'notices'>

/** A store that a test can control. */
export interface StoreUnderTest {
  readonly store: BusinessApiStore
  /** Makes the store check due times and expiries as if it were `ms` milliseconds later. */
  letTimePass(ms: number): Promise<void>
  /** Creates a loop on the store that is stopped after the test. Doesn't log anything unless there is a logger. */
  loop(sender: WebhookSender, options?: DeliveryLoopOptions, store?: LoopStore): DeliveryLoop
}

/** A store on PostgreSQL, with access to the database. */
export interface PostgresUnderTest extends StoreUnderTest {
  readonly sql: Sql
  /** Creates another store on the same database, as in another process. */
  secondStore(): PostgresStore
}

/** Registers tests for each store. */
export function describeOnStores(name: string, define: (under: StoreUnderTest) => void): void {
  describeOnMemory(name, define)
  describeOnPostgres(name, define)
}

/** Registers tests for the memory store. */
export function describeOnMemory(name: string, define: (under: StoreUnderTest) => void): void {
  describe(`${name}, in memory`, () => {
    let passedMs = 0
    let store = createMemoryStore()
    const loops = endLoopsAfterEach()
    beforeEach(() => {
      passedMs = 0
      store = createMemoryStore({ clock: () => Date.now() + passedMs })
    })
    define({
      get store() {
        return store
      },
      async letTimePass(ms) {
        passedMs += ms
      },
      loop: (sender, options, from = store) => loops.create(from, sender, options),
    })
  })
}

/** Registers tests for PostgreSQL. */
export function describeOnPostgres(name: string, define: (under: PostgresUnderTest) => void): void {
  shared ??= createSharedPostgres()
  const { stores, sql } = shared
  describe(`${name}, on PostgreSQL`, () => {
    const loops = endLoopsAfterEach()
    beforeEach(
      () => sql()`
        truncate business_api.events, business_api.open_deliveries, business_api.finished_deliveries, business_api.delivery_attempts,
          business_api.webhook_endpoints, business_api.endpoint_rates, business_api.endpoint_activity,
          business_api.api_keys`,
    )
    define({
      get store() {
        return stores[0]()
      },
      get sql() {
        return sql()
      },
      secondStore: stores[1],
      letTimePass: (ms) => letTimePass(sql(), ms),
      loop: (sender, options, from = stores[0]()) => loops.create(from, sender, options),
    })
  })
}

let shared: ReturnType<typeof createSharedPostgres> | undefined

/** The database of all tests in a file. */
function createSharedPostgres() {
  let database: TestDatabase
  let sql: Sql
  const stores = [
    lazy(() => createPostgresStore(database.url)),
    lazy(() => createPostgresStore(database.url)),
  ] as const

  before(async () => {
    database = await createTestDatabase()
    sql = database.sql({ max: 1 })
  })
  after(async () => {
    await Promise.all(stores.map((store) => store().close()))
    await database.drop()
  })
  return { stores, sql: () => sql }
}

function lazy<T>(create: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: create() }
    return made.value
  }
}

/** Resets everything that the store compares with the database's clock. */
async function letTimePass(sql: Sql, ms: number): Promise<void> {
  const earlier = (column: string) =>
    sql`${sql(column)} = ${sql(column)} - ${ms}::float8 * interval '1 millisecond'`
  await sql`
    update business_api.open_deliveries set ${earlier('due_at')}, ${earlier('claimed_at')}, ${earlier('lease_until')}`
  await sql`
    update business_api.webhook_endpoints
    set ${earlier('previous_secret_expires_at')}, ${earlier('failing_since')}, ${earlier('secret_expiry_noticed')}`
  await sql`
    update business_api.endpoint_rates
    set ${earlier('next_at')}, ${earlier('rejected_at')}`
  await sql`update business_api.api_keys set ${earlier('expires_at')}, ${earlier('expiry_noticed')}`
}

function endLoopsAfterEach() {
  const loops: DeliveryLoop[] = []
  afterEach(() => Promise.all(loops.splice(0).map((loop) => loop.stop({ timeoutMs: 0 }))))
  return {
    create(store: LoopStore, sender: WebhookSender, options: DeliveryLoopOptions = {}): DeliveryLoop {
      const loop = createDeliveryLoop(store, sender, { logger: false, retentionMs: false, ...options })
      loops.push(loop)
      return loop
    },
  }
}

/** Returns the store with some of the delivery methods replaced. */
export function withDeliveries(store: BusinessApiStore, replaced: Partial<DeliveryStore>): LoopStore {
  return { ...store, deliveries: { ...store.deliveries, ...replaced } }
}

// --- Endpoints, events, deliveries ---

/** Registers an endpoint of {@link ORG}, by default for all types. */
export async function addEndpoint(
  store: BusinessApiStore,
  changes: Partial<EndpointRecord> = {},
  organizationId: string = ORG,
): Promise<string> {
  const endpoint: EndpointRecord = {
    id: ids('we'),
    url: 'https://subscriber.test/hook',
    ...ENDPOINT_DEFAULTS,
    headerNames: [],
    sealedHeaders: null,
    createdAt: toTimestamp(Date.now()),
    sealedSecret: `plain.${SECRET}`,
    ...changes,
  }
  await store.endpoints.insert({ organizationId, limit: 1000, endpoint, entry: newEntry() })
  return endpoint.id
}

/** The custom headers of an endpoint, stored as plain text. */
export function plainHeaders(
  headers: Readonly<Record<string, string>>,
): Pick<EndpointRecord, 'headerNames' | 'sealedHeaders'> {
  return { headerNames: Object.keys(headers), sealedHeaders: `plain.${JSON.stringify(headers)}` }
}

/** An event with a body that no parser would reproduce exactly. */
export function newEvent(changes: Partial<EventRecord> = {}): EventRecord {
  const id = ids('evt')
  const body = `{ "id":"${id}",  "data":{"n":1.0,"text":"\\u00e9 é 🏺 \\" \\\\ \\n","again":1,"again":2}}`
  return { id, type: 'project.completed', body, ...changes }
}

/** Publishes an event, by default for {@link ORG}. */
export async function publish(
  store: BusinessApiStore,
  changes: Partial<EventRecord> = {},
  organizationId: string = ORG,
): Promise<EventRecord> {
  const event = newEvent(changes)
  await store.events.publish(organizationId, event)
  return event
}

/** Publishes a number of events at once. */
export function publishMany(
  store: BusinessApiStore,
  count: number,
  organizationId: string = ORG,
): Promise<readonly EventRecord[]> {
  return Promise.all(Array.from({ length: count }, () => publish(store, {}, organizationId)))
}

/** Returns the deliveries of an organization with their logs, oldest first. */
export async function deliveriesOf(
  store: BusinessApiStore,
  organizationId: string = ORG,
): Promise<readonly DeliveryDetails[]> {
  const found = await store.deliveries.list(organizationId, {}, 1000, null)
  const details = await Promise.all(
    found.toReversed().map(({ id }) => store.deliveries.get(organizationId, id)),
  )
  return details.flatMap((delivery) => delivery ?? [])
}

/** Claims all due deliveries like a process that dies before the first attempt. Returns how many there were. */
export async function claimAndVanish(store: BusinessApiStore, leaseMs: number): Promise<number> {
  const { deliveries } = await store.deliveries.claim({
    token: `vanished-${ids('dlv')}`,
    isRepeat: false,
    limit: 100,
    maxBytes: 4 * 1024 * 1024,
    capacity: { endpoint: 100, organization: 100, endpoints: {}, organizations: {} },
    scanLimit: 100,
    cursor: null,
    leaseMs,
    maxAttempts: 5,
  })
  return deliveries.length
}

/** Returns the number of deliveries of {@link ORG} in a state. */
export async function countIn(store: BusinessApiStore, state: DeliveryState): Promise<number> {
  return (await store.deliveries.list(ORG, { states: [state] }, 1000, null)).length
}

/** Returns the only delivery. */
export async function onlyDelivery(store: BusinessApiStore): Promise<DeliveryDetails> {
  const [delivery, ...others] = await deliveriesOf(store)
  if (delivery === undefined || others.length > 0) throw new Error('There is not just one delivery')
  return delivery
}

// --- Senders ---

/** The response of a test's sender to a request, which is numbered from 1. By default it's a quick 200. */
export type Respond = (
  request: WebhookRequest,
  number: number,
  signal: AbortSignal | undefined,
) => Partial<WebhookAnswer> | Promise<Partial<WebhookAnswer>>

/** A sender that only records requests. */
export interface TestSender extends WebhookSender {
  readonly requests: readonly WebhookRequest[]
  /** Event ids of the requests, in order. */
  readonly eventIds: readonly string[]
  readonly inFlight: number
  /** Resolves when this many requests have been made. Rejects if that takes too long. */
  sent(count: number): Promise<void>
}

const SENT_WITHIN_MS = 20_000

/** Creates a sender that behaves as a test needs. */
export function createTestSender(respond: Respond = () => ({})): TestSender {
  const requests: WebhookRequest[] = []
  const made = new EventTarget()
  let inFlight = 0

  return {
    requests,
    get eventIds() {
      return requests.map((request) => eventIdOf(request))
    },
    get inFlight() {
      return inFlight
    },
    async send(request, signal) {
      requests.push(request)
      inFlight++
      made.dispatchEvent(new Event('request'))
      try {
        const answer = await respond(request, requests.length, signal)
        const status = answer.error == null ? 200 : null
        return { status, error: null, bodyExcerpt: '', durationMs: 1, ...answer }
      } finally {
        inFlight--
      }
    },
    async sent(count) {
      const signal = AbortSignal.timeout(SENT_WITHIN_MS)
      while (requests.length < count) await once(made, 'request', { signal })
    },
    async close() {},
  }
}

export function eventIdOf({ headers }: WebhookRequest): string {
  return headers['X-SERVICE-Event-Id'] ?? ''
}

/** Doesn't respond until it's interrupted, like the library's sender. */
export function hang(signal: AbortSignal | undefined): Promise<Partial<WebhookAnswer>> {
  return new Promise((resolve) => {
    signal?.addEventListener('abort', () => resolve({ status: null, error: 'interrupted' }))
  })
}

/** Blocks attempts until the test opens it. */
export interface Gate {
  readonly opened: Promise<void>
  open(): void
}

export function createGate(): Gate {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

// --- Waiting and listening ---

/** Checks every 5 ms until the condition is true. */
export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  timeoutMs = 60_000,
): Promise<void> {
  const endsAt = performance.now() + timeoutMs
  while (!(await isSo())) {
    if (performance.now() > endsAt) throw new Error(`Waited in vain until ${what}`)
    await sleep(5)
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** A logger that records all lines. */
export interface TestLog {
  readonly logger: Logger
  readonly lines: readonly { readonly level: string; readonly details: object; readonly message: string }[]
}

export function createTestLog(): TestLog {
  const lines: { level: string; details: object; message: string }[] = []
  const write = (level: string) => (details: object, message: string) => {
    lines.push({ level, details, message })
  }
  return {
    logger: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
    lines,
  }
}
