import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { findFreePort } from '../../examples/demo/postgres-machine.ts'
import { type BusinessApi, EVENT_TYPES } from '../../lib/index.ts'
import { named } from '../_service.ts'
import {
  assertFields,
  OPERATIONS,
  type Organization,
  recordOf,
  request,
  serve,
  startPlatform,
} from '../api/_api.ts'
import { roomRoutes } from './_rooms.ts'
import '../tools/_install.ts'
import type { Integration } from './tools/clients/_integration.ts'

// Other people's tools on the document of a running API. Not part of the ordinary run, because the test installs them. One tool
// runs at a time.

const run = promisify(execFile)
const cwd = join(import.meta.dirname, 'tools')
const bin = (name: string): string => join(cwd, 'node_modules/.bin', name)

const platform = await startPlatform()
let api: BusinessApi | undefined
const server = await serve((request, response) => api?.(request, response))
const options = {
  // Linters want every address, which only a host knows.
  info: {
    contact: { name: 'Support', url: 'https://atlas.example/help', email: 'api@atlas.example' },
    license: { name: 'Terms', url: 'https://atlas.example/terms' },
  },
  rateLimit: { key: { perSecond: 1000, burst: 1000 }, organization: { perSecond: 1000, burst: 1000 } },
}
api = platform.apiWith(options, named(platform.store, { baseUrl: server.url, routes: roomRoutes }))
after(async () => {
  await server.close()
  await platform.close()
})

const document = await (await fetch(`${server.url}/openapi.json`)).text()
mkdirSync(join(cwd, 'generated'), { recursive: true })
const path = join(cwd, 'generated/openapi.json')
writeFileSync(path, document)

/** Runs a program of the tools; its output stands in the message of a failure. */
async function tool(name: string, ...args: string[]): Promise<string> {
  try {
    return (await run(bin(name), args, { cwd, maxBuffer: 1 << 26, env: ENVIRONMENT })).stdout
  } catch (error) {
    const { message, stdout } = error as Error & { stdout?: string }
    assert.fail(`${name}: ${message}\n${stdout?.slice(-4000)}`)
  }
}

const ENVIRONMENT = { ...process.env, DO_NOT_TRACK: '1', KUBB_DISABLE_TELEMETRY: '1', NO_COLOR: '1' }

// --- Linters ---

test('spectral finds nothing with all rules of spectral:oas, hints included', async () => {
  await tool('spectral', 'lint', path, '--ruleset', join(cwd, 'spectral.yaml'), '--fail-severity=hint')
})

// --- Six generators ---

const GENERATORS: Readonly<Record<string, readonly [string, ...string[]]>> = {
  'openapi-fetch': ['openapi-typescript', path, '-o', 'generated/openapi-typescript.ts'],
  'hey-api': ['openapi-ts', '-i', path, '-o', 'generated/hey-api', '-c', '@hey-api/client-fetch'],
  orval: ['orval', '--config', 'orval.config.mjs'],
  'swagger-typescript-api': [
    ...(['swagger-typescript-api', 'generate', '-p', path] as const),
    ...['-o', 'generated/swagger-typescript-api', '-n', 'api.ts'],
  ],
  kubb: ['kubb', 'generate', '--config', 'kubb.config.mjs'],
  'openapi-zod-client': [
    ...(['openapi-zod-client', path, '-o', 'generated/openapi-zod-client.ts'] as const),
    '--export-schemas',
  ],
}

