import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { digestApiKey, readApiKey } from '../../lib/access/api-keys.ts'
import type { RateLimit } from '../../lib/access/rate-limit.ts'
import { SCOPES, type Scope } from '../../lib/access/scopes.ts'
import { BusinessApiError, INVALID_INPUT, NOT_FOUND } from '../../lib/base/errors.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { defineService, type ServiceOptions } from '../../lib/service.ts'
import { createDeveloperSettings, type DeveloperSettingsOptions, type NewApiKey } from '../../lib/settings.ts'
import { untyped } from './_refusals.ts'

const NOW = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
const ORG = 'org_1'
const LIMITS = { key: { perSecond: 1, burst: 10 }, organization: { perSecond: 1, burst: 10 } }

/** Settings on a new store with a clock that stands still until it's moved. */
function setUp(options: DeveloperSettingsOptions = {}, names: ServiceOptions = {}) {
  let now = NOW
  const clock = () => now
  const store = createMemoryStore({ clock, service: defineService(names) })
  return {
    store,
    settings: createDeveloperSettings(store, { clock, ...options }),
    letTimePass(ms: number) {
      now += ms
    },
    admit: (key: string, scope: Scope = 'clients:read') =>
      store.apiKeys.admit({ keyDigest: digestApiKey(key), scope, rateLimits: LIMITS }),
  }
}

const READER: NewApiKey = { name: 'Reader', scopes: ['clients:read'] }

/** Asserts that a call is rejected with a message that names the action and the problem, but no value. */
async function assertInvalid(call: Promise<unknown>, action: string, about: RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError)
    assert.equal(error.code, INVALID_INPUT)
    assert.ok(error.message.startsWith(`${action} because `), error.message)
    assert.match(error.message, about)
    assert.doesNotMatch(error.message, /secret/i)
    assert.doesNotMatch(error.message, /Invalid|Expected|received|undefined/)
    return true
  })
}

