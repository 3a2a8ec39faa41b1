import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { finishDeliveries } from '../_deliveries.ts'
import { assertFailed, cliOn, jsonOf, type Result, textOf } from './_cli.ts'
import { publish } from './_events.ts'
import { addEndpoint, ERASE, newOrganization } from './_settings.ts'

// The delivery log commands. Each test uses a new organization.

let database: TestDatabase
let sql: Sql
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  run = cliOn(database.url)
})

after(() => database.drop())

describe('deliveries', () => {
  /** Creates skipped deliveries by disabling an endpoint. */
  async function skip(count: number): Promise<{ org: string; endpointId: string }> {
    const org = newOrganization()
    const { id: endpointId } = await addEndpoint(run, org)
    await run('endpoints', 'disable', endpointId, '--organization', org, '--yes')
    await publish(sql, org, count)
    await run('endpoints', 'enable', endpointId, '--organization', org)
    return { org, endpointId }
  }

  test('list prints pages, each with the start of the next', async () => {
    const { org, endpointId } = await skip(5)
    const list = ['deliveries', 'list', '--organization', org]
    const first = jsonOf(await run(...list, '--limit', '3', '--json'))
    assert.deepEqual([first.data.length, first.next], [3, first.data[2].id])
    const second = jsonOf(await run(...list, '--limit', '3', '--before', first.next, '--json'))
    assert.deepEqual([second.data.length, second.next], [2, null])
    const { stdout, stderr } = await run(...list, '--limit', '3')
    assert.match(stdout, /^ID +TYPE +STATE +ATTEMPTS +REASON +ENDPOINT +CREATED\n/)
    assert.match(
      stdout,
      new RegExp(`^dlv_\\w+ +project.completed +skipped +0 +endpoint_disabled +${endpointId} `, 'm'),
    )
    assert.equal(stderr, `More: --before ${first.next}\n`)
    for (const [log, cursor] of [
      ['deliveries', 'foo'],
      ['audit', first.next],
    ]) {
      const result = await run(log, 'list', '--organization', org, '--before', cursor)
      assertFailed(result, 2, /--before must be null, or the next of an earlier page: (dlv|aud)_/)
      assert.equal(result.stdout, '')
    }
  })

  test('list filters by endpoint, type, state and time', async () => {
    const { org, endpointId } = await skip(2)
    await publish(sql, org, 1, 'invoice.paid')
    const count = async (...flags: readonly string[]): Promise<number> =>
      jsonOf(await run('deliveries', 'list', '--organization', org, '--json', ...flags)).data.length
    assert.equal(await count(), 3)
    assert.equal(await count('--state', 'skipped'), 2)
    assert.equal(await count('--state', 'skipped,pending', '--endpoint', endpointId), 3)
    assert.equal(await count('--response', '5xx'), 0)
    await sql`select business_api.publish_event(${org}, 'invoice.paid', '{"invoiceId": "inv_7", "number": "7"}')`
    assert.equal(await count('--subject', 'inv_7', '--until', '2099-01-01'), 1)
    const events = await run('events', 'list', '--organization', org, '--subject', 'inv_7', '--json')
    assert.equal(jsonOf(events).data.length, 1)
    assert.equal(await count('--type', 'invoice.paid', '--since', '1h'), 2)
    assert.equal(await count('--until', '1h'), 0)
    assert.equal(await count('--endpoint', 'we_other'), 0)
    const list = ['deliveries', 'list', '--organization', org]
    assertFailed(
      await run(...list, '--state', 'lost'),
      2,
      /--state must be one or more of pending.* \(see: business-api-kit deliveries list --help\)/,
    )
    assertFailed(await run(...list, '--type', 'lost'), 2, /--type must be one of/)
    assertFailed(await run(...list, '--limit', '201'), 2, /limit must be a whole number from 1 to 200/)
  })

  test('events redeliver resends an event to one endpoint, even if that was added later', async () => {
    const { org } = await skip(1)
    const withBody = jsonOf(await run('events', 'list', '--organization', org, '--with-body', '--json'))
      .data[0]
    const { id: late } = await addEndpoint(run, org)
    const sent = await run('events', 'redeliver', withBody.id, '--endpoint', late, '--organization', org)
    assert.match(sent.stdout, /^dlv_\w+ is pending\n$/)
    assert.equal(JSON.parse(withBody.body).id, withBody.id)
  })

  test('show prints the attempts as a table and the exact body, but no control characters', async () => {
    const { org } = await skip(1)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', org, '--json'))
    const [{ id, eventId }] = data
    const show = ['deliveries', 'show', id, '--organization', org]
    assert.match(textOf(await run(...show)), /No attempts yet\./)
    await sql`
      insert into business_api.delivery_attempts
      values (${org}, ${id}, 1, now(), 1234.5, 1, 2, 3, 4, 503, null, ${'busy \x1b[2J\nline'}, null),
             (${org}, ${id}, 2, now(), 10000, null, null, null, null, null, 'timeout', '', null),
             (${org}, ${id}, 3, now(), 1, null, null, null, null, 301, null, '', 'https://new.example.com/')`
    const details = jsonOf(await run(...show, '--json'))
    assert.deepEqual([details.id, details.attemptLog.length, details.attemptLog[0].status], [id, 3, 503])
    const text = textOf(await run(...show))
    assert.match(text, new RegExp(`^Delivery +${id}\nEvent +${eventId} \\(project.completed\\)$`, 'm'))
    assert.match(text, /^State +skipped \(endpoint_disabled\)$/m)
    assert.match(text, /^# +STARTED +TOOK +ANSWER +DNS +CONNECT +TLS +FIRST BYTE +BODY$/m)
    assert.match(text, /^1 .* 1\.2 s +503 +1 ms +2 ms +3 ms +4 ms +busy \\u\{1b\}\[2J line$/m)
    assert.match(text, /^2 .* 10\.0 s +timeout +- +- +- +- +-$/m)
    assert.match(text, /^3 .* 1 ms +301 to https:\/\/new\.example\.com\/ /m)
    assert.ok(text.endsWith(`\n${details.body}\n`))
  })

  test('redeliver sends a delivery again', async () => {
    const { org } = await skip(1)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', org, '--json'))
    const redeliver = ['deliveries', 'redeliver', data[0].id, '--organization', org]
    assert.equal(jsonOf(await run(...redeliver, '--json')).state, 'pending')
    assertFailed(
      await run(...redeliver),
      1,
      /Cannot redeliver a delivery because the state of the delivery is pending/,
    )
    await finishDeliveries(sql, 'delivered', sql`id = ${data[0].id}`)
    assert.equal(textOf(await run(...redeliver)), `${data[0].id} is pending\n`)
  })

  test('redeliver and recover say if a delivery will be skipped again because its endpoint is disabled', async () => {
    const { org, endpointId } = await skip(2)
    const { id: other } = await addEndpoint(run, org)
    const of = ['--organization', org]
    const { data } = jsonOf(await run('deliveries', 'list', ...of, '--json'))
    await run('endpoints', 'disable', other, ...of, '--yes')
    const recover = ['deliveries', 'recover', ...of, '--yes']
    assert.equal((await run('deliveries', 'redeliver', data[0].id, ...of)).stderr, '')
    assert.deepEqual({ ...(await run(...recover)) }, { exitCode: 0, stdout: 'Recovered 1\n', stderr: '' })

    await finishDeliveries(sql, 'failed', sql`organization_id = ${org}`)
    await run('endpoints', 'disable', endpointId, ...of, '--yes')
    const redelivered = await run('deliveries', 'redeliver', data[0].id, ...of)
    assert.equal(
      redelivered.stderr,
      `${data[0].id} will be skipped again, because its endpoint is disabled: enable that first\n`,
    )
    for (const flags of [[], ['--endpoint', endpointId]]) {
      await finishDeliveries(sql, 'failed', sql`organization_id = ${org}`)
      const recovered = await run(...recover, ...flags)
      assert.equal(recovered.stdout, 'Recovered 2\n')
      assert.equal(
        recovered.stderr,
        `${endpointId} is disabled: deliveries recovered there are skipped again\n`,
      )
    }
  })

  test("recover rejects an endpoint that the organization doesn't have", async () => {
    const { org } = await skip(1)
    const { endpointId: foreign } = await skip(1)
    for (const id of ['we_other', foreign]) {
      const result = await run('deliveries', 'recover', '--organization', org, '--endpoint', id)
      assertFailed(
        result,
        1,
        /Cannot recover deliveries because the organization has no endpoint with this id/,
      )
    }
  })

  test('cancel cancels a pending delivery and rejects a cancelled one', async () => {
    const org = newOrganization()
    await addEndpoint(run, org)
    await publish(sql, org)
    const { data } = jsonOf(await run('deliveries', 'list', '--organization', org, '--json'))
    const cancel = ['deliveries', 'cancel', data[0].id, '--organization', org]
    assert.equal(jsonOf(await run(...cancel, '--json')).state, 'cancelled')
    assertFailed(
      await run(...cancel),
      1,
      /Cannot cancel a delivery because the state of the delivery is cancelled/,
    )
    await run('deliveries', 'redeliver', data[0].id, '--organization', org)
    assert.equal(textOf(await run(...cancel)), `${data[0].id} is cancelled\n`)
  })

  test('recover sends all deliveries that match the filter again, and shows progress on a terminal', async () => {
    const { org, endpointId } = await skip(1100)
    const recover = ['deliveries', 'recover', '--organization', org, '--yes']
    assert.deepEqual(jsonOf(await run(...recover, '--until', '1h', '--json')), { recovered: 0 })
    assert.deepEqual(jsonOf(await run(...recover, '--type', 'invoice.paid', '--json')), { recovered: 0 })
    const onTerminal = cliOn(database.url, { columns: 100 })
    const { stdout, stderr } = await onTerminal(...recover, '--endpoint', endpointId, '--since', '1h')
    assert.equal(stdout, 'Recovered 1,100\n')
    const frames = stderr.split(ERASE)
    assert.equal(frames[1], 'Recovering … 1,000')
    assert.equal(frames.at(-1), '')
    assert.deepEqual(jsonOf(await run(...recover, '--json')), { recovered: 0 })
    assertFailed(await run(...recover, '--type', 'lost'), 2, /--type must be one of/)
  })
})
