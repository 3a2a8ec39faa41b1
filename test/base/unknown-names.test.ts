import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createApiClient } from '../../lib/client.ts'
import { createBusinessApi, defineService } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createMetrics } from '../../lib/metrics.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSettingsPage } from '../../lib/settings-page.ts'
import { captureWebhooks, waitForDelivery } from '../../lib/testing.ts'
import {
  createDeliveryLoop,
  createPublicLookup,
  createWebhookSender,
  receiveWebhook,
  verifyWebhook,
} from '../../lib/webhooks.ts'

// In every object passed by a host, misspelled names are errors, and so are undefined fields if the call would
// then select more.

const ORG = 'org_42'
const DATABASE = 'postgres://nobody@127.0.0.1:1/none'

const store = createMemoryStore()
const settings = createDeveloperSettings(store, {
  allowPlaintextSecrets: true,
  sender: createWebhookSender(),
})
const platform = createPlatform(store)
const sender = createWebhookSender()
const client = createApiClient({ url: 'http://127.0.0.1:1', key: 'bapi_live_x' })

const INVALID = { name: 'BusinessApiError', code: 'invalid_input' }
const ENDPOINT = { url: 'https://x.example' } as const
const LIMIT = { perSecond: 1, burst: 1 }
const KEY = { name: 'Key', scopes: ['leads:read'] } as const

/** Calls a function with an object that its type doesn't allow. */
type Attempt = (given: never) => unknown

function pageOf(options: object): unknown {
  return createSettingsPage(settings, { authorize: () => null, ...options })
}

async function nextOf(given: never): Promise<void> {
  await using captured = await captureWebhooks()
  await captured.next('client.created', given)
}

/** Returns the same fields where they can't be seen by a check of own names or a copy, and values without fields. */
function notPlain(fields: Readonly<Record<string, unknown>>) {
  class Hidden {}
  for (const [name, value] of Object.entries(fields)) {
    Object.defineProperty(Hidden.prototype, name, { get: () => value })
  }
  const unseen = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, { value, enumerable: false }]),
  )
  const given = {
    inherited: Object.create(fields),
    'an instance': new Hidden(),
    'a Map': new Map(Object.entries(fields)),
    URLSearchParams: new URLSearchParams(Object.entries(fields) as [string, string][]),
    unseen: Object.defineProperties({}, unseen),
    symbols: { [Symbol('endpointId')]: 'we_1' },
    null: null,
    number: 5,
    text: 'we_1',
    list: [],
    true: true,
    Date: new Date(),
    function: () => {},
  }
  return Object.entries(given).map(([kind, value]) => ({ kind, given: value }))
}

/** Calls whose object selects or changes something. */
const SELECTING: readonly [name: string, Attempt][] = [
  ['deliveries.recover', (given) => settings.deliveries.recover(ORG, given)],
  ['deliveries.count', (given) => settings.deliveries.count(ORG, given)],
  ['deliveries.list', (given) => settings.deliveries.list(ORG, given)],
  ['endpoints.backfill', (given) => settings.endpoints.backfill(ORG, 'we_1', given)],
  ['endpoints.pause', (given) => settings.endpoints.pause(ORG, 'we_1', given)],
  ['endpoints.rotateSecret', (given) => settings.endpoints.rotateSecret(ORG, 'we_1', given)],
  ['apiKeys.revoke', (given) => settings.apiKeys.revoke(ORG, 'key_1', given)],
  ['organizations.delete', (given) => settings.organizations.delete(ORG, given)],
  ['organizations.forgetBusiness', (given) => settings.organizations.forgetBusiness(ORG, 'biz_1', given)],
  ['events.follow', (given) => settings.events.follow(ORG, given)],
  ['secrets.reseal', (given) => settings.secrets.reseal(given)],
  ['invoices.markOverdue', (given) => platform.invoices.markOverdue(ORG, given)],
  ['invoices.list', (given) => platform.invoices.list(ORG, given)],
  ['clients.create', (given) => platform.clients.create(ORG, given)],
  [
    'publish',
    (given) => platform.publish(ORG, 'project.completed', { projectId: 'p', name: 'n' } as never, given),
  ],
  ['metrics.queueOf', (given) => createMetrics(store).queueOf(given)],
]

