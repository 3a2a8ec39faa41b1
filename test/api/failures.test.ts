import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import postgres from 'postgres'
import { RESOURCES } from '../../lib/access/scopes.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { storeUnavailable } from '../../lib/store.ts'
import { assertError, rawHead, rawRequest, recordOf, request, serve } from './_api.ts'
import {
  allOf,
  assertInternal,
  assertUnavailable,
  CREATE,
  failing,
  key,
  keyId,
  organizationId,
  PATH,
  platform,
  postgresError,
  watched,
  withApiKeys,
  withClients,
} from './_failures.ts'
import { settle } from './_strays.ts'

describe('An unreachable store', () => {
  const unreachable = () =>
    Promise.reject(storeUnavailable('Cannot reach PostgreSQL', new Error('ECONNREFUSED 10.0.0.7')))

  for (const path of RESOURCES) {
    test(`GET /${path} is 503 with Retry-After`, async () => {
      const { api } = watched(failing(unreachable))
      const answer = await request(api, `/api/v1/${path}`, { key })
      assertUnavailable(answer)
      assert.ok(!answer.text.includes('10.0.0.7'))
    })
  }

  test("POST /clients is 503 if the key can't be checked or the client can't be written", async () => {
    assertUnavailable(await request(watched(failing(unreachable)).api, PATH, CREATE))
    assertUnavailable(await request(watched(withClients({ create: unreachable })).api, PATH, CREATE))
  })

  test("Rate limits are never bypassed: a request is 503 if they can't be checked", async () => {
    const { api } = watched(withApiKeys({ admit: unreachable }))
    assertUnavailable(await request(api, PATH, CREATE))
    assertUnavailable(await request(api, `${PATH}?limit=0`, { key }))
  })

  test("Requests that don't need the store still work", async () => {
    const { api, failures } = watched(failing(unreachable))
    assertError(await request(api, PATH), 401)
    assertError(await request(api, PATH, { key: 'bad' }), 401)
    assertError(await request(api, '/nowhere'), 404)
    assertError(await request(api, PATH, { method: 'PUT' }), 405)
    assert.equal((await request(api, '/openapi.json')).status, 200)
    assert.deepEqual(failures, [])
  })

  test('A PostgreSQL store without a database, or after close(), responds with 503', async () => {
    const nowhere = createPostgresStore('postgres://nobody:secret@127.0.0.1:1/nothing')
    const { api, failures, lines } = watched(nowhere)
    const answer = await request(api, PATH, { key })
    assertUnavailable(answer)
    assert.equal(failures.length, 1)
    assert.ok(!allOf(lines).includes('secret'))
    await nowhere.close()
    assertUnavailable(await request(api, PATH, { key }))
  })

  test('onError receives the failure with status 503, and a warning is logged', async () => {
    const { api, failures, lines } = watched(withClients({ admitAndList: unreachable }))
    const answer = await request(api, `${PATH}?limit=3&token=secret`, { key })
    assert.equal(failures.length, 1)
    assert.deepEqual(failures[0]?.context, {
      requestId: answer.headers.get('x-request-id'),
      method: 'GET',
      path: PATH,
      status: 503,
    })
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['warn'],
    )
  })
})

