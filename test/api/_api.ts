import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import type postgres from 'postgres'
import { type ApiKeyRecord, digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { slotOf } from '../../lib/access/slots.ts'
import { findNextLink } from '../../lib/client/lists.ts'
import {
  type BusinessApi,
  type BusinessApiOptions,
  type BusinessApiStore,
  createBusinessApi,
  createIds,
  type ErrorContext,
  type RateLimit,
  SCOPES,
  type Scope,
} from '../../lib/index.ts'
import {
  createPostgresStore,
  createShardedStore,
  type PostgresStore,
  type ShardedStore,
} from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { exampleBody } from '../../lib/resources/example-data.ts'
import { createRoutes } from '../../lib/resources/records.ts'
import { newEntry } from '../_audit.ts'
import { createTestDatabase } from '../_database.ts'
import { shardNameOf } from '../store/_shards.ts'

// Common setup for the HTTP tests. Starts an API with a real database that can be called over a port or directly.

/** The error message for a lead whose business the organization doesn't have. */
export const BUSINESS_NOT_FOUND = 'Business not found: the organization has no business with this businessId'

// --- The API under test ---

/** A new database, a store, and an API with default options and without logging. */
export interface Platform {
  readonly databaseUrl: string
  /** Used to inspect tables without going through the store. */
  readonly sql: postgres.Sql
  readonly store: OpenStore
  /** The store for delivery loops. */
  readonly loopStore: BusinessApiStore
  readonly api: BusinessApi
  /** The failures that `api` has reported to `onError`. */
  readonly failures: Failure[]
  /** Creates another API, by default with the same store. */
  apiWith(options: BusinessApiOptions, store?: BusinessApiStore): BusinessApi
  /** Creates another store for the same database, as in a different process. */
  anotherStore(): OpenStore
  /** Creates an organization with a key that has all scopes. */
  organization(): Promise<Organization>
  close(): Promise<void>
}

/** A store whose connections have to be closed. */
type OpenStore = BusinessApiStore & Pick<PostgresStore, 'close'>

/**
 * Runs the tests on three shards. The first one contains all organizations that the tests inspect.
 * Set by on-shards.slow.ts.
 */
const IS_ON_SHARDS = process.env.API_ON_SHARDS === '1'

export interface Failure {
  readonly error: unknown
  readonly context: ErrorContext
}

export interface Organization {
  readonly id: string
  readonly key: string
  readonly keyId: string
  createKey(options?: KeyOptions): Promise<{ readonly id: string; readonly key: string }>
}

export interface KeyOptions {
  /** Defaults to all scopes. */
  readonly scopes?: readonly Scope[]
  readonly rateLimit?: RateLimit
  readonly expiresAt?: string
  /** Defaults to a new organization. */
  readonly key?: string
}

export const ids: ReturnType<typeof createIds> = createIds()
let organizations = 0

export async function startPlatform(): Promise<Platform> {
  const database = await createTestDatabase()
  const sql = database.sql({ max: 4 })
  const others = IS_ON_SHARDS ? [await createTestDatabase(), await createTestDatabase()] : []
  const open = (): OpenStore => {
    const own = createPostgresStore(database.url)
    const [b, c] = others.map(({ url }) => createPostgresStore(url))
    return b && c ? createShardedStore({ shards: { a: own, b, c } }) : own
  }
  const stores = [open()] as [OpenStore, ...OpenStore[]]
  const [store] = stores
  const failures: Failure[] = []
  return {
    databaseUrl: database.url,
    sql,
    store,
    loopStore: 'shards' in store ? ((store as ShardedStore).shards[0]?.store ?? store) : store,
    failures,
    api: createBusinessApi(store, { logger: false, onError: record(failures) }),
    apiWith: (options, other = store) => createBusinessApi(other, { logger: false, ...options }),
    anotherStore() {
      const another = open()
      stores.push(another)
      return another
    },
    async organization() {
      do organizations++
      while (IS_ON_SHARDS && shardNameOf(`org_${organizations}`) !== 'a')
      const id = `org_${organizations}`
      const createKey: Organization['createKey'] = (options) => insertKey(store, id, options)
      const { id: keyId, key } = await createKey()
      return { id, key, keyId, createKey }
    },
    async close() {
      await Promise.all(stores.map((each) => each.close()))
      await Promise.all([database, ...others].map((each) => each.drop()))
    },
  }
}

/** Returns an `onError` that collects the reported failures. */
export function record(failures: Failure[]): (error: unknown, context: ErrorContext) => void {
  return (error, context) => failures.push({ error, context })
}

async function insertKey(store: BusinessApiStore, organizationId: string, options: KeyOptions = {}) {
  const key = options.key ?? generateApiKey('bapi', slotOf(organizationId))
  const stored: ApiKeyRecord = {
    id: ids('key'),
    name: 'Test',
    scopes: options.scopes ?? SCOPES,
    prefix: 'bapi_live_',
    lastFour: key.slice(-4),
    rateLimit: options.rateLimit ?? null,
    createdAt: new Date().toISOString(),
    expiresAt: options.expiresAt ?? null,
    digest: digestApiKey(key),
  }
  await store.apiKeys.insert({ organizationId, limit: 1000, key: stored, entry: newEntry() })
  return { id: stored.id, key }
}

interface Operation {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly scope: Scope
  /** The schema of the record in the response. */
  readonly item: string
  /** A valid body, except that leads also need a business. */
  readonly body?: object
}

/** All operations from section 4. */
const SPECIFIED: readonly Operation[] = [
  { method: 'GET', path: '/api/v1/clients', scope: 'clients:read', item: 'Client' },
  {
    method: 'POST',
    path: '/api/v1/clients',
    scope: 'clients:write',
    item: 'Client',
    body: { name: 'Atlas' },
  },
  { method: 'GET', path: '/api/v1/leads', scope: 'leads:read', item: 'Lead' },
  { method: 'POST', path: '/api/v1/leads', scope: 'leads:write', item: 'Lead' },
  { method: 'GET', path: '/api/v1/invoices', scope: 'invoices:read', item: 'Invoice' },
  { method: 'GET', path: '/api/v1/proposals', scope: 'proposals:read', item: 'Proposal' },
  { method: 'GET', path: '/api/v1/projects', scope: 'projects:read', item: 'Project' },
]

/** All operations, including those of additional resources. Each has the example of its input. */
export const OPERATIONS: readonly Operation[] = [
  ...SPECIFIED,
  ...createRoutes({} as BusinessApiStore)
    .filter(({ scope }) => !SPECIFIED.some((known) => known.scope === scope))
    .map(({ method, path, scope, representationName: item }) => {
      return { method, path, scope, item, body: Object(exampleBody(scope)) }
    }),
]

// --- Records that can't be created through the API ---

/** The remaining fields of a creation, for tests that don't cover events or idempotency. */
export function plainCreation<T>(organizationId: string, record: T) {
  return { organizationId, record, events: [], idempotency: null } as const
}

/** Creates clients, oldest first, and returns the ids of the clients and their businesses. */
export async function seedClients(
  store: BusinessApiStore,
  organizationId: string,
  count: number,
): Promise<{ id: string; businessId: string }[]> {
  const clients = Array.from(
    { length: count },
    (_, index) => newClient({ name: `Client ${index}` }, { ids, now: Date.now() }).record,
  )
  await Promise.all(clients.map((client) => store.clients.create(plainCreation(organizationId, client))))
  return clients.map(({ id, business }) => ({ id, businessId: business.id }))
}

// --- Calls without a port ---

export interface RequestOptions {
  /** Defaults to GET, or to POST if there is a body. */
  readonly method?: string
  readonly key?: string
  readonly headers?: Record<string, string>
  /** Sent as JSON with the right Content-Type. */
  readonly json?: unknown
  /** Sent unchanged, as `application/json` unless `headers` contain another type. */
  readonly body?: string | Uint8Array
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Calls an API through its fetch interface. */
export async function request(
  api: (request: Request) => Promise<Response>,
  target: string,
  options: RequestOptions = {},
): Promise<Answer> {
  const response = await api(buildRequest(target, options))
  return { status: response.status, headers: response.headers, text: await response.text() }
}

export function buildRequest(target: string, options: RequestOptions = {}): Request {
  const body = options.json === undefined ? options.body : JSON.stringify(options.json)
  const headers = new Headers(body === undefined ? {} : { 'Content-Type': 'application/json' })
  if (options.key !== undefined) headers.set('Authorization', `Bearer ${options.key}`)
  for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value)
  return new Request(`https://api.example${target}`, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers,
    // Copied because the type of a request body requires unshared bytes.
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
  })
}

