import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readApiKey } from '../../lib/access/api-keys.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { named } from '../_service.ts'
import { BASE, EVERYTHING, hiddenOf, ORGANIZATION, setUp, type Under } from './_page.ts'

const WEBSITE = { name: 'Website', scope: ['clients:read', 'clients:write'], expiry: '90' } as const
const KEY = /bapi_live_[0-9A-Za-z]{49}/

async function createKey(under: Under, name = 'Website'): Promise<string> {
  const { id } = await under.settings.apiKeys.create(ORGANIZATION, { name, scopes: ['clients:read'] })
  return id
}

test('GET /keys of an organization without keys explains keys, and offers the one next act', async () => {
  const { words, text, status } = await setUp().get('/keys')
  assert.equal(status, 200)
  assert.match(words, /No active API keys/)
  assert.match(text, new RegExp(`href="${BASE}/keys/new"`))
})

test('POST /keys/new makes a key with the chosen name, scopes and expiry, and shows it once', async () => {
  const under = setUp()
  const { status, text, headers } = await under.submit('/keys/new', WEBSITE)
  assert.equal(status, 200, text)
  const [secret = ''] = KEY.exec(text) ?? []
  assert.ok(readApiKey(secret) !== undefined)
  assert.equal(headers.get('cache-control'), 'no-store')
  assert.doesNotMatch(/<title>.*<\/title>/s.exec(text)?.[0] ?? 'missing', KEY)
  const [key] = await under.settings.apiKeys.list(ORGANIZATION)
  assert.deepEqual([key?.name, key?.scopes], ['Website', ['clients:read', 'clients:write']])
  assert.ok(Math.abs(Date.parse(key?.expiresAt ?? '') - Date.now() - 90 * 86_400_000) < 60_000)
  for (const path of ['/keys', `/keys/${key?.id}`, '/audit']) {
    assert.doesNotMatch((await under.get(path)).text, KEY)
  }
  assert.match((await under.get(`/keys/${key?.id}`)).words, /Created API key “Website” ada@example\.com/)
})

test('POST /keys/new shows a call that the new key may make', async () => {
  const under = setUp()
  const { text } = await under.submit('/keys/new', { ...WEBSITE, scope: 'leads:write' })
  assert.match(text, /\/api\/v1\/leads .*-d /s)
  assert.doesNotMatch(text, /\/api\/v1\/clients/)
})

test('POST /keys/new sent twice makes one key, and says that the secret was shown', async () => {
  const under = setUp()
  const form = hiddenOf(await under.get('/keys/new'))
  const first = await under.post('/keys/new', { ...form, ...WEBSITE })
  const second = await under.post('/keys/new', { ...form, ...WEBSITE })
  assert.deepEqual([first.status, second.status], [200, 409])
  assert.match(second.words, /API key already created .* Rotate it to get a new one/)
  assert.doesNotMatch(second.text, KEY)
  assert.equal((await under.settings.apiKeys.list(ORGANIZATION)).length, 1)
})

