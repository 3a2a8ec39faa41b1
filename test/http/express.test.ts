import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import express5 from 'express'
import { assertError, rawRequest } from '../api/_api.ts'
import {
  assertCreated,
  BODY,
  chunkedPost,
  express4,
  get,
  listen,
  PATH,
  platform,
  post,
  postTo,
  watched,
} from './_adapters.ts'

for (const [version, express] of [
  ['Express 4', express4],
  ['Express 5', express5],
] as const) {
  describe(version, () => {
    test(`${version}: app.use(api) serves its paths and leaves all others to the host`, async (t) => {
      const app = express()
      app.use(watched().api)
      app.get('/host', (_, response) => void response.send('host'))
      const server = await listen(t, app)
      assertCreated(await post(server))
      assert.equal((await get(server)).status, 200)
      assert.equal((await get(server, '/host')).text, 'host')
      const missing = await get(server, '/missing')
      assert.equal(missing.status, 404)
      assert.match(missing.text, /Cannot GET \/missing/)
    })

    test(`${version}: app.use('/platform', api) serves paths below its mount path, with or without basePath`, async (t) => {
      for (const options of [{}, { basePath: '/platform' }]) {
        const app = express()
        app.use('/platform', watched(options).api)
        const server = await listen(t, app)
        assertCreated(await postTo(server, `/platform${PATH}`, BODY))
        assert.equal((await get(server, `/platform${PATH}?limit=1`)).status, 200)
        const { servers } = JSON.parse((await get(server, '/platform/openapi.json')).text)
        assert.deepEqual(servers, [{ url: '/platform' }], 'the mount path is the server of the document')
        assert.match((await get(server, PATH)).text, /Cannot GET/)
        assert.match((await get(server, '/platform/missing')).text, /Cannot GET/)
        assert.match((await get(server, `/platformx${PATH}`)).text, /Cannot GET/)
      }
    })

    test(`${version}: a path with a trailing slash is left to the host, and an absolute-form target is served`, async (t) => {
      for (const options of [{}, { basePath: '/platform' }]) {
        const app = express()
        app.use('/platform', watched(options).api)
        const server = await listen(t, app)
        assert.match((await get(server, `/platform${PATH}/`)).text, /Cannot GET/)
        assert.match((await postTo(server, `/platform${PATH}/`, BODY)).text, /Cannot POST/)
        assert.equal((await get(server, `http://evil.example/platform${PATH}`)).status, 200)
      }
    })

    test(`${version}: a nested router works with the full basePath`, async (t) => {
      const app = express()
      const router = express.Router()
      router.use('/inner', watched({ basePath: '/outer/inner' }).api)
      app.use('/outer', router)
      const server = await listen(t, app)
      assert.equal((await get(server, `/outer/inner${PATH}`)).status, 200)
      assert.match((await get(server, `/outer${PATH}`)).text, /Cannot GET/)
    })

    test(`${version}: a body parsed by express.json() is accepted`, async (t) => {
      const app = express()
      app.use(express.json())
      app.use(watched().api)
      const server = await listen(t, app)
      assertCreated(await post(server))
      assertError(await post(server, '{"name":"A"}'), 422, /name must be/)
      assertError(await post(server, '{"name":"a\\u0000b"}'), 422, /name must/)
      assertError(await post(server, '[]'), 422, /must be a JSON object/)
      assertError(await post(server, BODY, 'Content-Type: text/plain'), 415)
    })

    test(`${version}: an empty body is 400 even after express.json(), which turns it into {}`, async (t) => {
      const app = express()
      app.use(express.json())
      app.use(watched().api)
      assertError(await post(await listen(t, app), ''), 400, /empty/)
    })

    test(`${version}: a replay is the same after express.json()`, async (t) => {
      const app = express()
      const { api } = watched()
      app.use('/parsed', express.json(), api)
      app.use('/raw', api)
      const server = await listen(t, app)
      const header = `Idempotency-Key: ${version.replace(' ', '-')}`
      const first = await postTo(server, `/parsed${PATH}`, BODY, header)
      const second = await postTo(server, `/raw${PATH}`, BODY, header)
      assertCreated(first)
      assert.equal(second.text, first.text)
      assert.equal(second.headers.get('idempotent-replayed'), 'true')
    })

    test(`${version}: express.json() after the API still parses the host's bodies`, async (t) => {
      const app = express()
      app.use(watched().api)
      app.use(express.json())
      app.post('/host', (incoming, response) => void response.json({ heard: incoming.body }))
      const server = await listen(t, app)
      assertCreated(await post(server))
      assert.equal((await postTo(server, '/host', BODY)).text, '{"heard":{"name":"Atlas 🏺"}}')
    })

    test(`${version}: a body kept by express.text() or express.raw() is read unchanged`, async (t) => {
      for (const parser of [express.text({ type: () => true }), express.raw({ type: () => true })]) {
        const app = express()
        app.use(parser)
        app.use(watched().api)
        const server = await listen(t, app)
        assertCreated(await post(server))
        assertError(await post(server, '{"name"'), 400, /not valid JSON/)
      }
    })

    test(`${version}: a JSON string parsed by express.json({ strict: false }) isn't decoded again`, async (t) => {
      const app = express()
      app.use(express.json({ strict: false }))
      app.use(watched().api)
      const server = await listen(t, app)
      for (const text of [BODY, '{"name":"Atlas \u0041"}', '', '[]']) {
        const answer = await post(server, JSON.stringify(text))
        assertError(answer, 422, /must be a JSON object/)
        assertError(await post(server, ` ${JSON.stringify(text)}\n`), 422, /must be a JSON object/)
        const chunked = await rawRequest(server, chunkedPost(JSON.stringify(text)))
        assertError(chunked, 422, /must be a JSON object/)
      }
      for (const json of ['7', 'null', 'true', '[{}]']) assertError(await post(server, json), 422)
      assertCreated(await post(server))
    })

    test(`${version}: a string without a declared length counts as a parsed value, unless rawBody contains the raw string`, async (t) => {
      const { api } = watched()
      const app = express()
      app.use(express.text({ type: () => true }))
      const keep: express5.RequestHandler = (incoming, _, next) => {
        Object.assign(incoming, { rawBody: incoming.body })
        next()
      }
      app.use('/kept', keep, api)
      app.use(api)
      const server = await listen(t, app)
      assertError(await rawRequest(server, chunkedPost(BODY)), 422, /must be a JSON object/)
      assertCreated(await rawRequest(server, chunkedPost(BODY, `/kept${PATH}`)))
    })

    test(`${version}: a raw body kept by the host's parser has precedence`, async (t) => {
      const app = express()
      app.use(
        express.json({
          verify: (incoming: IncomingMessage, _response, bytes) => {
            Object.assign(incoming, { rawBody: bytes })
          },
        }),
      )
      app.use((incoming, _, next) => {
        incoming.body = { name: 'changed by the host' }
        next()
      })
      app.use(watched().api)
      assertCreated(await post(await listen(t, app)))
    })

    test(`${version}: a body decompressed by express.json() is still rejected because of its Content-Encoding`, async (t) => {
      const app = express()
      app.use(express.json())
      app.use(watched().api)
      const server = await listen(t, app)
      assertError(await post(server, gzipSync(BODY), 'Content-Encoding: gzip'), 415, /Content-Encoding/)
    })

    test(`${version}: a declared length over the limit is 413 even after express.json()`, async (t) => {
      const app = express()
      app.use(express.json({ limit: '1mb' }))
      app.use(watched().api)
      const server = await listen(t, app)
      assertError(await post(server, JSON.stringify({ name: 'Atlas', pad: 'x'.repeat(70_000) })), 413)
    })

    test(`${version}: the API responds to failures itself and doesn't call the host's error handler`, async (t) => {
      const app = express()
      const errors: unknown[] = []
      const store = {
        ...platform.store,
        clients: { ...platform.store.clients, admitAndList: () => Promise.reject(new Error('x')) },
      }
      app.use(platform.apiWith({}, store))
      app.use((error: unknown, _: unknown, response: express5.Response, __: unknown) => {
        errors.push(error)
        response.status(599).send('host')
      })
      const server = await listen(t, app)
      assertError(await get(server), 500, 'Internal error')
      assert.deepEqual(errors, [])
    })
  })
}
