import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { receiveWebhook, verifyWebhook, WebhookError } from '../../lib/client.ts'
import * as synchronous from '../../lib/webhooks.ts'

const SECRET = 'whsec_current'
const NOW = 1_773_480_413
const BODY = '{"id":"evt_1","type":"client.created","data":{"text":"é 🏺"}}'
const clock = () => NOW * 1000
const signed = (secrets: string | string[] = SECRET, body: string | Uint8Array = BODY, at = NOW) =>
  synchronous.signWebhook(body, secrets, at)

/** Returns the result of a verification, or the name, message and code of its error. */
async function outcomeOf(verify: () => unknown): Promise<unknown> {
  try {
    return await verify()
  } catch (error) {
    assert.ok(error instanceof Error)
    return [error.name, error.message, error instanceof WebhookError ? [error.code, error.status] : null]
  }
}

const flip = (header: string): string => header.slice(0, -1) + (header.endsWith('0') ? '1' : '0')
const cases: Readonly<Record<string, Parameters<typeof verifyWebhook>>> = {
  'a right signature': [BODY, signed(), SECRET],
  bytes: [new TextEncoder().encode(BODY), signed(), SECRET],
  'bytes that are no UTF-8': [Uint8Array.of(0xff, 0), signed(SECRET, Uint8Array.of(0xff, 0)), SECRET],
  'an empty body': ['', signed(SECRET, ''), SECRET],
  'upper-case digits': [BODY, signed().replace(/v1=.*/, (hex) => `v1=${hex.slice(3).toUpperCase()}`), SECRET],
  'the previous secret': [BODY, signed(['whsec_next', SECRET]), SECRET],
  'either of two secrets': [BODY, signed(), ['whsec_other', SECRET]],
  'another secret': [BODY, signed(), 'whsec_other'],
  'another body': [`${BODY} `, signed(), SECRET],
  'a changed last digit': [BODY, flip(signed()), SECRET],
  'a signature cut short': [BODY, signed().slice(0, -1), SECRET],
  'a signature too long': [BODY, `${signed()}0`, SECRET],
  'another time': [BODY, signed().replace(String(NOW), String(NOW + 1)), SECRET],
  'the last second': [BODY, signed(SECRET, BODY, NOW - 300), SECRET],
  'a second too late': [BODY, signed(SECRET, BODY, NOW - 301), SECRET],
  'a second too early': [BODY, signed(SECRET, BODY, NOW + 301), SECRET],
  'no header': [BODY, null, SECRET],
  'an empty header': [BODY, '', SECRET],
  'two headers': [BODY, [signed(), signed()], SECRET],
  'two times': [BODY, `t=1,${signed()}`, SECRET],
  'no v1': [BODY, `t=${NOW}`, SECRET],
  'an empty v1': [BODY, `t=${NOW},v1=`, SECRET],
  'no secret': [BODY, signed(), []],
  'an empty secret': [BODY, signed(), ''],
  'a parsed body': [{} as string, signed(), SECRET],
}

describe('verifyWebhook() on Web Crypto', () => {
  for (const [name, args] of Object.entries(cases)) {
    test(`verifyWebhook() on Web Crypto handles ${name} like the synchronous verifyWebhook()`, async () => {
      const [body, header, secrets] = args
      const expected = await outcomeOf(() => synchronous.verifyWebhook(body, header, secrets, { clock }))
      assert.deepEqual(await outcomeOf(() => verifyWebhook(body, header, secrets, { clock })), expected)
    })
  }

  test('the cases include valid and invalid signatures', async () => {
    const outcomes = await Promise.all(
      Object.values(cases).map(([body, header, secrets]) =>
        outcomeOf(() => verifyWebhook(body, header, secrets, { clock })),
      ),
    )
    assert.equal(outcomes.filter((outcome) => !Array.isArray(outcome)).length, 8)
  })
})

describe('receiveWebhook() on Web Crypto', () => {
  const post = (body: string | ReadableStream | null, header = signed(), init: RequestInit = {}) =>
    new Request('https://edge.example/hook', {
      method: 'POST',
      body,
      headers: { 'X-SERVICE-Signature': header },
      ...init,
    })
  const receive = (request: Request, options = {}) =>
    receiveWebhook(request, { secret: SECRET, clock, ...options })

  test('receiveWebhook() on Web Crypto returns the event and asks to repeat if it fails', async () => {
    const isSeen = async (id: string) => id === 'evt_1'
    const { event, ...rest } = await receive(post(BODY), { isSeen })
    assert.deepEqual(event, JSON.parse(BODY))
    assert.deepEqual(rest, { timestamp: NOW, isRepeat: true })
    assert.equal((await receive(post(BODY))).isRepeat, false)
  })

  test('receiveWebhook() on Web Crypto supports another header prefix', async () => {
    const request = post(BODY, '', { headers: { 'acme-signature': signed() } })
    assert.equal((await receive(request, { headerPrefix: 'Acme' })).event.id, 'evt_1')
  })

  const stream = (chunk: () => Uint8Array | null) =>
    new ReadableStream({
      pull(controller) {
        const next = chunk()
        if (next) controller.enqueue(next)
        else controller.error(new Error('cut'))
      },
    })
  const half = (body: ReadableStream) => post(body, signed(), { duplex: 'half' } as RequestInit)
  const refusals: Readonly<Record<string, [() => Request, code: string, status: number]>> = {
    'a GET': [() => new Request('https://edge.example/hook'), 'webhook_method', 405],
    'no body': [() => post(null), 'signature_mismatch', 400],
    'a body over the limit': [() => post('x'.repeat(2000)), 'webhook_too_large', 413],
    'a body without end': [() => half(stream(() => new Uint8Array(100))), 'webhook_too_large', 413],
    'a body that was cut': [() => half(stream(() => null)), 'webhook_malformed', 400],
    'a signed body that is no event': [() => post('null', signed(SECRET, 'null')), 'webhook_malformed', 400],
    'a signed body with a byte order mark': [
      () => post(`\uFEFF${BODY}`, signed(SECRET, `\uFEFF${BODY}`)),
      'webhook_malformed',
      400,
    ],
    'no signature': [() => post(BODY, ''), 'signature_missing', 400],
  }
  for (const [name, [request, code, status]] of Object.entries(refusals)) {
    test(`receiveWebhook() on Web Crypto rejects ${name} with ${status}`, async () => {
      await assert.rejects(receive(request(), { maxBodyBytes: 1000 }), { name: 'WebhookError', code, status })
    })
  }

  test('receiveWebhook() on Web Crypto explains that a body was already read', async () => {
    const request = post(BODY)
    await request.text()
    await assert.rejects(receive(request), TypeError)
  })
})
