import assert from 'node:assert/strict'
import { test } from 'node:test'
import { key, listen, PATH, platform } from './_adapters.ts'

test('A page in bytes is sent unchanged, with its length in bytes', async (t) => {
  const page = Buffer.from('[{"name":"Écume 🏺"}]')
  const expected = Buffer.concat([Buffer.from('{"data":'), page, Buffer.from('}')])
  const clients = {
    ...platform.store.clients,
    admitAndList: async (...given: Parameters<typeof platform.store.clients.admitAndList>) => ({
      ...(await platform.store.clients.admitAndList(...given)),
      page,
    }),
  }
  const api = platform.apiWith({ rateLimit: false }, { ...platform.store, clients })
  const server = await listen(t, api)
  const headers = { authorization: `Bearer ${key}` }
  for (const send of [
    (method: string) => fetch(`${server.url}${PATH}`, { method, headers }),
    (method: string) => api.fetch(new Request(`http://x${PATH}`, { method, headers })),
  ]) {
    const response = await send('GET')
    assert.equal(response.headers.get('content-length'), String(expected.length))
    assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
    assert.deepEqual(Buffer.from(await response.arrayBuffer()), expected)
    const head = await send('HEAD')
    assert.equal(head.headers.get('content-length'), String(expected.length))
    assert.equal(await head.text(), '')
  }
})
