import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import Stripe from 'stripe'
import { verifyWebhook as verifyOnWebCrypto } from '../../lib/client.ts'
import {
  SIGNATURE_EXPIRED,
  SIGNATURE_MALFORMED,
  SIGNATURE_MISMATCH,
  SIGNATURE_MISSING,
  signWebhook,
  verifyWebhook,
  WebhookError,
  type WebhookErrorCode,
} from '../../lib/webhooks.ts'

const SENT_AT = 1_773_480_413
const CURRENT = 'whsec_current'
const PREVIOUS = 'whsec_previous'
const BODY = '{"id":"evt_1","text":"é 🏺"}'

// Created with `openssl dgst -sha256 -hmac <secret>` over `1773480413.` and the body.
const CURRENT_HEX = '1e5e849f78c253a9ef7f32eb534b7f4f6e45d62fe9859d4c789762f7eeacca2e'
const PREVIOUS_HEX = '3f83f44dce70ccdb64039f15ccb2589a39e6263a52e0c594edfeee0fe1f2b955'

const atSending = { clock: () => SENT_AT * 1000 }

/** Returns the code of the error after asserting that its message contains neither a secret nor a signature. */
function refusalOf(...args: Parameters<typeof verifyWebhook>): WebhookErrorCode {
  try {
    verifyWebhook(...args)
  } catch (error) {
    assert.ok(error instanceof WebhookError, inspect(error))
    assert.match(error.message, /^Cannot accept the webhook because /)
    assert.doesNotMatch(inspect(error), /whsec_/)
    assert.doesNotMatch(inspect(error), /[0-9a-f]{64}/i)
    return error.code
  }
  assert.fail('accepted')
}

/** Allows values that the compiler would reject, which JavaScript hosts could pass. */
function untyped<T>(value: unknown): T {
  return value as T
}

