import http from 'node:http'
import { SCOPES, type Scope } from '../../lib/index.ts'
import { PLAIN_RESOURCES } from '../../lib/resources/records.ts'
import { kinds } from '../contract/kinds.ts'
import { ids, OPERATIONS, type Organization, type Platform, plainCreation, serve } from './_api.ts'

// Records the raw responses to a client that only sends what the specification defines.

/** A response without the parts that differ between runs. */
export interface RecordedAnswer {
  readonly status: number
  /** In the original order and spelling. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

interface Call {
  readonly method: string
  readonly target: string
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Calls all operations to produce each of their statuses. Returns the responses by request. */
export async function recordAnswers(platform: Platform): Promise<Record<string, RecordedAnswer>> {
  const server = await serve(platform.api)
  const answers: Record<string, RecordedAnswer> = {}
  const ask = async (name: string, call: Call): Promise<string> => {
    const { answer, body } = await send(server.port, call)
    answers[`${call.method} ${call.target.split('?')[0]}: ${name}`] = answer
    return body
  }
  try {
    await askForLists(platform, ask)
    await askForClients(platform, ask)
    await askForLeads(platform, ask)
    for (const { path, body } of OTHER_CREATES) await askForOthers(platform, path, body, ask)
    await askInVain(platform, ask)
  } finally {
    await server.close()
  }
  return answers
}

type Ask = (name: string, call: Call) => Promise<string>

// --- Requests ---

const CLIENT = {
  name: 'Atlas Ceramics',
  category: 'Manufacturing',
  city: 'Tunis',
  email: 'hello@atlas.example',
  phone: '+216 71 000 000',
}

async function askForLists(platform: Platform, ask: Ask): Promise<void> {
  const empty = await platform.organization()
  const full = await platform.organization()
  await seed(platform, full, ask)
  for (const { path: target } of OPERATIONS.filter(({ method }) => method === 'GET')) {
    const get = (query: string, { key }: Organization) => ({ method: 'GET', target: target + query, key })
    await ask('none', get('', empty))
    await ask('all', get('', full))
    await ask('limit=2 of 3', get('?limit=2', full))
    await ask('limit=200', get('?limit=200', full))
    await ask('limit=0', get('?limit=0', full))
    await ask('limit=201', get('?limit=201', full))
    await ask('limit twice', get('?limit=1&limit=1', full))
    await ask('an unknown parameter', get('?colour=blue', full))
  }
}

/** Plain records that were added to the recording later. */
const OTHERS = Object.keys(PLAIN_RESOURCES).filter(
  (resource) => resource !== 'projects',
) as readonly (keyof typeof PLAIN_RESOURCES)[]

/** Creates three records of each kind. Clients and leads are created through the API. */
async function seed({ store }: Platform, { id, key }: Organization, ask: Ask): Promise<void> {
  for (const index of [1, 2, 3]) {
    const created = await ask('seed', postOf('/api/v1/clients', key, { ...CLIENT, name: `Client ${index}` }))
    const { data } = JSON.parse(created)
    await ask('seed', postOf('/api/v1/leads', key, { businessId: data.business.id }))
    await store.invoices.create(
      plainCreation(id, {
        id: ids('inv'),
        number: `INV-2026-000${index}`,
        status: 'partially_paid',
        currency: 'TND',
        issueDate: '2026-01-02T03:04:05.006Z',
        dueDate: '2026-02-01T00:00:00.000Z',
        total: '1250.000',
        amountPaid: '250.000',
        amountDue: '1000.000',
      }),
    )
    await store.proposals.create(
      plainCreation(id, {
        id: ids('prop'),
        number: `PROP-2026-000${index}`,
        title: 'Website and hosting',
        status: 'sent',
        version: 2,
        total: 4800.5,
        monthlyTotal: 150,
        currency: 'TND',
      }),
    )
    await store.projects.create(
      plainCreation(id, {
        id: ids('proj'),
        name: `Relaunch ${index}`,
        status: 'active',
        billingType: 'fixed',
        value: 12_000.125,
      }),
    )
    for (const resource of OTHERS) {
      const example = kinds[resource].examples[index]
      const record = { ...example, id: ids(PLAIN_RESOURCES[resource].idKind) }
      await store[resource].create(plainCreation(id, record as never))
    }
  }
}

async function askForClients(platform: Platform, ask: Ask): Promise<void> {
  const { key } = await platform.organization()
  const post = (body: unknown, idempotencyKey?: string) =>
    postOf('/api/v1/clients', key, body, idempotencyKey)
  await ask('all fields', post(CLIENT))
  await ask('name alone', post({ name: 'Atlas Ceramics' }))
  await ask('unknown fields', post({ name: 'Atlas Ceramics', status: 'inactive', colour: 'blue' }))
  await ask('with an Idempotency-Key', post(CLIENT, 'form-1'))
  await ask('the same Idempotency-Key again', post(CLIENT, 'form-1'))
  await ask('the same Idempotency-Key, other content', post({ name: 'Else' }, 'form-1'))
  await ask('an Idempotency-Key of 201 characters', post(CLIENT, 'k'.repeat(201)))
  await ask('no fields', post({}))
  await ask('fields that break their rules', post(BROKEN))
  await ask('a list', post([]))
  await askWithWrongBodies('/api/v1/clients', key, ask)
}

const BROKEN = { name: 'A', category: 'c'.repeat(81), city: 7, email: 'a@b', phone: '1'.repeat(31) }

async function askForLeads(platform: Platform, ask: Ask): Promise<void> {
  const { key } = await platform.organization()
  const other = await platform.organization()
  const create = async (owner: string) =>
    JSON.parse(await ask('for a lead', postOf('/api/v1/clients', owner, CLIENT))).data.business.id
  const businessId = await create(key)
  const post = (body: unknown, idempotencyKey?: string) => postOf('/api/v1/leads', key, body, idempotencyKey)
  await ask('a business', post({ businessId }))
  await ask('with an Idempotency-Key', post({ businessId }, 'form-1'))
  await ask('the same Idempotency-Key again', post({ businessId }, 'form-1'))
  await ask('the same Idempotency-Key, other content', post({ businessId: 'biz_other' }, 'form-1'))
  await ask('an Idempotency-Key of 201 characters', post({ businessId }, 'k'.repeat(201)))
  await ask('a business that does not exist', post({ businessId: 'biz_none' }))
  await ask("another organization's business", post({ businessId: await create(other.key) }))
  await ask('no fields', post({}))
  await ask('a businessId that is no string', post({ businessId: 7 }))
  await askWithWrongBodies('/api/v1/leads', key, ask)
}

/** Creations that were added to the recording later. */
const OTHER_CREATES = OPERATIONS.filter(
  ({ method, path }) => method === 'POST' && OTHERS.some((resource) => path.endsWith(`/${resource}`)),
)

async function askForOthers(
  platform: Platform,
  target: string,
  body: object | undefined,
  ask: Ask,
): Promise<void> {
  const { key } = await platform.organization()
  const post = (given: unknown, idempotencyKey?: string) => postOf(target, key, given, idempotencyKey)
  const broken = Object.fromEntries(Object.keys(body ?? {}).map((field) => [field, null]))
  await ask('all fields', post(body))
  await ask('unknown fields', post({ ...body, id: 'x', colour: 'blue' }))
  await ask('with an Idempotency-Key', post(body, 'form-1'))
  await ask('the same Idempotency-Key again', post(body, 'form-1'))
  await ask('the same Idempotency-Key, other content', post({}, 'form-1'))
  await ask('no fields', post({}))
  await ask('fields that break their rules', post(broken))
  await askWithWrongBodies(target, key, ask)
}

async function askWithWrongBodies(target: string, key: string, ask: Ask): Promise<void> {
  const json = { 'Content-Type': 'application/json' }
  await ask('no body', { method: 'POST', target, key, headers: json })
  await ask('a body that is no JSON', { method: 'POST', target, key, headers: json, body: '{' })
  await ask('a body of text', { ...postOf(target, key, {}), headers: { 'Content-Type': 'text/plain' } })
  await ask('a large body', postOf(target, key, { name: 'x'.repeat(70_000) }))
}

/** Requests the statuses that all operations have, which are 401, 403 and 429, and the 404 of paths. */
async function askInVain(platform: Platform, ask: Ask): Promise<void> {
  const organization = await platform.organization()
  const slow = { perSecond: 0.001, burst: 1 }
  for (const { method, path: target, scope } of OPERATIONS) {
    const call = (key?: string): Call => ({
      ...(method === 'POST' ? postOf(target, '', {}) : {}),
      method,
      target,
      ...(key === undefined ? {} : { key }),
    })
    const others = SCOPES.filter((one): one is Scope => one !== scope)
    const spent = (await organization.createKey({ rateLimit: slow })).key
    await ask('no key', call())
    await ask('a key that is none', call('bapi_live_none'))
    await ask('a key without the scope', call((await organization.createKey({ scopes: others })).key))
    await ask('the last request of a key', call(spent))
    await ask('one request more', call(spent))
  }
  const { key } = organization
  await ask('no such path', { method: 'GET', target: '/api/v1/businesses', key })
  await ask('no such path', { method: 'GET', target: '/api/v1/clients/cli_1', key })
}

function postOf(target: string, key: string, body: unknown, idempotencyKey?: string): Call {
  return {
    method: 'POST',
    target,
    key,
    headers: {
      'Content-Type': 'application/json',
      ...(idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }),
    },
    body: JSON.stringify(body),
  }
}

