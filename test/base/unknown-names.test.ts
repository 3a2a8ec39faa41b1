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

// A misspelled name, and a field that is undefined where the call then selects more, are errors, in every object that a host gives.

const ORG = 'org_42'
const DATABASE = 'postgres://nobody@127.0.0.1:1/none'

const store = createMemoryStore()
const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true })
const platform = createPlatform(store)
const sender = createWebhookSender()
const client = createApiClient({ url: 'http://127.0.0.1:1', key: 'bapi_live_x' })

/** Calls a function with an object that the types forbid. */
type Attempt = (given: never) => unknown

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
    ['signals', 'signal', (given) => client.document(given)],
    ['tolerance', 'toleranceSeconds', (given) => verifyWebhook('{}', 't=1,v1=00', 'whsec_x', given)],
    ['organisationId', 'organizationId', (given) => captureWebhooks(given)],
    [
      'endpoint',
      'endpointId',
      (given) => waitForDelivery(store, given),
      { organizationId: ORG, eventId: 'evt_1' },
    ],
    [
      'issSeen',
      'isSeen',
      (given) => receiveWebhook(new Request('http://x', { method: 'POST', body: '{}' }) as never, given),
      { secret: 'whsec_x' },
    ],
  ]
  for (const [path, meant, attempt, right] of ATTEMPTS) {
    const name = path.split('.').at(-1) ?? ''
    test(`with ${path} is rejected, and the message names ${meant}`, async () => {
      await assert.rejects(async () => attempt({ ...right, [name]: undefined } as never), {
        name: 'TypeError',
        message: `Cannot use option '${path}' because it does not exist: did you mean '${meant}'?`,
      })
    })
  }

  test('shows no name that may be a secret', () => {
    const given = { whsec_c2VjcmV0: true } as never
    assert.throws(() => createWebhookSender(given), {
      message: /^Cannot use option '…' because it does not exist/,
    })
  })
})

describe('a call of the host', () => {
  const UNKNOWN: readonly [name: string, meant: string, (given: never) => Promise<unknown>][] = [
    ['endpointid', 'endpointId', (given) => settings.deliveries.recover(ORG, given)],
    ['from', '', (given) => settings.deliveries.recoverPart(ORG, given)],
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

  const UNDEFINED: readonly [name: string, (given: never) => Promise<unknown>][] = [
    ...['endpointId', 'eventId', 'type', 'since', 'until'].flatMap(
      (name): [string, (given: never) => Promise<unknown>][] => [
        [name, (given) => settings.deliveries.recover(ORG, given)],
        [name, (given) => settings.deliveries.recoverPart(ORG, given)],
        [name, (given) => settings.deliveries.countRecoverable(ORG, given)],
      ],
    ),
    ['limit', (given) => settings.deliveries.recoverPart(ORG, given)],
    ['before', (given) => settings.deliveries.recoverPart(ORG, given)],
    ...['types', 'limit', 'after'].flatMap((name): [string, (given: never) => Promise<unknown>][] => [
      [name, (given) => settings.endpoints.backfill(ORG, 'we_1', given)],
      [name, (given) => settings.endpoints.backfillPart(ORG, 'we_1', given)],
    ]),
    ['types', (given) => settings.endpoints.previewBackfill(ORG, 'we_1', given)],
    ['expiresAt', (given) => settings.apiKeys.create(ORG, { ...KEY, ...Object(given) })],
    ['rateLimit', (given) => settings.apiKeys.create(ORG, { ...KEY, ...Object(given) })],
    ['expiresAt', (given) => settings.apiKeys.rotate(ORG, 'key_1', given)],
    ['asOf', (given) => platform.invoices.markOverdue(ORG, given)],
    ['limit', (given) => platform.invoices.markOverdue(ORG, given)],
  ]
  for (const [name, call] of UNDEFINED) {
    test(`that acts on many records, or grants without end, rejects ${name}: undefined`, async () => {
      await assert.rejects(call({ [name]: undefined } as never), { code: 'invalid_input', fields: [name] })
    })
  }
})

const KEY = { name: 'Key', scopes: ['leads:read'] } as const
