import assert from 'node:assert/strict'
import { test } from 'node:test'
import postgres from 'postgres'
import { assertError, call, prepareDatabase } from './_host.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

for (const [what, network, isServed] of [
  ['serves an organization from its network', '127.0.0.0/8', true],
  ['refuses an organization from other networks', '203.0.113.0/24', false],
] as const) {
  test(`examples/metering ${what}, and counts the calls that succeed, a replay not`, async () => {
    const { databaseUrl, organizationId, key, drop } = await prepareDatabase()
    const program = startSource(['examples/metering.ts'], {
      DATABASE_URL: databaseUrl,
      PORT: '0',
      ALLOWED: JSON.stringify({ [organizationId]: [network] }),
    })
    const url = `${await readBaseUrl(program)}/api/v1/clients`
    const create = () => call(url, key, { name: 'Atlas Ceramics' }, { 'Idempotency-Key': 'form-1' })
    const answers = [await create(), await create(), await call(url, key), await call(url, 'none')]
    for (const answer of answers) {
      if (isServed && answer.status !== 401) assert.equal(answer.status, 200, await answer.text())
      else await assertError(answer, answer.status === 401 ? 401 : 403)
    }
    await endProgram(program)
    assert.equal(await program.exit, 0)
    assert.equal(program.stderr(), '')

    const sql = postgres(databaseUrl)
    const usage = await sql`select organization_id, calls::int from api_usage`
    const [clients] = await sql`select count(*)::int as count from business_api.businesses`
    await sql.end()
    // The create and the list.
    assert.deepEqual([...usage], isServed ? [{ organization_id: organizationId, calls: 2 }] : [])
    assert.equal(clients?.count, isServed ? 1 : 0)
    await drop()
  })
}