describe('signWebhook()', () => {
  test('signWebhook() returns t and the HMAC-SHA256 of `<t>.<body>` in lowercase hex without spaces', () => {
    assert.equal(signWebhook(BODY, CURRENT, SENT_AT), `t=${SENT_AT},v1=${CURRENT_HEX}`)
  })

  test('signWebhook() adds a second v1 during a rotation, the current secret first', () => {
    const header = signWebhook(BODY, [CURRENT, PREVIOUS], SENT_AT)
    assert.equal(header, `t=${SENT_AT},v1=${CURRENT_HEX},v1=${PREVIOUS_HEX}`)
  })

  test('signWebhook() treats strings as UTF-8 and bytes as they are', () => {
    const bytes = new TextEncoder().encode(BODY)
    assert.equal(signWebhook(bytes, CURRENT, SENT_AT), signWebhook(BODY, CURRENT, SENT_AT))
    const invalidUtf8 = Uint8Array.of(0xff, 0x00, 0xfe)
    const asText = new TextDecoder().decode(invalidUtf8)
    assert.notEqual(signWebhook(invalidUtf8, CURRENT, SENT_AT), signWebhook(asText, CURRENT, SENT_AT))
  })

  test('signWebhook() uses the whole secret including its prefix', () => {
    const prefixed = signWebhook(BODY, CURRENT, SENT_AT)
    assert.notEqual(prefixed, signWebhook(BODY, CURRENT.replace('whsec_', ''), SENT_AT))
    assert.notEqual(prefixed, signWebhook(BODY, `${CURRENT}\n`, SENT_AT))
  })

  test('signWebhook() signs for the current time in whole seconds unless one is passed', () => {
    const before = Math.floor(Date.now() / 1000)
    const { timestamp } = verifyWebhook(BODY, signWebhook(BODY, CURRENT), CURRENT)
    assert.ok(timestamp >= before && timestamp <= Date.now() / 1000)
  })

  test("signWebhook() throws RangeError if the time isn't in whole Unix seconds", () => {
    for (const timestamp of [1.5, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      assert.throws(() => signWebhook(BODY, CURRENT, timestamp), RangeError)
    }
  })
})

describe('verifyWebhook()', () => {
  test('verifyWebhook() accepts a signature of signWebhook() and returns when it was signed', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    assert.deepEqual(verifyWebhook(BODY, header, CURRENT, atSending), { timestamp: SENT_AT })
    assert.deepEqual(verifyWebhook(Buffer.from(BODY), [header], [CURRENT], atSending), { timestamp: SENT_AT })
  })

  test('verifyWebhook() accepts a signature by either secret during a rotation, and either secret', () => {
    const both = signWebhook(BODY, [CURRENT, PREVIOUS], SENT_AT)
    for (const secrets of [CURRENT, PREVIOUS, ['whsec_other', PREVIOUS]]) {
      verifyWebhook(BODY, both, secrets, atSending)
    }
    const previousOnly = signWebhook(BODY, PREVIOUS, SENT_AT)
    verifyWebhook(BODY, previousOnly, [CURRENT, PREVIOUS], atSending)
    assert.equal(refusalOf(BODY, previousOnly, CURRENT, atSending), SIGNATURE_MISMATCH)
  })

  test('verifyWebhook() tries every v1 at any position and ignores other schemes', () => {
    const wrong = 'f'.repeat(64)
    const accepted = [
      `t=${SENT_AT},v1=${wrong},v1=${CURRENT_HEX}`,
      `t=${SENT_AT},v1=${CURRENT_HEX},v1=${wrong}`,
      `v1=${CURRENT_HEX},t=${SENT_AT}`,
      `t=${SENT_AT},v0=${wrong},v1=${CURRENT_HEX},v2=a=b,x,=,`,
      `t=${SENT_AT},v1=,v1=short,v1=${CURRENT_HEX}`,
    ]
    for (const header of accepted) verifyWebhook(BODY, header, CURRENT, atSending)
    for (const scheme of ['v0', 'v2', 'v11', 'V1']) {
      const header = `t=${SENT_AT},v1=${wrong},${scheme}=${CURRENT_HEX}`
      assert.equal(refusalOf(BODY, header, CURRENT, atSending), SIGNATURE_MISMATCH, scheme)
    }
  })

  test("verifyWebhook() compares decoded hex, so the case of digits doesn't matter", () => {
    verifyWebhook(BODY, `t=${SENT_AT},v1=${CURRENT_HEX.toUpperCase()}`, CURRENT, atSending)
  })

  test('verifyWebhook() rejects a signature of another length or with other characters as a mismatch', () => {
    const values = [
      '',
      CURRENT_HEX.slice(2),
      CURRENT_HEX.slice(1),
      `${CURRENT_HEX}00`,
      `${CURRENT_HEX}zz`,
      `${CURRENT_HEX.slice(0, -1)}g`,
      'é'.repeat(32),
      Buffer.from(CURRENT_HEX, 'hex').toString('base64'),
    ]
    for (const value of values) {
      assert.equal(refusalOf(BODY, `t=${SENT_AT},v1=${value}`, CURRENT, atSending), SIGNATURE_MISMATCH, value)
    }
  })

  test('verifyWebhook() rejects another body, t or secret as a mismatch', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    for (const body of ['', `${BODY} `, BODY.replace('1', '2'), JSON.stringify(JSON.parse(BODY), null, 2)]) {
      assert.equal(refusalOf(body, header, CURRENT, atSending), SIGNATURE_MISMATCH, body)
    }
    const moved = header.replace(`${SENT_AT}`, `${SENT_AT + 1}`)
    assert.equal(refusalOf(BODY, moved, CURRENT, atSending), SIGNATURE_MISMATCH)
    const padded = header.replace('t=', 't=0')
    assert.equal(refusalOf(BODY, padded, CURRENT, atSending), SIGNATURE_MISMATCH)
    assert.equal(refusalOf(BODY, header, 'whsec_other', atSending), SIGNATURE_MISMATCH)
  })

  test('verifyWebhook() hints at mistakes in copying the secret, only after a mismatch and without showing it', async () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    const cases: readonly [secrets: string | string[], hint: RegExp | null][] = [
      [`${CURRENT}\n`, /; the secret contains white space or invisible characters$/],
      [` ${CURRENT}`, /; the secret contains white space or invisible characters$/],
      [`whsec_\u200bcurrent`, /; the secret contains white space or invisible characters$/],
      [`"${CURRENT}"`, /; the secret is in quotes$/],
      [`'${CURRENT}' `, /; the secret contains white space or invisible characters, is in quotes$/],
      [`\u201c${CURRENT}\u201d`, /; the secret is in quotes$/],
      ['current', /; the secret does not begin with whsec_$/],
      ['"current"', /; the secret is in quotes, does not begin with whsec_$/],
      [['whsec_other', 'current'], /signing; secret 2 of 2 does not begin with whsec_$/],
      ['whsec_other', /after signing$/],
    ]
    for (const [secrets, hint] of cases) {
      const verifiers = [verifyWebhook, verifyOnWebCrypto]
      for (const verify of verifiers) {
        const error = await Promise.resolve()
          .then(() => verify(BODY, header, secrets, atSending))
          .then(
            () => assert.fail('accepted'),
            (reason: unknown) => reason,
          )
        assert.ok(error instanceof WebhookError && error.code === SIGNATURE_MISMATCH, inspect(error))
        assert.match(error.message, hint ?? /./)
        assert.doesNotMatch(error.message, /current|other/)
      }
      // It's taken literally, so the same secret verifies what it has signed.
      verifyWebhook(BODY, signWebhook(BODY, secrets, SENT_AT), secrets, atSending)
    }
  })

  test('verifyWebhook() compares up to sixteen v1, however many are sent', async () => {
    const right = `v1=${CURRENT_HEX}`
    const wrong = (count: number): string => `v1=${'0'.repeat(64)},`.repeat(count)
    verifyWebhook(BODY, `t=${SENT_AT},${wrong(15)}${right}`, CURRENT, atSending)
    for (const count of [16, 200_000]) {
      const header = `t=${SENT_AT},${wrong(count)}${right}`
      assert.equal(refusalOf(BODY, header, CURRENT, atSending), SIGNATURE_MISMATCH)
      await assert.rejects(verifyOnWebCrypto(BODY, header, CURRENT, atSending), { code: SIGNATURE_MISMATCH })
    }
  })

  test('verifyWebhook() says if there is no header', () => {
    for (const header of [undefined, null, '', [], ['']]) {
      assert.equal(refusalOf(BODY, header, CURRENT, atSending), SIGNATURE_MISSING)
    }
  })

  test('verifyWebhook() throws a TypeError for all headers in place of the value of one', async () => {
    const all = { 'x-service-signature': signWebhook(BODY, CURRENT) }
    for (const header of [all, new Headers(all), new Map(Object.entries(all)), 5, [5], [[all]]]) {
      const error = { name: 'TypeError', message: /the signature header is not a string: pass its value$/ }
      assert.throws(() => verifyWebhook(BODY, untyped(header), CURRENT), error)
      await assert.rejects(verifyOnWebCrypto(BODY, untyped(header), CURRENT), error)
    }
  })

  test('verifyWebhook() treats a header as malformed without a single numeric t and at least one v1', () => {
    const malformed = [
      'secret',
      `v1=${CURRENT_HEX}`,
      `t=${SENT_AT}`,
      `t=${SENT_AT},v0=${CURRENT_HEX}`,
      `t=,v1=${CURRENT_HEX}`,
      `t=-${SENT_AT},v1=${CURRENT_HEX}`,
      `t=+${SENT_AT},v1=${CURRENT_HEX}`,
      `t=${SENT_AT}.0,v1=${CURRENT_HEX}`,
      `t=1e9,v1=${CURRENT_HEX}`,
      `t=0x5f,v1=${CURRENT_HEX}`,
      `t=${SENT_AT} 0,v1=${CURRENT_HEX}`,
      `t= ${SENT_AT},v1=${CURRENT_HEX}`,
      `t=${SENT_AT}\n0,v1=${CURRENT_HEX}`,
      `t=١٢٣,v1=${CURRENT_HEX}`,
      `T=${SENT_AT},v1=${CURRENT_HEX}`,
      `t=${SENT_AT}=1,v1=${CURRENT_HEX}`,
      `t=${SENT_AT},t=${SENT_AT},v1=${CURRENT_HEX}`,
    ]
    for (const header of malformed) {
      assert.equal(refusalOf(BODY, header, CURRENT, atSending), SIGNATURE_MALFORMED, header)
    }
  })

  test('verifyWebhook() treats a repeated header as malformed, both as a list and as joined by Node.js', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    assert.equal(refusalOf(BODY, [header, header], CURRENT, atSending), SIGNATURE_MALFORMED)
    assert.equal(refusalOf(BODY, `${header}, ${header}`, CURRENT, atSending), SIGNATURE_MALFORMED)
  })

  for (const direction of [1, -1]) {
    const where = direction > 0 ? 'after' : 'before'
    test(`verifyWebhook() accepts 300 seconds ${where} t and rejects 301`, () => {
      const header = signWebhook(BODY, CURRENT, SENT_AT)
      const at = (seconds: number) => ({ clock: () => (SENT_AT + direction * seconds) * 1000 })
      for (const seconds of [0, 1, 299, 300]) verifyWebhook(BODY, header, CURRENT, at(seconds))
      for (const seconds of [301, 302, 3600, SENT_AT]) {
        assert.equal(refusalOf(BODY, header, CURRENT, at(seconds)), SIGNATURE_EXPIRED)
      }
    })
  }

  test('verifyWebhook() compares whole seconds and ignores the fraction of the clock', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    const at = (ms: number) => ({ clock: () => SENT_AT * 1000 + ms })
    verifyWebhook(BODY, header, CURRENT, at(300_999))
    assert.equal(refusalOf(BODY, header, CURRENT, at(301_000)), SIGNATURE_EXPIRED)
    verifyWebhook(BODY, header, CURRENT, at(-300_000))
    assert.equal(refusalOf(BODY, header, CURRENT, at(-300_001)), SIGNATURE_EXPIRED)
  })

  test('verifyWebhook() accepts another tolerance, down to 0', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    const clock = () => (SENT_AT + 10) * 1000
    verifyWebhook(BODY, header, CURRENT, { clock, toleranceSeconds: 10 })
    assert.equal(refusalOf(BODY, header, CURRENT, { clock, toleranceSeconds: 9 }), SIGNATURE_EXPIRED)
    verifyWebhook(BODY, header, CURRENT, { ...atSending, toleranceSeconds: 0 })
  })

  test('verifyWebhook() checks the signature before the time', () => {
    const stale = signWebhook(BODY, 'whsec_other', SENT_AT - 3600)
    assert.equal(refusalOf(BODY, stale, CURRENT, atSending), SIGNATURE_MISMATCH)
    const far = signWebhook(BODY, CURRENT, SENT_AT - 3600)
    assert.equal(refusalOf(BODY, far, CURRENT, atSending), SIGNATURE_EXPIRED)
  })

  test('verifyWebhook() uses Date.now unless a clock is passed', () => {
    assert.equal(refusalOf(BODY, signWebhook(BODY, CURRENT, 1), CURRENT), SIGNATURE_EXPIRED)
  })

  test('verifyWebhook() accepts nothing if the clock returns no number', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    assert.equal(refusalOf(BODY, header, CURRENT, { clock: () => Number.NaN }), SIGNATURE_EXPIRED)
  })
})

