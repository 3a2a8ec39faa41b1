import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { Webhook } from 'standardwebhooks'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { type Receiver, startReceiver } from '../sender/_receiver.ts'
import { assertFailed, cliOn, jsonOf, type Result } from './_cli.ts'
import { publish } from './_events.ts'
import { writeService } from './_service.ts'
import { addEndpoint, DEVELOPMENT, findEndpoint, newOrganization } from './_settings.ts'

// The Standard Webhooks headers, enabled for an endpoint or the whole service.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

/** The headers of the newest request in the form that a Standard Webhooks verifier needs. */
function verify({ requests }: Receiver, secret: string): void {
  const { headers, body } = requests.at(-1) ?? assert.fail('nothing was received')
  const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
  new Webhook(secret).verify(body, texts)
}

const isStandard = async (org: string, id: string): Promise<boolean> =>
  (await findEndpoint(run, org, id)).standardWebhooks

describe('--standard-webhooks', () => {
  test('of endpoints add makes every delivery verify with the same secret', async (t) => {
    const receiver = await startReceiver(t)
    const org = newOrganization()
    const { id, secret } = await jsonOf(
      await run(
        ...['endpoints', 'add', '-o', org, '--url', `${receiver.origin}/hook`, ...DEVELOPMENT],
        ...['--standard-webhooks', '--json'],
      ),
    )
    assert.equal(await isStandard(org, id), true)
    await publish(sql, org)
    await run('deliver', '--once', ...DEVELOPMENT)
    verify(receiver, secret)
  })

  test("of endpoints update enables and disables it, and rejects a secret that can't be decoded", async () => {
    const org = newOrganization()
    const { id } = await addEndpoint(run, org)
    const update = ['endpoints', 'update', id, '-o', org, '--standard-webhooks']
    for (const [word, expected] of [
      ['on', true],
      ['off', false],
    ] as const) {
      assert.equal((await run(...update, word)).exitCode, 0)
      assert.equal(await isStandard(org, id), expected)
    }
    assertFailed(await run(...update, 'maybe'), 2, /--standard-webhooks must be one of on, off/)
    await sql`update business_api.webhook_endpoints set sealed_secret = 'plain.whsec_old' where id = ${id}`
    assertFailed(await run(...update, 'on'), 1, /cannot decode its signing secret: rotate the secret first/)
    assert.equal((await run(...update, 'off')).exitCode, 0)
  })

  test('of the service applies to all endpoints, both in deliver and endpoints test', async (t) => {
    const receiver = await startReceiver(t)
    const org = newOrganization()
    const url = ['--url', `${receiver.origin}/hook`]
    const { id, secret } = jsonOf(await run('endpoints', 'add', '-o', org, ...url, ...DEVELOPMENT, '--json'))
    await publish(sql, org)
    await run('deliver', '--once', ...DEVELOPMENT)
    assert.equal(receiver.requests.at(-1)?.headers['webhook-signature'], undefined)
    await publish(sql, org)
    const service = ['--service', await writeService({ standardWebhooks: true })]
    await run('deliver', '--once', ...service, ...DEVELOPMENT)
    verify(receiver, secret)
    await run('endpoints', 'test', id, '-o', org, ...service, ...DEVELOPMENT)
    assert.equal(receiver.requests.length, 3)
    verify(receiver, secret)
  })
})
