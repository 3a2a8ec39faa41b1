import assert from 'node:assert/strict'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { HttpResponse, http } from 'msw'
import { setupServer } from 'msw/node'
import postgres from 'postgres'
import { type Copy, openCopy, syncClients } from '../../examples/sync-clients.ts'
import { ApiError } from '../../lib/client.ts'
import type { Client } from '../../lib/index.ts'
import { businessOf } from '../_business.ts'
import { until } from '../faults/_fixture.ts'
import { call } from './_host.ts'
import { startPlatform, type TestPlatform, temporaryPath } from './_platform.ts'
import { type Program, startSource } from './_program.ts'

const INTERVAL_MS = 60_000

/** Polls until `steps` are used up, a step before each further poll, and never waits. */
async function poll(
  api: { url: string; key: string },
  copy: Copy,
  steps: readonly (() => unknown)[] = [],
): Promise<{ waits: number[]; lines: string[] }> {
  const ending = new AbortController()
  const remaining = [...steps]
  const waits: number[] = []
  const lines: string[] = []
  await syncClients(api, copy, {
    intervalMs: INTERVAL_MS,
    signal: ending.signal,
    log: (line) => lines.push(line),
    async wait(ms) {
      waits.push(ms ?? 0)
      const step = remaining.shift()
      if (step) await step()
      else ending.abort()
      return undefined as never
    },
  })
  return { waits, lines }
}

async function readCopy(path: string): Promise<Client[]> {
  return JSON.parse(await readFile(path, 'utf8')).clients
}

/** The number of clients that a poll has found new or changed. */
function changesOf(line = ''): number {
  return Number(/^\d+/.exec(line)?.[0])
}

describe('examples/sync-clients with the real API', () => {
  let platform: TestPlatform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform.close())

  const create = (name: string) => call(`${platform.url}/api/v1/clients`, platform.key, { name })
  const list = async () =>
    (await (await call(`${platform.url}/api/v1/clients`, platform.key)).json()) as { data: Client[] }

  test('examples/sync-clients has all clients, poll by poll, and goes on with the token of the file', async () => {
    const path = temporaryPath('clients.json')
    const copy = await openCopy(path)
    await create('Atlas Ceramics')
    const { lines } = await poll(platform.api, copy, [() => create('Bleu Nuit'), () => {}])
    assert.deepEqual(
      lines.map((line) => line.slice(0, 8)),
      ['1 of the', '1 of the', '0 of the'],
    )
    const { data } = await list()
    assert.equal(data.length, 2)
    assert.deepEqual(new Map(data.map((client) => [client.id, client])), copy.clients)
    const reopened = await openCopy(path)
    assert.deepEqual(reopened.clients, copy.clients)
    // A poll beside an open transaction, also of another test on the same server, repeats what was committed since that began; so
    // does the first poll after the transaction.
    const sql = postgres(platform.databaseUrl, { max: 1 })
    await sql.begin(async (transaction) => {
      await transaction`select pg_current_xact_id()`
      await create('Cap Blanc')
      const beside = await poll(platform.api, reopened, [() => {}])
      assert.deepEqual(beside.lines.map(changesOf), [1, 0])
    })
    await sql.end()
    await until(
      'a poll lists nothing',
      async () => {
        const again = await poll(platform.api, reopened)
        assert.equal(changesOf(again.lines[0]), 0)
        return /^0 of the 0 /.test(again.lines[0] ?? '')
      },
      30_000,
    )
  })

  test('examples/sync-clients runs as a program, and prints no line with the key', {
    timeout: 60_000,
  }, async () => {
    const path = temporaryPath('clients.json')
    const env = { API_URL: platform.url, API_KEY: platform.key }
    const program = startSource(['examples/sync-clients.ts', path, '20'], env)
    await program.prints(/3 of the 3 listed clients are new or have changed, 3 in the copy/)
    await create('Dar Sami')
    await program.prints(/1 of the \d listed clients are new or have changed, 4 in the copy/)
    program.signal('SIGTERM')
    assert.equal(await program.exit, 0)
    assert.equal((await readCopy(path)).length, 4)
    assertSecret(program, platform.key)
  })

  test('examples/sync-clients ends with a rejected key, and reports the rejection without the key', async () => {
    const refused = `${platform.key.slice(0, -1)}${platform.key.endsWith('a') ? 'b' : 'a'}`
    const env = { API_URL: platform.url, API_KEY: refused }
    const program = startSource(['examples/sync-clients.ts', temporaryPath('clients.json')], env)
    assert.equal(await program.exit, 1)
    assert.match(program.stderr(), /^Cannot list clients because the API responded with 401: .*\n$/)
    assertSecret(program, refused)
  })
})

