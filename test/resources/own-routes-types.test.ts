import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as v from 'valibot'
import { createBusinessApi, defineRoute, defineService, page, type Route, readPage } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { untyped } from '../delivery/_loop.ts'

// What the compiler accepts and rejects in a host's routes, checked by `npm run types`.

const declared = {
  operationId: 'probe',
  summary: 'Probe',
  tag: 'Probes',
  scope: 'probes:read',
  response: v.object({ data: v.array(v.object({ id: v.string() })) }),
} as const

const ok: Route = defineRoute({
  ...declared,
  method: 'POST',
  path: '/probes/{probeId}/parts/{part}',
  query: v.object({ since: v.optional(v.string()) }),
  body: v.object({ count: v.pipe(v.number(), v.transform(String)) }),
  idempotent: false,
  handle(context) {
    const { params, query, body } = context.input
    const texts: readonly string[] = [params.probeId, params.part, body.count, query.since ?? '']
    // @ts-expect-error the path has no such parameter
    params.probe
    // @ts-expect-error the body has no such field
    body.counts
    // @ts-expect-error the output of the schema is a text
    body.count.toFixed()
    return { data: texts.map((id) => ({ id })) }
  },
})

test('a context and a result are typed by the schemas, and all routes have one type', () => {
  const list: Route = defineRoute({
    ...declared,
    operationId: 'list',
    method: 'GET',
    path: '/probes',
    paged: /^\d+$/,
    async handle(context) {
      const { limit } = readPage(context)
      // @ts-expect-error without a schema there is no body
      context.input.body?.count
      return page([{ id: String(limit) }], context)
    },
  })
  defineRoute({
    ...declared,
    method: 'GET',
    path: '/a',
    paged: /^/,
    // @ts-expect-error the records of the page are not those of the response
    handle: (context) => page([{ id: 1 }], context),
  })
  defineRoute({
    ...declared,
    method: 'GET',
    path: '/a',
    // @ts-expect-error the result lacks the id
    handle: () => ({ data: [{}] }),
  })
  defineRoute({
    ...declared,
    method: 'GET',
    path: '/a',
    // @ts-expect-error a scope ends with :read or :write
    scope: 'probes',
    handle: () => ({ data: [] }),
  })
  const service = defineService({ scopes: ['probes:read'], routes: [ok, list] })
  assert.equal(service.routes.length, 2)
})

test('keys and authenticate() accept only the scopes of the service', async () => {
  const own = createMemoryStore({ service: defineService({ scopes: ['probes:read'] }) })
  const settings = createDeveloperSettings(own)
  await settings.apiKeys.create('org_1', { name: 'a', scopes: ['probes:read', 'clients:read'] })
  // @ts-expect-error the service has no such scope
  const misspelt = settings.apiKeys.create('org_1', { name: 'a', scopes: ['probe:read'] })
  await assert.rejects(misspelt, /scopes must be one or more of .*probes:read/)
  const plain = createDeveloperSettings(createMemoryStore())
  // @ts-expect-error a service without own scopes has the library's
  await assert.rejects(plain.apiKeys.create('org_1', { name: 'a', scopes: ['probes:read'] }))
  const request = new Request('http://x/')
  // @ts-expect-error the service has no such scope
  await assert.rejects(createBusinessApi(own).authenticate(request, { scope: 'probe:read' }), TypeError)
  await assert.rejects(
    createBusinessApi(own).authenticate(request, untyped({ scope: 'clients:read', scop: 1 })),
  )
})