/** Calls that take an id in addition to an object. */
const NAMED: readonly [name: string, Attempt][] = [
  ['organizationId', (given) => settings.deliveries.recover(ORG, given)],
  ['organizationId', (given) => settings.organizations.delete(ORG, given)],
  ['organizationId', (given) => platform.clients.create(ORG, { name: 'Acme', ...Object(given) })],
  ['organizationId', (given) => platform.invoices.list(ORG, given)],
  ['keyId', (given) => settings.apiKeys.revoke(ORG, 'key_1', given)],
  ['keyId', (given) => settings.apiKeys.rotate(ORG, 'key_1', given)],
  ['keyId', (given) => settings.apiKeys.update(ORG, 'key_1', { name: 'x', ...Object(given) })],
  ...(['pause', 'resume', 'disable', 'enable', 'remove', 'rotateSecret', 'update', 'sendTest'] as const).map(
    (verb): [string, Attempt] => ['endpointId', (given) => settings.endpoints[verb](ORG, 'we_1', given)],
  ),
  ...(['backfill', 'previewBackfill'] as const).map((verb): [string, Attempt] => [
    'endpointId',
    (given) => settings.endpoints[verb](ORG, 'we_1', given),
  ]),
  ['deliveryId', (given) => settings.deliveries.redeliver(ORG, 'dlv_1', given)],
  ['deliveryId', (given) => settings.deliveries.cancel(ORG, 'dlv_1', given)],
  ['rateLimit', (given) => settings.rateLimits.set(ORG, null, given)],
  ['businessId', (given) => settings.organizations.forgetBusiness(ORG, 'biz_1', given)],
  ['invoiceId', (given) => platform.invoices.payments(ORG, 'inv_1', given)],
]

