import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { type AddressInfo, connect } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import express from 'express'
import {
  type ReceivedWebhook,
  type ReceiveWebhookOptions,
  receiveWebhook,
  signWebhook,
} from '../../lib/webhooks.ts'

const express4 = createRequire(import.meta.url)('express4') as typeof express

const SECRET = 'whsec_current'
const BODY = JSON.stringify({
  id: 'evt_1',
  type: 'invoice.paid',
  createdAt: '2026-03-14T09:26:53.589Z',
  data: { invoiceId: 'inv_1', number: 'F-2026-é 🏺' },
})

interface Outcome {
  readonly received?: ReceivedWebhook
  readonly error?: Error & { readonly code?: string; readonly status?: number }
}

function outcomeOf(receiving: Promise<ReceivedWebhook>): Promise<Outcome> {
  return receiving.then(
    (received) => ({ received }),
    (error) => ({ error }),
  )
}

interface Subscriber {
  readonly url: string
  readonly port: number
  /** The outcomes of all requests in the order in which they were completed. */
  readonly outcomes: Outcome[]
}

/** Starts a subscriber that responds with the status from `receiveWebhook`. */
async function subscribe(
  t: TestContext,
  options: Partial<ReceiveWebhookOptions> = {},
  mount: (listener: RequestListener) => RequestListener = (listener) => listener,
): Promise<Subscriber> {
  const outcomes: Outcome[] = []
  const server = createServer(
    mount((request, response) => {
      void outcomeOf(receiveWebhook(request, { secret: SECRET, ...options })).then((outcome) => {
        outcomes.push(outcome)
        response.writeHead(outcome.error ? (outcome.error.status ?? 500) : 204).end()
      })
    }),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/hooks`, port, outcomes }
}

function post(url: string, body: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-SERVICE-Signature': signWebhook(body, SECRET),
      ...headers,
    },
    body,
  })
}

describe('receiveWebhook() on node:http', () => {
  test('returns the typed event and the time of the attempt', async (t) => {
    const { url, outcomes } = await subscribe(t)
    assert.equal((await post(url, BODY)).status, 204)
    const { received } = outcomes[0] ?? {}
    assert.deepEqual(received?.event, JSON.parse(BODY))
    assert.equal(received?.isRepeat, false)
    assert.ok(Math.abs((received?.timestamp ?? 0) - Date.now() / 1000) < 60)
    const { event } = received ?? {}
    assert.equal(event?.type === 'invoice.paid' && event.data.number, 'F-2026-é 🏺')
  })

  test('only calls isSeen for signed events', async (t) => {
    const asked: string[] = []
    const isSeen = async (id: string): Promise<boolean> => asked.push(id) > 1
    const { url, outcomes } = await subscribe(t, { isSeen })
    await post(url, BODY, { 'X-SERVICE-Signature': signWebhook(BODY, 'whsec_other') })
    await post(url, BODY)
    await post(url, BODY)
    assert.deepEqual(asked, ['evt_1', 'evt_1'])
    assert.deepEqual(
      outcomes.map(({ received }) => received?.isRepeat),
      [undefined, false, true],
    )
  })

  test('fails if isSeen does, so that the webhook is sent again', async (t) => {
    const isSeen = (): Promise<boolean> => Promise.reject(new Error('The table is away'))
    const { url } = await subscribe(t, { isSeen })
    assert.equal((await post(url, BODY)).status, 500)
  })

  for (const [name, body, signature, code, status] of [
    ['without a signature', BODY, '', 'signature_missing', 400],
    ['with another secret', BODY, signWebhook(BODY, 'whsec_other'), 'signature_mismatch', 400],
    ['of another body', `${BODY} `, signWebhook(BODY, SECRET), 'signature_mismatch', 400],
    ['signed an hour ago', BODY, signWebhook(BODY, SECRET, 1), 'signature_expired', 400],
    ['signed and not JSON', 'no', signWebhook('no', SECRET), 'webhook_malformed', 400],
    ['signed and null', 'null', signWebhook('null', SECRET), 'webhook_malformed', 400],
    ['signed and no event', '{"id":1}', signWebhook('{"id":1}', SECRET), 'webhook_malformed', 400],
  ] as const) {
    test(`rejects a request ${name} with ${status} ${code}`, async (t) => {
      const { url, outcomes } = await subscribe(t)
      assert.equal((await post(url, body, { 'X-SERVICE-Signature': signature })).status, status)
      assert.equal(outcomes[0]?.error?.code, code)
    })
  }

  test('rejects a body that is one byte too large with 413', async (t) => {
    const { url, outcomes } = await subscribe(t, { maxBodyBytes: Buffer.byteLength(BODY) })
    assert.equal((await post(url, BODY)).status, 204)
    assert.equal((await post(url, `${BODY} `)).status, 413)
    assert.equal(outcomes[1]?.error?.code, 'webhook_too_large')
  })

  test('rejects methods other than POST with 405', async (t) => {
    const { url, outcomes } = await subscribe(t)
    assert.equal((await fetch(url)).status, 405)
    assert.equal(outcomes[0]?.error?.code, 'webhook_method')
  })

  test('rejects a body that ends early without waiting for the rest', async (t) => {
    const { port, outcomes } = await subscribe(t)
    const socket = connect(port, '127.0.0.1')
    socket.write('POST /hooks HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"id"')
    setTimeout(() => socket.destroy(), 50)
    while (outcomes.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    assert.equal(outcomes[0]?.error?.code, 'webhook_malformed')
  })

  test('accepts both secrets during a rotation, and headers with another prefix', async (t) => {
    const { url } = await subscribe(t, { secret: ['whsec_new', SECRET], headerPrefix: 'X-Acme' })
    for (const secret of ['whsec_new', SECRET]) {
      const answer = await post(url, BODY, { 'X-Acme-Signature': signWebhook(BODY, secret) })
      assert.equal(answer.status, 204)
    }
    assert.equal((await post(url, BODY)).status, 400)
  })
})

describe('receiveWebhook() after a body parser', () => {
  for (const [version, framework] of [
    [4, express4],
    [5, express],
  ] as const) {
    const behind =
      (parser: express.RequestHandler) =>
      (listener: RequestListener): RequestListener =>
        framework().use(parser, (request, response) => listener(request, response))

    test(`Express ${version}: uses the bytes kept by express.raw()`, async (t) => {
      const { url, outcomes } = await subscribe(t, {}, behind(framework.raw({ type: '*/*' })))
      assert.equal((await post(url, BODY)).status, 204)
      assert.equal(outcomes[0]?.received?.event.id, 'evt_1')
    })

    test(`Express ${version}: uses req.rawBody`, async (t) => {
      const keep = (request: IncomingMessage, _: unknown, bytes: Buffer): void => {
        Object.assign(request, { rawBody: bytes })
      }
      const { url } = await subscribe(t, {}, behind(framework.json({ verify: keep })))
      assert.equal((await post(url, BODY)).status, 204)
    })

    test(`Express ${version}: kept bytes over maxBodyBytes are 413`, async (t) => {
      const keep = (request: IncomingMessage, _: unknown, bytes: Buffer): void => {
        Object.assign(request, { rawBody: version === 4 ? bytes : bytes.toString() })
      }
      const maxBodyBytes = Buffer.byteLength(BODY) - 1
      for (const parser of [
        framework.json({ verify: keep }),
        framework.raw({ type: '*/*' }),
        framework.text({ type: '*/*' }),
      ]) {
        const { url, outcomes } = await subscribe(t, { maxBodyBytes }, behind(parser))
        assert.equal((await post(url, BODY)).status, 413)
        assert.equal(outcomes[0]?.error?.code, 'webhook_too_large')
      }
    })

    test(`Express ${version}: suggests a remedy for express.json()`, async (t) => {
      const { url, outcomes } = await subscribe(t, {}, behind(framework.json()))
      assert.equal((await post(url, BODY)).status, 500)
      assert.match(outcomes[0]?.error?.message ?? '', /a body parser has read its body.*express\.raw/)
    })
  }
})

describe('receiveWebhook() with fetch', () => {
  function requestOf(body: string, signature = signWebhook(body, SECRET)): Request {
    return new Request('https://subscriber.example/hooks', {
      method: 'POST',
      headers: { 'X-SERVICE-Signature': signature },
      body,
    })
  }

  test('returns the event of a Request', async () => {
    const { event } = await receiveWebhook(requestOf(BODY), { secret: SECRET })
    assert.equal(event.id, 'evt_1')
  })

  test('rejects the same requests as on node:http', async () => {
    const large = await outcomeOf(receiveWebhook(requestOf(BODY), { secret: SECRET, maxBodyBytes: 10 }))
    assert.deepEqual([large.error?.code, large.error?.status], ['webhook_too_large', 413])
    const unsigned = await outcomeOf(receiveWebhook(requestOf(BODY, 't=1,v1=00'), { secret: SECRET }))
    assert.deepEqual([unsigned.error?.code, unsigned.error?.status], ['signature_mismatch', 400])
    const read = requestOf(BODY)
    await read.text()
    const consumed = await outcomeOf(receiveWebhook(read, { secret: SECRET }))
    assert.ok(consumed.error instanceof TypeError)
    // Not in the words of the API's handler, which the subscriber doesn't have.
    assert.match(consumed.error.message, /^Cannot verify the webhook because a body parser has read its body/)
  })

  test('no error contains the secret', async () => {
    for (const options of [{ secret: '' }, { secret: [] }, { secret: SECRET, maxBodyBytes: -1 }]) {
      const { error } = await outcomeOf(receiveWebhook(requestOf(BODY), options))
      assert.ok(error instanceof TypeError || error instanceof RangeError)
      assert.ok(!error.message.includes(SECRET))
    }
  })
})
