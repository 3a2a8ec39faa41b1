import assert from 'node:assert/strict'
import { test } from 'node:test'
import { peerOf } from '../../lib/api/peer-address.ts'

const GROUPS: readonly (readonly [what: string, alike: readonly (string | undefined)[]])[] = [
  ['an IPv4 address, as an IPv6 socket sees it, too', ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201']],
  ['another IPv4 address', ['192.0.2.2']],
  ['an IPv6 network of 64 bits', ['2001:db8:0:1::1', '2001:db8:0:1:ffff::', '2001:DB8:0:1:0:0:0:2']],
  ['another IPv6 network', ['2001:db8:0:2::1']],
  ['what is no address', ['unknown']],
  ['no address', [undefined, '']],
]

test('peerOf() is the same for callers in a group, and different for callers in different groups', () => {
  for (const [what, alike] of GROUPS) assert.equal(new Set(alike.map(peerOf)).size, 1, what)
  const peers = GROUPS.map(([, [first]]) => peerOf(first))
  assert.equal(new Set(peers).size, GROUPS.length)
})

test('peerOf() returns a short string for any header value', () => {
  assert.ok(peerOf('x'.repeat(10_000)).length <= 64)
  assert.ok(peerOf(`fe80::1%${'x'.repeat(10_000)}`).length <= 64)
  assert.equal(peerOf(12 as unknown as string), '')
})