describe('an options object', () => {
  const ATTEMPTS: readonly [misspelt: string, meant: string, Attempt, right?: object][] = [
    ['basepath', 'basePath', (given) => createBusinessApi(store, given)],
    ['rateLimits', 'rateLimit', (given) => createBusinessApi(store, given)],
    ['rateLimit.organisation', 'organization', (given) => createBusinessApi(store, { rateLimit: given })],
    ['info.versions', 'version', (given) => createBusinessApi(store, { info: given })],
    ['headerprefix', 'headerPrefix', (given) => defineService(given)],
    ['refuseAddress', 'refuseAddresses', (given) => createWebhookSender(given)],
    ['secretkeys', 'secretKeys', (given) => createDeveloperSettings(store, given)],
    ['refuseAddress', 'refuseAddresses', (given) => createDeveloperSettings(store, given)],
    ['retentionDays', 'retentionMs', (given) => createDeliveryLoop(store, sender, given)],
    [
      'failureLimit.failingMS',
      'failingMs',
      (given) => createDeliveryLoop(store, sender, { failureLimit: given }),
    ],
    [
      'expiryNoticeMs.apikeys',
      'apiKeys',
      (given) => createDeliveryLoop(store, sender, { expiryNoticeMs: given }),
    ],
    ['authorise', 'authorize', (given) => createSettingsPage(settings, given)],
    ['currencyDecimal', 'currencyDecimals', (given) => createPlatform(store, given)],
    ['timeout', 'timeoutMs', (given) => createMetrics(store, given)],
    ['maxEventByte', 'maxEventBytes', (given) => createMemoryStore(given)],
    ['maxConnection', 'maxConnections', (given) => createPostgresStore(DATABASE, given)],
    ['services', 'service', (given) => createPostgresStore(DATABASE, given)],
    ['timeoutMS', 'timeoutMs', (given) => createPostgresStore(DATABASE).close(given)],
    ['maxEventByte', 'maxEventBytes', (given) => migrate(DATABASE, given)],
    ['server', 'servers', (given) => createPublicLookup(given)],
    ['maxRetry', 'maxRetries', (given) => createApiClient(given), { url: 'https://app.example', key: 'k' }],
    ['updateSince', 'updatedSince', (given) => client.clients.list(given)],
    ['idempotencykey', 'idempotencyKey', (given) => client.leads.create({} as never, given)],
    ['tolerance', 'toleranceSeconds', (given) => verifyWebhook('{}', 't=1,v1=00', 'whsec_x', given)],
    ['organisationId', 'organizationId', (given) => captureWebhooks(given)],
    [
      'endpoint',
      'endpointId',
      (given) => waitForDelivery(store, given),
      { organizationId: ORG, eventId: 'evt_1' },
    ],
    [
      'rateLimit.key.brust',
      'burst',
      (given) => createBusinessApi(store, { rateLimit: { key: given } }),
      LIMIT,
    ],
    [
      'rateLimit.organization.perSecnd',
      'perSecond',
      (given) => createBusinessApi(store, { rateLimit: { organization: given } }),
      LIMIT,
    ],
    ['info.licence', 'license', (given) => createBusinessApi(store, { info: given })],
    ['info.contact.mail', 'email', (given) => createBusinessApi(store, { info: { contact: given } })],
    [
      'info.license.identifer',
      'identifier',
      (given) => createBusinessApi(store, { info: { license: given } }),
      { name: 'MIT' },
    ],
    ['theme.Light', 'light', (given) => pageOf({ theme: given })],
    ['theme.light.Accent', 'accent', (given) => pageOf({ theme: { light: given } })],
    ['theme.dark.accnt', 'accent', (given) => pageOf({ theme: { dark: given } })],
    ['timeout', 'timeoutMs', (given) => createDeliveryLoop(store, sender).stop(given)],
    ['timeout', 'timeoutMs', (given) => createWebhookSender().close(given)],
    ['timeout', 'timeoutMs', (given) => nextOf(given)],
    ['refuse_addresses', 'refuseAddresses', (given) => createWebhookSender(given)],
    [
      'issSeen',
      'isSeen',
      (given) => receiveWebhook(new Request('http://x', { method: 'POST', body: '{}' }) as never, given),
      { secret: 'whsec_x' },
    ],
  ]
  for (const [path, meant, attempt, right] of ATTEMPTS) {
    const name = path.split('.').at(-1) ?? ''
    test(`with ${path} is rejected with a message that suggests ${meant}`, async () => {
      await assert.rejects(async () => attempt({ ...right, [name]: undefined } as never), {
        name: 'TypeError',
        message: `Option '${path}' does not exist: did you mean '${meant}'?`,
      })
    })
  }

  test("doesn't reveal names that could be secrets", () => {
    for (const secret of ['whsec_c2VjcmV0', `bapi_live_${'x'.repeat(49)}`]) {
      assert.throws(() => createWebhookSender({ [secret]: true } as never), {
        message: /^Option '…' does not exist/,
      })
    }
  })

  for (const [path, attempt] of [
    ['rateLimit', (given) => createBusinessApi(store, { rateLimit: given })],
    ['rateLimit.key', (given) => createBusinessApi(store, { rateLimit: { key: given } })],
    ['info', (given) => createBusinessApi(store, { info: given })],
    ['theme', (given) => pageOf({ theme: given })],
    ['failureLimit', (given) => createDeliveryLoop(store, sender, { failureLimit: given })],
    ['', (given) => createBusinessApi(store, given)],
    ['', (given) => createPostgresStore(DATABASE, given)],
    ['', (given) => createWebhookSender(given)],
  ] as readonly [string, Attempt][]) {
    test(`that isn't a plain object is rejected: ${path}`, () => {
      const subject = path === '' ? 'The options' : `Option '${path}'`
      for (const { given } of notPlain({ timeoutMs: 5 })) {
        assert.throws(() => attempt(given as never), {
          name: 'TypeError',
          message: `${subject} must be a plain object with its own fields`,
        })
      }
    })
  }

  for (const [name, attempt] of [
    ['trailingSlash', (given) => createBusinessApi(store, { trailingSlash: given })],
    ['peerAddress', (given) => createBusinessApi(store, { peerAddress: given })],
    ['onRequest', (given) => createBusinessApi(store, { onRequest: given })],
    ['onResponse', (given) => createBusinessApi(store, { onResponse: given })],
    ['onError', (given) => createBusinessApi(store, { onError: given })],
    ['clock', (given) => createPlatform(store, { clock: given })],
    ['ids', (given) => createPlatform(store, { ids: given })],
    ['sessions', (given) => createPostgresStore(DATABASE, { sessions: given })],
    ['prepare', (given) => createPostgresStore(DATABASE, { prepare: given })],
    ['allowPlaintextSecrets', (given) => createDeveloperSettings(store, { allowPlaintextSecrets: given })],
    ['allowPlaintextSecrets', (given) => createDeliveryLoop(store, sender, { allowPlaintextSecrets: given })],
    ['timeoutMs', (given) => createPublicLookup({ timeoutMs: given })],
    ['system', (given) => createPublicLookup({ system: given })],
    ['fetch', (given) => createApiClient({ url: 'https://app.example', key: 'k', fetch: given })],
    ['countQueue', (given) => createMetrics(store, { countQueue: given })],
  ] as readonly [string, Attempt][]) {
    test(`with a string as ${name} is rejected`, () => {
      assert.throws(() => attempt('false' as never), new RegExp(`^\\w+: Option '${name}' must be`))
    })
  }
})