describe('generators', () => {
  for (const [name, [program, ...args]] of Object.entries(GENERATORS)) {
    test(`${name} generates a client`, () => tool(program, ...args).then(() => {}))
  }

  test('the generated clients and their callers type-check, events included', async () => {
    const names = EVENT_TYPES.map((type) => type.replace(/(?:^|[._])(.)/g, (_, first) => first.toUpperCase()))
    writeFileSync(join(cwd, 'generated/events.ts'), eventsOfEach(names))
    await tool('tsc', '-p', cwd)
  })

  for (const name of Object.keys(GENERATORS)) {
    test(`the client of ${name} calls the API`, async () => {
      const { key } = await platform.organization()
      const { integrate } = await import(`./tools/clients/${name}.ts`)
      const expected: Integration = {
        clientName: 'Atlas Ceramics',
        isSameClient: true,
        leadStage: 'new',
        listed: [1, 1, 0, 0, 0],
        room: 'Atlas',
        refusal: 'Validation failed: name must be a string of 2 to 150 characters',
      }
      assert.deepEqual(await integrate(server.url, key), expected)
    })
  }
})

/** A file that names the type of every event in what each generator has made. */
function eventsOfEach(names: readonly string[]): string {
  const files = {
    heyApi: './hey-api/index.ts',
    orval: './orval.ts',
    swagger: './swagger-typescript-api/api.ts',
    kubb: './kubb/index.ts',
  }
  return [
    "import type { z } from 'zod'",
    "import type { components } from './openapi-typescript.ts'",
    "import type { schemas } from './openapi-zod-client.ts'",
    ...Object.entries(files).map(([name, file]) => `import type * as ${name} from '${file}'`),
    'export type Types = [',
    ...names.flatMap((name) => [
      `  components['schemas']['${name}Event']['data'],`,
      `  z.infer<(typeof schemas)['${name}Event']>['data'],`,
      ...Object.keys(files).flatMap((file) => [
        `  ${file}.${name}Event['data'],`,
        `  ${file}.${name}EventData,`,
      ]),
    ]),
    ']',
  ].join('\n')
}

// --- Prism between client and server ---

describe('prism', () => {
  let prism: ChildProcess | undefined
  after(() => prism?.kill())

  test('prism as a proxy sees no violation in any answer, and none in the requests that succeed', async () => {
    const port = await findFreePort()
    prism = spawn(bin('prism'), ['proxy', path, server.url, '--port', String(port)], {
      cwd,
      env: ENVIRONMENT,
      stdio: 'ignore',
    })
    await listening(port)
    const organization = await platform.organization()
    const seen = new Map<number, number>()
    for (const { call, isSound } of await requestsOf(organization)) {
      const { target, ...init } = call
      const response = await fetch(`http://127.0.0.1:${port}${target}`, {
        ...init,
        signal: AbortSignal.timeout(20_000),
      })
      seen.set(response.status, (seen.get(response.status) ?? 0) + 1)
      const violations: Violation[] = JSON.parse(response.headers.get('sl-violations') ?? '[]')
      const counted = violations.filter(({ location }) => isSound || location[0] === 'response')
      const asked = `${init.method} ${target}: ${response.status} ${await response.text()}`
      assert.deepEqual(counted, [], asked)
      assert.equal(response.status === 200, isSound, asked)
    }
    assert.deepEqual([...seen.keys()].toSorted(), [200, 401, 403, 404, 415, 422, 429])
  })
})

interface Violation {
  readonly location: readonly string[]
  readonly message: string
}

interface Asked {
  readonly call: RequestInit & { readonly target: string }
  /** The request keeps to the document and is answered with 200. */
  readonly isSound: boolean
}

