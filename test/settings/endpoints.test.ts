import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import type { LookupAddress } from 'node:dns'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import {
  BusinessApiError,
  type ErrorCode,
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
  SECRET_UNAVAILABLE,
} from '../../lib/base/errors.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { EVENT_TYPES } from '../../lib/resources/event-catalogue.ts'
import {
  createDeveloperSettings,
  type DeveloperSettingsOptions,
  type NewEndpoint,
} from '../../lib/settings.ts'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import { createWebhookSender } from '../../lib/webhooks.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

const NOW = Date.UTC(2026, 2, 14, 9, 26, 53, 589)
const DAY_MS = 24 * 60 * 60 * 1000
const KEY = randomBytes(32)
const URL = 'https://hooks.example.com/business?from=é#x'
const SECRET = /^whsec_[\w-]{43}$/

/** Asserts that a call is refused with a code and a text that names the action and the fault. */
async function assertRefused(
  call: Promise<unknown>,
  code: ErrorCode,
  action: string,
  about: RegExp,
): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, code)
    assert.ok(error.message.startsWith(`${action} as `), error.message)
    assert.match(error.message, about)
    assert.doesNotMatch(inspect(error), /whsec_|s3cret/)
    assert.doesNotMatch(error.message, /Invalid|Expected|but received|undefined/)
    return true
  })
}

/** A value that the compiler would not let through, as JavaScript hosts pass them. */
function untyped<T>(value: unknown): T {
  return value as T
}