describe('A bug', () => {
  const thrown: [what: string, error: unknown][] = [
    ['a PostgresError', postgresError()],
    ['a real PostgresError', new postgres.PostgresError({ message: 'secret', code: 'XX000' } as never)],
    ['a TypeError', new TypeError('secret is not a function')],
    ['a string', 'secret'],
    ['undefined', undefined],
    ['null', null],
    ['an object', { status: 200, message: 'secret', headers: { 'X-Secret': 'secret' } }],
    [
      'an object with the shape of a refusal',
      { name: 'Refusal', status: 418, message: 'secret', headers: {} },
    ],
    [
      'an error with a status of its own',
      Object.assign(new Error('secret'), { status: 418, statusCode: 418 }),
    ],
  ]

  for (const [what, error] of thrown) {
    for (const [form, list] of [
      ['rejects with', () => Promise.reject(error)],
      [
        'throws',
        () => {
          throw error
        },
      ],
    ] as const) {
      test(`A store that ${form} ${what} is 500 "Internal error"`, async () => {
        const { api, failures } = watched(withClients({ admitAndList: list, create: list }))
        for (const options of [{ key }, CREATE]) {
          const answer = await request(api, PATH, options)
          assertInternal(answer)
          assert.ok(!JSON.stringify([answer.text, ...answer.headers]).includes('secret'))
        }
        assert.deepEqual(
          failures.map((failure) => failure.error),
          [error, error],
        )
      })
    }
  }

  test('Only the message and code of a PostgresError are logged, while onError receives the whole error', async () => {
    const error = postgresError()
    const { api, lines, failures } = watched(withClients({ create: () => Promise.reject(error) }))
    const answer = await request(api, PATH, CREATE)
    assertInternal(answer)
    for (const leaked of ['businesses_pkey', '23505', 'secret', 'business_api', 'insert', 'Postgres']) {
      assert.ok(!JSON.stringify([answer.text, ...answer.headers]).includes(leaked), leaked)
    }
    const logged = allOf(lines)
    for (const leaked of ['customer@', 'secret', 'insert into']) assert.ok(!logged.includes(leaked), leaked)
    assert.equal(lines.length, 1)
    assert.equal(lines[0]?.level, 'error')
    assert.ok(logged.includes('23505'))
    assert.ok(logged.includes(String(answer.headers.get('x-request-id'))))
    assert.equal(failures[0]?.error, error)
    assert.deepEqual(failures[0]?.context, {
      requestId: answer.headers.get('x-request-id'),
      method: 'POST',
      path: PATH,
      status: 500,
    })
  })

  test('A constraint violation in the database is 422 and leaks nothing', async () => {
    await platform.sql`alter table business_api.businesses add constraint secret_rule check (name <> 'secret-name')`
    const { api, failures, lines } = watched(platform.store)
    const answer = await request(api, PATH, { key, json: { name: 'secret-name' } })
    await platform.sql`alter table business_api.businesses drop constraint secret_rule`
    assertError(answer, 422)
    assert.ok(!answer.text.includes('secret'))
    assert.ok(!allOf(lines).includes('secret-name'))
    assert.equal(failures.length, 1)
  })

  test("A page missing from the store's result is 500", async () => {
    const { api, failures } = watched(
      withClients({
        admitAndList: async (asked, limit) => ({
          ...(await platform.store.clients.admitAndList(asked, limit)),
          page: null,
        }),
      }),
    )
    assertInternal(await request(api, PATH, { key }))
    assert.equal(failures.length, 1)
  })

  test("Refusals aren't failures and are never logged or passed to onError", async () => {
    const { api, failures, lines } = watched(platform.store)
    assertError(await request(api, PATH), 401)
    assertError(await request(api, PATH, { key, body: '{' }), 400)
    assertError(await request(api, PATH, { key, body: '{}' }), 422)
    assertError(await request(api, '/api/v1/leads', { key, json: { businessId: 'x' } }), 404)
    assertError(await request(api, '/nowhere'), 404)
    assert.deepEqual(failures, [])
    assert.deepEqual(lines, [])
  })

  for (const option of ['clock', 'ids'] as const) {
    const broken = () => {
      throw new Error('secret')
    }

    test(`If option ${option} throws, the response is 500 without a port`, async () => {
      const { api, failures } = watched(platform.store, { [option]: broken })
      const answer = await request(api, PATH, CREATE)
      assert.equal(answer.status, 500)
      assert.ok(!answer.text.includes('secret'))
      assert.equal(failures.length, 1)
    })

    test(`If option ${option} throws, node:http requests don't hang`, async (t) => {
      const { api } = watched(platform.store, { [option]: broken })
      const own = await serve((incoming, response) => api(incoming, response).catch(() => response.destroy()))
      t.after(() => own.close())
      const answer = await rawRequest(own, rawHead(`GET ${PATH}`, `Authorization: Bearer ${key}`))
      assert.equal(answer.status, 500)
    })
  }
})

describe('A method that never settles', () => {
  const never = () => new Promise<never>(() => {})

  for (const [what, store, options] of [
    ['the admission', withApiKeys({ admit: never }), CREATE],
    ['a list', withClients({ admitAndList: never }), { key }],
    ['a creation', withClients({ create: never }), CREATE],
  ] as const) {
    test(`${what} that never settles is 503 at deadlineMs`, async () => {
      const { api, failures } = watched(store, { deadlineMs: 150 })
      const begun = performance.now()
      const answer = await request(api, PATH, options)
      const took = performance.now() - begun
      assertUnavailable(answer)
      assert.ok(took > 140, `answered after ${took} ms`)
      assert.equal(failures.length, 1)
      assert.equal(failures[0]?.context.status, 503)
    })
  }

  test('A method that rejects after the deadline is ignored and affects no other request', async () => {
    let reject = (_: Error): void => {}
    const late = () =>
      new Promise<never>((_, give) => {
        reject = give
      })
    const { api, failures } = watched(withClients({ admitAndList: late }), { deadlineMs: 50 })
    assertUnavailable(await request(api, PATH, { key }))
    reject(new Error('too late'))
    await settle()
    assert.equal(failures.length, 1)
  })

  test("Requests aren't affected if the last use can't be recorded or its promise never settles", async () => {
    for (const markUsed of [never, () => Promise.reject(postgresError()), failAtOnce]) {
      const { key: unused } = await (await platform.organization()).createKey()
      const { api, failures } = watched(withApiKeys({ markUsed }))
      for (let round = 0; round < 3; round++) {
        assert.equal((await request(api, PATH, { key: unused })).status, 200)
      }
      assert.deepEqual(failures, [])
    }
  })

  function failAtOnce(): never {
    throw new Error('at once')
  }
})

describe('The process', () => {
  test('Requests are still served after all of this', async () => {
    const { api } = watched(platform.store)
    recordOf(await request(api, PATH, CREATE))
    const keys = await platform.store.apiKeys.list(organizationId)
    assert.ok(keys.some(({ id }) => id === keyId))
  })
})