/** Requests for every operation and every status that a caller can bring about. */
async function requestsOf(organization: Organization): Promise<Asked[]> {
  const { key, createKey } = organization
  const created = await request(platform.api, '/api/v1/clients', { key, json: { name: 'Atlas' } })
  const { business } = recordOf(created)
  assertFields(business)
  const slow = (await createKey({ rateLimit: { perSecond: 0.001, burst: 1 } })).key
  const all: Asked[] = []
  for (const { method, path: target, scope, body: accepted } of OPERATIONS) {
    const body = { ...(target.endsWith('leads') && { businessId: business.id }), ...accepted }
    const ask = (asKey: string, query = '', idempotencyKey?: string) =>
      method === 'POST' ? post(target, asKey, body, idempotencyKey) : get(target + query, asKey)
    const without = (
      await createKey({ scopes: scope === 'clients:read' ? ['leads:read'] : ['clients:read'] })
    ).key
    const sound = [
      ask(key),
      ...(method === 'POST'
        ? [ask(key, '', 'form-1'), ask(key, '', 'form-1')]
        : [ask(key, '?limit=1'), ask(key, '?limit=200&updatedSince=1970-01-01T00:00:00Z')]),
    ]
    const broken = [
      ask('bapi_live_none'),
      ask(without),
      ...(method === 'POST'
        ? [
            post(target, key, {}),
            post(target, key, body, 'k'.repeat(201)),
            // No body that is not JSON: Prism itself never answers it.
            { ...post(target, key, body), headers: { ...authorized(key), 'Content-Type': 'text/plain' } },
          ]
        : [ask(key, '?limit=0'), ask(key, '?page=2'), ask(key, '?before=1')]),
    ]
    all.push(...sound.map((call) => ({ call, isSound: true })))
    all.push(...broken.map((call) => ({ call, isSound: false })))
  }
  all.push({ call: post('/api/v1/leads', key, { businessId: 'biz_none' }), isSound: false })
  all.push({ call: get('/api/v1/clients', slow), isSound: true })
  all.push({ call: get('/api/v1/clients', slow), isSound: false })
  return all
}

function authorized(key: string): Record<string, string> {
  return { Authorization: `Bearer ${key}` }
}

function get(target: string, key: string) {
  return { target, method: 'GET', headers: authorized(key) }
}

function post(target: string, key: string, body: object, idempotencyKey?: string) {
  const headers = {
    ...authorized(key),
    'Content-Type': 'application/json',
    ...(idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }),
  }
  return { target, method: 'POST', headers, body: JSON.stringify(body) }
}

/** Waits until a port of this machine answers, half a minute at most. */
async function listening(port: number): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    const socket = net.connect(port, '127.0.0.1')
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    })
    socket.destroy()
    if (isOpen) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  assert.fail(`nothing listens at ${port}`)
}

// --- Contract tests made by Portman ---

test('the tests that portman makes of the document pass against the API', async () => {
  const { key } = await platform.organization()
  writeFileSync(join(cwd, 'generated/portman.json'), JSON.stringify(portmanConfig(key)))
  const output = await tool(
    ...(['portman', '--local', path, '--baseUrl', server.url] as const),
    ...[
      '--portmanConfigFile',
      'generated/portman.json',
      '--output',
      'generated/collection.json',
      '--runNewman',
    ],
  )
  const [, made, failed] = /│\s+assertions │\s+(\d+) │\s+(\d+) │/.exec(output) ?? []
  assert.equal(failed, '0', output.slice(-4000))
  // Status, content type, body and schema of each of the seven operations.
  assert.ok(Number(made) >= 28, output.slice(-4000))
})

/** The tests of every operation, and what an example of the document cannot know: the key, and a business that exists. */
function portmanConfig(key: string): object {
  const everywhere = { openApiOperation: '*::/api/*' }
  return {
    version: 1,
    globals: { securityOverwrites: { bearer: { token: key } } },
    tests: {
      contractTests: ['statusSuccess', 'contentType', 'jsonBody', 'schemaValidation', 'headersPresent'].map(
        (name) => ({ ...everywhere, [name]: { enabled: true } }),
      ),
    },
    assignVariables: [
      {
        openApiOperation: 'POST::/api/v1/clients',
        collectionVariables: [{ responseBodyProp: 'data.business.id', name: 'businessId' }],
      },
    ],
    overwrites: [
      {
        openApiOperation: 'POST::/api/v1/leads',
        overwriteRequestBody: [{ key: 'businessId', value: '{{businessId}}', overwrite: true }],
      },
    ],
  }
}