describe('misuse', () => {
  test('a secret that is missing, empty or not a string throws a TypeError, even next to a valid one', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    for (const secrets of ['', [], [''], [CURRENT, ''], [CURRENT, undefined], undefined, null, 7]) {
      const given = untyped<string>(secrets)
      for (const call of [
        () => signWebhook(BODY, given),
        () => verifyWebhook(BODY, header, given, atSending),
      ]) {
        assert.throws(call, (error: unknown) => {
          assert.ok(error instanceof TypeError)
          assert.match(error.message, /^The signing secrets must be /)
          assert.doesNotMatch(inspect(error), /whsec_/)
          return true
        })
      }
    }
  })

  test('a parsed body throws a TypeError that asks for the raw body', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    for (const body of [JSON.parse(BODY), undefined, null, [1]]) {
      assert.throws(() => verifyWebhook(body, header, CURRENT, atSending), /^TypeError: .* pass the raw body/)
      assert.throws(() => signWebhook(body, CURRENT), TypeError)
    }
  })

  test('a tolerance that would accept everything or nothing throws a RangeError', () => {
    const header = signWebhook(BODY, CURRENT, SENT_AT)
    for (const toleranceSeconds of [-1, Number.NaN, Number.POSITIVE_INFINITY, untyped<number>('300')]) {
      const call = () => verifyWebhook(BODY, header, CURRENT, { ...atSending, toleranceSeconds })
      assert.throws(call, /^RangeError: Option 'toleranceSeconds' must be /)
    }
  })
})