describe('a call of the host', () => {
  const UNKNOWN: readonly [name: string, meant: string, (given: never) => Promise<unknown>][] = [
    ['endpointid', 'endpointId', (given) => settings.deliveries.recover(ORG, given)],
    ['from', '', (given) => settings.deliveries.countRecoverable(ORG, given)],
    ['state', 'states', (given) => settings.deliveries.list(ORG, given)],
    ['type', 'types', (given) => settings.endpoints.backfill(ORG, 'we_1', given)],
    ['type', 'types', (given) => settings.endpoints.previewBackfill(ORG, 'we_1', given)],
    ['expiresIn', 'expiresAt', (given) => settings.apiKeys.create(ORG, { ...KEY, ...Object(given) })],
    ['overlap', 'overlapMs', (given) => settings.apiKeys.rotate(ORG, 'key_1', given)],
    [
      'eventTypes',
      'types',
      (given) => settings.endpoints.register(ORG, { url: 'https://x.example', ...Object(given) }),
    ],
    ['before_', 'before', (given) => settings.audit.list(ORG, given)],
    ['AsOf', 'asOf', (given) => platform.invoices.markOverdue(ORG, given)],
    ['dueBy', '', (given) => platform.invoices.list(ORG, given)],
    [
      'Id',
      'id',
      (given) => platform.publish(ORG, 'project.completed', { projectId: 'p', name: 'n' } as never, given),
    ],
    ['Limit', 'limit', (given) => settings.secrets.reseal(given)],
    ['as_of', 'asOf', (given) => platform.invoices.markOverdue(ORG, given)],
    ['onProgess', 'onProgress', (given) => settings.organizations.delete(ORG, given)],
    ['dryRun', '', (given) => settings.organizations.delete(ORG, given)],
    ['proposalIDs', 'proposalIds', (given) => settings.organizations.forgetBusiness(ORG, 'biz_1', given)],
    ['onProgess', 'onProgress', (given) => settings.deliveries.recover(ORG, given)],
    ['signals', 'signal', (given) => settings.endpoints.backfill(ORG, 'we_1', given)],
    ['onbegin', 'onBegin', async (given) => settings.events.follow(ORG, given)],
    [
      'endpointID',
      'endpointId',
      (given) => createMetrics(store).queueOf({ organizationId: ORG, ...Object(given) }),
    ],
  ]
  for (const [name, meant, call] of UNKNOWN) {
    test(`with ${name} is rejected: ${meant}`, async () => {
      await assert.rejects(call({ [name]: 'x' } as never), (error: Error) => {
        assert.equal(Reflect.get(error, 'code'), 'invalid_input')
        assert.match(error.message, / is unknown/)
        if (meant !== '' && !name.includes('Types'))
          assert.match(error.message, new RegExp(`did you mean '${meant}'`))
        return true
      })
    })
  }

  for (const [name, call] of SELECTING) {
    test(`with anything but a plain object is rejected: ${name}`, async () => {
      for (const { kind, given } of notPlain({ endpointId: 'we_1', organizationId: ORG, limit: 1 })) {
        await assert.rejects(async () => call(given as never), INVALID, `${name} ${kind}`)
      }
    })
  }

  for (const [name, call] of NAMED) {
    test(`has ${name} as an argument and rejects another one`, async () => {
      await assert.rejects(
        async () => call({ [name]: 'other' } as never),
        (error: Error) => {
          assert.equal(Reflect.get(error, 'code'), 'invalid_input')
          assert.deepEqual(Reflect.get(error, 'fields'), [name])
          assert.match(error.message, new RegExp(`${name} is unknown`))
          return true
        },
      )
    })
  }

  test('changes nothing if it is rejected', async () => {
    const { organizations, rateLimits } = settings
    await platform.clients.create('org_kept', { name: 'Acme' })
    for (const given of [{ dryRun: true }, { onProgess: () => {} }, { onProgress: 7 }]) {
      await assert.rejects(organizations.delete('org_kept', given as never), INVALID)
    }
    await assert.rejects(
      rateLimits.set('org_kept', { perSecond: 1, burst: 1, constructor: 1 } as never),
      INVALID,
    )
    assert.equal((await platform.clients.list('org_kept')).data.length, 1)
    assert.equal(await rateLimits.get('org_kept'), null)
  })

  const UNDEFINED: readonly [name: string, (given: never) => Promise<unknown>][] = [
    ...['endpointId', 'eventId', 'type', 'since', 'until'].flatMap(
      (name): [string, (given: never) => Promise<unknown>][] => [
        [name, (given) => settings.deliveries.recover(ORG, given)],
        [name, (given) => settings.deliveries.countRecoverable(ORG, given)],
      ],
    ),
    ['limit', (given) => settings.deliveries.recover(ORG, given)],
    ['before', (given) => settings.deliveries.recover(ORG, given)],
    ...['types', 'limit', 'after'].flatMap((name): [string, (given: never) => Promise<unknown>][] => [
      [name, (given) => settings.endpoints.backfill(ORG, 'we_1', given)],
    ]),
    ['types', (given) => settings.endpoints.previewBackfill(ORG, 'we_1', given)],
    ['expiresAt', (given) => settings.apiKeys.create(ORG, { ...KEY, ...Object(given) })],
    ['rateLimit', (given) => settings.apiKeys.create(ORG, { ...KEY, ...Object(given) })],
    ['expiresAt', (given) => settings.apiKeys.rotate(ORG, 'key_1', given)],
    ['asOf', (given) => platform.invoices.markOverdue(ORG, given)],
    ['limit', (given) => platform.invoices.markOverdue(ORG, given)],
    ['types', (given) => settings.endpoints.register(ORG, { ...ENDPOINT, ...Object(given) })],
    ['headers', (given) => settings.endpoints.register(ORG, { ...ENDPOINT, ...Object(given) })],
    ['overlapMs', (given) => settings.endpoints.rotateSecret(ORG, 'we_1', given)],
    ['after', (given) => settings.secrets.reseal(given)],
    ['limit', (given) => settings.secrets.reseal(given)],
  ]
  for (const [name, call] of UNDEFINED) {
    test(`that affects many records or grants something forever rejects ${name}: undefined`, async () => {
      await assert.rejects(call({ [name]: undefined } as never), { code: 'invalid_input', fields: [name] })
    })
  }
})

test("a record in an import doesn't silently inherit fields from a prototype", async () => {
  const business = { id: 'biz_1', name: 'Acme' }
  const client = { id: 'cli_1', status: 'active', convertedAt: '2026-01-01T00:00:00Z', business }
  for (const name of ['constructor', 'prototype', '__proto__']) {
    const odd = JSON.parse(`{"${name}":1}`)
    for (const record of [
      Object.assign(Object.fromEntries([[name, 1]]), business),
      { ...client, business: { ...business, ...odd } },
    ]) {
      const kind = 'business' in record ? 'client' : 'business'
      await assert.rejects(platform.import(ORG, [{ kind, record }] as never), {
        code: 'invalid_input',
        fields: [name],
      })
    }
  }
})

test('the message about a record in an import has no control characters and only short names', async () => {
  const record = { id: 'biz_\u001b[31m', ['x'.repeat(10_000)]: 1 }
  await assert.rejects(platform.import(ORG, [{ kind: 'business', record }] as never), (error: Error) => {
    assert.match(error.message, /business biz_\\u\{1b\}\[31m/)
    assert.deepEqual(Reflect.get(error, 'fields'), ['x'.repeat(200)])
    return true
  })
})
