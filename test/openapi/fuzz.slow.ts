import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type BusinessApi, SCOPES } from '../../lib/index.ts'
import { assertFields, OPERATIONS, recordOf, request, serve, startPlatform } from '../api/_api.ts'
import {
  ajv,
  type Document,
  type Operation,
  operation,
  type Parameter,
  resolve,
  response,
  type Schema,
} from './_document.ts'

// Sends random requests to a running API for three minutes. They are generated from the document's schemas, both valid
// and invalid. The API and the document must agree on each of them, and each response must match the document.

const SECONDS = Number(process.env.FUZZ_SECONDS ?? 180)
const SEED = Number(process.env.FUZZ_SEED ?? 20261122)

const platform = await startPlatform()
let api: BusinessApi | undefined
const server = await serve((incoming, outgoing) => api?.(incoming, outgoing))
const rate = { perSecond: 100_000, burst: 100_000 }
api = platform.apiWith({ rateLimit: { key: rate, organization: rate } })
after(async () => {
  await server.close()
  await platform.close()
})

// --- Random numbers ---

let state = SEED

/** Returns a number from 0 to less than 1. Uses mulberry32, so that a run can be repeated with its seed. */
function chance(): number {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
}

function pick<T>(values: readonly [T, ...T[]]): T {
  return values[Math.floor(chance() * values.length)] ?? values[0]
}

// --- Values from schemas ---

const ALPHABET = [...'aB9 -_@.,:+"\\/{}[]é中😀\u00a0\u2028\u0085\t\n\u0000\ud800'] as [string, ...string[]]

function text(length: number): string {
  return Array.from({ length }, () => (chance() < 0.7 ? 'a' : pick(ALPHABET))).join('')
}

const EMAILS = [
  "o'h@x.com",
  'a@b',
  'a b@x.com',
  'jörg@bücher.example',
  'x.com',
  'a@x..com',
  '@x.com',
  '',
] as const

/** Returns a value for a schema. It's usually valid, otherwise just out of bounds or of the wrong type. */
function valueFor(schema: Schema): unknown {
  if (chance() < 0.1) return pick<unknown>([null, 7, -0.5, true, [], {}, 'x'])
  if (schema.type === 'string') return stringOf(schema)
  if (schema.type === 'integer') return pick<unknown>([1, 50, schema.maximum, Number(schema.maximum) + 1, 0])
  if (schema.type !== 'object') return null
  const required = new Set(schema.required)
  const fields = Object.entries(schema.properties ?? {}).filter(
    ([name]) => chance() < (required.has(name) ? 0.95 : 0.5),
  )
  const more = chance() < 0.2 ? [[pick(['id', 'status', '__proto__', 'organizationId']), text(5)]] : []
  return Object.fromEntries([...fields.map(([name, field]) => [name, valueFor(field)]), ...more])
}

function stringOf({ examples = [], minLength = 0, maxLength = 64, pattern = '' }: Schema): string {
  if (pattern.includes('@')) return pick([...EMAILS, String(examples[0]), `${text(8)}@x.com`, text(20)])
  const longest = Math.min(maxLength, 300)
  const length = pick([minLength, minLength + 1, longest, longest + 1, minLength - 1, 5])
  return chance() < 0.2 ? String(examples[0]) : text(Math.max(0, length))
}

// --- Requests and responses ---

interface Tally {
  readonly statuses: Map<string, number>
  sound: number
  broken: number
}

test(`for ${SECONDS} s, the API and the document agree on requests generated from the document (seed ${SEED})`, async (t) => {
  const { id, key, createKey } = await platform.organization()
  const document = JSON.parse(await (await fetch(`${server.url}/openapi.json`)).text()) as Document
  const created = await request(platform.api, '/api/v1/clients', { key, json: { name: 'Atlas' } })
  const { business } = recordOf(created)
  assertFields(business)
  const weak = (await createKey({ scopes: SCOPES.slice(0, 1) })).key
  const tally: Tally = { statuses: new Map(), sound: 0, broken: 0 }
  const until = Date.now() + SECONDS * 1000
  while (Date.now() < until) {
    const { method, path } = pick(OPERATIONS as [(typeof OPERATIONS)[0]])
    const asked = operation(method.toLowerCase(), path, document)
    const asKey = pick([key, key, key, key, key, key, key, key, weak, 'bapi_live_none'])
    await (method === 'GET'
      ? askList(path, asked, document, asKey, tally)
      : askCreate(path, asked, document, asKey, String(business.id), tally))
  }
  const statuses = Object.fromEntries([...tally.statuses].toSorted())
  t.diagnostic(`${JSON.stringify(statuses)}, ${tally.sound} sound, ${tally.broken} broken`)
  for (const status of ['200', '401', '403', '404', '422']) assert.ok(status in statuses, `no ${status}`)
  assert.ok(tally.sound > 20 && tally.broken > 20)
  assert.deepEqual(platform.failures, [], id)
})

