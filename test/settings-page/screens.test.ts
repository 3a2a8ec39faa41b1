import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { SENDER } from './_host.ts'
import { HOSTILE } from './_hostile.ts'
import { checkMarkup } from './_markup.ts'
import { EVERYTHING, ORGANIZATION, setUp, type Under } from './_page.ts'
import { type Seeded, screensOf, seed } from './_seed.ts'

async function setUpSeeded(
  texts: Parameters<typeof seed>[3] = {},
  options: Parameters<typeof setUp>[0] = {},
): Promise<Under & { seeded: Seeded }> {
  const store = createMemoryStore()
  const api = createBusinessApi(store, { logger: false })
  const under = setUp({ store, api, ...options, settings: { sender: SENDER } })
  return Object.assign(under, { seeded: await seed(store, under.settings, ORGANIZATION, texts) })
}

test('every screen is well formed, labelled, without anything inline, and within 30 kB', async (t) => {
  const under = await setUpSeeded()
  const sizes: [string, number][] = []
  for (const path of screensOf(under.seeded)) {
    const { status, text, headers } = await under.get(path)
    assert.equal(status, 200, `${path} ${text}`)
    checkMarkup(text, path)
    assert.match(text, /<html lang="en">/)
    assert.equal(text.match(/<h1/g)?.length, 1, path)
    assert.equal(headers.get('cache-control'), 'no-store')
    sizes.push([path, Buffer.byteLength(text)])
    assert.ok(Buffer.byteLength(text) <= 30_000, `${path} has ${Buffer.byteLength(text)} bytes`)
  }
  const largest = sizes.toSorted(([, one], [, other]) => other - one).slice(0, 5)
  t.diagnostic(
    `largest pages, in bytes of HTML: ${largest.map(([path, size]) => `${size} ${path}`).join(', ')}`,
  )
})

