import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from '../_program.ts'
import { readPrometheus, sampleOf } from '../metrics/_prometheus.ts'
import { prepareDatabase, visit } from './_host.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

const EXAMPLE = join(ROOT, 'examples', 'metrics')
/** The form of a metric's name in an expression. */
const METRIC = /business_api_\w+/g

test('examples/metrics serves metrics and health, and says 503 while the database is away', async () => {
  const { databaseUrl, key, drop } = await prepareDatabase()
  const program = startSource(['examples/metrics/host.ts'], {
    DATABASE_URL: databaseUrl,
    BUSINESS_API_SECRET_KEYS: randomBytes(32).toString('base64'),
    PORT: '0',
    METRICS_PORT: '0',
  })
  await visit(await readBaseUrl(program), key)
  const [, port] = await program.prints(/Metrics on .*port: (\d+)/)
  const read = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`)

  const answer = await read('/metrics')
  assert.equal(answer.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
  const samples = readPrometheus(await answer.text())
  const created = { route: '/api/v1/clients', method: 'POST', status: '200' }
  assert.equal(sampleOf(samples, 'business_api_requests_total', created), 2)
  assert.equal(sampleOf(samples, 'business_api_replays_total'), 1)
  assert.equal(sampleOf(samples, 'business_api_queue_up'), 1)
  assert.ok((sampleOf(samples, 'business_api_claim_duration_seconds_count') ?? 0) > 0)
  assert.equal(sampleOf(samples, 'business_api_connections_max'), 10)

  const health = await read('/health')
  assert.equal(health.status, 200, await health.clone().text())
  assert.deepEqual(
    ((await health.json()) as { checks: { name: string }[] }).checks.map(({ name }) => name),
    ['store', 'loop'],
  )
  assert.equal((await read('/')).status, 404)

  const known = new Set(samples.map(({ name }) => name))
  await assertKnown('alerts.yml', known)
  await assertKnown('dashboard.json', known)
  const { panels } = JSON.parse(await readFile(join(EXAMPLE, 'dashboard.json'), 'utf8'))
  assert.ok(panels.length > 10)

  await drop()
  const endsAt = performance.now() + 20_000
  let status = 200
  while (status === 200 && performance.now() < endsAt) status = (await read('/health')).status
  assert.equal(status, 503)
  assert.equal((await read('/metrics')).status, 200)
  await endProgram(program)
  assert.equal(await program.exit, 0)
})

/** Metrics that exist from the first event of their kind on, which the visit above does not cause. */
const LATER = [
  'business_api_attempts_total',
  'business_api_attempt_duration_seconds_bucket',
  'business_api_result_write_duration_seconds_bucket',
  'business_api_retention_lag_seconds',
]

async function assertKnown(file: string, known: ReadonlySet<string>): Promise<void> {
  const text = await readFile(join(EXAMPLE, file), 'utf8')
  const named = new Set([...text.matchAll(METRIC)].map(([name]) => name))
  const unknown = [...named].filter(
    (name) => !known.has(name) && !known.has(`${name}_count`) && !LATER.includes(name),
  )
  assert.deepEqual(unknown, [], `${file} names metrics that the host does not have`)
  assert.ok(named.size >= 10)
}
