import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import express from 'express'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSettingsPage, type SettingsPageOptions } from '../../lib/settings-page.ts'
import { resolveTo } from '../sender/_setup.ts'
import { BASE, EVERYTHING, ORGANIZATION, setUp } from './_page.ts'
import { screensOf, seed } from './_seed.ts'

/** As far as these tests go, both have the same calls. */
const express4 = createRequire(import.meta.url)('express4') as typeof express

async function listen(context: TestContext, handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(handler as never)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  context.after(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function newPage(options: Partial<SettingsPageOptions> = {}) {
  const settings = createDeveloperSettings(createMemoryStore())
  return {
    settings,
    page: createSettingsPage(settings, {
      authorize: () => EVERYTHING,
      logger: false,
      ids: (kind) => `${kind}_01M819PM545CBJ4FSPK7C91TQ4`,
      ...options,
    }),
  }
}

test('node:http, Express 4 and 5 and fetch answer every screen and every rejection byte for byte the same', async (t) => {
  const store = createMemoryStore()
  const api = createBusinessApi(store, { logger: false })
  const settings = createDeveloperSettings(store, {
    secretKeys: [randomBytes(32)],
    localDevelopment: true,
    lookup: resolveTo('127.0.0.1'),
  })
  const seeded = await seed(store, settings, ORGANIZATION)
  const now = Date.now()
  const options = {
    api,
    authorize: () => EVERYTHING,
    logger: false,
    ids: (kind: string) => `${kind}_01M819PM545CBJ4FSPK7C91TQ4`,
    clock: () => now,
  } as const
  const page = createSettingsPage(settings, { ...options, basePath: BASE })
  const mounted = createSettingsPage(settings, options)
  const hosts = [
    await listen(t, (request, response) => void page(request, response)),
    await listen(t, express().use(BASE, mounted) as never),
    await listen(t, express4().use(BASE, mounted) as never),
    await listen(
      t,
      express()
        .use(express.urlencoded({ extended: true }))
        .use(page) as never,
    ),
  ]
  const sameOrigin = { 'Sec-Fetch-Site': 'same-origin' }
  const form = (
    fields: Record<string, string>,
    headers: Record<string, string> = sameOrigin,
  ): RequestInit => ({
    method: 'POST',
    body: new URLSearchParams(fields),
    headers,
    redirect: 'manual',
  })
  const requests: readonly (readonly [path: string, init?: RequestInit])[] = [
    ...['', '/', '/nothing', '/endpoints/we_unknown', ...screensOf(seeded)].map((path) => [path] as const),
    ['/keys', { method: 'HEAD' }],
    ['/keys', { method: 'DELETE' }],
    ['/keys/new', form({ name: 'é "&" <b>', date: 'x' })],
    ['/keys/new', form({ name: 'x' }, { 'Sec-Fetch-Site': 'cross-site' })],
    ['/keys/new', form({ name: 'x'.repeat(70_000) })],
    ['/endpoints/new', form({ url: 'x', wants: 'some' })],
    [`/keys/${seeded.activeKey}/edit`, form({ name: 'Named anew' })],
    [`/keys/${seeded.revokedKey}/rotate`, form({ overlap: '24h' })],
    [`/deliveries/${seeded.deliveredDelivery}/cancel`, form({})],
  ]
  let bytes = 0
  for (const [path, init] of requests) {
    const fetched = await page.fetch(new Request(`http://127.0.0.1${BASE}${path}`, init))
    const expected = [fetched.status, await fetched.text()]
    bytes += String(expected[1]).length
    for (const origin of hosts) {
      const answer = await fetch(`${origin}${BASE}${path}`, init)
      assert.deepEqual([answer.status, await answer.text()], expected, path)
      // Of the hop: with fetch it is unknown whether the rest of a body has come.
      fetched.headers.delete('connection')
      for (const [name, value] of fetched.headers)
        assert.equal(answer.headers.get(name), value, `${path} ${name}`)
    }
  }
  t.diagnostic(`${requests.length} requests to ${hosts.length + 1} mounts, ${bytes} characters of answers`)
})

test('a form reaches the page through every host, also behind a body parser with many values of one name', async (t) => {
  const under = setUp()
  const types = [...Array(24).keys()].map(() => 'clients:read')
  const hosts = [
    await listen(t, (request, response) => void under.page(request, response)),
    await listen(
      t,
      express()
        .use(express.urlencoded({ extended: false }))
        .use(under.page) as never,
    ),
    await listen(
      t,
      express()
        .use(express.urlencoded({ extended: true }))
        .use(under.page) as never,
    ),
    await listen(
      t,
      express4()
        .use(express4.urlencoded({ extended: true }))
        .use(under.page) as never,
    ),
  ]
  for (const origin of hosts) {
    const body = new URLSearchParams([
      ['name', `From ${origin}`],
      ['expiry', 'never'],
      ...types.map((type) => ['scope', type] as [string, string]),
    ])
    const answer = await fetch(`${origin}${BASE}/keys/new`, {
      method: 'POST',
      body,
      headers: { Origin: origin },
    })
    assert.equal(answer.status, 200, await answer.text())
  }
  assert.equal((await under.settings.apiKeys.list(ORGANIZATION)).length, hosts.length)
})

test('a path that is not below the mount goes on to the host', async (t) => {
  const { page } = newPage({ basePath: BASE })
  const origin = await listen(
    t,
    (request, response) => void page(request, response, () => response.end('the host')),
  )
  for (const path of ['/', '/settings', `${BASE}s`, '/api/v1/clients']) {
    assert.equal(await (await fetch(origin + path)).text(), 'the host', path)
  }
  const alone = await listen(t, (request, response) => void page(request, response))
  const { status } = await fetch(`${alone}/elsewhere`)
  assert.equal(status, 404)
})

test('an unusable option is a TypeError with the name of the option', () => {
  const wrong: [string, object][] = [
    ['authorize', { authorize: undefined }],
    ['basePath', { basePath: 'settings' }],
    ['basePath', { basePath: '/a b' }],
    ['frameAncestors', { frameAncestors: 'all' }],
    ['origins', { origins: ['https://app.example/'] }],
    ['stylesheet', { stylesheet: 'javascript:alert(1)' }],
    ['layout', { layout: 'html' }],
    ['api', { api: {} }],
    ['logger', { logger: {} }],
    ['theme.mode', { theme: { mode: 'blue' } }],
    ['theme.radius', { theme: { radius: '1px;}body{display:none' } }],
    ['theme.font', { theme: { font: 'x;}@import url(//evil)' } }],
    ['theme.light.accent', { theme: { light: { accent: 'red' } } }],
    ['theme.light.muted', { theme: { light: { muted: '#cccccc' } } }],
    ['theme.dark.border', { theme: { dark: { border: '#20242c' } } }],
    ['theme.logo', { theme: { logo: 'data:text/html,x' } }],
    ['texts', { texts: 'fr' }],
    ['texts', { texts: new Map([['fr', {}]]) }],
    ['texts', { texts: { fr_CA: {} } }],
    ['texts', { texts: { 'fr-ca': {} } }],
    ['texts', { texts: { french: {} } }],
    ['texts.fr', { texts: { fr: ['Clés API'] } }],
    ["texts.fr['API keys']", { texts: { fr: { 'API keys': 5 } } }],
    ["texts.fr['{0} events'].many2", { texts: { fr: { '{0} events': { other: '', many2: '' } } } }],
    ["texts.fr['{0} events'].other", { texts: { fr: { '{0} events': { one: '' } } } }],
    ["texts.fr['{0} events'].one", { texts: { fr: { '{0} events': { one: 1, other: '' } } } }],
  ]
  for (const [name, options] of wrong) {
    assert.throws(
      () => newPage(options),
      (error: Error) => error instanceof TypeError && error.message.includes(`'${name}'`),
      name,
    )
  }
})

test('a theme becomes rules of the stylesheet, and changes the path of the stylesheet', async () => {
  const light = { accent: '#7a1fa2', focus: '#7a1fa2' }
  const { page } = newPage({
    basePath: BASE,
    theme: { mode: 'light', light, radius: '2px', logo: '/logo.svg' },
  })
  const read = async (path: string) => (await page.fetch(new Request(`http://x${path}`))).text()
  const text = await read(`${BASE}/keys`)
  assert.match(text, /<img class="ba-logo" src="\/logo\.svg" alt="">/)
  const css = await read(/href="([^"]*\.css)"/.exec(text)?.[1] ?? '')
  assert.match(css, /--ba-accent:#7a1fa2;/)
  assert.match(css, /--ba-radius:2px;/)
  assert.match(css, /color-scheme:light/)
  assert.doesNotMatch(css, /prefers-color-scheme/)
})

test('a layout of the host gets the parts, and the page in its document', async () => {
  const { page } = newPage({
    basePath: BASE,
    stylesheet: '/host.css',
    layout: ({ head, body, lang, title, csp }) =>
      `<!doctype html><!-- ${csp} --><html lang="${lang}"><head>${head}</head><body><h2>Host ${title}</h2>${body}</body></html>`,
  })
  const answer = await page.fetch(new Request(`http://x${BASE}/keys`))
  const text = await answer.text()
  assert.ok(text.includes(`<!-- ${answer.headers.get('content-security-policy')} -->`))
  assert.match(text, /<h2>Host API keys – Developer settings<\/h2><div class="ba">/)
  assert.match(text, /href="\/host\.css"/)
})

test('texts, dates and numbers follow the access', async () => {
  const under = setUp({
    texts: {
      fr: {
        'API keys': 'Clés API',
        'Revoke {0}?': 'Révoquer {0} ?',
        '{0} events': { one: '{0} événement', other: '{0} événements « & »' },
      },
      ja: { '{0} events': '{0} 件のイベント' },
    },
  })
  under.access = { ...EVERYTHING, locale: 'fr-CA', timeZone: 'Africa/Tunis' }
  const { id } = await under.settings.apiKeys.create(ORGANIZATION, { name: '<b>', scopes: ['clients:read'] })
  assert.match((await under.get('/keys')).text, /<html lang="fr-CA">.*<h1[^>]*>Clés API<\/h1>/s)
  assert.match((await under.get(`/keys/${id}/revoke`)).text, /Révoquer &lt;b&gt; \?/)
  assert.match((await under.get(`/keys/${id}`)).text, /<time datetime="[^"]*">[^<]*(UTC\+1|HNEC|CET)/)
  await under.settings.endpoints.register(ORGANIZATION, {
    url: 'https://hooks.example.com',
    types: ['client.created', 'lead.created'],
  })
  assert.match((await under.get('/endpoints')).text, /2 événements « &amp; »/)
  under.access = { ...EVERYTHING, locale: 'ja' }
  assert.match((await under.get('/endpoints')).text, /2 件のイベント/)
  under.access = { ...EVERYTHING, locale: 'not a locale', timeZone: 'Mars/Olympus' }
  assert.match((await under.get('/keys')).text, /<html lang="en">/)
})

test('behind a pattern mount, a path that begins with another host leads to no other host, of the page or of the API', async (t) => {
  const store = createMemoryStore()
  const settings = createDeveloperSettings(store)
  const page = createSettingsPage(settings, { authorize: () => EVERYTHING, logger: false })
  const api = createBusinessApi(store, { logger: false })
  const { key } = await settings.apiKeys.create(ORGANIZATION, {
    name: 'Website',
    scopes: ['clients:read', 'clients:write'],
  })
  for (const create of [express, express4]) {
    const app = create()
      .use(/.*\/settings/, page)
      .use(/.*\/platform/, api)
    const origin = await listen(t, app as never)
    const ask = async (
      path: string,
      init: { method?: string; body?: string; headers?: Record<string, string> } = {},
    ) => {
      // Not fetch, which would take the host of the path for the host of the request.
      const sent = httpRequest(`${origin}/`, { ...init, path })
      const [response] = (await once(sent.end(init.body), 'response')) as [IncomingMessage]
      return { headers: response.headers, status: response.statusCode, body: await text(response) }
    }
    for (const prefix of ['//evil.example', '/\\evil.example', '///evil.example', '/\\/evil.example']) {
      const { body, status } = await ask(`${prefix}/settings/keys`)
      assert.equal(status, 200, prefix)
      const links = [...body.matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, link = '']) => link)
      assert.ok(links.length > 5)
      for (const link of links.filter((each) => !each.startsWith('data:')))
        assert.equal(new URL(link, 'https://app.example').host, 'app.example', `${prefix} ${link}`)
      const headers = { Authorization: `Bearer ${key}` }
      for (const name of ['One', 'Two']) {
        const body = JSON.stringify({ name })
        await ask(`${prefix}/platform/api/v1/clients`, {
          method: 'POST',
          body,
          headers: { ...headers, 'Content-Type': 'application/json', 'Content-Length': String(body.length) },
        })
      }
      const list = await ask(`${prefix}/platform/api/v1/clients?limit=1`, { headers })
      const [, next = ''] = /<([^>]*)>/.exec(String(list.headers.link)) ?? []
      assert.equal(list.status, 200)
      assert.equal(new URL(next, 'https://app.example/').host, 'app.example', next)
      const document = await ask(`${prefix}/platform/openapi.json`)
      assert.doesNotMatch(document.body, /"url":"(\/\/|\/\\)/)
    }
  }
})
