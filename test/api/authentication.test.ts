import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import { type BusinessApi, SCOPES } from '../../lib/index.ts'
import { newEntry } from '../_audit.ts'
import {
  type Answer,
  assertError,
  comparable,
  OPERATIONS,
  type Organization,
  rawHead,
  rawRequest,
  request,
  seedClients,
  serve,
  startPlatform,
  type TestServer,
} from './_api.ts'

const platform = await startPlatform()
const server: TestServer = await serve((incoming, response) => platform.api(incoming, response))
after(async () => {
  await server.close()
  await platform.close()
})

const PATH = '/api/v1/clients'
const UNAUTHENTICATED = 'Invalid, revoked or expired API key'
const NOT_SENT = 'No API key was sent: send Authorization: Bearer and the API key'

let organization: Organization
before(async () => {
  organization = await platform.organization()
})

function call(authorization: string): Promise<Answer> {
  return request(platform.api, PATH, { headers: { Authorization: authorization } })
}

/** Sends raw headers, because `fetch` would normalize or join them. */
function callRaw(...headers: string[]): Promise<Answer> {
  return rawRequest(server, rawHead(`GET ${PATH}`, ...headers))
}

function assertUnauthenticated(answer: Answer, challenge: string): void {
  assertError(answer, 401, challenge === NO_KEY ? NOT_SENT : UNAUTHENTICATED)
  assert.equal(answer.headers.get('www-authenticate'), challenge)
}

const NO_KEY = 'Bearer realm="api"'
const BAD_KEY = 'Bearer realm="api", error="invalid_token"'