describe('the official stripe package', () => {
  const { webhooks } = new Stripe('sk_test_x')
  const body = '{"id":"evt_01JD8Z6M3Q4T5V6W7X8Y9Z0ABC","type":"client.created","data":{"text":"é 🏺"}}'

  test('stripe accepts the library’s header with one signature over strings and bytes', () => {
    const header = signWebhook(body, CURRENT)
    assert.deepEqual(webhooks.constructEvent(body, header, CURRENT), JSON.parse(body))
    assert.deepEqual(webhooks.constructEvent(Buffer.from(body), header, CURRENT), JSON.parse(body))
  })

  test('stripe accepts the library’s header with signatures of the current and previous secret', () => {
    const header = signWebhook(body, [CURRENT, PREVIOUS])
    for (const secret of [CURRENT, PREVIOUS]) {
      assert.deepEqual(webhooks.constructEvent(body, header, secret), JSON.parse(body))
    }
  })

  test('stripe rejects our header with a changed body, a changed t, and another secret', () => {
    const header = signWebhook(body, [CURRENT, PREVIOUS])
    const moved = header.replace(/t=\d/, 't=9')
    const refused = [
      () => webhooks.constructEvent(`${body} `, header, CURRENT),
      () => webhooks.constructEvent(body, moved, CURRENT),
      () => webhooks.constructEvent(body, header, 'whsec_other'),
    ]
    for (const call of refused) assert.throws(call, { type: 'StripeSignatureVerificationError' })
  })

  test('verifyWebhook() accepts the header that stripe creates for tests', () => {
    const header = webhooks.generateTestHeaderString({ payload: body, secret: CURRENT })
    verifyWebhook(body, header, CURRENT)
  })
})
