import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { type BusinessApiStore, createBusinessApi, defineService, type ServiceOptions } from '../lib/index.ts'
import { createMemoryStore } from '../lib/memory.ts'
import { createPlatform } from '../lib/platform.ts'
import { createPostgresStore, createShardedStore } from '../lib/postgres.ts'
import { createDeveloperSettings } from '../lib/settings.ts'
import { createSettingsPage } from '../lib/settings-page.ts'
import { createDeliveryLoop, createWebhookSender } from '../lib/webhooks.ts'
import { untyped } from './delivery/_loop.ts'

const ACME = {
  name: 'Acme API',
  baseUrl: 'https://app.acme.example/platform',
  keyPrefix: 'acme',
  headerPrefix: 'X-Acme',
  standardWebhooks: true,
  importedKeys: undefined,
  events: [],
} as const

describe('defineService()', () => {
  const refused: readonly [string, unknown, RegExp][] = [
    ['a name that is empty', { name: '' }, /'name'/],
    ['a name of two lines', { name: 'Acme\nAPI' }, /'name'/],
    ['a name of 101 characters', { name: 'x'.repeat(101) }, /'name'/],
    ['a baseUrl that is none', { baseUrl: 'app.example.com' }, /'baseUrl'/],
    ['a baseUrl of another scheme', { baseUrl: 'ftp://app.example.com' }, /'baseUrl'/],
    ['a baseUrl with a password', { baseUrl: 'https://user:pw@app.example.com' }, /'baseUrl'/],
    ...['', 'Bapi', '1a', 'a_b', 'a-b', 'é', 'a'.repeat(17), 'bapi\n', null].map(
      (keyPrefix) => [`a keyPrefix of ${JSON.stringify(keyPrefix)}`, { keyPrefix }, /'keyPrefix'/] as const,
    ),
    ...['', '1X', 'X_SERVICE', 'X SERVICE', 'X'.repeat(65), 'X-A\r\nB', null].map(
      (headerPrefix) =>
        [`a headerPrefix of ${JSON.stringify(headerPrefix)}`, { headerPrefix }, /'headerPrefix'/] as const,
    ),
    ['a standardWebhooks that is text', { standardWebhooks: 'false' }, /'standardWebhooks'/],
    ['a misspelt name', { keyPrefx: 'acme' }, /'keyPrefx' does not exist.*keyPrefix/],
  ].map(([what, options, message]) => [what, options, message] as [string, unknown, RegExp])
  for (const [what, options, message] of refused) {
    test(`rejects ${what}`, () => {
      assert.throws(
        () => defineService(untyped<ServiceOptions>(options)),
        (error) => {
          assert.ok(error instanceof TypeError)
          assert.match(error.message, /^(Cannot use option|Option) /)
          assert.match(error.message, message)
          assert.doesNotMatch(error.message, /pw@/)
          return true
        },
      )
    })
  }

  test('reads baseUrl as a URL, so that every link to a next page can be sent and followed', async () => {
    for (const [given, read] of [
      ['https://日本.example/p', 'https://xn--wgv71a.example/p'],
      ['https://app.example/データ/', 'https://app.example/%E3%83%87%E3%83%BC%E3%82%BF'],
      ['https://app.example/p\n', 'https://app.example/p'],
      ['https://app.example?', 'https://app.example'],
      ['https://app.example/p#', 'https://app.example/p'],
      ['https://app.example/a b>\\c ', 'https://app.example/a%20b%3E/c'],
      ['HTTPS://APP.example:443', 'https://app.example'],
    ] as const) {
      const store = createMemoryStore({ service: defineService({ baseUrl: given }) })
      assert.equal(store.service.baseUrl, read)
      const { key } = await createDeveloperSettings(store).apiKeys.create('o', {
        name: 'K',
        scopes: ['clients:read'],
      })
      for (const name of ['One', 'Two']) await createPlatform(store).clients.create('o', { name })
      const api = createBusinessApi(store, { logger: false })
      const headers = { Authorization: `Bearer ${key}` }
      const answer = await api.fetch(new Request('http://x.example/api/v1/clients?limit=1', { headers }))
      assert.equal(answer.status, 200)
      const [, link = ''] = /^<([^<> ]+)>; rel="next"$/.exec(answer.headers.get('link') ?? '') ?? []
      assert.ok(link.startsWith(`${read}/api/v1/clients?`), link)
    }
  })

  test('gives the same again for what it has given, and cannot be changed', () => {
    const service = defineService(ACME)
    assert.deepEqual(service, { ...ACME, scopes: [], routes: [] })
    assert.deepEqual(defineService(service), service)
    assert.throws(() => Object.assign(service, { keyPrefix: 'other' }), TypeError)
    for (const keyPrefix of ['a', 'acme2', 'a234567890123456'])
      assert.equal(defineService({ keyPrefix }).keyPrefix, keyPrefix)
  })
})