describe('The Authorization header', () => {
  test('A bearer key is accepted', async () => {
    assert.equal((await call(`Bearer ${organization.key}`)).status, 200)
  })

  test('The scheme is case-insensitive', async () => {
    for (const scheme of ['bearer', 'BEARER', 'bEaReR']) {
      assert.equal((await call(`${scheme} ${organization.key}`)).status, 200)
    }
  })

  test('Two or more spaces after the scheme are accepted', async () => {
    assert.equal((await callRaw(`Authorization: Bearer  ${organization.key}`)).status, 200)
    assert.equal((await callRaw(`Authorization: Bearer      ${organization.key}`)).status, 200)
  })

  test('Tabs after the scheme count as white space, with or without spaces', async () => {
    for (const space of ['\t', ' \t', '\t\t '])
      assert.equal((await callRaw(`Authorization: Bearer${space}${organization.key}`)).status, 200)
  })

  test('White space around the value is ignored', async () => {
    assert.equal((await callRaw(`Authorization:   Bearer ${organization.key}  `)).status, 200)
  })

  test('The header name is case-insensitive', async () => {
    assert.equal((await callRaw(`aUTHORIZATION: Bearer ${organization.key}`)).status, 200)
  })

  test('A missing header is 401 with a challenge that has no error code', async () => {
    assertUnauthenticated(await request(platform.api, PATH), NO_KEY)
    assertUnauthenticated(await callRaw(), NO_KEY)
  })

  test('An unknown key is 401 with error="invalid_token"', async () => {
    assertUnauthenticated(await call(`Bearer ${generateApiKey('bapi', 0)}`), BAD_KEY)
  })

  test('A key with a different prefix is 401 unless it is stored', async () => {
    assertUnauthenticated(await call(`Bearer ${generateApiKey('other', 0)}`), BAD_KEY)
  })

  test('Another scheme is 401 even if its credentials are a valid key', async () => {
    const basic = Buffer.from(`${organization.key}:`).toString('base64')
    for (const credentials of [
      `Basic ${basic}`,
      `Basic ${organization.key}`,
      `Token ${organization.key}`,
      `Digest username="${organization.key}"`,
      `BearerX ${organization.key}`,
    ]) {
      assertUnauthenticated(await call(credentials), NO_KEY)
    }
  })

  test('With another scheme there is no key, so the challenge has no error code (RFC 6750, section 3.1)', async () => {
    assertUnauthenticated(await call('Basic dXNlcjpwYXNzd29yZA=='), NO_KEY)
  })

  const malformed: [what: string, value: (key: string) => string][] = [
    ['the key alone', (key) => key],
    ['the scheme alone', () => 'Bearer'],
    ['nothing at all', () => ''],
    ['no space after the scheme', (key) => `Bearer${key}`],
    ['a colon after the scheme', (key) => `Bearer: ${key}`],
    ['a key in quotes', (key) => `Bearer "${key}"`],
    ['two keys', (key) => `Bearer ${key} ${key}`],
    ['two keys and a comma', (key) => `Bearer ${key}, Bearer ${key}`],
    ['two keys and a comma without a space', (key) => `Bearer ${key},${key}`],
    ['the scheme twice', (key) => `Bearer Bearer ${key}`],
    ['something after the key', (key) => `Bearer ${key} x`],
    ['a key cut short', (key) => `Bearer ${key.slice(0, -1)}`],
    ['a key with one more character', (key) => `Bearer ${key}0`],
    ['an upper-case key', (key) => `Bearer ${key.toUpperCase()}`],
    ['a key that is percent-encoded', (key) => `Bearer ${key.replaceAll('_', '%5F')}`],
    ['a long chain of spaces', () => `Bearer ${' '.repeat(8000)}x`],
    ['non-ASCII characters', (key) => `Bearer ${key}\u00e9`],
  ]
  for (const [what, value] of malformed) {
    test(`A header of ${what} is 401`, async () => {
      const credentials = value(organization.key)
      const text = /^bearer\b/i.test(credentials) ? UNAUTHENTICATED : NOT_SENT
      assertError(await callRaw(`Authorization: ${credentials}`), 401, text)
    })
  }

  test('A header of 10 KB is 401', async () => {
    assertUnauthenticated(await callRaw(`Authorization: Bearer ${'x'.repeat(10_240)}`), BAD_KEY)
    assertUnauthenticated(await callRaw(`Authorization: Bearer ${organization.key.repeat(160)}`), BAD_KEY)
  })

  test('Two Authorization headers are 401 even if both contain the same valid key', async () => {
    const good = `Authorization: Bearer ${organization.key}`
    const other = `Authorization: Bearer ${(await platform.organization()).key}`
    assertError(await callRaw(good, good), 401, UNAUTHENTICATED)
    assertError(await callRaw(good, other), 401, UNAUTHENTICATED)
    assertError(await callRaw(good, 'Authorization: Basic eDp5'), 401, UNAUTHENTICATED)
    assertError(await callRaw('authorization: Basic eDp5', good), 401, NOT_SENT)
  })

  test('A key with any single character changed is 401', async () => {
    const { key } = organization
    for (let index = 0; index < key.length; index += 3) {
      const changed = key.charAt(index) === 'a' ? 'b' : 'a'
      const flipped = key.slice(0, index) + changed + key.slice(index + 1)
      assertUnauthenticated(await call(`Bearer ${flipped}`), BAD_KEY)
    }
  })

  test('A key in the query string or another header is ignored', async () => {
    const { key } = organization
    assertError(await request(platform.api, `${PATH}?api_key=${key}&access_token=${key}`), 401)
    const headers = { 'X-API-Key': key, 'Proxy-Authorization': `Bearer ${key}`, Cookie: `key=${key}` }
    assertError(await request(platform.api, PATH, { headers }), 401)
  })
})