describeOnEveryStore((open) => {
  /** Settings for a new organization, without name look-ups. */
  function setUp(options: DeveloperSettingsOptions = {}) {
    const store = open()
    const settings = createDeveloperSettings(store, {
      clock: () => NOW,
      secretKeys: [KEY],
      allowPrivateNetworks: true,
      ...options,
    })
    return { store, settings, organizationId: newOrganization() }
  }

  /** The secrets that sign for an endpoint now, the current secret first. */
  async function readSigningSecrets(store: BusinessApiStore, organizationId: string): Promise<string[]> {
    await publish(store, organizationId)
    const claimed = await claim(store, organizationId)
    const [delivery] = claimed
    assert.ok(delivery && claimed.length === 1)
    await record(store, claimed, 'delivered')
    const sealer = createSecretSealer({ secretKeys: [KEY], allowPlaintextSecrets: true })
    return delivery.sealedSecrets.map((sealed) => sealer.unseal(sealed, delivery))
  }

  describe('endpoints.register()', () => {
    test('endpoints.register() gives the secret once, with the facts that later calls show', async () => {
      const { settings, organizationId } = setUp()
      const { secret, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
      assert.match(secret, SECRET)
      assert.match(shown.id, /^we_[0-9A-HJKMNP-TV-Z]{26}$/)
      assert.deepEqual(shown, {
        id: shown.id,
        url: URL,
        description: '',
        types: null,
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

    test('endpoints.register() keeps types, description and headers as given, and nothing else', async () => {
      const { settings, organizationId } = setUp()
      const given = {
        url: URL,
        types: ['invoice.paid', 'client.created'],
        description: '🏺'.repeat(200),
        headers: { Authorization: 'Bearer s3cret', 'x-service': '1', constructor: '{"a": "~!"}' },
        state: 'disabled',
        organizationId: 'org_other',
      } as const
      const { secret, ...shown } = await settings.endpoints.register(organizationId, given)
      const { url, types, description, headers } = given
      const kept = { url, types, description, headerNames: Object.keys(headers), state: 'enabled' }
      assert.deepEqual({ ...shown, ...kept }, shown)
      assert.deepEqual(await settings.endpoints.list(organizationId), [shown])
      assert.deepEqual(await settings.endpoints.list('org_other'), [])
    })

    test('endpoints.register() makes a new endpoint with a new secret on every call, listed newest first', async () => {
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

    test('endpoints.register() hands the store the secret sealed, to be opened for this endpoint only', async () => {
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

    test('endpoints.register() refuses to store a secret without a key, unless plain text is allowed', async () => {
      const without = setUp({ secretKeys: undefined })
      const call = without.settings.endpoints.register(without.organizationId, { url: URL })
      await assert.rejects(call, { code: SECRET_UNAVAILABLE, message: /option 'secretKeys' is empty/ })
      assert.deepEqual(await without.settings.endpoints.list(without.organizationId), [])

      const { settings, store, organizationId } = setUp({ secretKeys: [], allowPlaintextSecrets: true })
      const { secret } = await settings.endpoints.register(organizationId, { url: URL })
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret])
    })

    test('endpoints.register() takes every type, and undefined as an absent field', async () => {
      const { settings, organizationId } = setUp()
      const { types } = await settings.endpoints.register(organizationId, { url: URL, types: EVENT_TYPES })
      assert.deepEqual(types, EVENT_TYPES)
      const open = { url: URL, types: undefined, description: undefined, headers: undefined }
      const { secret: _, ...shown } = await settings.endpoints.register(organizationId, open)
      assert.deepEqual([shown.types, shown.description, shown.headerNames], [null, '', []])
      const { types: all } = await settings.endpoints.register(organizationId, { url: URL, types: null })
      assert.equal(all, null)
    })

    const refusals: [field: string, values: readonly unknown[], about: RegExp][] = [
      [
        'types',
        [[], ['invoice.paid', 'invoice.paid'], ['s3cret'], ['invoice.paid', null], 'invoice.paid', {}, 7],
        / as types must be null, or one or more of client\.created, .*, each once$/,
      ],
      [
        'description',
        ['x'.repeat(201), 'nul \0', '\ud800', 7, null, {}],
        / as description must (be a string of at most 200 characters|not contain NUL or a lone surrogate)$/,
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
        / as url (must|was refused: must) /,
      ],
      [
        'url',
        [
          ' https://hooks.example.com',
          'https://hooks.example.com/\n',
          'https://hooks.exa\tmple.com',
          'https://x y',
        ],
        / as url must not contain white space or control characters$/,
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
            's'.repeat(1025),
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
        / as headers must be an object of at most 20 header names, .* without Connection, .* and X-SERVICE-\*(;|$)/,
      ],
    ]
    for (const [field, values, about] of refusals) {
      test(`endpoints.register() and update() refuse ${field} that cannot be used: ${about}`, async () => {
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

    test('endpoints.register() takes 20 headers, names of 100 characters and values of 1024', async () => {
      const { settings, organizationId } = setUp()
      const entries = Array.from({ length: 19 }, (_, index) => [`x-${index}`, `a ${index} ~`])
      const headers = { ...Object.fromEntries(entries), ['x'.repeat(100)]: '~'.repeat(1024) }
      const shown = await settings.endpoints.register(organizationId, { url: URL, headers })
      assert.deepEqual(shown.headerNames, Object.keys(headers))
    })

    test('endpoints.register() keeps the headers of the host’s own prefix for the service', async () => {
      const { settings, organizationId } = setUp({ headerPrefix: 'Acme' })
      const own = { url: URL, headers: { 'ACME-Signature': 's3cret' } }
      const call = settings.endpoints.register(organizationId, own)
      await assertRefused(
        call,
        INVALID_INPUT,
        'Cannot register a webhook endpoint',
        /Upgrade, User-Agent and Acme-\*$/,
      )
      await settings.endpoints.register(organizationId, {
        url: URL,
        headers: { 'X-SERVICE-Signature': '1', Acme: '1' },
      })
    })

    test('endpoints.register() names every field that cannot be used, each once', async () => {
      const { settings } = setUp()
      const broken = { url: 7, types: ['s3cret', 's3cret2'], description: 7, headers: 's3cret' }
      const call = settings.endpoints.register('', untyped(broken))
      const about =
        /^[^;]* as organizationId must [^;]*; url must [^;]*; types must [^;]*; description must [^;]*; headers must [^;]*$/
      await assertRefused(call, INVALID_INPUT, 'Cannot register a webhook endpoint', about)
    })
  })

  describe('where an endpoint may be', () => {
    const refused: [url: string, reason: RegExp][] = [
      ['hooks.example.com', /url was refused: must be a URL/],
      ['http://93.184.216.34/', /url was refused: must be https$/],
      ['ftp://93.184.216.34/', /url was refused: must be https$/],
      ['https://user:s3cret@93.184.216.34/', /url was refused: must not contain a user name or password$/],
      ['https://93.184.216.34:22/', /url was refused: must use port 443 or one from 1024$/],
      ['https://127.0.0.1/', /url was refused: destination not allowed$/],
      ['https://2130706433/', /url was refused: destination not allowed$/],
      ['https://10.1.2.3/', /url was refused: destination not allowed$/],
      ['https://169.254.169.254/latest', /url was refused: destination not allowed$/],
      ['https://[::1]/', /url was refused: destination not allowed$/],
      ['https://localhost/', /url was refused: destination not allowed$/],
    ]
    for (const [url, reason] of refused) {
      test(`endpoints.register() and update() refuse ${url} and say no address`, async () => {
        const { settings, organizationId } = setUp({ allowPrivateNetworks: undefined })
        const endpoint = await settings.endpoints.register(organizationId, { url: 'https://93.184.216.34/' })
        const calls = {
          'Cannot register a webhook endpoint': settings.endpoints.register(organizationId, { url }),
          'Cannot update a webhook endpoint': settings.endpoints.update(organizationId, endpoint.id, { url }),
        }
        for (const [action, call] of Object.entries(calls)) {
          await assertRefused(call, INVALID_INPUT, action, reason)
          await call.catch((error) =>
            assert.doesNotMatch(inspect(error.message), /\d+\.\d+\.\d+|::|localhost/),
          )
        }
        const [kept, ...others] = await settings.endpoints.list(organizationId)
        assert.deepEqual([kept?.url, others], ['https://93.184.216.34/', []])
      })
    }

    test('endpoints.register() refuses a name that resolves to a private address, and does not show the address', async () => {
      const { store, organizationId } = setUp()
      const asked: string[] = []
      const answers: readonly LookupAddress[][] = [
        [
          { address: '93.184.216.34', family: 4 },
          { address: '10.1.2.3', family: 4 },
        ],
        [{ address: '93.184.216.34', family: 4 }],
      ]
      const lookup: Lookup = (hostname, _options, callback) => {
        callback(null, answers[asked.push(hostname) - 1] ?? [])
      }
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], lookup })
      const refusal = endpoints.register(organizationId, { url: URL })
      const about = /url was refused: destination not allowed$/
      await assertRefused(refusal, INVALID_INPUT, 'Cannot register a webhook endpoint', about)
      await refusal.catch((error) => assert.doesNotMatch(inspect(error), /10\.1\.2\.3|10\.0\.0\.0/))
      await endpoints.register(organizationId, { url: URL })
      assert.deepEqual(asked, ['hooks.example.com', 'hooks.example.com'])
    })

    test('endpoints.register() answers alike for internal names that exist and that do not', async () => {
      const { store, organizationId } = setUp()
      const lookup: Lookup = (hostname, _options, callback) => {
        if (hostname.startsWith('there.')) callback(null, [{ address: '10.1.2.3', family: 4 }])
        else callback(Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' }), [])
      }
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], lookup })
      for (const domain of ['corp.example.com', 'internal', 'svc.cluster.local']) {
        const refusals = []
        for (const name of ['there', 'missing']) {
          const call = endpoints.register(organizationId, { url: `https://${name}.${domain}/` })
          await assertRefused(
            call,
            INVALID_INPUT,
            'Cannot register a webhook endpoint',
            /url was refused: destination not allowed$/,
          )
          refusals.push(await call.catch((error) => inspect({ ...error, message: error.message })))
        }
        assert.equal(refusals[0], refusals[1])
      }
    })

    test('refuseAddresses holds at registration, by address and by name', async () => {
      const { store, organizationId } = setUp()
      const lookup: Lookup = (_hostname, _options, callback) =>
        callback(null, [{ address: '93.184.216.34', family: 4 }])
      const options = { secretKeys: [KEY], lookup, refuseAddresses: ['93.184.216.0/24'] }
      const { endpoints } = createDeveloperSettings(store, options)
      for (const url of ['https://93.184.216.34/', URL]) {
        await assertRefused(
          endpoints.register(organizationId, { url }),
          INVALID_INPUT,
          'Cannot register a webhook endpoint',
          /url was refused: destination not allowed$/,
        )
      }
      await endpoints.register(organizationId, { url: 'https://93.184.217.34/' })
    })

    test('localDevelopment lets a development host in', async () => {
      const { store, organizationId } = setUp()
      const { endpoints } = createDeveloperSettings(store, { secretKeys: [KEY], localDevelopment: true })
      for (const url of ['http://127.0.0.1:3000/hook', 'http://localhost:3000', 'https://10.1.2.3/']) {
        assert.equal((await endpoints.register(organizationId, { url })).url, url)
      }
    })

    test('the sender judges at registration, unless the settings have rules', async () => {
      const { store, organizationId } = setUp()
      const sender = createWebhookSender({ localDevelopment: true })
      const url = 'http://127.0.0.1:3000/hook'
      const bySender = createDeveloperSettings(store, { secretKeys: [KEY], sender })
      assert.equal((await bySender.endpoints.register(organizationId, { url })).url, url)
      const byRules = createDeveloperSettings(store, { secretKeys: [KEY], sender, allowHttp: false })
      await assert.rejects(byRules.endpoints.register(organizationId, { url }), { code: INVALID_INPUT })
    })

    test('allowPrivateNetworks and allowHttp let a development host in', async () => {
      const { settings, organizationId } = setUp({ allowHttp: true })
      for (const url of ['http://127.0.0.1:3000/hook', 'http://localhost:3000', 'https://10.1.2.3/']) {
        assert.equal((await settings.endpoints.register(organizationId, { url })).url, url)
      }
    })
  })

  describe('endpoints.update()', () => {
    test('endpoints.update() changes the given fields and leaves the rest', async () => {
      const { settings, organizationId } = setUp()
      const types = ['invoice.paid'] as const
      const given = { url: URL, types, description: 'Books', headers: { 'X-A': '1' } }
      const { secret: _, ...shown } = await settings.endpoints.register(organizationId, given)
      const changes = [
        { description: '' },
        { url: 'https://other.example.com/' },
        { types: null },
        { types: ['lead.created'] },
        { url: URL, description: 'All', types: null },
        {},
        { url: undefined, types: undefined, description: undefined, headers: undefined },
      ] as const
      let expected = shown
      for (const change of changes) {
        const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
        expected = { ...expected, ...given }
        assert.deepEqual(await settings.endpoints.update(organizationId, shown.id, change), expected)
        assert.deepEqual(await settings.endpoints.list(organizationId), [expected])
      }
    })

    test('endpoints.update() changes nothing but url, types, description and headers', async () => {
      const { settings, organizationId } = setUp()
      const { secret: _, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
      const changes = {
        id: 'we_other',
        endpointId: 'we_other',
        organizationId: 'org_other',
        state: 'disabled',
        failures: 7,
        createdAt: 'never',
        sealedSecret: 's3cret',
      }
      assert.deepEqual(await settings.endpoints.update(organizationId, shown.id, untyped(changes)), shown)
    })

    test('endpoints.update() counts for deliveries that wait', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await publish(store, organizationId)
      const changes = { url: 'https://other.example.com/', headers: { 'X-B': '2' } }
      await settings.endpoints.update(organizationId, id, changes)
      const [delivery] = await claim(store, organizationId)
      assert.deepEqual([delivery?.url, delivery?.headerNames], [changes.url, ['X-B']])
    })
  })

  describe('states', () => {
    const VERBS = ['pause', 'resume', 'disable', 'enable'] as const
    type Verb = (typeof VERBS)[number]

    const outcomes: [from: Verb[], state: string, after: Record<Verb, string>][] = [
      [[], 'enabled', { pause: 'paused', resume: 'enabled', disable: 'disabled', enable: 'enabled' }],
      [['pause'], 'paused', { pause: 'paused', resume: 'enabled', disable: 'disabled', enable: 'enabled' }],
      [
        ['disable'],
        'disabled',
        { pause: 'refused', resume: 'refused', disable: 'disabled', enable: 'enabled' },
      ],
    ]
    for (const [steps, state, after] of outcomes) {
      for (const verb of VERBS) {
        test(`endpoints.${verb}() of an endpoint that is ${state}: ${after[verb]}`, async () => {
          const { settings, organizationId } = setUp()
          const { secret: _, ...shown } = await settings.endpoints.register(organizationId, { url: URL })
          for (const step of steps) await settings.endpoints[step](organizationId, shown.id)
          const call = settings.endpoints[verb](organizationId, shown.id)
          if (after[verb] === 'refused') {
            const about = new RegExp(` as the endpoint is ${state}: enable the endpoint first$`)
            await assertRefused(call, INVALID_STATE, `Cannot ${verb} a webhook endpoint`, about)
          } else {
            const disabledReason = after[verb] === 'disabled' ? 'administrator' : null
            assert.deepEqual(await call, { ...shown, state: after[verb], disabledReason })
          }
          const [{ state: now } = shown] = await settings.endpoints.list(organizationId)
          assert.equal(now, after[verb] === 'refused' ? state : after[verb])
        })
      }
    }

    test('deliveries of a paused endpoint wait, and are sent after resume()', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await settings.endpoints.pause(organizationId, id)
      const eventId = await publish(store, organizationId)
      assert.deepEqual(await claim(store, organizationId), [])
      await settings.endpoints.resume(organizationId, id)
      const [delivery] = await claim(store, organizationId)
      assert.equal(delivery?.eventId, eventId)
    })

    test('endpoints.disable() keeps the reason of an endpoint that failures have disabled, and enable() clears the reason', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await publish(store, organizationId)
      const gone = { status: 410, reason: 'gone', isGone: true }
      await record(store, await claim(store, organizationId), 'dead_lettered', gone)
      const disabled = await settings.endpoints.disable(organizationId, id)
      assert.deepEqual([disabled.state, disabled.disabledReason, disabled.failures], ['disabled', 'gone', 1])
      assert.ok(disabled.failingSince)
      const enabled = await settings.endpoints.enable(organizationId, id)
      const { state, disabledReason, failures, failingSince } = enabled
      assert.deepEqual(
        { state, disabledReason, failures, failingSince },
        {
          state: 'enabled',
          disabledReason: null,
          failures: 0,
          failingSince: null,
        },
      )
    })
  })

  describe('endpoints.remove()', () => {
    test('endpoints.remove() removes an endpoint from the list and from delivery, and other endpoints stay', async () => {
      const { settings, store, organizationId } = setUp()
      const one = await settings.endpoints.register(organizationId, { url: URL })
      const two = await settings.endpoints.register(organizationId, { url: URL })
      assert.equal(await settings.endpoints.remove(organizationId, one.id), undefined)
      const listed = await settings.endpoints.list(organizationId)
      assert.deepEqual(
        listed.map(({ id }) => id),
        [two.id],
      )
      await publish(store, organizationId)
      const claimed = await claim(store, organizationId)
      assert.deepEqual(
        claimed.map(({ endpointId }) => endpointId),
        [two.id],
      )
    })
  })

  describe('endpoints.rotateSecret()', () => {
    test('endpoints.rotateSecret() gives a new secret once; the previous secret signs too for 24 hours', async () => {
      const { settings, store, organizationId } = setUp()
      const one = await settings.endpoints.register(organizationId, { url: URL })
      const earliest = Date.now() + DAY_MS - 60_000
      const { secret, ...shown } = await settings.endpoints.rotateSecret(organizationId, one.id)
      assert.match(secret, SECRET)
      assert.notEqual(secret, one.secret)
      const expiresAt = Date.parse(shown.previousSecretExpiresAt ?? '')
      assert.ok(expiresAt > earliest && expiresAt < earliest + 120_000)
      assert.deepEqual(await settings.endpoints.list(organizationId), [shown])
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret, one.secret])
    })

    test('endpoints.rotateSecret() again within the overlap ends the oldest secret', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      const two = await settings.endpoints.rotateSecret(organizationId, id, { overlapMs: 30 * DAY_MS })
      const three = await settings.endpoints.rotateSecret(organizationId, id, {})
      assert.deepEqual(await readSigningSecrets(store, organizationId), [three.secret, two.secret])
    })

    test('endpoints.rotateSecret() without an overlap ends the previous secret at once', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      await settings.endpoints.rotateSecret(organizationId, id)
      const last = await settings.endpoints.rotateSecret(organizationId, id, { overlapMs: 0 })
      assert.equal(last.previousSecretExpiresAt, null)
      assert.deepEqual(await readSigningSecrets(store, organizationId), [last.secret])
    })

    test('endpoints.rotateSecret() with keys that do not open the present secret is refused, but for an overlap of 0', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      const known = await store.endpoints.getTarget(organizationId, id)
      const other = createDeveloperSettings(store, { secretKeys: [randomBytes(32)] })
      await assert.rejects(other.endpoints.rotateSecret(organizationId, id), { code: SECRET_UNAVAILABLE })
      const after = await store.endpoints.getTarget(organizationId, id)
      assert.deepEqual(after?.sealedSecrets, known?.sealedSecrets)
      await other.endpoints.rotateSecret(organizationId, id, { overlapMs: 0 })
      await other.endpoints.rotateSecret(organizationId, id)
    })

    test('endpoints.rotateSecret() refuses an overlap that is not in whole milliseconds from 0 to 30 days', async () => {
      const { settings, store, organizationId } = setUp()
      const { id, secret } = await settings.endpoints.register(organizationId, { url: URL })
      for (const overlapMs of [-1, 1.5, 30 * DAY_MS + 1, Number.NaN, Number.POSITIVE_INFINITY, '1', null]) {
        const call = settings.endpoints.rotateSecret(organizationId, id, untyped({ overlapMs }))
        const action = 'Cannot rotate the secret of a webhook endpoint'
        const about = / as overlapMs must be a whole number of milliseconds from 0 to 2592000000$/
        await assertRefused(call, INVALID_INPUT, action, about)
      }
      assert.deepEqual(await readSigningSecrets(store, organizationId), [secret])
    })
  })

  describe('every call about an endpoint', () => {
    /** Every call that names an endpoint, with the action of its refusals. */
    function callsOf(endpoints: ReturnType<typeof setUp>['settings']['endpoints']) {
      return {
        'Cannot update a webhook endpoint': (organizationId: string, id: string) =>
          endpoints.update(organizationId, id, { description: 's3cret' }),
        'Cannot pause a webhook endpoint': endpoints.pause,
        'Cannot resume a webhook endpoint': endpoints.resume,
        'Cannot disable a webhook endpoint': endpoints.disable,
        'Cannot enable a webhook endpoint': endpoints.enable,
        'Cannot remove a webhook endpoint': endpoints.remove,
        'Cannot rotate the secret of a webhook endpoint': (organizationId: string, id: string) =>
          endpoints.rotateSecret(organizationId, id),
      }
    }

    test('throws the same not_found for an id that is unknown, removed, of another organization, or no id at all', async () => {
      const { settings, organizationId } = setUp()
      const other = newOrganization()
      const { secret: _, ...theirs } = await settings.endpoints.register(other, { url: URL })
      const removed = await settings.endpoints.register(organizationId, { url: URL })
      await settings.endpoints.remove(organizationId, removed.id)
      for (const [action, call] of Object.entries(callsOf(settings.endpoints))) {
        // The secret itself, passed where the id belongs, must not come back in a message.
        for (const id of [theirs.id, removed.id, 'we_unknown', '', 'nul \0', '\ud800', removed.secret]) {
          const about = /^Cannot [a-z ]* as the organization has none of that id$/
          await assertRefused(call(organizationId, id), NOT_FOUND, action, about)
        }
      }
      assert.deepEqual(await settings.endpoints.list(other), [theirs])
    })

    test('refuses an id that is no string, and an unusable organization id', async () => {
      const { settings, organizationId } = setUp()
      const { endpoints } = settings
      for (const [action, call] of Object.entries(callsOf(endpoints))) {
        for (const id of [null, 1, undefined, {}]) {
          await assertRefused(
            call(organizationId, untyped(id)),
            INVALID_INPUT,
            action,
            / as endpointId must be (given|a string)$/,
          )
        }
        await assertRefused(call('', 'we_1'), INVALID_INPUT, action, / as organizationId must /)
      }
      const list = endpoints.list(untyped(null))
      await assertRefused(list, INVALID_INPUT, 'Cannot list webhook endpoints', / as organizationId must /)
    })

    test('shows no secret, sealed or open, after the call that made the secret', async () => {
      const { settings, organizationId } = setUp()
      const { endpoints } = settings
      const { id, secret } = await endpoints.register(organizationId, { url: URL })
      const rotated = await endpoints.rotateSecret(organizationId, id)
      const shown = [
        await endpoints.list(organizationId),
        await endpoints.update(organizationId, id, { description: 'x' }),
        await endpoints.pause(organizationId, id),
        await endpoints.resume(organizationId, id),
        await endpoints.disable(organizationId, id),
        await endpoints.enable(organizationId, id),
      ]
      const text = JSON.stringify(shown)
      for (const hidden of [secret, rotated.secret, 'whsec_', 'v1.', 'ecret"']) {
        assert.equal(text.includes(hidden), false, hidden)
      }
    })
  })
})