test('the API, its document, webhooks, tests, keys and pages have the names of the service of the store', async (t) => {
  const headers: (readonly string[])[] = []
  const receiver = createServer((request, response) => {
    headers.push(Object.keys(request.headers).filter((name) => /^(x-|webhook-)/.test(name)))
    response.end()
  })
  await once(receiver.listen(0, '127.0.0.1'), 'listening')
  const sender = createWebhookSender({ localDevelopment: true })
  t.after(async () => {
    await sender.close()
    receiver.close()
  })
  const store = createMemoryStore({ service: defineService(ACME) })
  const secretKeys = [randomBytes(32)]

  const settings = createDeveloperSettings(store, { secretKeys, sender })
  const { key } = await settings.apiKeys.create('org_1', { name: 'a', scopes: ['clients:read'] })
  assert.match(key, /^acme_live_/)
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  const { id } = await settings.endpoints.register('org_1', { url })
  await settings.endpoints.sendTest('org_1', id)
  const { clients } = createPlatform(store)
  for (const name of ['One', 'Two']) await clients.create('org_1', { name })
  await createDeliveryLoop(store, sender, { secretKeys, logger: false }).runOnce()
  assert.equal(headers.length, 5)
  const all = ['x-acme-event-id', 'x-acme-event-type', 'x-acme-signature']
  const standard = ['webhook-id', 'webhook-signature', 'webhook-timestamp']
  for (const names of headers) assert.deepEqual(names.toSorted(), [...standard, ...all])

  const api = createBusinessApi(store)
  const document = JSON.stringify(api.describe())
  for (const part of ['"title":"Acme API"', '"X-Acme-Signature"', 'acme_live_', `"url":"${ACME.baseUrl}"`])
    assert.ok(document.includes(part), part)
  assert.doesNotMatch(document, /X-SERVICE|bapi/)
  const list = await api(
    new Request('http://x/api/v1/clients?limit=1', { headers: { Authorization: `Bearer ${key}` } }),
  )
  assert.match(list.headers.get('link') ?? '', /^<https:\/\/app\.acme\.example\/platform\/api\/v1\/clients\?/)

  const page = createSettingsPage(settings, {
    api,
    authorize: () => ({ organizationId: 'org_1', actor: 'ada', can: 'everything' }),
  })
  const webhooks = await (await page.fetch(new Request('https://x/reference/webhooks'))).text()
  assert.match(webhooks, /X-Acme-Signature/)
  assert.match(webhooks, /<title>[^<]* – Acme API<\/title>/)
})

test('a store without a service, or with names that cannot be used, is rejected by everything that is built on it', async (t) => {
  const sender = createWebhookSender()
  t.after(() => sender.close())
  const built: readonly ((store: BusinessApiStore) => unknown)[] = [
    createBusinessApi,
    createDeveloperSettings,
    (store) => createDeliveryLoop(store, sender),
  ]
  for (const build of built) {
    const refuses = (service: unknown, message: RegExp): void =>
      assert.throws(() => build(untyped({ ...createMemoryStore(), service })), { name: 'TypeError', message })
    refuses(undefined, /^Cannot use the store because it has no 'service': pass defineService/)
    refuses({ headerPrefix: 'X Acme' }, /'headerPrefix'/)
    refuses({ headerprefix: 'X-Acme' }, /did you mean 'headerPrefix'/)
  }
  const store = untyped<BusinessApiStore>({ ...createMemoryStore(), service: { keyPrefix: 'acme' } })
  assert.equal(createDeveloperSettings(store).service.headerPrefix, 'X-SERVICE')
})

test('createShardedStore() has the service of its shards, and rejects shards of different services', async () => {
  const open = (names: ServiceOptions) =>
    createPostgresStore('postgres://127.0.0.1:1/none', { service: defineService(names) })
  const store = createShardedStore({ shards: { a: open(ACME), b: open(ACME) } })
  assert.deepEqual(store.service, defineService(ACME))
  assert.deepEqual(store.shards[1]?.store.service, defineService(ACME))
  await store.close()
  assert.throws(
    () => createShardedStore({ shards: { a: open(ACME), b: open({ ...ACME, headerPrefix: 'X-Other' }) } }),
    /differ in option 'service'/,
  )
})
