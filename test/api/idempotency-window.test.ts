import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { untilWaiting } from '../_waiting.ts'
import { assertError, comparable, type Organization, recordOf, request } from './_api.ts'
import {
  api,
  assertReplay,
  CLIENTS,
  clientsOf,
  eventsOf,
  MISMATCH,
  platform,
  post,
  server,
} from './_idempotency.ts'

describe('The window', () => {
  test('An entry is kept for 7 days after the first success', async () => {
    const organization = await platform.organization()
    await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    const read = async () =>
      (
        await platform.sql`
          select extract(epoch from expires_at - now())::float8 as seconds, expires_at::text
          from business_api.idempotency_keys where organization_id = ${organization.id}`
      )[0]
    const before = await read()
    assert.ok(Math.abs(before?.seconds - 7 * 24 * 3600) < 60)
    await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    assert.equal((await read())?.expires_at, before?.expires_at)
  })

  /** Moves all of the organization's entries into the past. */
  async function pass(organization: Organization, time: string): Promise<void> {
    await platform.sql`
      update business_api.idempotency_keys
      set expires_at = expires_at - ${time}::interval
      where organization_id = ${organization.id}`
  }

  test('A request just before the 7 days are over is a replay', async () => {
    const organization = await platform.organization()
    const original = await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    await pass(organization, '6 days 23 hours 59 minutes')
    assertReplay(await post(CLIENTS, organization, 'form-1', { name: 'Atlas' }), original)
  })

  test('A request after 7 days creates a new record, even with a different body, and starts a new window', async () => {
    const organization = await platform.organization()
    await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    await pass(organization, '7 days')
    const second = await post(CLIENTS, organization, 'form-1', { name: 'Other' })
    assert.equal(second.headers.get('idempotent-replayed'), null)
    assertReplay(await post(CLIENTS, organization, 'form-1', { name: 'Other' }), second)
    assertError(await post(CLIENTS, organization, 'form-1', { name: 'Atlas' }), 422, MISMATCH)
    assert.equal((await clientsOf(organization)).length, 2)
  })

  test('Ten concurrent requests after the window create one record', async () => {
    const organization = await platform.organization()
    await post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    await pass(organization, '7 days')
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post(CLIENTS, organization, 'form-1', { name: 'Atlas' })),
    )
    assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
    assert.equal((await clientsOf(organization)).length, 2)
  })
})

describe('Two concurrent requests', () => {
  /** Holds a key in another connection's transaction until the returned function is called. */
  async function hold(
    organization: Organization,
    idempotencyKey: string,
  ): Promise<(end: 'commit' | 'rollback') => Promise<void>> {
    const connection = await platform.sql.reserve()
    await connection`begin`
    await connection`
      insert into business_api.idempotency_keys
        (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
      values
        (${organization.id}, 'POST /api/v1/clients', ${idempotencyKey}, 'held', 'cli_held', '{}', now() + interval '1 day')`
    return async (end) => {
      await connection.unsafe(end)
      connection.release()
    }
  }

  test('The second waits no longer than the deadline: 409 and Retry-After: 1', async () => {
    const organization = await platform.organization()
    const impatient = platform.apiWith({ deadlineMs: 600 })
    const release = await hold(organization, 'form-1')
    const options = {
      key: organization.key,
      json: { name: 'Atlas' },
      headers: { 'Idempotency-Key': 'form-1' },
    }
    const begun = performance.now()
    const answer = await request(impatient, CLIENTS, options)
    const took = performance.now() - begun
    assertError(answer, 409)
    assert.equal(answer.headers.get('retry-after'), '1')
    assert.ok(took > 300 && took < 4000, `answered after ${took} ms`)
    await release('rollback')
    const retry = await request(impatient, CLIENTS, options)
    assert.equal(retry.headers.get('idempotent-replayed'), null)
    recordOf(retry)
    assert.equal((await clientsOf(organization)).length, 1)
  })

  test("While a key is held, other keys and requests without a key don't have to wait", async () => {
    const organization = await platform.organization()
    const release = await hold(organization, 'form-1')
    recordOf(await post(CLIENTS, organization, 'form-2', { name: 'Atlas' }))
    recordOf(await request(api, CLIENTS, { key: organization.key, json: { name: 'Atlas' } }))
    await release('rollback')
  })

  test('The second creates the record if the first is rolled back', async () => {
    const organization = await platform.organization()
    const release = await hold(organization, 'form-1')
    const waiting = post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    await untilWaiting(platform.sql)
    await release('rollback')
    const answer = await waiting
    assert.equal(answer.headers.get('idempotent-replayed'), null)
    recordOf(answer)
  })

  test('If the first succeeds, the second is compared with its body', async () => {
    const organization = await platform.organization()
    const release = await hold(organization, 'form-1')
    const waiting = post(CLIENTS, organization, 'form-1', { name: 'Atlas' })
    await untilWaiting(platform.sql)
    await release('commit')
    assertError(await waiting, 422, MISMATCH)
  })

  test('20 concurrent duplicates over HTTP create one client and all receive the same response', async () => {
    const organization = await platform.organization()
    const responses = await Promise.all(
      Array.from({ length: 20 }, () =>
        fetch(`${server.url}${CLIENTS}`, {
          method: 'POST',
          headers: {
            Authorization: `Bearer ${organization.key}`,
            'Content-Type': 'application/json',
            'Idempotency-Key': 'form-1',
          },
          body: '{"name":"Atlas"}',
        }),
      ),
    )
    const texts = await Promise.all(responses.map((response) => response.text()))
    assert.deepEqual([...new Set(responses.map(({ status }) => status))], [200])
    assert.equal(new Set(texts).size, 1)
    const replayed = responses.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')
    assert.equal(replayed.length, 19)
    assert.equal(new Set(responses.map(({ headers }) => headers.get('x-request-id'))).size, 20)
    assert.equal((await clientsOf(organization)).length, 1)
    assert.deepEqual(await eventsOf(organization), ['business.created', 'client.created'])
  })

  test('Of 20 concurrent requests with one key and 20 bodies, one creates a client and 19 are rejected', async () => {
    const organization = await platform.organization()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        post(CLIENTS, organization, 'form-1', { name: `Atlas ${index}` }),
      ),
    )
    const created = answers.filter(({ status }) => status === 200)
    const refused = answers.filter(({ status }) => status !== 200)
    assert.equal(created.length, 1)
    const [first] = refused
    assert.ok(first)
    assertError(first, 422, MISMATCH)
    for (const other of refused) assert.deepEqual(comparable(other), comparable(first))
    assert.equal((await clientsOf(organization)).length, 1)
  })
})
