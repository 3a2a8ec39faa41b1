import assert from 'node:assert/strict'
import { after, afterEach } from 'node:test'
import { RESOURCES } from '../../lib/access/scopes.ts'
import {
  type BusinessApiOptions,
  type BusinessApiStore,
  createBusinessApi,
  type Logger,
} from '../../lib/index.ts'
import { type Answer, assertError, type Failure, record, startPlatform } from './_api.ts'
import { settle, watchStrays } from './_strays.ts'

export const strays = watchStrays()
export const platform = await startPlatform()
export const { id: organizationId, key, keyId } = await platform.organization()

// Without this pause, a stray error from a test would be blamed on the next one.
afterEach(async () => {
  await settle()
  assert.deepEqual(strays.splice(0), [])
})
after(() => platform.close())

export const PATH = '/api/v1/clients'
export const CREATE = { key, json: { name: 'Atlas' } }

/** Returns the store with some methods of its clients replaced. */
export function withClients(verbs: Partial<BusinessApiStore['clients']>): BusinessApiStore {
  return { ...platform.store, clients: { ...platform.store.clients, ...verbs } }
}

/** Returns the store with some methods of its API keys replaced. */
export function withApiKeys(verbs: Partial<BusinessApiStore['apiKeys']>): BusinessApiStore {
  return { ...platform.store, apiKeys: { ...platform.store.apiKeys, ...verbs } }
}

/** Returns a store whose methods all fail in the same way during a request. */
export function failing(fail: () => Promise<never>): BusinessApiStore {
  const { store } = platform
  return {
    ...store,
    apiKeys: { ...store.apiKeys, admit: fail },
    ...Object.fromEntries(
      RESOURCES.map((name) => [name, { ...store[name], admitAndList: fail, create: fail }] as const),
    ),
  }
}

export interface LoggedLine {
  readonly level: string
  readonly details: object
  readonly message: string
}

/** Returns a logger that collects all lines. */
export function keepingLogger(lines: LoggedLine[]): Logger {
  const keep = (level: string) => (details: object, message: string) => {
    lines.push({ level, details, message })
  }
  return { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }
}

/** Returns an API whose logger and onError collect everything. */
export function watched(store: BusinessApiStore, options: BusinessApiOptions = {}) {
  const lines: LoggedLine[] = []
  const failures: Failure[] = []
  const api = createBusinessApi(store, {
    rateLimit: false,
    logger: keepingLogger(lines),
    onError: record(failures),
    ...options,
  })
  return { api, lines, failures }
}

export function assertUnavailable(answer: Answer): void {
  assertError(answer, 503, 'Service temporarily unavailable')
  assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
}

export function assertInternal(answer: Answer): void {
  assertError(answer, 500, 'Internal error')
  assert.equal(answer.headers.get('retry-after'), null)
}

/** Returns an error including all its properties as a string. */
export function allOf(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    each instanceof Error
      ? { ...each, name: each.name, message: each.message, stack: each.stack, cause: each.cause }
      : each,
  )
}

/** Returns PostgreSQL's error for a violated constraint, including the invalid data. */
export function postgresError(): Error {
  return Object.assign(new Error('duplicate key value violates unique constraint "businesses_pkey"'), {
    name: 'PostgresError',
    severity: 'ERROR',
    code: '23505',
    detail: 'Key (email)=(customer@secret.example) already exists.',
    hint: 'secret hint',
    where: 'secret where',
    schema_name: 'business_api',
    table_name: 'businesses',
    constraint_name: 'businesses_pkey',
    query: 'insert into business_api.businesses values ($1)',
    parameters: ['customer@secret.example'],
  })
}
