import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertError, assertFields, rawHead, rawRequest, recordOf, request } from '../api/_api.ts'
import {
  api,
  BODY,
  bodyOf,
  chunk,
  key,
  LAST_CHUNK,
  MAX,
  PATH,
  platform,
  post,
  postHead,
  rawPost,
  server,
} from './_bodies.ts'

describe('Content-Type', () => {
  for (const contentType of [
    'application/json',
    'APPLICATION/JSON',
    'application/json;',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json; Charset="UTF-8"',
    'application/json ; charset=utf-8 ; profile=x',
    'application/json; profile="https://x.example/y"',
  ]) {
    test(`POST /clients accepts Content-Type ${contentType}`, async () => {
      assert.equal((await post(BODY, { 'Content-Type': contentType })).status, 200)
    })
  }

  for (const contentType of [
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/vnd.api+json',
    'application/jsonx',
    'application',
    'application/json, application/json',
    '*/*',
    'json',
    '',
  ]) {
    test(`POST /clients responds with 415 to Content-Type "${contentType}"`, async () => {
      assertError(await post(BODY, { 'Content-Type': contentType }), 415, /Content-Type/)
    })
  }

  for (const charset of ['latin1', 'iso-8859-1', 'utf-16', 'utf8', 'us-ascii', '"utf-16"', '']) {
    test(`POST /clients responds with 415 to the charset ${charset || '(empty)'}`, async () => {
      const answer = await post(BODY, { 'Content-Type': `application/json; charset=${charset}` })
      assertError(answer, 415, /UTF-8/)
    })
  }

  test('POST /clients responds with 415 to a body without a Content-Type', async () => {
    const head = rawHead(`POST ${PATH}`, `Authorization: Bearer ${key}`, `Content-Length: ${BODY.length}`)
    assertError(await rawRequest(server, head + BODY), 415, /Content-Type/)
  })

  test('POST /clients responds with 415 to two Content-Type headers', async () => {
    assertError(await rawRequest(server, rawPost(BODY, 'Content-Type: text/plain')), 415)
    assertError(await rawRequest(server, rawPost(BODY, 'Content-Type: application/json')), 415)
  })

  for (const encoding of ['gzip', 'br', 'deflate', 'identity', 'x']) {
    test(`POST /clients responds with 415 to Content-Encoding ${encoding}`, async () => {
      assertError(await post(BODY, { 'Content-Encoding': encoding }), 415, /Content-Encoding/)
    })
  }

  // RFC 9112, section 6.1 is about codings that a server doesn't understand. Node rejects codings that don't
  // end in "chunked".
  for (const [coding, status] of [
    ['gzip, chunked', 501],
    ['GZIP, Chunked', 501],
    ['identity, chunked', 501],
    [', chunked', 501],
    ['gzip', 400],
    ['identity', 400],
    ['chunked, gzip', 400],
    ['chunked, chunked', 400],
    ['xchunked', 400],
  ] as const) {
    test(`POST /clients responds with ${status} to Transfer-Encoding "${coding}"`, async () => {
      const answer = await rawRequest(
        server,
        postHead(`Transfer-Encoding: ${coding}`) + chunk(BODY) + LAST_CHUNK,
      )
      if (status === 501) assertError(answer, 501, /Transfer-Encoding/)
      else assert.equal(answer.status, status)
    })
  }

  test('POST /clients responds with 501 to a transfer coding in a separate header, and the connection stays usable', async () => {
    const connection = await server.connect()
    const head = postHead('Transfer-Encoding: gzip', 'Transfer-Encoding: chunked')
    connection.send(head + chunk(BODY) + LAST_CHUNK)
    assertError(await connection.answer(), 501)
    connection.send(rawPost(BODY))
    assert.equal((await connection.answer()).status, 200)
    connection.socket.destroy()
  })

  test('POST /clients accepts Transfer-Encoding in any case', async () => {
    const answer = await rawRequest(server, postHead('Transfer-Encoding: CHUNKED') + chunk(BODY) + LAST_CHUNK)
    assert.equal(answer.status, 200)
  })

  test("GET /clients doesn't need a Content-Type and ignores it", async () => {
    const headers = { 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip', Accept: 'text/html' }
    assert.equal((await request(api, PATH, { key, headers })).status, 200)
  })
})

describe("A body that isn't JSON", () => {
  const malformed: [what: string, body: string | Uint8Array][] = [
    ['an empty body', ''],
    ['white space', ' \r\n\t'],
    ['half an object', '{"name":"Atlas"'],
    ['something after the object', '{"name":"Atlas"}x'],
    ['two objects', '{"name":"Atlas"}{"name":"Atlas"}'],
    ['single quotes', "{'name':'Atlas'}"],
    ['a trailing comma', '{"name":"Atlas",}'],
    ['a comment', '{"name":"Atlas"/**/}'],
    ['a word', 'undefined'],
    ['NaN', '{"name":NaN}'],
    ['a form', 'name=Atlas'],
    ['a raw line feed in a string', '{"name":"At\nlas"}'],
    ['a raw NUL in a string', '{"name":"At\0las"}'],
    ['a NUL after the object', '{"name":"Atlas"}\0'],
    ['an incomplete escape', '{"name":"At\\u00"}'],
    ['invalid UTF-8', Buffer.concat([Buffer.from('{"name":"At'), Buffer.of(0xff), Buffer.from('las"}')])],
    [
      'a surrogate in UTF-8',
      Buffer.from('{"name":"At\u0001las"}'.replace('\u0001', '\xed\xa0\x80'), 'latin1'),
    ],
    ['an overlong slash in UTF-8', Buffer.from('{"name":"At\xc0\xaflas"}', 'latin1')],
    ['a character cut in two', Buffer.from('{"name":"Atlas é').subarray(0, -1)],
    ['Latin-1', Buffer.from('{"name":"Caf\xe9"}', 'latin1')],
    ['UTF-16', Buffer.from('\ufeff{"name":"Atlas"}', 'utf16le')],
    ['gzip', Buffer.from('1f8b0800000000000003', 'hex')],
  ]
  for (const [what, body] of malformed) {
    test(`POST /clients responds with 400 to ${what}`, async () => {
      assertError(await post(body), 400, /^Request body is /)
    })
  }

  test('POST /clients responds with 400 to a missing body', async () => {
    assertError(await rawRequest(server, postHead('Content-Length: 0')), 400, /empty/)
    assertError(await rawRequest(server, postHead()), 400, /empty/)
    assertError(await rawRequest(server, postHead('Transfer-Encoding: chunked') + LAST_CHUNK), 400, /empty/)
  })

  test('POST /clients ignores a byte order mark (RFC 8259, section 8.1, permits it)', async () => {
    assert.equal((await post(`\ufeff${BODY}`)).status, 200)
  })

  test('POST /clients ignores white space around the object', async () => {
    assert.equal((await post(`\r\n\t ${BODY} \n`)).status, 200)
  })

  test('POST /clients can read characters that arrive in pieces', async () => {
    const connection = await server.connect()
    const bytes = Buffer.from('{"name":"株式会社🏺"}')
    connection.send(postHead(`Content-Length: ${bytes.length}`))
    connection.socket.setNoDelay(true)
    for (const byte of bytes) {
      connection.send(Uint8Array.of(byte))
      await new Promise(setImmediate)
    }
    const { business } = recordOf(await connection.answer())
    assertFields(business)
    assert.equal(business.name, '株式会社🏺')
    connection.socket.destroy()
  })
})

describe('The size of a body', () => {
  test('POST /clients accepts exactly 65536 bytes', async () => {
    const body = bodyOf(MAX)
    assert.equal(Buffer.byteLength(body), MAX)
    assert.equal((await post(body)).status, 200)
    assert.equal((await rawRequest(server, rawPost(body))).status, 200)
    const chunked = postHead('Transfer-Encoding: chunked') + chunk(body) + LAST_CHUNK
    assert.equal((await rawRequest(server, chunked)).status, 200)
  })

  test('POST /clients responds with 413 to 65537 bytes', async () => {
    assertError(await post(bodyOf(MAX + 1)), 413, /65536/)
  })

  test('POST /clients responds with 413 based on Content-Length before receiving the body', async () => {
    const connection = await server.connect()
    connection.send(postHead(`Content-Length: ${MAX + 1}`))
    assertError(await connection.answer(), 413, /65536/)
    connection.socket.destroy()
  })

  test('POST /clients responds with 413 while still receiving a chunked body', async () => {
    const connection = await server.connect()
    connection.send(postHead('Transfer-Encoding: chunked') + chunk(bodyOf(MAX + 1)))
    assertError(await connection.answer(), 413, /65536/)
    connection.socket.destroy()
  })

  test('POST /clients counts bytes, not characters', async () => {
    const body = bodyOf(MAX - 1).replace('"x', '"é')
    assert.equal(Buffer.byteLength(body), MAX)
    assert.equal((await post(body)).status, 200)
    assertError(await post(body.replace('"é', '"éé')), 413)
  })

  test('maxBodyBytes changes the limit', async () => {
    const small = platform.apiWith({ maxBodyBytes: BODY.length })
    assert.equal((await request(small, PATH, { key, body: BODY })).status, 200)
    const text = assertError(await request(small, PATH, { key, body: `${BODY} ` }), 413)
    assert.match(text, new RegExp(` ${BODY.length} bytes`))
  })
})