// --- Reading responses ---

export type Fields = Record<string, unknown>

/** Returns the `data` of a created record. */
export function recordOf(answer: Answer): Fields {
  const data = dataOf(answer)
  assertFields(data)
  return data
}

/** Returns the `data` of a list. */
export function listOf(answer: Answer): Fields[] {
  const data = dataOf(answer)
  assert.ok(Array.isArray(data))
  for (const item of data) assertFields(item)
  return data
}

/** Returns the query string of the next page, or `null` on the last page. */
export function nextQuery(answer: Answer): string | null {
  const link = findNextLink(answer.headers.get('link'))
  return link === null ? null : new URL(link, 'http://localhost/api/v1/list').search
}

function dataOf(answer: Answer): unknown {
  assert.equal(answer.status, 200, answer.text)
  const body: unknown = JSON.parse(answer.text)
  assertFields(body)
  assert.deepEqual(Object.keys(body), ['data'])
  return body.data
}

export function assertFields(value: unknown): asserts value is Fields {
  assert.ok(typeof value === 'object' && value !== null && !Array.isArray(value), `no object: ${value}`)
}

/** Asserts that a response is an error as described in section 7, and returns its message. */
export function assertError(answer: Answer, status: number, error?: string | RegExp): string {
  assert.equal(answer.status, status, answer.text)
  const body: unknown = JSON.parse(answer.text)
  assertFields(body)
  assert.deepEqual(Object.keys(body), ['error', 'requestId'])
  assert.ok(typeof body.error === 'string' && body.error.length > 0)
  assert.match(String(body.requestId), /^req_[0-9A-HJKMNP-TV-Z]{26}$/)
  assert.equal(answer.headers.get('x-request-id'), body.requestId)
  assertSafeHeaders(answer)
  if (typeof error === 'string') assert.equal(body.error, error)
  else if (error) assert.match(body.error, error)
  return body.error
}

