import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import {
  BusinessApiError,
  type ErrorCode,
  INVALID_INPUT,
  INVALID_STATE,
  LIMIT_REACHED,
  SECRET_UNAVAILABLE,
} from '../../lib/base/errors.ts'
import {
  createDeveloperSettings,
  type DeveloperSettingsOptions,
  type NewEndpoint,
} from '../../lib/settings.ts'
import { makeRequest } from '../../lib/webhooks/attempt.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, newOrganization, publish } from './_stores.ts'

// The organization's custom headers. They are credentials, so they are sealed like the signing secret and
// never shown again.

const KEY = randomBytes(32)
const URL = 'https://hooks.example.com/'
const HEADERS = { Authorization: 'Bearer s3cret', 'X-Tenant': 's3cret-42' }

async function assertRefused(call: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, code, error.message)
    assert.match(error.message, message)
    assert.doesNotMatch(inspect([error, error.record]), /s3cret|v1\./)
    return true
  })
}

describeOnEveryStore((open) => {
  function setUp(options: DeveloperSettingsOptions = {}) {
    const store = open()
    const given = { secretKeys: [KEY], allowPrivateNetworks: true, ...options }
    const settings = createDeveloperSettings(store, given)
    const organizationId = newOrganization()
    const register = (changes: Partial<NewEndpoint> = {}) =>
      settings.endpoints.register(organizationId, { url: URL, ...changes })
    /** Returns the custom headers in the next delivery. */
    const sentHeaders = async () => {
      await publish(store, organizationId)
      const [delivery] = await claim(store, organizationId)
      assert.ok(delivery)
      const service = { headerPrefix: 'X-SERVICE', standardWebhooks: false }
      const request = makeRequest(delivery, createSecretSealer({ secretKeys: [KEY] }), service, 1)
      return Object.fromEntries(
        Object.entries(request.headers).filter(([name]) => !/^(X-SERVICE-|Content-Type$)/.test(name)),
      )
    }
    return { store, ...settings, organizationId, register, sentHeaders }
  }

  describe('custom headers of an endpoint', () => {
    test('are sent with deliveries and only shown by name in every result and in the audit log', async () => {
      const { endpoints, audit, organizationId, register, sentHeaders } = setUp()
      const registered = await register({ headers: HEADERS })
      assert.deepEqual(registered.headerNames, ['Authorization', 'X-Tenant'])
      const { id } = registered
      const shown = [
        registered,
        await endpoints.list(organizationId),
        await endpoints.update(organizationId, id, { headers: { 'X-Team': 's3cret-7' } }),
        await endpoints.pause(organizationId, id),
        await endpoints.resume(organizationId, id),
        await endpoints.rotateSecret(organizationId, id),
        await audit.list(organizationId),
      ]
      assert.doesNotMatch(JSON.stringify(shown), /s3cret/)
      assert.deepEqual(await sentHeaders(), { ...HEADERS, 'X-Team': 's3cret-7' })
    })

    test('are passed to the store sealed, and can only be opened for this endpoint', async () => {
      const { store, organizationId, register } = setUp()
      const [one, other] = [await register({ headers: HEADERS }), await register()]
      const target = await store.endpoints.getTarget(organizationId, one.id)
      assert.match(target?.sealedHeaders ?? '', /^v1\./)
      assert.doesNotMatch(JSON.stringify(target), /s3cret/)
      const sealer = createSecretSealer({ secretKeys: [KEY] })
      assert.ok(target)
      const ref = { organizationId, endpointId: one.id }
      assert.deepEqual(sealer.unsealHeaders(target, ref), HEADERS)
      assert.throws(() => sealer.unsealHeaders(target, { ...ref, endpointId: other.id }), {
        code: SECRET_UNAVAILABLE,
      })
      const without = await store.endpoints.getTarget(organizationId, other.id)
      assert.deepEqual([without?.headerNames, without?.sealedHeaders], [[], null])
    })

    test('are changed by a patch: values are set, null removes, others remain', async () => {
      const { endpoints, organizationId, register, sentHeaders } = setUp()
      const { id } = await register({ headers: HEADERS })
      const update = async (headers: Record<string, string | null> | null) =>
        (await endpoints.update(organizationId, id, { headers })).headerNames
      const patches: [Record<string, string | null> | null, Record<string, string>][] = [
        [{ 'X-Team': '7' }, { ...HEADERS, 'X-Team': '7' }],
        [{ Authorization: null }, { 'X-Tenant': 's3cret-42', 'X-Team': '7' }],
        [{ 'X-TEAM': '8', 'x-tenant': null, 'X-None': null }, { 'X-TEAM': '8' }],
        [
          { __proto__x: '1', constructor: '2' },
          { 'X-TEAM': '8', __proto__x: '1', constructor: '2' },
        ],
        [{}, { 'X-TEAM': '8', __proto__x: '1', constructor: '2' }],
        [null, {}],
        [{ 'X-A': '1' }, { 'X-A': '1' }],
        [{ 'x-a': null }, {}],
      ]
      for (const [patch, expected] of patches) {
        assert.deepEqual([...(await update(patch))].sort(), Object.keys(expected).sort())
        assert.deepEqual(await sentHeaders(), expected)
      }
    })

    test('write an entry if a patch changes a value, and none otherwise', async () => {
      const { endpoints, audit, organizationId, register } = setUp()
      const { id } = await register({ headers: HEADERS })
      const entries = async () => (await audit.list(organizationId, { subjectId: id })).data
      for (const headers of [HEADERS, { Authorization: 'Bearer s3cret' }, { 'X-None': null }, {}]) {
        await endpoints.update(organizationId, id, { headers })
        assert.equal((await entries()).length, 1, JSON.stringify(headers))
      }
      for (const headers of [{ Authorization: 'Bearer s3cret2' }, { 'X-Tenant': null }, null]) {
        await endpoints.update(organizationId, id, { headers })
        const [entry] = await entries()
        assert.deepEqual([entry?.action, entry?.details], ['endpoint.updated', { fields: ['headers'] }])
      }
      assert.equal((await entries()).length, 4)
      await endpoints.update(organizationId, id, { headers: null, description: 'x' })
      assert.deepEqual((await entries())[0]?.details, { fields: ['description'] })
    })

    test('keep the changes of ten concurrent patches', async () => {
      const { endpoints, organizationId, register, sentHeaders } = setUp()
      const { id } = await register({ headers: HEADERS })
      const added = Array.from({ length: 10 }, (_, index) => [`X-${index}`, `${index}`] as const)
      await Promise.all(
        added.map(([name, value]) => endpoints.update(organizationId, id, { headers: { [name]: value } })),
      )
      assert.deepEqual(await sentHeaders(), { ...HEADERS, ...Object.fromEntries(added) })
    })

    test("aren't replaced by a caller who saw the endpoint before another change", async () => {
      const { endpoints, organizationId, register, sentHeaders } = setUp()
      const { id } = await register({ headers: HEADERS })
      const seen = await endpoints.get(organizationId, id)
      const update = (value: string, replaces: typeof seen) =>
        endpoints.update(organizationId, id, { headers: { 'X-Tenant': value }, replaces })
      const changed = await update('theirs', seen)
      await assertRefused(update('mine', seen), INVALID_STATE, /other calls change the endpoint/)
      assert.deepEqual(await sentHeaders(), { ...HEADERS, 'X-Tenant': 'theirs' })
      await update('mine', changed)
      assert.deepEqual(await sentHeaders(), { ...HEADERS, 'X-Tenant': 'mine' })
    })

    test('are limited to 20 and 8 KiB in total, even after a patch, and a rejected patch changes nothing', async () => {
      const { endpoints, organizationId, register, sentHeaders } = setUp()
      const many = Object.fromEntries(Array.from({ length: 19 }, (_, index) => [`X-${index}`, 's3cret']))
      const { id } = await register({ headers: many })
      const update = (headers: Record<string, string | null>) =>
        endpoints.update(organizationId, id, { headers })
      await update({ 'X-19': 's3cret', 'x-0': 's3cret2' })
      const before = await sentHeaders()
      await assertRefused(
        update({ 'X-20': 's3cret' }),
        LIMIT_REACHED,
        /^Cannot update a webhook endpoint because the endpoint would have 21 headers, more than 20: remove some$/,
      )
      const long = 's3cret'.padEnd(1024, '~')
      const eight = Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`X-${index}`, long]))
      const about =
        / because the headers of the endpoint would take 8\d{3} bytes, more than 8192: remove some, or shorten their values$/
      await assertRefused(update(eight), LIMIT_REACHED, about)
      await assertRefused(register({ headers: eight }), LIMIT_REACHED, about)
      assert.deepEqual(await sentHeaders(), before)
      await update({ 'X-19': null, 'X-20': 's3cret' })
      const { 'X-7': _, ...seven } = eight
      await register({ headers: seven })
    })

    test("that can't be opened can be removed all at once but not patched", async () => {
      const { store, organizationId, register, endpoints, sentHeaders } = setUp()
      const { id } = await register({ headers: HEADERS })
      const other = createDeveloperSettings(store, {
        secretKeys: [randomBytes(32)],
        allowPrivateNetworks: true,
      })
      const patch = other.endpoints.update(organizationId, id, { headers: { 'X-Team': 's3cret' } })
      await assertRefused(
        patch,
        SECRET_UNAVAILABLE,
        /^Cannot open the headers of endpoint we_\w+ because key /,
      )
      await other.endpoints.update(organizationId, id, { description: 'Shop' })
      assert.deepEqual(await sentHeaders(), HEADERS)
      assert.deepEqual((await other.endpoints.update(organizationId, id, { headers: null })).headerNames, [])
      await endpoints.update(organizationId, id, { headers: { 'X-Team': '7' } })
      assert.deepEqual(await sentHeaders(), { 'X-Team': '7' })
    })

    test('in a patch are rejected by the same rules as those of a new endpoint', async () => {
      const { endpoints, organizationId, register } = setUp()
      const { id } = await register({ headers: HEADERS })
      const refused: [headers: unknown, rule: string][] = [
        [{ 'X-A': 7 }, "must have strings as values: 'X-A'"],
        [{ 'X-A': '' }, "must have values of visible ASCII characters, with spaces only inside: 'X-A'"],
        [
          { 'X-A': 's3cret\n' },
          "must have values of visible ASCII characters, with spaces only inside: 'X-A'",
        ],
        [{ 'X-A': 's3cret'.padEnd(4097, '~') }, "must have values of at most 4096 characters: 'X-A'"],
        [{ 'X A': null }, "must have header names of at most 100 characters: 'X A'"],
        [{ 'X-A': 's3cret', 'x-a': null }, "must have each name once, in any case of its letters: 'x-a'"],
        [{ Host: null }, "must not have a header that the service sets: 'Host'"],
        [
          { 'X-SERVICE-Event-Id': 's3cret' },
          "must not have a header that the service sets: 'X-SERVICE-Event-Id'",
        ],
        ['s3cret', 'must be an object of header names and values'],
        [['s3cret'], 'must be an object of header names and values'],
        [new Headers({ 'X-A': 's3cret' }), 'must be an object of header names and values'],
        [new Map([['X-A', 's3cret']]), 'must be an object of header names and values'],
        [
          Object.fromEntries(Array.from({ length: 41 }, (_, index) => [`X-${index}`, null])),
          'must have at most 20 headers',
        ],
      ]
      const because = (rule: string) => new RegExp(`because headers ${rule}$`)
      for (const [headers, rule] of refused) {
        await assertRefused(
          endpoints.update(organizationId, id, untyped({ headers })),
          INVALID_INPUT,
          because(rule),
        )
        await assertRefused(register(untyped({ headers })), INVALID_INPUT, /because headers must /)
      }
      await assertRefused(
        register(untyped({ headers: null })),
        INVALID_INPUT,
        because('must be an object of header names and values'),
      )
      await assertRefused(
        register(untyped({ headers: { 'X-A': null } })),
        INVALID_INPUT,
        because("must have strings as values: 'X-A'"),
      )
    })

    test('can be as long as a token of 4 KiB', async () => {
      const { register, sentHeaders } = setUp()
      const headers = { Authorization: `Bearer ${'s3cret'.padEnd(4089, '~')}` }
      await register({ headers })
      assert.deepEqual(await sentHeaders(), headers)
    })
  })
})
