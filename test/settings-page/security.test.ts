import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import type { Access } from '../../lib/settings-page.ts'
import { SENDER } from './_host.ts'
import { BASE, EVERYTHING, ORGANIZATION, setUp } from './_page.ts'
import { screensOf, seed } from './_seed.ts'

const FIELDS = { name: 'Website', scope: 'clients:read', expiry: 'never' } as const
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

test('every page has the headers of the specification, errors too', async () => {
  const under = setUp()
  const pages = [
    await under.get('/keys'),
    await under.get('/nothing'),
    await under.post('/keys/new', FIELDS, { Origin: 'https://evil.example' }),
  ]
  under.access = null
  pages.push(await under.get('/keys'))
  assert.deepEqual(
    pages.map(({ status }) => status),
    [200, 404, 403, 401],
  )
  for (const { headers } of pages) {
    assert.equal(headers.get('content-security-policy'), CSP)
    assert.equal(headers.get('x-frame-options'), 'DENY')
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.equal(headers.get('cross-origin-opener-policy'), 'same-origin')
    assert.equal(headers.get('referrer-policy'), 'same-origin')
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.match(headers.get('x-request-id') ?? '', /^req_/)
  }
})

test('a form of another origin is rejected and changes nothing', async () => {
  const refused: Record<string, string>[] = [
    { 'Sec-Fetch-Site': 'same-site' },
    { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'none' },
    { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://app.example', Host: 'app.example' },
    {},
    { Origin: 'null', Host: 'app.example' },
    { Origin: 'https://app.example:8443', Host: 'app.example' },
    { Origin: 'https://evil.example', Host: 'app.example' },
    { Origin: 'https://app.example.evil.example', Host: 'app.example' },
    { Origin: 'not a url', Host: 'app.example' },
    { Origin: 'http://app.example', Host: 'app.example' },
    { Origin: 'https://app.example', Host: 'app.example', 'X-Forwarded-Proto': 'http' },
    { Origin: 'http://app.example', Host: 'app.example', 'X-Forwarded-Proto': 'https, http' },
  ]
  const under = setUp()
  for (const headers of refused) {
    const { status, words } = await under.post('/keys/new', FIELDS, headers)
    assert.equal(status, 403, JSON.stringify(headers))
    // Reloading would send the same form again.
    assert.match(words, /sent from another site\. Nothing was changed\. Open the page again/)
  }
  assert.deepEqual(await under.settings.apiKeys.list(ORGANIZATION), [])
  for (const headers of [
    { 'Sec-Fetch-Site': 'same-origin' },
    { Origin: 'https://app.example', Host: 'app.example' },
    { Origin: 'https://app.example', Host: 'app.example', 'X-Forwarded-Proto': 'https, http' },
  ]) {
    assert.equal((await under.post('/keys/new', FIELDS, headers)).status, 200, JSON.stringify(headers))
  }
})

test('option origins lets forms of a proxied host through, and no others', async () => {
  const under = setUp({ origins: ['https://app.example'] })
  assert.equal(
    (await under.post('/keys/new', FIELDS, { Origin: 'https://app.example', Host: 'internal:3000' })).status,
    200,
  )
  assert.equal(
    (await under.post('/keys/new', FIELDS, { Origin: 'https://evil.example', Host: 'internal:3000' })).status,
    403,
  )
})

test('authorize is asked on every request, before the body is read, and its answer is never kept', async () => {
  const seen: string[] = []
  const under = setUp({
    authorize: ({ method, url, header, raw }) => {
      assert.ok(raw instanceof Request)
      seen.push(`${method} ${url} ${header('Cookie')}`)
      return under.access
    },
  })
  await under.get('/keys', { Cookie: 'a=1' })
  under.access = null
  const body = new ReadableStream({ pull: () => assert.fail('the body is read') }, { highWaterMark: 0 })
  const init = {
    method: 'POST',
    body,
    duplex: 'half',
    headers: { 'Sec-Fetch-Site': 'same-origin' },
  } as RequestInit
  const answer = await under.page.fetch(new Request(`https://app.example${BASE}/keys/new`, init))
  assert.equal(answer.status, 401)
  assert.deepEqual(seen, [`GET ${BASE}/keys a=1`, `POST ${BASE}/keys/new undefined`])
  assert.deepEqual(await under.settings.apiKeys.list(ORGANIZATION), [])
})

test('a page without a session shows nothing of an organization, and a redirect leads to the sign-in', async () => {
  const under = setUp()
  await under.settings.apiKeys.create(ORGANIZATION, { name: 'Website', scopes: ['clients:read'] })
  under.access = null
  const { status, text } = await under.get('/keys')
  assert.equal(status, 401)
  assert.doesNotMatch(text, /Website|org_page|<nav[^>]*><ul>\s*<li/)
  under.access = { redirect: '/login?next=/settings' }
  const redirected = await under.get('/keys')
  assert.deepEqual([redirected.status, redirected.location], [303, '/login?next=/settings'])
  assert.equal(
    (await under.post('/keys/new', FIELDS, { 'Sec-Fetch-Site': 'same-origin', 'X-BA-Enhanced': '1' })).status,
    401,
  )
})

test('a redirect to the sign-in has the characters of a header', async () => {
  const under = setUp()
  for (const [redirect, location] of [
    ['/login?next=/☃&a=%20', '/login?next=/%E2%98%83&a=%20'],
    ['/login\u0001', '/login%01'],
    ['https://日本.example/é', 'https://xn--wgv71a.example/%C3%A9'],
  ] as const) {
    under.access = { redirect }
    const answer = await under.get('/keys')
    assert.deepEqual([answer.status, answer.location], [303, location])
  }
})

test('an authorize that throws, or gives a wrong answer, is 500 and reported to onError alone', async () => {
  const wrong: unknown[] = [
    {},
    { organizationId: ORGANIZATION, actor: 'ada' },
    { organizationId: ORGANIZATION, actor: 'ada', can: 'all' },
    { organizationId: ORGANIZATION, actor: 'ada', can: ['keys:delete'] },
    { organizationId: '', actor: 'ada', can: 'read' },
    { organizationId: ORGANIZATION, actor: '', can: 'read' },
    { redirect: 'javascript:alert(1)' },
    { redirect: 'https://' },
    { redirect: '/login', organizationId: ORGANIZATION },
    { ...EVERYTHING, grantablescopes: ['leads:read'] },
    { ...EVERYTHING, grantableScope: ['leads:read'] },
    { ...EVERYTHING, scopes: ['leads:read'] },
    { ...EVERYTHING, grantableScopes: null },
    { ...EVERYTHING, grantableScopes: 'leads:read' },
    { ...EVERYTHING, grantableScopes: ['leads:red'] },
    { ...EVERYTHING, timezone: 'Africa/Tunis' },
    { ...EVERYTHING, Nonce: 'abc' },
    Object.create({ ...EVERYTHING, grantableScopes: ['leads:read'] }),
    new Map(Object.entries(EVERYTHING)),
    [EVERYTHING],
    'org_page',
    true,
  ]
  for (const access of wrong) {
    const under = setUp({ authorize: () => access as never })
    assert.equal((await under.get('/keys')).status, 500, JSON.stringify(access))
    assert.equal(under.errors.length, 1)
    assert.match(String(under.errors[0]), /^TypeError: .*authorize/)
  }
  const misspelt = setUp({ authorize: () => ({ ...EVERYTHING, grantablescopes: [] }) as never })
  await misspelt.get('/keys')
  assert.match(String(misspelt.errors[0]), /grantablescopes' does not exist: did you mean 'grantableScopes'/)
  const under = setUp({
    authorize: () => {
      throw new Error('postgres://user:secret@host')
    },
  })
  const { status, text } = await under.get('/keys')
  assert.equal(status, 500)
  assert.doesNotMatch(text, /user:secret|\n\s+at /)
})

test('a body that is too large, or no form, is rejected and changes nothing', async () => {
  const under = setUp()
  assert.equal((await under.post('/keys/new', { ...FIELDS, name: 'x'.repeat(70_000) })).status, 413)
  const json = await under.page.fetch(
    new Request(`https://app.example${BASE}/keys/new`, {
      method: 'POST',
      body: JSON.stringify(FIELDS),
      headers: { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' },
    }),
  )
  assert.equal(json.status, 415)
  assert.deepEqual(await under.settings.apiKeys.list(ORGANIZATION), [])
})

test('paths that are not there are 404, other methods 405, and odd paths no way around', async () => {
  const under = setUp()
  for (const path of [
    '/nothing',
    '/keys/',
    '/keys//new',
    '/keys/../audit',
    '/keys/%2e%2e',
    '/keys/a b',
    '/-/settings.css',
    '/constructor',
  ]) {
    const expected = path === '/keys/' || path === '/keys/../audit' || path === '/keys/%2e%2e' ? 200 : 404
    assert.equal((await under.get(path)).status, expected, path)
  }
  const options = await under.page.fetch(new Request(`https://app.example${BASE}/keys`, { method: 'DELETE' }))
  assert.equal(options.status, 405)
  const wrong = await under.post('/keys', {})
  assert.equal(wrong.status, 405)
  assert.match(wrong.words, /Method not allowed Open the page again and try again\./)
  const head = await under.page.fetch(new Request(`https://app.example${BASE}/keys`, { method: 'HEAD' }))
  assert.deepEqual([head.status, await head.text()], [200, ''])
})

test('a path of slashes and a form of many fields take no time to read', async () => {
  const under = setUp()
  const names = Array.from({ length: 12_000 }, (_, index) => index.toString(36))
  await under.post('/keys/new', FIELDS)
  const before = process.cpuUsage()
  assert.equal((await under.get(`${'/'.repeat(30_000)}a`)).status, 404)
  assert.equal(
    (await under.post('/keys/new', Object.fromEntries(names.map((name) => [name, ''])))).status,
    422,
  )
  const { user } = process.cpuUsage(before)
  assert.ok(user < 700_000, `${user} µs`)
})

test('an endpoint form with many unknown event types takes no time to show again', async () => {
  const under = setUp()
  const type = Array.from({ length: 4000 }, (_, index) => index.toString(36))
  const before = process.cpuUsage()
  assert.equal((await under.post('/endpoints/new', { url: 'x', wants: 'some', type })).status, 422)
  const { user } = process.cpuUsage(before)
  assert.ok(user < 1_000_000, `${user} µs`)
})

test('a nonce of the access is on both tags and in the policy', async () => {
  const under = setUp()
  under.access = { ...EVERYTHING, nonce: 'abc123==' }
  const { text, headers } = await under.get('/keys')
  assert.equal(text.match(/nonce="abc123=="/g)?.length, 2)
  assert.match(headers.get('content-security-policy') ?? '', /script-src 'self' 'nonce-abc123=='/)
  under.access = { ...EVERYTHING, nonce: `"><script>` }
  assert.equal((await under.get('/keys')).status, 500)
})

test('an authorize that never settles ends by the deadline as 503, told to onError, and the late answer changes nothing', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  for (const end of ['never', 'late', 'late failure']) {
    let resolve: (access: Access) => void = () => {}
    let reject: (error: Error) => void = () => {}
    const promise = new Promise<Access>((resolved, rejected) => {
      resolve = resolved
      reject = rejected
    })
    const under = setUp({ authorize: () => promise })
    const answer = under.post('/keys/new', FIELDS)
    t.mock.timers.tick(5000)
    const { status, words } = await answer
    assert.equal(status, 503)
    assert.match(words, /Nothing was changed/)
    assert.match(String(under.errors), /'authorize' has not answered within 5000 ms/)
    if (end === 'late') resolve(EVERYTHING)
    if (end === 'late failure') reject(new Error('late'))
    assert.deepEqual(await under.settings.apiKeys.list(ORGANIZATION), [])
  }
})

/** Names of methods, and texts that are no ids. */
const NO_IDS = [
  'constructor',
  '__proto__',
  'toString',
  'x'.repeat(64),
  'x'.repeat(1000),
  '\0',
  '\ud800',
  '-1',
]

test('an id that is none is 404 in a path and in a form, and a value named like a method never breaks a page', async () => {
  const store = createMemoryStore()
  const api = createBusinessApi(store, { logger: false })
  const under = setUp({ store, api, settings: { sender: SENDER } })
  const seeded = await seed(store, under.settings, ORGANIZATION)
  const paths = [...new Set(screensOf(seeded).map((path) => path.split('?', 1)[0] ?? ''))]
  const forms = { name: 'Website', scope: 'clients:read', expiry: 'never', wants: 'all', overlap: '24h' }
  const url = 'https://hooks.example.com/'
  for (const value of NO_IDS) {
    const encoded = encodeURIComponent(value.toWellFormed())
    for (const path of ['/keys', '/endpoints', '/events', '/deliveries', '/reference'])
      assert.equal((await under.get(`${path}/${encoded}`)).status, 404, `${path}/${encoded}`)
    for (const path of paths)
      for (const name of [
        'done',
        'show',
        'state',
        'type',
        'endpoint',
        'event',
        'period',
        'action',
        'subject',
        'before',
        'record',
        'id',
        'key',
        'status',
        'activity',
      ])
        assert.equal(
          (await under.get(`${path}?${name}=${encoded}`)).status,
          200,
          `${path}?${name}=${encoded}`,
        )
    for (const path of [
      '/keys/new',
      `/keys/${seeded.activeKey}/rotate`,
      '/endpoints/new',
      `/endpoints/${seeded.endpoint}/rotate`,
    ]) {
      const { status, text } = await under.post(path, { ...forms, url, id: value })
      assert.ok(status === 404 || (value === '\0' && status < 500), `${path} ${value} ${status} ${text}`)
    }
  }
  for (const path of ['/keys/new', `/keys/${seeded.activeKey}/edit`])
    assert.equal((await under.post(path, { ...forms, name: 'a\0b' })).status, 422, path)
  assert.deepEqual(under.errors, [])
})

test('an organization and an actor named like a method have every screen', async () => {
  for (const name of ['constructor', '__proto__']) {
    const store = createMemoryStore()
    const under = setUp({
      store,
      api: createBusinessApi(store, { logger: false }),
      settings: { sender: SENDER },
    })
    const seeded = await seed(store, under.settings, name, { name })
    await under.settings.rateLimits.set(name, { perSecond: 5, burst: 5 }, { actor: name })
    under.access = { organizationId: name, organizationName: name, actor: name, can: 'everything' }
    for (const path of screensOf(seeded)) assert.equal((await under.get(path)).status, 200, path)
  }
})

test('characters that are not seen are shown, and joiners of other scripts stay', async () => {
  const under = setUp()
  const unseen = [
    '200e',
    '200f',
    '61c',
    '202e',
    '2066',
    '200b',
    '200c',
    '200d',
    'ad',
    'feff',
    '180e',
    '115f',
    'e0041',
  ]
  const name = unseen.map((hex) => `a${String.fromCodePoint(Number.parseInt(hex, 16))}b`).join(' ')
  const { id } = await under.settings.apiKeys.create(ORGANIZATION, { name, scopes: ['clients:read'] })
  const { words } = await under.get(`/keys/${id}`)
  for (const hex of unseen) assert.ok(words.includes(`a⟨${hex.toUpperCase().padStart(4, '0')}⟩b`), hex)
  const joined = '👩‍👧 می‌خواهم ❤️'
  const other = await under.settings.apiKeys.create(ORGANIZATION, { name: joined, scopes: ['clients:read'] })
  assert.ok((await under.get(`/keys/${other.id}`)).words.includes(joined))
})