async function askList(path: string, asked: Operation, document: Document, key: string, tally: Tally) {
  const query = new URLSearchParams()
  let isSound = true
  for (const one of asked.parameters) {
    if (chance() < 0.6) continue
    const parameter = resolve<Parameter & { readonly example?: unknown }>(one, document)
    const schema = resolve<Schema>(parameter.schema as Schema, document)
    const value = chance() < 0.3 ? (parameter.example ?? '') : valueFor(schema)
    // An empty parameter counts as absent, which schemas can't express.
    if (String(value) === '' && parameter.name !== 'limit') continue
    isSound &&= fits(value, parameter.schema, document)
    // When converted to a string, a value of another type can look like a number.
    const isOther = parameter.name === 'limit' && typeof value !== 'number'
    query.append(parameter.name, isOther ? `x${value}` : String(value).toWellFormed())
  }
  const what = `GET ${path}?${query}`
  const answer = await send('GET', `${path}?${query}`, key)
  judge(answer, asked, document, what, tally)
  if (answer.status === 401 || answer.status === 403) return
  // A parameter's schema can't express that two of them exclude each other, or what a time or token is.
  if (query.has('updatedSince')) isSound &&= !query.has('before') && answer.status === 200
  agree(answer, isSound, what, tally)
}

async function askCreate(
  path: string,
  asked: Operation,
  document: Document,
  key: string,
  businessId: string,
  tally: Tally,
) {
  const { schema: ref = {} } = asked.requestBody?.content['application/json'] ?? {}
  const schema = resolve<Schema>(ref as Schema, document)
  const made = chance() < 0.05 ? pick<unknown>([null, [], 'text', 7]) : valueFor(schema)
  const isLead = path.endsWith('leads')
  const value = isLead && chance() < 0.3 ? { businessId } : made
  const [idempotencyKey] = asked.parameters.map((one) => resolve<Parameter>(one, document))
  const keyText = chance() < 0.3 ? pick(['form-1', 'k'.repeat(200), 'k'.repeat(201), 'a b', '~']) : undefined
  const body = JSON.stringify(value)
  const answer = await send('POST', path, key, body, keyText)
  const what = `POST ${path} ${keyText ?? ''} ${body}`
  judge(answer, asked, document, what, tally)
  if (answer.status === 401 || answer.status === 403) return
  const isKeySound = keyText === undefined || fits(keyText, idempotencyKey?.schema ?? {}, document)
  // Schemas don't cover keys used for a different body, or businesses that the organization doesn't have.
  if (answer.status === 422 && answer.text.includes('already used')) return
  if (isLead && answer.status === 404) return
  // A lone surrogate isn't valid Unicode, which patterns can't express. JSON escapes it.
  if (/\\ud[89a-f]/.test(body)) return
  // Patterns don't cover non-ASCII white space in email addresses either.
  if (/"email":"[^"]*[\u0080-\u00a0\u2028]/.test(body)) return
  agree(answer, isKeySound && fits(value, schema, document), what, tally)
}

const validators = new Map<Schema, (value: unknown) => boolean>()

/** Validates a value against a schema of the document. Each schema is only compiled once. */
function fits(value: unknown, schema: Schema, document: Document): boolean {
  const known = validators.get(schema)
  if (known) return known(value)
  // Copy the schema and add the components that it may refer to.
  const validator = ajv.compile({ ...schema, components: { schemas: document.components.schemas } })
  validators.set(schema, (candidate) => validator(candidate))
  return validator(value)
}

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

async function send(
  method: string,
  target: string,
  key: string,
  body?: string,
  idempotencyKey?: string,
): Promise<Answered> {
  const headers: Record<string, string> = { Authorization: `Bearer ${key}` }
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  if (idempotencyKey !== undefined) headers['Idempotency-Key'] = idempotencyKey
  const answer = await fetch(server.url + target, {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
  })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

/** Asserts that the document describes the status, headers and body of a response, and that it isn't a failure. */
function judge(answer: Answered, asked: Operation, document: Document, what: string, tally: Tally): void {
  const { status, headers, text: body } = answer
  tally.statuses.set(String(status), (tally.statuses.get(String(status)) ?? 0) + 1)
  assert.ok(status < 500, `${what}: ${status} ${body}`)
  const described = response(asked, String(status), document)
  const { schema } = described.content?.['application/json'] ?? {}
  assert.ok(schema)
  assert.ok(fits(JSON.parse(body), schema, document), `${what}: ${status} ${body}`)
  for (const [name, ref] of Object.entries(described.headers ?? {})) {
    const header = resolve<Parameter>(ref, document)
    const value = headers.get(name)
    if (value === null) assert.ok(!header.required, `${what}: ${status} without ${name}`)
    else {
      const read = header.schema.type === 'integer' ? Number(value) : value
      assert.ok(fits(read, header.schema, document), `${what}: ${name}: ${value}`)
    }
  }
}

/** Asserts that the API accepts what the document allows and rejects everything else. */
function agree({ status, text: body }: Answered, isSound: boolean, what: string, tally: Tally): void {
  if (isSound) tally.sound++
  else tally.broken++
  assert.equal(status === 200, isSound, `${what}: ${status} ${body}`)
}
