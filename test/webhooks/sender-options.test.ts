import assert from 'node:assert/strict'
import { lookup as systemLookup } from 'node:dns'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { publicLookup } from '../../lib/lookup.ts'
import { VERSION } from '../../lib/version.ts'
import { createWebhookSender } from '../../lib/webhooks/sender.ts'
import { readSenderOptions, type WebhookSenderOptions } from '../../lib/webhooks/sender-options.ts'
import { CERTIFICATE } from './_receiver-certificate.ts'

test('the defaults are those of the documentation', () => {
  const { lookup, ...settings } = readSenderOptions({})
  assert.equal(lookup, publicLookup)
  assert.equal(readSenderOptions({ allowPrivateNetworks: true }).lookup, systemLookup)
  assert.deepEqual(settings, {
    destinations: { allowPrivateNetworks: false, allowHttp: false },
    timeoutMs: 10_000,
    maxConnectionsPerOrigin: 256,
    userAgent: `business-api/${VERSION} (webhooks)`,
    ca: undefined,
  })
})

test('the version that requests name is the version of the package', () => {
  const text = readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')
  assert.equal(VERSION, JSON.parse(text).version)
})

test('every option is taken', () => {
  const lookup = () => {}
  const options: WebhookSenderOptions = {
    allowPrivateNetworks: true,
    allowHttp: true,
    timeoutMs: 1,
    maxConnectionsPerOrigin: 1,
    userAgent: 'Acme/1 (+https://acme.example)',
    lookup,
    ca: [CERTIFICATE, CERTIFICATE],
  }
  const { allowPrivateNetworks, allowHttp, ...others } = options
  assert.deepEqual(readSenderOptions(options), {
    destinations: { allowPrivateNetworks, allowHttp },
    ...others,
  })
  assert.deepEqual(readSenderOptions({ ca: CERTIFICATE }).ca, [CERTIFICATE])
})

const refusals: readonly [name: string, values: readonly unknown[], error: typeof TypeError][] = [
  // What an environment variable holds is text: 'false' must not switch the guard off.
  ['allowPrivateNetworks', ['false', 'true', 1, null], TypeError],
  ['allowHttp', ['false', 0, null], TypeError],
  ['timeoutMs', [0, -1, 1.5, 10_001, Number.NaN, Number.POSITIVE_INFINITY, '10', null], RangeError],
  ['maxConnectionsPerOrigin', [0, 65_536, 0.5, '32', null], RangeError],
  ['userAgent', ['', ' ', ' a', 'a ', 'a\r\nb', 'é', 'a'.repeat(257)], TypeError],
  ['lookup', ['dns', {}, null], TypeError],
  ['ca', ['', [], ['x'], [CERTIFICATE, ''], '/etc/ca.pem', 1, null], TypeError],
]
for (const [name, values, error] of refusals) {
  test(`an option '${name}' that cannot be used is refused at construction, by name`, () => {
    for (const value of values) {
      assert.throws(
        () => createWebhookSender({ [name]: value }),
        (thrown: Error) =>
          thrown instanceof error && thrown.message.startsWith(`Cannot use option '${name}' as it must be `),
        JSON.stringify(value),
      )
    }
  })
}
