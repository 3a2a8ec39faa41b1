import assert from 'node:assert/strict'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import express from 'express'
import { createBusinessApi, defineService } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { buildRequest } from './_api.ts'

// Tests api.authenticate(), which is for routes served by the host's framework.

const service = defineService({ scopes: ['reports:read', 'reports:write'] })
const store = createMemoryStore({ service })
const settings = createDeveloperSettings(store)
const api = createBusinessApi(store, { logger: false })

const app = express()
app.get('/reports', async (request, response) => {
  const caller = await api.authenticate(request, { scope: 'reports:read' })
  if (caller.reply) return caller.reply.send(response)
  response.set(caller.headers).json({ of: caller.organizationId, by: caller.apiKey.id })
})
const plain = http.createServer(async (request, response) => {
  const caller = await api.authenticate(request, { scope: 'reports:read' })
  if (caller.reply) return caller.reply.send(response)
  response
    .writeHead(200, caller.headers)
    .end(JSON.stringify({ of: caller.organizationId, by: caller.apiKey.id }))
})
async function byFetch(request: Request): Promise<Response> {
  const caller = await api.authenticate(request, { scope: 'reports:read' })
  if (caller.reply) return caller.reply.toResponse()
  return Response.json({ of: caller.organizationId, by: caller.apiKey.id }, { headers: caller.headers })
}

const servers = [http.createServer(app), plain]
before(() =>
  Promise.all(servers.map((server) => new Promise<void>((done) => server.listen(0, '127.0.0.1', done)))),
)
after(() => servers.forEach((server) => void server.close()))

const hosts: Record<string, (request: Request) => Promise<Response>> = {
  Express: (request) => send(0, request),
  'node:http': (request) => send(1, request),
  fetch: byFetch,
}

function send(index: number, { headers }: Request): Promise<Response> {
  const { port } = (servers[index] as http.Server).address() as AddressInfo
  return fetch(`http://127.0.0.1:${port}/reports`, { headers })
}

describe('api.authenticate()', () => {
  for (const [name, ask] of Object.entries(hosts)) {
    test(`under ${name} returns the organization, the key and the headers, or the reply to send`, async () => {
      const { id, key } = await settings.apiKeys.create(`org_${name}`, {
        name: 'Reports',
        scopes: ['reports:read'],
        rateLimit: { perSecond: 0.01, burst: 2 },
      })
      const call = (text?: string) => ask(buildRequest('/reports', text === undefined ? {} : { key: text }))
      const answer = await call(key)
      assert.equal(answer.status, 200)
      assert.deepEqual(await answer.json(), { of: `org_${name}`, by: id })
      assert.match(answer.headers.get('ratelimit') ?? '', /"key";r=1;/)
      assert.match(answer.headers.get('x-request-id') ?? '', /^req_/)

      const writer = await settings.apiKeys.create(`org_${name}`, { name: 'W', scopes: ['reports:write'] })
      for (const [status, text, error] of [
        [401, undefined, /^No API key/],
        [401, `${key}x`, /^Invalid, revoked or expired/],
        [403, writer.key, /lacks the required scope reports:read/],
        [200, key, null],
        [429, key, /^Rate limit exceeded/],
      ] as const) {
        const refused = await call(text)
        assert.equal(refused.status, status)
        const body = (await refused.json()) as { error: string; requestId: string }
        if (error === null) continue
        assert.match(body.error, error)
        assert.equal(body.requestId, refused.headers.get('x-request-id'))
        if (status === 401) assert.match(refused.headers.get('www-authenticate') ?? '', /^Bearer/)
        if (status === 429) assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/)
      }
      await settings.apiKeys.revoke(`org_${name}`, writer.id)
      assert.equal((await call(writer.key)).status, 401)
    })
  }

  test("responds with 503 if the store can't be reached, and rejects a scope that the service doesn't have", async () => {
    const apiKeys = {
      ...store.apiKeys,
      identify: () => Promise.reject(Object.assign(new Error('x'), { code: 'store_unavailable' })),
    }
    const down = createBusinessApi({ ...store, apiKeys }, { logger: false })
    const { key } = await settings.apiKeys.create('org_down', { name: 'R', scopes: ['reports:read'] })
    const caller = await down.authenticate(buildRequest('/reports', { key }), { scope: 'reports:read' })
    assert.equal(caller.reply?.status, 503)
    assert.equal(caller.reply?.headers['Retry-After'], '1')
    // @ts-expect-error the service has no such scope
    const asked = api.authenticate(buildRequest('/reports'), { scope: 'report:read' })
    await assert.rejects(asked, /no scope 'report:read'/)
  })

  test("calls no hook because the host responds, and doesn't read the body", async () => {
    let calls = 0
    const hooked = createBusinessApi(store, {
      logger: false,
      onRequest: () => void calls++,
      onResponse: () => void calls++,
    })
    const { key } = await settings.apiKeys.create('org_hooked', { name: 'R', scopes: ['reports:read'] })
    const request = buildRequest('/reports', { key, json: { from: 1 } })
    const caller = await hooked.authenticate(request, { scope: 'reports:read' })
    assert.equal(caller.reply, undefined)
    await new Promise(setImmediate)
    assert.equal(calls, 0)
    assert.deepEqual(await request.json(), { from: 1 })
  })
})