test('POST /keys/new with missing fields keeps the given values, and leads from a summary to each field', async () => {
  const under = setUp()
  const { status, text, words } = await under.submit('/keys/new', { name: ' "A" ', scope: 'leads:read' })
  assert.equal(status, 422)
  assert.match(text, /<title>Error: Create API key/)
  assert.match(text, /value="&quot;A&quot;"/)
  assert.match(text, /value="leads:read" checked/)
  assert.match(text, /<a href="#expiry">Select an expiration<\/a>/)
  assert.match(text, /id="expiry"/)
  assert.match(text, /aria-invalid="true"/)
  assert.match(words, /Couldn't create API key/)
  assert.deepEqual(await under.settings.apiKeys.list(ORGANIZATION), [])
})

test('POST /keys/new takes a day to come, and rejects a past day', async () => {
  const under = setUp()
  const past = await under.submit('/keys/new', { ...WEBSITE, expiry: 'date', date: '2020-01-01' })
  assert.equal(past.status, 422)
  assert.match(past.text, /href="#date"/)
  assert.equal(
    (await under.submit('/keys/new', { ...WEBSITE, expiry: 'date', date: '2999-12-31' })).status,
    200,
  )
  assert.equal((await under.settings.apiKeys.list(ORGANIZATION))[0]?.expiresAt, '2999-12-31T23:59:59.000Z')
})

test('a key gets no scope that the maker may not grant', async () => {
  const under = setUp()
  under.access = { ...EVERYTHING, grantableScopes: ['leads:read'] }
  assert.doesNotMatch((await under.get('/keys/new')).text, /clients:write/)
  const { text } = await under.submit('/keys/new', { ...WEBSITE, scope: ['leads:read', 'clients:write'] })
  assert.match(text, KEY)
  assert.deepEqual((await under.settings.apiKeys.list(ORGANIZATION))[0]?.scopes, ['leads:read'])
})

test('POST /keys/:id/edit gives the key another name, with an entry in the audit; a name that cannot be used is kept', async () => {
  const under = setUp()
  const id = await createKey(under)
  const refused = await under.submit(`/keys/${id}/edit`, { name: ' ' })
  assert.equal(refused.status, 422)
  assert.match(refused.text, /href="#name">Enter a name of 1 to 100 characters/)
  const long = await under.submit(`/keys/${id}/edit`, { name: '🏺'.repeat(101) })
  assert.equal(long.status, 422)
  assert.match(long.text, /value="(🏺){101}"/u)
  const { status, location } = await under.submit(`/keys/${id}/edit`, { name: 'Web "shop"' })
  assert.deepEqual([status, location], [303, `${BASE}/keys/${id}?done=renamed`])
  const { words } = await under.get(`/keys/${id}?done=renamed`)
  assert.match(words, /API key renamed.*Renamed API key “Web "shop"” ada@example\.com/)
  assert.equal((await under.settings.apiKeys.get(ORGANIZATION, id)).name, 'Web "shop"')
})

test('POST /keys/:id/revoke revokes, after a page with the consequences', async () => {
  const under = setUp()
  const id = await createKey(under)
  const question = await under.get(`/keys/${id}/revoke`)
  assert.match(question.words, /Revoke Website\? .*Never used.*Requests with this key are rejected/)
  assert.equal((await under.settings.apiKeys.get(ORGANIZATION, id)).revokedAt, null)
  const { status, location } = await under.submit(`/keys/${id}/revoke`, {})
  assert.deepEqual([status, location], [303, `${BASE}/keys/${id}?done=revoked`])
  assert.match((await under.get(`/keys/${id}?done=revoked`)).words, /API key revoked/)
  assert.doesNotMatch((await under.get('/keys')).words, /Website/)
  // The link to revoked keys, as the page writes it.
  const [, all = ''] = /href="[^"]*(\/keys\?[^"]*)"/.exec((await under.get('/keys')).text) ?? []
  assert.match((await under.get(all)).words, /Website .* Revoked/)
})

test('POST /keys/:id/rotate gives a successor with an overlap, and asks first without an overlap', async () => {
  const under = setUp()
  const id = await createKey(under)
  const rotated = await under.submit(`/keys/${id}/rotate`, { overlap: '7d' })
  assert.match(rotated.text, KEY)
  const old = await under.settings.apiKeys.get(ORGANIZATION, id)
  assert.ok(old.successorId && old.revokedAt === null)
  assert.equal((await under.get(`/keys/${id}/rotate`)).location, `${BASE}/keys/${id}`)
  assert.equal((await under.post(`/keys/${id}/rotate`, { overlap: '7d' })).status, 409)

  const question = await under.submit(`/keys/${old.successorId}/rotate`, { overlap: 'now' })
  assert.match(question.words, /Requests with the current key of Website are rejected immediately/)
  assert.doesNotMatch(question.text, KEY)
  const forced = await under.post(`/keys/${old.successorId}/rotate`, hiddenOf(question))
  assert.match(forced.text, KEY)
  assert.ok((await under.settings.apiKeys.get(ORGANIZATION, old.successorId)).revokedAt)
})

for (const origin of ['made', 'imported'] as const) {
  test(`a person renames and rotates no ${origin} key that may do more than the person may grant`, async () => {
    const under = setUp({ store: named(createMemoryStore(), { importedKeys: { pattern: /^old_/ } }) })
    const { apiKeys } = under.settings
    const scopes = ['leads:read', 'clients:write'] as const
    const chosen = { name: 'Website', scopes }
    const old = { digest: 'a'.repeat(64), prefix: 'old_', lastFour: '7f3a' }
    const { id } =
      origin === 'made'
        ? await apiKeys.create(ORGANIZATION, chosen)
        : await apiKeys.import(ORGANIZATION, { ...chosen, ...old })
    const before = await apiKeys.list(ORGANIZATION)
    under.access = { ...EVERYTHING, grantableScopes: ['leads:read'] }
    const { text } = await under.get(`/keys/${id}`)
    assert.doesNotMatch(text, new RegExp(`href="${BASE}/keys/${id}/(rotate|edit)"`))
    assert.match(text, new RegExp(`href="${BASE}/keys/${id}/revoke"`))
    for (const path of ['rotate', 'edit']) {
      assert.equal((await under.get(`/keys/${id}/${path}`)).status, 403, path)
      for (const fields of [{ name: 'Mine' }, { overlap: 'now' }, { overlap: 'now', sure: 'yes' }] as const) {
        const refused = await under.post(`/keys/${id}/${path}`, fields)
        assert.equal(refused.status, 403, path)
        assert.match(refused.words, /permissions that you can't grant/)
        assert.doesNotMatch(refused.text, KEY)
      }
    }
    assert.deepEqual(await apiKeys.list(ORGANIZATION), before)
    under.access = { ...EVERYTHING, grantableScopes: [...scopes, 'projects:read'] }
    assert.match((await under.submit(`/keys/${id}/rotate`, { overlap: '24h' })).text, KEY)
  })
}

test('GET /keys shows how much of each rate limit was used, of the API for keys without their own', async () => {
  const store = named(createMemoryStore(), {})
  const api = createBusinessApi(store, { logger: false, rateLimit: { key: { perSecond: 0.01, burst: 4 } } })
  const under = setUp({ store, api })
  const used = await under.settings.apiKeys.create(ORGANIZATION, { name: 'Used', scopes: ['clients:read'] })
  const rateLimit = { perSecond: 0.01, burst: 10 }
  await under.settings.apiKeys.create(ORGANIZATION, { name: 'Unused', scopes: ['clients:read'], rateLimit })
  const headers = { authorization: `Bearer ${used.key}` }
  for (let request = 0; request < 3; request++)
    assert.equal(
      (await api.fetch(new Request('https://app.example/api/v1/clients', { headers }))).status,
      200,
    )
  const { words } = await under.get('/keys')
  assert.match(words, /Unused .* 0% used .* Used .* 7[45](\.\d)?% used/)
  const without = setUp({ store })
  assert.match((await without.get('/keys')).words, /Unused .* 0% used .* Used .* Never – Active/)
  assert.match((await under.get(`/keys/${used.id}`)).words, /0\.01 requests per second, bursts of 4/)
})
