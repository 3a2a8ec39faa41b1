import assert from 'node:assert/strict'
import { lookup as systemLookup } from 'node:dns'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { VERSION } from '../../lib/base/version.ts'
import { createWebhookSender } from '../../lib/sender/sender.ts'
import { readSenderOptions, type WebhookSenderOptions } from '../../lib/sender/sender-options.ts'
import { publicLookup } from '../../lib/webhooks/dns-lookup.ts'
import { CERTIFICATE } from './_receiver-certificate.ts'

test('the defaults are as documented', () => {
  const { lookup, ...settings } = readSenderOptions({})
  assert.equal(lookup, publicLookup)
  assert.equal(readSenderOptions({ allowPrivateNetworks: true }).lookup, systemLookup)
  assert.deepEqual(settings, {
    destinations: { allowPrivateNetworks: false, allowHttp: false, refusedRanges: [] },
    timeoutMs: 10_000,
    maxConnectionsPerOrigin: 256,
    userAgent: `business-api-kit/${VERSION} (webhooks)`,
    ca: undefined,
  })
})

test('the version in requests is the version of the package', () => {
  const text = readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')
  assert.equal(VERSION, JSON.parse(text).version)
})

test('every option is accepted', () => {
  const lookup = () => {}
  const options: WebhookSenderOptions = {
    allowPrivateNetworks: true,
    allowHttp: true,
    refuseAddresses: ['198.51.100.0/24', '203.0.113.7', 'fd12::/16', '::/0'],
    timeoutMs: 1,
    maxConnectionsPerOrigin: 1,
    userAgent: 'Acme/1 (+https://acme.example)',
    lookup,
    ca: [CERTIFICATE, CERTIFICATE],
  }
  const { allowPrivateNetworks, allowHttp, refuseAddresses, ...others } = options
  const { destinations, ...settings } = readSenderOptions(options)
  assert.deepEqual(settings, others)
  const { refusedRanges = [], ...flags } = destinations
  assert.deepEqual(flags, { allowPrivateNetworks, allowHttp })
  assert.deepEqual(
    refusedRanges.map(({ cidr }) => cidr),
    refuseAddresses,
  )
  assert.deepEqual(readSenderOptions({ ca: CERTIFICATE }).ca, [CERTIFICATE])
})

test('an invalid range in refuseAddresses is named', () => {
  assert.throws(() => createWebhookSender({ refuseAddresses: ['198.51.100.0/24', '10.1.2.3/8'] }), {
    name: 'TypeError',
    message:
      "Option 'refuseAddresses' must be addresses or ranges like 198.51.100.0/24 and fd12::/16, " +
      "without bits outside the prefix: '10.1.2.3/8' is neither",
  })
})

const refusals: readonly [name: string, values: readonly unknown[], error: typeof TypeError][] = [
  // Environment variables are strings. 'false' must not disable the guard.
  ['allowPrivateNetworks', ['false', 'true', 1, null], TypeError],
  ['allowHttp', ['false', 0, null], TypeError],
  [
    'refuseAddresses',
    [
      '10.0.0.0/8',
      null,
      {},
      ...[
        '',
        '10.0.0.0/33',
        '10.0.0.0/',
        '10.0.0.0/08',
        '10.0.0.0/8/8',
        '10.0.0.1/8',
        '10/8',
        '10.0.0.0/-1',
      ].map((text) => [text]),
      ...['fd12::/129', 'fd12::1/16', 'fe80::%eth0/10', 'intranet', ' 10.0.0.0/8', 10, null].map((text) => [
        text,
      ]),
    ],
    TypeError,
  ],
  ['timeoutMs', [0, -1, 1.5, 10_001, Number.NaN, Number.POSITIVE_INFINITY, '10', null], RangeError],
  ['maxConnectionsPerOrigin', [0, 65_536, 0.5, '32', null], RangeError],
  ['userAgent', ['', ' ', ' a', 'a ', 'a\r\nb', 'é', 'a'.repeat(257)], TypeError],
  ['lookup', ['dns', {}, null], TypeError],
  ['ca', ['', [], ['x'], [CERTIFICATE, ''], '/etc/ca.pem', 1, null], TypeError],
]
for (const [name, values, error] of refusals) {
  test(`an invalid option '${name}' is rejected at construction by name`, () => {
    for (const value of values) {
      assert.throws(
        () => createWebhookSender({ [name]: value }),
        (thrown: Error) => thrown instanceof error && thrown.message.startsWith(`Option '${name}' must be `),
        JSON.stringify(value),
      )
    }
  })
}