export function assertSafeHeaders({ headers }: Answer): void {
  assert.equal(headers.get('content-type'), 'application/json; charset=utf-8')
  assert.equal(headers.get('cache-control'), 'no-store')
  assert.equal(headers.get('x-content-type-options'), 'nosniff')
}

/** Returns a response without its request id, date and remaining rate limit, which always differ. */
export function comparable({ status, headers, text }: Answer): object {
  const kept = [...headers].filter(([name]) => !['x-request-id', 'date', 'ratelimit'].includes(name))
  return { status, headers: kept, text: text.replace(/req_[0-9A-Z]{26}/g, 'req') }
}

export const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Returns a pattern that matches ids of a kind, which consist of the kind and a ULID. */
export function idOf(kind: string): RegExp {
  return new RegExp(`^${kind}_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
}

/** Asserts that a timestamp is close to the current time, even on a slow machine. */
export function assertRecent(timestamp: unknown): void {
  assert.match(String(timestamp), TIMESTAMP)
  assert.ok(Math.abs(Date.parse(String(timestamp)) - Date.now()) < 60_000, `not now: ${timestamp}`)
}

// --- Calls over a port ---

export interface TestServer {
  readonly port: number
  readonly url: string
  /** The listener's results so far, in request order. */
  readonly calls: readonly unknown[]
  connect(): Promise<Connection>
  close(): Promise<void>
}

/** Starts a server for a listener on a free port. */
export async function serve(
  listener: (request: http.IncomingMessage, response: http.ServerResponse) => unknown,
): Promise<TestServer> {
  const calls: unknown[] = []
  const server = http.createServer((incoming, response) => {
    calls.push(listener(incoming, response))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  const { port } = address
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    calls,
    connect: () => connect(port),
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** A raw socket, for requests that `fetch` can't send. */
export interface Connection {
  readonly socket: net.Socket
  /** Resolves when no more data will be received. */
  readonly closed: Promise<void>
  send(bytes: string | Uint8Array): void
  /**
   * Reads the next response on this connection, including interim responses.
   *
   * @param request pass `HEAD` if the response has a length but no body
   */
  answer(request?: 'HEAD'): Promise<Answer>
}

async function connect(port: number): Promise<Connection> {
  const socket = net.connect(port, '127.0.0.1')
  let received: Buffer = Buffer.alloc(0)
  let ended = false
  let wake = (): void => {}
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    wake()
  })
  // A server may reset a finished connection, which is fine in tests.
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => {
    for (const event of ['end', 'close']) {
      socket.on(event, () => {
        ended = true
        wake()
        resolve()
      })
    }
  })
  await once(socket, 'connect')
  return {
    socket,
    closed,
    send: (bytes) => void socket.write(bytes),
    async answer(method) {
      for (;;) {
        const parsed = parseAnswer(received, method === 'HEAD')
        if (parsed) {
          received = received.subarray(parsed.size)
          return parsed.answer
        }
        if (ended)
          throw new Error(`The connection ended after: ${JSON.stringify(received.toString('latin1'))}`)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
  }
}

function parseAnswer(bytes: Buffer, isHead: boolean): { answer: Answer; size: number } | null {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd === -1) return null
  const [statusLine = '', ...lines] = bytes.subarray(0, headEnd).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine)?.[1])
  const headers = new Headers()
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  assert.equal(headers.get('transfer-encoding'), null, 'answers have a length')
  const start = headEnd + 4
  const size = start + (isHead ? 0 : Number(headers.get('content-length') ?? 0))
  if (bytes.length < size) return null
  return { answer: { status, headers, text: bytes.toString('utf8', start, size) }, size }
}

/** Returns the raw head of a request including a Host header. */
export function rawHead(requestLine: string, ...headers: string[]): string {
  return [`${requestLine} HTTP/1.1`, 'Host: api.example', ...headers, '', ''].join('\r\n')
}

/** Sends a request on a new connection. */
export async function rawRequest(server: TestServer, bytes: string | Uint8Array): Promise<Answer> {
  const connection = await server.connect()
  try {
    connection.send(bytes)
    return await connection.answer()
  } finally {
    connection.socket.destroy()
  }
}