test('examples/sync-clients names the missing setting, and never shows a key that cannot be sent', async () => {
  const programs = [
    { API_URL: undefined, API_KEY: undefined },
    { API_URL: 'http://127.0.0.1:9', API_KEY: 'bapi_live_x\nbapi_live_y' },
  ].map((env) => startSource(['examples/sync-clients.ts', 'clients.json'], env))
  for (const program of programs) {
    assert.equal(await program.exit, 2)
    assert.match(program.stderr(), /^Usage: API_URL=.*\n$/)
    assertSecret(program, 'bapi_live_x')
  }
})

function assertSecret(program: Program, key: string): void {
  assert.ok(!(program.stdout() + program.stderr()).includes(key))
}

describe('examples/sync-clients by itself', () => {
  const api = { url: 'https://app.example/', key: 'bapi_live_secret' }
  const server = setupServer()
  before(() => server.listen({ onUnhandledRequest: 'error' }))
  after(() => server.close())

  /** The queries of the requests since the last call of `answer`. */
  let asked: string[] = []

  /** Answers the requests in turn. */
  function answer(...answers: readonly (() => Response)[]): void {
    const remaining = [...answers]
    asked = []
    server.use(
      http.get('https://app.example/api/v1/clients', ({ request }) => {
        assert.equal(request.headers.get('authorization'), `Bearer ${api.key}`)
        asked.push(new URL(request.url).search)
        return remaining.shift()?.() ?? HttpResponse.error()
      }),
    )
  }

  const page = (...data: Client[]) => HttpResponse.json({ data })

  /** A page with a token, and with the link to the next page if there is one. */
  const pageWith = (syncToken: string, next: string | null, ...data: Client[]) =>
    HttpResponse.json(
      { data },
      { headers: { 'Sync-Token': syncToken, ...(next === null ? {} : { Link: `<${next}>; rel="next"` }) } },
    )

  const failures: readonly [name: string, () => Response, waitMs: number][] = [
    ['429', () => refusal(429, '90'), 90_000],
    ['429 with a wait shorter than the interval', () => refusal(429, '1'), INTERVAL_MS],
    ['503', () => refusal(503, '120'), 120_000],
    ['503 without Retry-After', () => refusal(503), INTERVAL_MS],
    ['429 with a wait that no timer holds', () => refusal(429, '99999999999'), 86_400_000],
    ['500', () => refusal(500), INTERVAL_MS],
    ['no answer', () => HttpResponse.error(), INTERVAL_MS],
    ['half an answer', () => new HttpResponse('{"data":[{"id":"cli_'), INTERVAL_MS],
    ['an answer of another form', () => HttpResponse.json({ data: 'none' }), INTERVAL_MS],
    ['null', () => HttpResponse.json(null), INTERVAL_MS],
    ['a page of a proxy in between', () => new HttpResponse('<html>', { status: 502 }), INTERVAL_MS],
  ]
  for (const [name, failure, waitMs] of failures) {
    test(`examples/sync-clients waits and goes on after ${name}`, async () => {
      const copy = await openCopy(temporaryPath('clients.json'))
      answer(failure, () => page(clientOf('cli_1')))
      const { waits, lines } = await poll(api, copy, [() => {}])
      assert.deepEqual(waits, [waitMs, INTERVAL_MS])
      assert.match(lines[0] ?? '', new RegExp(`^Not in sync, next try in ${waitMs} ms: `))
      assert.deepEqual([...copy.clients.keys()], ['cli_1'])
      assert.ok(!lines.join().includes(api.key))
    })
  }

  for (const status of [401, 403]) {
    test(`examples/sync-clients ends when the key is rejected with ${status}`, async () => {
      const copy = await openCopy(temporaryPath('clients.json'))
      answer(() => refusal(status))
      await assert.rejects(poll(api, copy), (error) => {
        assert.ok(error instanceof ApiError)
        assert.equal(error.status, status)
        return !error.message.includes(api.key)
      })
    })
  }

  test('examples/sync-clients shows one line of a proxy’s page', async () => {
    answer(() => new HttpResponse(`<html>\n<h1>Forbidden</h1>\n${'x'.repeat(10_000)}`, { status: 403 }))
    await assert.rejects(poll(api, await openCopy(temporaryPath('clients.json'))), (error) => {
      return /^Cannot list clients because the API responded with 403: <html> <h1>Forbidden<\/h1> x+ \(no request id\)$/.test(
        (error as Error).message,
      )
    })
  })

  test('examples/sync-clients updates changed clients, keeps clients that are no longer listed, and writes nothing without a change', async () => {
    const path = temporaryPath('clients.json')
    const copy = await openCopy(path)
    const changed = { ...clientOf('cli_2'), status: 'inactive' }
    answer(
      () => page(clientOf('cli_2'), clientOf('cli_1')),
      () => page(clientOf('cli_3'), changed),
      () => page(clientOf('cli_3'), changed),
    )
    let written = 0
    await poll(api, copy, [
      () => {},
      async () => {
        written = (await stat(path)).mtimeMs
      },
    ])
    assert.deepEqual(await readCopy(path), [changed, clientOf('cli_1'), clientOf('cli_3')])
    assert.equal((await stat(path)).mtimeMs, written)
  })

  test('examples/sync-clients tries a failed write again', async () => {
    const path = temporaryPath('missing/clients.json')
    const copy = await openCopy(path)
    answer(
      () => page(clientOf('cli_1')),
      () => page(clientOf('cli_1')),
    )
    const { lines } = await poll(api, copy, [() => mkdir(dirname(path))])
    assert.match(lines[0] ?? '', /ENOENT/)
    assert.match(lines[1] ?? '', /^1 of the 1 listed/)
    assert.deepEqual(await readCopy(path), [clientOf('cli_1')])
  })

  test('examples/sync-clients takes the previous copy when a write was cut short', async () => {
    const path = temporaryPath('clients.json')
    await writeFile(path, JSON.stringify({ syncToken: 't1', clients: [clientOf('cli_1')] }))
    await writeFile(`${path}.new`, '[{"id":"cli_')
    const copy = await openCopy(path)
    answer(() => page(clientOf('cli_2')))
    await poll(api, copy)
    assert.deepEqual(await readCopy(path), [clientOf('cli_1'), clientOf('cli_2')])
  })

  test('examples/sync-clients goes on after the last page that was written, and asks for what has changed since', async () => {
    const path = temporaryPath('clients.json')
    const next = '?limit=200&updatedSince=t1'
    answer(
      () => pageWith('t1', next, clientOf('cli_1')),
      () => refusal(503),
      () => pageWith('t2', null, clientOf('cli_2')),
      () => pageWith('t3', null),
    )
    await poll(api, await openCopy(path), [() => {}])
    const { syncToken } = await openCopy(path)
    assert.equal(syncToken, 't2')
    await poll(api, await openCopy(path))
    const beginning = `?limit=200&updatedSince=${encodeURIComponent(new Date(0).toISOString())}`
    assert.deepEqual(asked, [beginning, next, next, '?limit=200&updatedSince=t2'])
    assert.deepEqual(await readCopy(path), [clientOf('cli_1'), clientOf('cli_2')])
    assert.equal((await openCopy(path)).syncToken, 't3')
  })
})

function clientOf(id: string): Client {
  const business = businessOf({ id: `biz_${id}` })
  return {
    id,
    status: 'active',
    totalRevenue: 0,
    monthlyRevenue: 0,
    convertedAt: '2026-03-14T09:26:53.589Z',
    business,
  }
}

function refusal(status: number, retryAfter?: string): Response {
  const headers = retryAfter === undefined ? {} : { 'Retry-After': retryAfter }
  return HttpResponse.json({ error: 'Not now', requestId: 'req_1' }, { status, headers })
}
