import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, test } from 'node:test'
import { assertError, rawRequest } from '../api/_api.ts'
import { settle } from '../api/_strays.ts'
import { assertCreated, BODY, chunkedPost, get, listen, post, strays, watched } from './_adapters.ts'

describe('A body that the host has touched', () => {
  test('rawBody is used instead of the stream, whether it is bytes or a string', async (t) => {
    for (const convert of [(bytes: Buffer) => bytes, (bytes: Buffer) => new Uint8Array(bytes), String]) {
      const { api } = watched()
      const server = await listen(t, async (incoming, response) => {
        const chunks: Buffer[] = []
        for await (const chunk of incoming) chunks.push(chunk)
        Object.assign(incoming, { rawBody: convert(Buffer.concat(chunks)) })
        await api(incoming, response)
      })
      assertCreated(await post(server))
      assertError(await post(server, ''), 400, /empty/)
      assertError(await post(server, '{'), 400, /not valid JSON/)
    }
  })

  test('rawBody over the limit is 413', async (t) => {
    const { api } = watched()
    const server = await listen(t, async (incoming, response) => {
      for await (const _ of incoming);
      Object.assign(incoming, { rawBody: Buffer.alloc(65_537, ' ') })
      await api(incoming, response)
    })
    assertError(await post(server), 413)
  })

  /** Returns a host that reads the whole stream and stores the parsed body in `req.body`. */
  function parsing(parse: (bytes: Buffer) => unknown) {
    const { api } = watched()
    return async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
      const chunks: Buffer[] = []
      for await (const chunk of incoming) chunks.push(chunk)
      Object.assign(incoming, { body: parse(Buffer.concat(chunks)) })
      await api(incoming, response)
    }
  }

  test('req.body is used if the stream was read to the end', async (t) => {
    for (const body of [{ name: 'Parsed' }, Object.assign(Object.create(null), { name: 'Parsed' })]) {
      const server = await listen(
        t,
        parsing(() => body),
      )
      assertCreated(await post(server), 'Parsed')
    }
  })

  test('req.body is a raw string if it has the declared length, and otherwise a value', async (t) => {
    const text = await listen(t, parsing(String))
    assertCreated(await post(text))
    assertError(await post(text, '{'), 400, /not valid JSON/)
    assertError(await post(text, JSON.stringify(BODY)), 422, /must be a JSON object/)
    const value = await listen(
      t,
      parsing((bytes) => JSON.parse(String(bytes))),
    )
    assertCreated(await post(value))
    // A value is at least two quotes shorter than its JSON, even if all characters are escaped.
    const escaped = [...BODY].map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
    for (const json of [JSON.stringify(BODY), `"${escaped}"`, `"${'\\n'.repeat(9)}{}"`]) {
      assertError(await post(value, json), 422, /must be a JSON object/)
    }
  })

  test('req.body is ignored if the stream is unread, because Express 4 sets an empty object', async (t) => {
    const { api } = watched()
    const server = await listen(t, (incoming, response) => {
      Object.assign(incoming, { body: {} })
      void api(incoming, response)
    })
    assertCreated(await post(server))
  })

  test('A body that was consumed and lost is an immediate 500, and onError receives the remedy', async (t) => {
    const { api, failures } = watched()
    const server = await listen(t, async (incoming, response) => {
      for await (const _ of incoming);
      await api(incoming, response)
    })
    const begun = performance.now()
    assertError(await post(server), 500, 'Internal error')
    assert.ok(performance.now() - begun < 4000)
    assert.equal(failures.length, 1)
    assert.match(String(failures[0]?.error), /consumed before this handler.*req\.rawBody or req\.body/)
  })

  test('A body that the host is still reading is an immediate 500', async (t) => {
    const { api, failures } = watched()
    const server = await listen(t, (incoming, response) => {
      incoming.on('data', () => {})
      // Wait for the host's first data event.
      setImmediate(() => void api(incoming, response))
    })
    const begun = performance.now()
    assertError(await post(server), 500)
    assert.ok(performance.now() - begun < 4000)
    assert.equal(failures.length, 1)
  })

  test("An empty body read by the host isn't treated as lost, so GET still works", async (t) => {
    const { api } = watched()
    const server = await listen(t, async (incoming, response) => {
      for await (const _ of incoming);
      await api(incoming, response)
    })
    assert.equal((await get(server)).status, 200)
  })

  test('A stream with an encoding set by the host can be read', async (t) => {
    const { api } = watched({ deadlineMs: 1000 })
    const server = await listen(t, (incoming, response) => {
      incoming.setEncoding('utf8')
      void api(incoming, response)
    })
    assertCreated(await post(server))
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('The size of a stream with an encoding set by the host is measured in bytes', async (t) => {
    const { api } = watched({ maxBodyBytes: 30, deadlineMs: 1000 })
    const server = await listen(t, (incoming, response) => {
      incoming.setEncoding('utf8')
      void api(incoming, response)
    })
    const body = '{"name":"éééééééééé"}'
    assert.equal(body.length, 21)
    assert.equal(Buffer.byteLength(body), 31)
    assertError(await rawRequest(server, chunkedPost(body)), 413)
    assert.deepEqual(strays.splice(0), [], 'a host would have died of it')
  })

  test('A paused stream can be read', async (t) => {
    const { api } = watched()
    const server = await listen(t, (incoming, response) => {
      incoming.pause()
      void api(incoming, response)
    })
    assertCreated(await post(server))
  })

  test('A host can call the handler in a later turn than that of the request', async (t) => {
    const { api } = watched()
    const server = await listen(t, async (incoming, response) => {
      await settle()
      await api(incoming, response)
    })
    assertCreated(await post(server))
    assert.equal((await get(server)).status, 200)
  })
})