test('a full page of 50 deliveries, the stylesheet and the script keep their budgets', async (t) => {
  const under = await setUpSeeded()
  for (let event = 0; event < 30; event++) {
    const id = `evt_01KB3ZK8Q4M7N2R5T6V8W9X0${event + 10}`
    const about = { type: 'invoice.payment_recorded', subjectId: 'inv_01KB3ZK8Q4M7N2R5T6V8W9X0YZ' }
    await under.store.events.publish(ORGANIZATION, { id, body: '{}', ...about })
  }
  const { text } = await under.get('/deliveries')
  assert.equal(text.match(/<tr><th scope="row"/g)?.length, 50)
  const bytes: Record<string, number> = { html: Buffer.byteLength(text) }
  for (const [, path = '', kind = ''] of text.matchAll(
    /"\/settings\/developer(\/-\/settings\.[0-9a-f]{16}\.(css|js))"/g,
  )) {
    const asset = await under.get(path)
    assert.equal(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable')
    bytes[kind] = Buffer.byteLength(asset.text)
  }
  t.diagnostic(`bytes: ${JSON.stringify(bytes)}`)
  assert.ok(
    (bytes.html ?? 0) <= 30_000 && (bytes.css ?? 0) <= 14_000 && (bytes.js ?? 0) <= 10_000,
    JSON.stringify(bytes),
  )
})

test('every screen of an organization without anything is well formed, and says what to do', async () => {
  const under = setUp()
  for (const path of [
    '/',
    '/keys',
    '/endpoints',
    '/events',
    '/requests',
    '/requests?id=req_unknown',
    '/deliveries',
    '/deliveries?state=skipped',
    '/deliveries/recover',
    '/audit',
  ]) {
    const { status, text } = await under.get(path)
    assert.equal(status, 200, path)
    checkMarkup(text, path)
  }
  assert.match(
    (await under.get('/')).words,
    /Create an API key .* Make your first request .* Create a webhook endpoint/,
  )
  assert.match(
    (await under.get('/deliveries?state=skipped')).words,
    /No deliveries match these filters.*Clear filters/,
  )
})

test('hostile text in every field is shown as text', async () => {
  for (const text of HOSTILE) {
    const under = await setUpSeeded({
      name: text,
      excerpt: text,
      body: text,
      url: `https://hooks.example.com/?${encodeURI(text)}`,
    })
    under.access = { ...EVERYTHING, organizationName: text, actor: text }
    for (const path of screensOf(under.seeded)) {
      const page = await under.get(path)
      assert.equal(page.status, 200, page.text)
      checkMarkup(page.text, `${text} on ${path}`)
      assert.doesNotMatch(
        page.text,
        // The charts are the only pictures of the page.
        /<script>|<(img|svg(?! class="ba-(bars|spark)" )|iframe|style|base|template|form action=https)\b/,
        path,
      )
      // Only a form, a copied text and a secret have the characters as they are.
      const shown = page.text.replace(/value="[^"]*"|<pre [^>]*Raw request body.*?<\/pre>/gs, '')
      assert.doesNotMatch(shown, /\u202E/, path)
    }
    for (const path of [
      `/keys?show=${encodeURIComponent(text)}`,
      `/deliveries?event=${encodeURIComponent(text)}&from=${encodeURIComponent(text)}`,
      `/audit?subject=${encodeURIComponent(text)}`,
    ]) {
      checkMarkup((await under.get(path)).text, path)
    }
    const refused = await under.submit('/keys/new', { name: text.repeat(20), date: text, expiry: text })
    assert.equal(refused.status, 422)
    checkMarkup(refused.text, 'a refused form')
  }
})

test('an unreachable store is 503 with a request id, and the page says that a change may have been made', async () => {
  const away = async () => {
    throw storeUnavailable('Cannot read because the database is away, says postgres://user:secret@host')
  }
  const slice = new Proxy({}, { get: () => away })
  const store: BusinessApiStore = new Proxy(createMemoryStore(), {
    get: (target, name) => (name === 'service' ? target.service : slice),
  })
  const under = setUp({ store })
  for (const path of ['/', '/keys', '/endpoints', '/events', '/requests', '/deliveries', '/audit']) {
    const { status, words, text } = await under.get(path)
    assert.equal(status, 503, path)
    assert.match(words, /Nothing was changed.*Request ID: req_/)
    assert.doesNotMatch(text, /postgres:/)
  }
  const { status, words } = await under.post('/keys/key_1/revoke', {})
  assert.equal(status, 503)
  assert.match(words, /may have been saved/)
  assert.equal(under.errors.length, 8)
})

test('a page of 50 deliveries costs two statements, and no screen more than four', async (t) => {
  const under = await setUpSeeded()
  let statements = 0
  const counting = <Slice extends object>(slice: Slice): Slice =>
    new Proxy(slice, {
      get(target, verb) {
        const found = Reflect.get(target, verb)
        if (typeof found !== 'function') return found
        return (...all: unknown[]) => {
          statements += 1
          return found.apply(target, all)
        }
      },
    })
  const slices = Object.entries(under.store).map(([name, slice]) => [
    name,
    typeof slice === 'object' && slice !== null ? counting(slice) : slice,
  ])
  const api = createBusinessApi(under.store, { logger: false })
  const counted = setUp({
    store: Object.fromEntries(slices) as BusinessApiStore,
    api,
    settings: { sender: SENDER },
  })
  const counts: Record<string, number> = {}
  for (const path of screensOf(under.seeded)) {
    statements = 0
    assert.equal((await counted.get(path)).status, 200, path)
    counts[path] = statements
  }
  const lines = Object.entries(counts).map(([path, count]) => `${count} ${path}`)
  t.diagnostic(`statements: ${lines.join(', ')}`)
  assert.ok(Math.max(...Object.values(counts)) <= 4, lines.join('\n'))
  assert.deepEqual([counts['/deliveries'], counts['/'], counts['/keys'], counts['/endpoints']], [2, 4, 2, 2])
})
