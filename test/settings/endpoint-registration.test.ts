import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { INVALID_INPUT, SECRET_UNAVAILABLE } from '../../lib/base/errors.ts'
import { EVENT_TYPES } from '../../lib/resources/event-catalogue.ts'
import type { NewEndpoint } from '../../lib/settings.ts'
import { ENDPOINT_DEFAULTS } from '../../lib/webhooks/endpoint-choices.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { createSetUp, KEY, readSigningSecrets, SECRET, URL } from './_endpoints.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, publish } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('endpoints.register()', () => {
    test('endpoints.register() returns the secret once, with what later calls return', async () => {
      const { settings, organizationId } = setUp()
      const { secret, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
      assert.match(secret, SECRET)
      assert.match(shown.id, /^we_[0-9A-HJKMNP-TV-Z]{26}$/)
      assert.deepEqual(shown, {
        id: shown.id,
        url: URL,
        ...ENDPOINT_DEFAULTS,
        version: 0,
        headerNames: [],
        state: 'enabled',
        disabledReason: null,
        failingSince: null,
        failures: 0,
        previousSecretExpiresAt: null,
        createdAt: '2026-03-14T09:26:53.589Z',
      })
      assert.deepEqual(await settings.endpoints.list(organizationId), [shown])
    })

    test('endpoints.register() keeps types, description and headers unchanged, and nothing else', async () => {
      const { settings, organizationId } = setUp()
      const given = {
        url: URL,
        types: ['invoice.paid', 'client.created'],
        description: '🏺'.repeat(200),
        headers: { Authorization: 'Bearer s3cret', 'x-service': '1', constructor: '{"a": "~!"}' },
      } as const
      const { secret, ...shown } = await settings.endpoints.register(organizationId, given)
      const { url, types, description, headers } = given
      const kept = { url, types, description, headerNames: Object.keys(headers), state: 'enabled' }
      assert.deepEqual({ ...shown, ...kept }, shown)
      assert.deepEqual(await settings.endpoints.list(organizationId), [shown])
      assert.deepEqual(await settings.endpoints.list('org_other'), [])
    })

    test('endpoints.register() creates a new endpoint with a new secret on every call, listed newest first', async () => {
      const { settings, organizationId } = setUp()
      const one = await settings.endpoints.register(organizationId, { url: URL })
      const two = await settings.endpoints.register(organizationId, { url: URL })
      assert.notEqual(one.secret, two.secret)
      const listed = await settings.endpoints.list(organizationId)
      assert.deepEqual(
        listed.map(({ id }) => id),
        [two.id, one.id],
      )
    })

    test('endpoints.register() passes the sealed secret to the store, which can only be opened for this endpoint', async () => {
      const { settings, store, organizationId } = setUp()
      const { secret, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret])
      await publish(store, organizationId)
      const [delivery] = await claim(store, organizationId)
      const [sealed = ''] = delivery?.sealedSecrets ?? []
      assert.match(sealed, /^v1\./)
      assert.equal(sealed.includes(secret.slice('whsec_'.length)), false)
      const sealer = createSecretSealer({ secretKeys: [KEY] })
      assert.throws(() => sealer.unseal(sealed, { organizationId, endpointId: `${shown.id}x` }), {
        code: SECRET_UNAVAILABLE,
      })
    })

    test('endpoints.register() rejects storing a secret without a key unless plain text is allowed', async () => {
      const without = setUp({ secretKeys: undefined })
      const call = without.settings.endpoints.register(without.organizationId, { url: URL })
      await assert.rejects(call, { code: SECRET_UNAVAILABLE, message: /option 'secretKeys' is empty/ })
      assert.deepEqual(await without.settings.endpoints.list(without.organizationId), [])

      const { settings, store, organizationId } = setUp({ secretKeys: [], allowPlaintextSecrets: true })
      const { secret } = await settings.endpoints.register(organizationId, { url: URL })
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret])
    })

    test('endpoints.register() accepts every type, and defaults to all including future ones', async () => {
      const { settings, organizationId } = setUp()
      const { types } = await settings.endpoints.register(organizationId, { url: URL, types: EVENT_TYPES })
      assert.deepEqual(types, EVENT_TYPES)
      const { secret: _, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
      assert.deepEqual([shown.types, shown.description, shown.headerNames], [null, '', []])
      const { types: all } = await settings.endpoints.register(organizationId, { url: URL, types: null })
      assert.equal(all, null)
    })

    const refusals: [field: string, values: readonly unknown[], about: RegExp][] = [
      [
        'types',
        [[], ['invoice.paid', 'invoice.paid'], ['s3cret'], ['invoice.paid', null], 'invoice.paid', {}, 7],
        / because types must be null, or one or more of client\.created, .*, each once$/,
      ],
      [
        'description',
        ['x'.repeat(201), 'nul \0', '\ud800', 7, null, {}],
        / because description must (be a string of at most 200 characters|not contain NUL or a lone surrogate)$/,
      ],
      [
        'url',
        [
          undefined,
          null,
          7,
          '',
          {},
          `https://hooks.example.com/${'x'.repeat(2048)}`,
          '\ud800',
          'https://x\0y',
        ],
        / because url (must|was rejected: must) /,
      ],
      [
        'url',
        [
          ' https://hooks.example.com',
          'https://hooks.example.com/\n',
          'https://hooks.exa\tmple.com',
          'https://x y',
        ],
        / because url must not contain white space or control characters$/,
      ],
      [
        'headers',
        [
          7,
          's3cret',
          ['s3cret'],
          Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`X-${index}`, 's3cret'])),
          { 'X-A': 's3cret', 'x-a': 's3cret' },
          ...['', 'X A', 'X:A', 'X-é', 'X\r\nA', 'x'.repeat(101)].map((name) => ({ [name]: 's3cret' })),
          ...[
            '',
            ' s3cret',
            's3cret ',
            's3\r\ncret',
            's3cret\0',
            's3cré',
            's'.repeat(4097),
            7,
            ['s3cret'],
          ].map((value) => ({ 'X-A': value })),
          ...[
            'Host',
            'content-length',
            'Content-Type',
            'CONNECTION',
            'Transfer-Encoding',
            'user-agent',
            'Expect',
            'Keep-Alive',
            'Upgrade',
            'TE',
            'X-SERVICE-Event-Id',
            'x-service-',
          ].map((name) => ({ [name]: 's3cret' })),
        ],
        / because headers must (be an object|have|not have)/,
      ],
    ]
    for (const [field, values, about] of refusals) {
      test(`endpoints.register() and update() reject an invalid ${field}: ${about}`, async () => {
        const { settings, organizationId } = setUp()
        const { id } = await settings.endpoints.register(organizationId, { url: URL })
        const before = await settings.endpoints.list(organizationId)
        for (const value of values) {
          const given = untyped<NewEndpoint>({ url: URL, [field]: value })
          const register = settings.endpoints.register(organizationId, given)
          await assertRefused(register, INVALID_INPUT, 'Cannot register a webhook endpoint', about)
          if (value === undefined) continue
          const update = settings.endpoints.update(organizationId, id, untyped({ [field]: value }))
          await assertRefused(update, INVALID_INPUT, 'Cannot update a webhook endpoint', about)
        }
        assert.deepEqual(await settings.endpoints.list(organizationId), before)
      })
    }

    test('endpoints.register() accepts 20 headers with names of 100 characters and values of 4096', async () => {
      const { settings, organizationId } = setUp()
      const entries = Array.from({ length: 19 }, (_, index) => [`x-${index}`, `a ${index} ~`])
      const headers = { ...Object.fromEntries(entries), ['x'.repeat(100)]: '~'.repeat(4096) }
      const shown = await settings.endpoints.register(organizationId, { url: URL, headers })
      assert.deepEqual(shown.headerNames, Object.keys(headers))
    })

    test('endpoints.register() reserves headers with the host’s own prefix for the service', async () => {
      const { settings, organizationId } = setUp({}, { headerPrefix: 'Acme' })
      const own = { url: URL, headers: { 'ACME-Signature': 's3cret' } }
      const call = settings.endpoints.register(organizationId, own)
      await assertRefused(
        call,
        INVALID_INPUT,
        'Cannot register a webhook endpoint',
        /headers must not have a header that the service sets: 'ACME-Signature'$/,
      )
      await settings.endpoints.register(organizationId, {
        url: URL,
        headers: { 'X-SERVICE-Signature': '1', Acme: '1' },
      })
    })

    test('endpoints.register() names every invalid field once', async () => {
      const { settings } = setUp()
      const broken = { url: 7, types: ['s3cret', 's3cret2'], description: 7, headers: 's3cret' }
      const call = settings.endpoints.register('', untyped(broken))
      const about =
        /^[^;]* because organizationId must [^;]*; url must [^;]*; types must [^;]*; description must [^;]*; headers must [^;]*$/
      await assertRefused(call, INVALID_INPUT, 'Cannot register a webhook endpoint', about)
    })
  })
})