describe('A key', () => {
  test('A revoked key is rejected on the next request, even by another store', async () => {
    const { id } = organization
    const { id: keyId, key } = await organization.createKey()
    const elsewhere = platform.apiWith({}, platform.anotherStore())
    for (const api of [platform.api, elsewhere]) {
      assert.equal((await request(api, PATH, { key })).status, 200)
    }
    await platform.store.apiKeys.revoke({ organizationId: id, keyId, entry: newEntry() })
    for (const api of [elsewhere, platform.api]) {
      assertUnauthenticated(await request(api, PATH, { key }), BAD_KEY)
    }
  })

  test('An expired key is rejected, even by another store', async () => {
    const { id } = organization
    const { id: keyId, key } = await organization.createKey({
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    })
    const elsewhere = platform.apiWith({}, platform.anotherStore())
    for (const api of [platform.api, elsewhere]) {
      assert.equal((await request(api, PATH, { key })).status, 200)
    }
    // Let an hour pass.
    await platform.sql`
      update business_api.api_keys set expires_at = now() where organization_id = ${id} and id = ${keyId}`
    for (const api of [elsewhere, platform.api]) {
      assertUnauthenticated(await request(api, PATH, { key }), BAD_KEY)
    }
  })

  test("Expiry doesn't depend on the clock of the process", async () => {
    const { key } = await organization.createKey({
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    })
    const inTenYears = platform.apiWith({ clock: () => Date.now() + 10 * 365 * 86_400_000 })
    assert.equal((await request(inTenYears, PATH, { key })).status, 200)
  })

  test('All 401 responses are identical, whatever the cause', async () => {
    const { id } = organization
    const revoked = await organization.createKey()
    await platform.store.apiKeys.revoke({ organizationId: id, keyId: revoked.id, entry: newEntry() })
    const expired = await organization.createKey({ expiresAt: '2020-01-01T00:00:00.000Z' })
    const flipped = organization.key.replace(/.$/, (last) => (last === 'a' ? 'b' : 'a'))
    const [first, ...others] = await Promise.all(
      [revoked.key, expired.key, flipped, generateApiKey('bapi', 0), 'x'].map((key) => call(`Bearer ${key}`)),
    )
    assert.ok(first)
    assert.equal(others.length, 4)
    for (const other of others) assert.deepEqual(comparable(other), comparable(first))
  })

  test('Other keys of the organization still work after one was revoked', async () => {
    const { id } = organization
    const first = await organization.createKey()
    const second = await organization.createKey()
    await platform.store.apiKeys.revoke({ organizationId: id, keyId: first.id, entry: newEntry() })
    assert.equal((await call(`Bearer ${second.key}`)).status, 200)
  })

  test('The last use of a key is recorded without delaying the request', async () => {
    const { id, createKey } = await platform.organization()
    const { id: keyId, key } = await createKey()
    const lastUsedAt = async () =>
      (await platform.store.apiKeys.list(id)).find((each) => each.id === keyId)?.lastUsedAt
    assert.equal(await lastUsedAt(), null)
    await request(platform.api, PATH, { key })
    const deadline = Date.now() + 5000
    while ((await lastUsedAt()) === null && Date.now() < deadline) await new Promise(setImmediate)
    assert.ok(await lastUsedAt())
  })
})

describe('Scopes', () => {
  let businessId: string
  before(async () => {
    const [client] = await seedClients(platform.store, organization.id, 1)
    assert.ok(client)
    businessId = client.businessId
  })

  function call(api: BusinessApi, method: string, path: string, key?: string): Promise<Answer> {
    const { body } = OPERATIONS.find((one) => one.method === method && one.path === path) ?? {}
    const json = { businessId, ...body }
    return request(api, path, {
      method,
      ...(key === undefined ? {} : { key }),
      ...(method === 'POST' ? { json } : {}),
    })
  }

  for (const { method, path, scope } of OPERATIONS) {
    test(`${method} ${path} requires a key`, async () => {
      assertUnauthenticated(await call(platform.api, method, path), NO_KEY)
    })

    test(`${method} ${path} is 403 for a key that has all scopes except ${scope}`, async () => {
      const { key } = await organization.createKey({ scopes: SCOPES.filter((other) => other !== scope) })
      const answer = await call(platform.api, method, path, key)
      assertError(answer, 403, `API key lacks the required scope ${scope}`)
      assert.equal(
        answer.headers.get('www-authenticate'),
        `Bearer realm="api", error="insufficient_scope", scope="${scope}"`,
      )
    })

    test(`${method} ${path} is 200 for a key that only has ${scope}`, async () => {
      const { key } = await organization.createKey({ scopes: [scope] })
      assert.equal((await call(platform.api, method, path, key)).status, 200)
    })
  }

  test('A key without scopes is 403, not 401', async () => {
    const { key } = await organization.createKey({ scopes: [] })
    for (const { method, path } of OPERATIONS) {
      assertError(await call(platform.api, method, path, key), 403)
    }
  })

  test('A rejected create writes nothing', async () => {
    const { id, createKey } = await platform.organization()
    const { key } = await createKey({ scopes: ['clients:read'] })
    assertError(await call(platform.api, 'POST', PATH, key), 403)
    const [written] = await platform.sql`
      select count(*)::int from business_api.businesses where organization_id = ${id}`
    assert.equal(written?.count, 0)
  })
})