describe('apiKeys.create()', () => {
  test('apiKeys.create() returns the key once, with what later calls return', async () => {
    const { settings } = setUp()
    const { key, ...shown } = await settings.apiKeys.create(ORG, READER)
    assert.ok(readApiKey(key) !== undefined)
    assert.match(shown.id, /^key_[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.deepEqual(shown, {
      id: shown.id,
      name: 'Reader',
      scopes: ['clients:read'],
      prefix: 'bapi_live_',
      lastFour: key.slice(-4),
      rateLimit: null,
      createdAt: '2026-03-14T09:26:53.589Z',
      expiresAt: null,
      revokedAt: null,
      successorId: null,
      lastUsedAt: null,
    })
    assert.deepEqual(await settings.apiKeys.list(ORG), [shown])
  })

  test('apiKeys.create() creates a key that the store admits for the scopes and the organization', async () => {
    const { settings, admit } = setUp()
    const { id, key } = await settings.apiKeys.create(ORG, READER)
    const admission = await admit(key)
    assert.ok(admission.outcome === 'admitted')
    assert.deepEqual(admission.caller, { organizationId: ORG, keyId: id })
    assert.equal((await admit(key, 'leads:write')).outcome, 'forbidden')
  })

  test('apiKeys.create() creates a new key on every call, listed newest first', async () => {
    const { settings } = setUp()
    const [one, two] = [
      await settings.apiKeys.create(ORG, READER),
      await settings.apiKeys.create(ORG, READER),
    ]
    assert.notEqual(one.key, two.key)
    const ids = (await settings.apiKeys.list(ORG)).map(({ id }) => id)
    assert.deepEqual(ids, [two.id, one.id])
  })

  test('apiKeys.create() passes the digest to the store and never the key', async () => {
    const { settings, store } = setUp()
    const seen: string[] = []
    const { insert } = store.apiKeys
    const spied = {
      ...store,
      apiKeys: {
        ...store.apiKeys,
        insert: (...given: Parameters<typeof insert>) => {
          seen.push(JSON.stringify(given))
          return insert(...given)
        },
      },
    }
    const { key } = await createDeveloperSettings(spied).apiKeys.create(ORG, READER)
    assert.equal(seen.length, 1)
    assert.ok(seen[0]?.includes(digestApiKey(key)))
    assert.equal(seen[0]?.includes(key.slice('bapi_live_'.length, -4)), false)
    assert.equal(JSON.stringify(await settings.apiKeys.list(ORG)).includes(digestApiKey(key)), false)
  })

  test('apiKeys.create() uses the host’s prefix and ids', async () => {
    const own = (kind: string): string => `${kind}_${kind === 'aud' ? '01M819PM545CBJ4FSPK7C91TQ4' : 'mine'}`
    const { settings } = setUp({ ids: own }, { keyPrefix: 'acme' })
    const { id, key, prefix } = await settings.apiKeys.create(ORG, READER)
    assert.deepEqual([id, prefix], ['key_mine', 'acme_live_'])
    assert.ok(key.startsWith('acme_live_') && readApiKey(key) !== undefined)
  })

  test("apiKeys.create() rejects an id of the host that can't be used as a cursor, and creates no key", async () => {
    const { settings } = setUp({ ids: (kind) => `${kind}_mine` })
    await assert.rejects(
      settings.apiKeys.create(ORG, READER),
      /^TypeError: Option 'ids' must make ids of aud_ and a ULID, .*: it made 'aud_mine'$/,
    )
    assert.deepEqual(await settings.apiKeys.list(ORG), [])
  })

  test('apiKeys.create() accepts every scope and a rate limit for the key', async () => {
    const { settings, admit } = setUp()
    const rateLimit = { perSecond: 0.5, burst: 3 }
    const created = await settings.apiKeys.create(ORG, { name: 'All', scopes: SCOPES, rateLimit })
    assert.deepEqual(created.rateLimit, { perSecond: 0.5, burst: 3 })
    assert.deepEqual(created.scopes, SCOPES)
    const admission = await admit(created.key)
    assert.ok(admission.outcome === 'admitted')
    assert.equal(admission.rateLimit?.key.burst, 3)
  })

  test('apiKeys.create() accepts names of 1 to 100 characters unchanged, counted in code points', async () => {
    const { settings } = setUp()
    for (const name of ['a', '🏺'.repeat(100), ' "O\'Brien" \n 株式会社 ']) {
      assert.equal((await settings.apiKeys.create(ORG, { ...READER, name })).name, name)
    }
    for (const name of ['', 'x'.repeat(101), 'nul \0', 'surrogate \ud800', 1, null, undefined]) {
      const call = settings.apiKeys.create(ORG, untyped({ ...READER, name }))
      await assertInvalid(call, 'Cannot create an API key', /\bname must /)
    }
  })

  test('apiKeys.create() rejects missing, unknown and repeated scopes', async () => {
    const { settings } = setUp()
    const refused = [[], ['secret:read'], ['clients:read', 'clients:read'], 'clients:read', [null], undefined]
    for (const scopes of refused) {
      const call = settings.apiKeys.create(ORG, untyped({ ...READER, scopes }))
      await assertInvalid(
        call,
        'Cannot create an API key',
        / because scopes must be (given|one or more of clients)/,
      )
    }
    assert.deepEqual(await settings.apiKeys.list(ORG), [])
  })

  test('apiKeys.create() accepts an expiry as Date or ISO 8601 with a time zone and stores it in UTC', async () => {
    const { settings, admit, letTimePass } = setUp()
    const moments: [Date | string | null, string | null][] = [
      [new Date(NOW + 1), '2026-03-14T09:26:53.590Z'],
      ['2026-03-14T10:26:53.590+01:00', '2026-03-14T09:26:53.590Z'],
      ['2028-02-29T00:00Z', '2028-02-29T00:00:00.000Z'],
      ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
      [null, null],
    ]
    for (const [expiresAt, kept] of moments) {
      assert.equal((await settings.apiKeys.create(ORG, { ...READER, expiresAt })).expiresAt, kept)
    }
    const { key } = await settings.apiKeys.create(ORG, { ...READER, expiresAt: new Date(NOW + 60_000) })
    assert.equal((await admit(key)).outcome, 'admitted')
    letTimePass(60_000)
    assert.equal((await admit(key)).outcome, 'unauthenticated')
  })

  test('apiKeys.create() rejects an expiry that has passed, has no time zone or is invalid', async () => {
    const { settings } = setUp()
    const refused = [
      new Date(NOW),
      new Date(Number.NaN),
      '2026-03-14T09:26:53.589Z',
      '2030-01-01T00:00:00',
      '2030-01-01',
      '2030-02-30T00:00:00Z',
      '2029-02-29T00:00:00Z',
      '2030-13-01T00:00:00Z',
      '2030-01-01T25:00:00Z',
      'secret',
      '',
      '+010000-01-01T00:00:00Z',
      new Date(Date.UTC(10_000)),
      NOW + 60_000,
      true,
    ]
    for (const expiresAt of refused) {
      const call = settings.apiKeys.create(ORG, untyped({ ...READER, expiresAt }))
      await assertInvalid(call, 'Cannot create an API key', /\bexpiresAt must be null, a Date, or ISO 8601/)
    }
  })

  test('apiKeys.create() names every invalid field once', async () => {
    const { settings } = setUp()
    const broken = { name: '', scopes: ['secret', 'secret2'], expiresAt: 'secret', rateLimit: {} }
    const call = settings.apiKeys.create('', untyped(broken))
    await assertInvalid(
      call,
      'Cannot create an API key',
      /^[^;]* because organizationId must [^;]*; name must [^;]*; scopes must [^;]*; expiresAt must [^;]*; rateLimit must [^;]*$/,
    )
  })
})

describe('apiKeys.list() and apiKeys.revoke()', () => {
  test('apiKeys.list() only returns the keys of that organization', async () => {
    const { settings } = setUp()
    const { id } = await settings.apiKeys.create(ORG, READER)
    await settings.apiKeys.create('org_2', READER)
    assert.deepEqual(
      (await settings.apiKeys.list(ORG)).map((key) => key.id),
      [id],
    )
    assert.deepEqual(await settings.apiKeys.list('org_3'), [])
  })

  test('apiKeys.revoke() takes effect with the next request, and keeps the first time if called again', async () => {
    const { settings, admit, letTimePass } = setUp()
    const { id, key } = await settings.apiKeys.create(ORG, READER)
    const revoked = await settings.apiKeys.revoke(ORG, id)
    assert.equal(revoked.revokedAt, '2026-03-14T09:26:53.589Z')
    assert.equal((await admit(key)).outcome, 'unauthenticated')
    letTimePass(1000)
    assert.deepEqual(await settings.apiKeys.revoke(ORG, id), revoked)
    assert.deepEqual(await settings.apiKeys.list(ORG), [revoked])
  })

  test("apiKeys.revoke() throws the same not_found for an unknown id, another organization's id and an invalid id", async () => {
    const { settings, admit } = setUp()
    const { id, key } = await settings.apiKeys.create('org_2', READER)
    const errors: unknown[] = []
    // If the key itself is passed instead of the id, it must not appear in a message.
    for (const wrong of [id, 'key_unknown', '', 'nul \0', '\ud800', key]) {
      await settings.apiKeys.revoke(ORG, wrong).catch((error) => errors.push(error))
    }
    assert.equal(errors.length, 6)
    for (const error of errors) {
      assert.ok(error instanceof BusinessApiError)
      assert.equal(error.code, NOT_FOUND)
      assert.equal(error.message, 'Cannot revoke an API key because the organization has no such record')
    }
    assert.equal((await admit(key)).outcome, 'admitted')
  })

  test("apiKeys.revoke() rejects an id that isn't a string", async () => {
    const { settings } = setUp()
    for (const id of [null, 1, undefined, {}]) {
      const call = settings.apiKeys.revoke(ORG, untyped(id))
      await assertInvalid(call, 'Cannot revoke an API key', /keyId must be (given|a string)$/)
    }
  })
})

describe('rateLimits.set()', () => {
  test("rateLimits.set() applies to that organization from the next request until it's set to null", async () => {
    const { settings, admit } = setUp()
    const { key } = await settings.apiKeys.create(ORG, READER)
    const burst = async () => {
      const admission = await admit(key)
      return admission.outcome === 'admitted' && admission.rateLimit?.organization.burst
    }
    assert.equal(await burst(), 10)
    await settings.rateLimits.set(ORG, { perSecond: 2.5, burst: 50 })
    await settings.rateLimits.set('org_2', { perSecond: 1, burst: 1 })
    assert.equal(await burst(), 50)
    await settings.rateLimits.set(ORG, null)
    assert.equal(await burst(), 10)
  })

  test('rateLimits.get() returns the limit of that organization or null', async () => {
    const { settings } = setUp()
    assert.equal(await settings.rateLimits.get(ORG), null)
    await settings.rateLimits.set(ORG, { perSecond: 2.5, burst: 50 })
    assert.deepEqual(await settings.rateLimits.get(ORG), { perSecond: 2.5, burst: 50 })
    assert.equal(await settings.rateLimits.get('org_2'), null)
    await assertInvalid(settings.rateLimits.get(untyped(1)), 'Cannot show a rate limit', /organizationId/)
  })

  const refused = [
    { perSecond: 0, burst: 1 },
    { perSecond: -1, burst: 1 },
    { perSecond: 1_000_001, burst: 1 },
    { perSecond: Number.NaN, burst: 1 },
    { perSecond: Number.POSITIVE_INFINITY, burst: 1 },
    { perSecond: 1, burst: 0 },
    { perSecond: 1, burst: 1.5 },
    { perSecond: 1, burst: 1_000_000_001 },
    { perSecond: '1', burst: 1 },
    { perSecond: 1 },
    { burst: 1 },
    'secret',
    7,
  ]
  for (const rateLimit of refused) {
    test(`rateLimits.set() and apiKeys.create() reject ${JSON.stringify(rateLimit)}`, async () => {
      const { settings } = setUp()
      const limit = untyped<RateLimit>(rateLimit)
      const about = /\brateLimit must be null or \{ perSecond, burst \}/
      await assertInvalid(settings.rateLimits.set(ORG, limit), 'Cannot set a rate limit', about)
      const call = settings.apiKeys.create(ORG, { ...READER, rateLimit: limit })
      await assertInvalid(call, 'Cannot create an API key', about)
    })
  }

  test('rateLimits.set() rejects undefined, because only null goes back to the API’s limit', async () => {
    const { settings } = setUp()
    await assertInvalid(
      settings.rateLimits.set(ORG, untyped(undefined)),
      'Cannot set a rate limit',
      /rateLimit must/,
    )
  })
})

describe('createDeveloperSettings()', () => {
  test("every call rejects an organizationId that is empty, longer than 64 characters or can't be stored", async () => {
    const { settings } = setUp()
    for (const organizationId of ['', 'x'.repeat(65), 'nul \0', '\ud800', 7, null, undefined]) {
      const id = untyped<string>(organizationId)
      const about = /organizationId must /
      await assertInvalid(settings.apiKeys.create(id, READER), 'Cannot create an API key', about)
      await assertInvalid(settings.apiKeys.list(id), 'Cannot list API keys', about)
      await assertInvalid(settings.apiKeys.revoke(id, 'key_1'), 'Cannot revoke an API key', about)
      await assertInvalid(settings.rateLimits.set(id, null), 'Cannot set a rate limit', about)
    }
  })

  test("createDeveloperSettings() rejects values that aren't a sender, lookup or flag", () => {
    const refused = {
      sender: [null, {}, 'sender', () => {}],
      lookup: [null, {}, 'lookup'],
      // A string from an environment variable would disable the guard.
      allowPrivateNetworks: [null, 'false', 0],
      allowHttp: [null, 'false', 0],
      refuseAddresses: ['10.0.0.0/8', ['10.0.0.1/8'], [null]],
    }
    for (const [name, values] of Object.entries(refused)) {
      for (const value of values) {
        assert.throws(() => setUp(untyped({ [name]: value })), {
          name: 'TypeError',
          message: new RegExp(`^Option '${name}' must `),
        })
      }
    }
  })

  test('createDeveloperSettings() rejects an invalid sealing key without showing it', () => {
    assert.throws(() => setUp({ secretKeys: ['not-a-key-but-secret'] }), {
      name: 'TypeError',
      message: /^Option 'secretKeys\[0\]' must be 32 bytes/,
    })
  })

  test('createDeveloperSettings() opens nothing, writes nothing and sets no timer', () => {
    const before = process.getActiveResourcesInfo()
    const untouchable = <Slice extends object>(slice: Slice) =>
      new Proxy(slice, { get: (_, verb) => assert.fail(`calls ${String(verb)}`) })
    const { service, apiKeys, endpoints, deliveries, audit, requests, backfills, eventLog, organizations } =
      createMemoryStore()
    createDeveloperSettings({
      service,
      apiKeys: untouchable(apiKeys),
      endpoints: untouchable(endpoints),
      deliveries: untouchable(deliveries),
      requests: untouchable(requests),
      audit: untouchable(audit),
      backfills: untouchable(backfills),
      eventLog: untouchable(eventLog),
      organizations: untouchable(organizations),
    })
    assert.deepEqual(process.getActiveResourcesInfo(), before)
  })

  test('errors of the store are passed through unchanged', async () => {
    const { store } = setUp()
    const failure = new Error('down')
    const apiKeys = { ...store.apiKeys, list: () => Promise.reject(failure) }
    await assert.rejects(createDeveloperSettings({ ...store, apiKeys }).apiKeys.list(ORG), failure)
  })
})
