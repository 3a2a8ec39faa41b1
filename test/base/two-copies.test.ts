import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { BusinessApiError, createBusinessApi, defineRoute, defineService, Refusal } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'

// A bundler, or a package with a dependency of its own, can bring a second copy of the library into a process.

type Library = typeof import('../../lib/index.ts')

/** Loads each file of the library a second time. */
async function loadCopy(): Promise<Library> {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    entryPoints: [`${import.meta.dirname}/../../lib/index.ts`],
    bundle: true,
    format: 'esm',
    platform: 'node',
    minify: true,
    write: false,
    logLevel: 'error',
  })
  const [file] = outputFiles
  return await import(`data:text/javascript;base64,${Buffer.from(file?.contents ?? []).toString('base64')}`)
}

test('routes, hooks and errors of another copy of the library are understood', async () => {
  const copy = await loadCopy()
  assert.notEqual(copy.Refusal, Refusal)
  const route = (operationId: string, handle: Parameters<typeof defineRoute>[0]['handle']) =>
    defineRoute({
      method: 'GET',
      path: `/${operationId}`,
      operationId,
      summary: 'Read',
      tag: 'Bookings',
      scope: 'bookings:read',
      paged: /^bkg_\d+$/,
      response: v.object({ data: v.array(v.object({ id: v.string() })) }),
      handle: handle as never,
    })
  const service = defineService({
    scopes: ['bookings:read'],
    routes: [
      route('paged', (context) => copy.page([{ id: 'bkg_2' }, { id: 'bkg_1' }], context as never) as never),
      route('refused', () => {
        throw new copy.Refusal(418, 'A teapot')
      }),
      route('rejected', () => {
        throw new copy.BusinessApiError('store_unavailable', 'Down')
      }),
    ],
  })
  const store = createMemoryStore({ service })
  const settings = createDeveloperSettings(store)
  const { key } = await settings.apiKeys.create('org_1', { name: 'Key', scopes: ['bookings:read'] })
  const api = createBusinessApi(store, { logger: false })
  const get = (name: string, handler = api) =>
    handler(new Request(`http://x/api/v1/${name}?limit=1`, { headers: { authorization: `Bearer ${key}` } }))
  const paged = await get('paged')
  assert.deepEqual(await paged.json(), { data: [{ id: 'bkg_2' }] })
  assert.match(paged.headers.get('link') ?? '', /before=bkg_2/)
  assert.equal((await get('refused')).status, 418)
  assert.equal((await get('rejected')).status, 503)
  const strict = createBusinessApi(store, { logger: false, onRequest: () => new copy.Refusal(402, 'Pay') })
  assert.equal((await get('paged', strict)).status, 402)
})

test("instanceof tells the library's errors from others, and a host's subclass from its parent", () => {
  class Own extends BusinessApiError {}
  const error = new BusinessApiError('not_found', 'No')
  assert.ok(error instanceof BusinessApiError && new Own('not_found', 'No') instanceof BusinessApiError)
  assert.ok(new Own('not_found', 'No') instanceof Own)
  assert.ok(!(error instanceof Own))
  for (const other of [
    new Error('x'),
    new Refusal(404, 'x'),
    { name: 'BusinessApiError' },
    null,
    undefined,
    5,
  ])
    assert.ok(!(other instanceof BusinessApiError))
  assert.deepEqual(Object.keys(error), ['name', 'code', 'fields'])
})