// --- Raw requests ---

async function send(port: number, { method, target, key, headers, body }: Call) {
  const request = http.request({ host: '127.0.0.1', port, method, path: target, headers })
  if (key !== undefined) request.setHeader('Authorization', `Bearer ${key}`)
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.on('response', resolve).on('error', reject).end(body)
  })
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk)
  const received = Buffer.concat(chunks).toString('utf8')
  const { statusCode: status = 0, rawHeaders } = response
  const pairs = rawHeaders.flatMap((name, index) =>
    index % 2 === 0 ? [[name, normalized(name, rawHeaders[index + 1] ?? '')] as const] : [],
  )
  return { answer: { status, headers: pairs, body: withoutRun(received) }, body: received }
}

function normalized(name: string, value: string): string {
  if (name === 'Date') return 'date'
  // The remaining number depends on how fast the machine is.
  return name === 'RateLimit' ? value.replace(/=\d+/g, '=n') : withoutRun(value)
}

/** Replaces ids and timestamps, which differ between runs, with strings of the same length. */
function withoutRun(text: string): string {
  return text
    .replace(/\b([a-z]+)_[0-7][0-9A-HJKMNP-TV-Z]{25}\b/g, (id, kind) => `${kind}_`.padEnd(id.length, '.'))
    .replace(/"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/g, (moment) =>
      moment.startsWith('"2026-0') ? moment : '"yyyy-mm-ddThh:mm:ss.mmmZ"',
    )
}

// --- Recordings ---

/** Formats raw responses, each preceded by a line that describes the request. */
export function formatAnswers(answers: Readonly<Record<string, RecordedAnswer>>): string {
  const blocks = Object.entries(answers).map(([name, { status, headers, body }]) =>
    [`### ${name}`, `HTTP/1.1 ${status}`, ...headers.map((pair) => pair.join(': ')), '', body, ''].join('\n'),
  )
  return blocks.join('\n')
}

/** Parses the output of {@link formatAnswers} into a list of lines for each response. */
export function readAnswers(text: string): ReadonlyMap<string, readonly string[]> {
  const blocks = text.split(/^### /m).filter(Boolean)
  return new Map(
    blocks.map((block) => {
      const [name = '', ...lines] = block.trimEnd().split('\n')
      return [name, lines]
    }),
  )
}
