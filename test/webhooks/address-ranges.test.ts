import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseAddress, REFUSED_RANGES } from '../../lib/webhooks/address-ranges.ts'
import { DESTINATION_NOT_ALLOWED, judgeAddress } from '../../lib/webhooks/destination.ts'

interface Edges {
  readonly cidr: string
  readonly first: string
  readonly last: string
  /** The addresses right before and after the range, unless another range starts there. */
  readonly outside: readonly string[]
}

const ONES = 'ffff:ffff:ffff:ffff:ffff:ffff:ffff'

const IPV4: readonly Edges[] = [
  { cidr: '0.0.0.0/8', first: '0.0.0.0', last: '0.255.255.255', outside: ['1.0.0.0'] },
  { cidr: '10.0.0.0/8', first: '10.0.0.0', last: '10.255.255.255', outside: ['9.255.255.255', '11.0.0.0'] },
  {
    cidr: '100.64.0.0/10',
    first: '100.64.0.0',
    last: '100.127.255.255',
    outside: ['100.63.255.255', '100.128.0.0'],
  },
  {
    cidr: '127.0.0.0/8',
    first: '127.0.0.0',
    last: '127.255.255.255',
    outside: ['126.255.255.255', '128.0.0.0'],
  },
  {
    cidr: '169.254.0.0/16',
    first: '169.254.0.0',
    last: '169.254.255.255',
    outside: ['169.253.255.255', '169.255.0.0'],
  },
  {
    cidr: '172.16.0.0/12',
    first: '172.16.0.0',
    last: '172.31.255.255',
    outside: ['172.15.255.255', '172.32.0.0'],
  },
  {
    cidr: '192.0.0.0/24',
    first: '192.0.0.0',
    last: '192.0.0.255',
    outside: ['191.255.255.255', '192.0.1.0'],
  },
  { cidr: '192.0.2.0/24', first: '192.0.2.0', last: '192.0.2.255', outside: ['192.0.1.255', '192.0.3.0'] },
  {
    cidr: '192.88.99.0/24',
    first: '192.88.99.0',
    last: '192.88.99.255',
    outside: ['192.88.98.255', '192.88.100.0'],
  },
  {
    cidr: '192.168.0.0/16',
    first: '192.168.0.0',
    last: '192.168.255.255',
    outside: ['192.167.255.255', '192.169.0.0'],
  },
  {
    cidr: '198.18.0.0/15',
    first: '198.18.0.0',
    last: '198.19.255.255',
    outside: ['198.17.255.255', '198.20.0.0'],
  },
  {
    cidr: '198.51.100.0/24',
    first: '198.51.100.0',
    last: '198.51.100.255',
    outside: ['198.51.99.255', '198.51.101.0'],
  },
  {
    cidr: '203.0.113.0/24',
    first: '203.0.113.0',
    last: '203.0.113.255',
    outside: ['203.0.112.255', '203.0.114.0'],
  },
  { cidr: '224.0.0.0/4', first: '224.0.0.0', last: '239.255.255.255', outside: ['223.255.255.255'] },
  { cidr: '240.0.0.0/4', first: '240.0.0.0', last: '255.255.255.255', outside: [] },
  {
    cidr: '168.63.129.16/32',
    first: '168.63.129.16',
    last: '168.63.129.16',
    outside: ['168.63.129.15', '168.63.129.17'],
  },
]

const IPV6: readonly Edges[] = [
  { cidr: '64:ff9b:1::/48', first: '64:ff9b:1::', last: '64:ff9b:1:ffff:ffff:ffff:ffff:ffff', outside: [] },
  { cidr: '::/8', first: '::', last: `ff:${ONES}`, outside: [] },
  { cidr: '100::/64', first: '100::', last: '100::ffff:ffff:ffff:ffff', outside: ['100:0:0:1::'] },
  {
    cidr: '2001::/23',
    first: '2001::',
    last: '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff',
    outside: [`2000:${ONES}`, '2001:200::'],
  },
  {
    cidr: '2001:db8::/32',
    first: '2001:db8::',
    last: '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff',
    outside: ['2001:db7:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db9::'],
  },
  { cidr: '2002::/16', first: '2002::', last: `2002:${ONES}`, outside: [`2001:${ONES}`, '2003::'] },
  {
    cidr: '3fff::/20',
    first: '3fff::',
    last: '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff',
    outside: [`3ffe:${ONES}`, '3fff:1000::'],
  },
  { cidr: '5f00::/16', first: '5f00::', last: `5f00:${ONES}`, outside: [`5eff:${ONES}`, '5f01::'] },
  { cidr: 'fc00::/7', first: 'fc00::', last: `fdff:${ONES}`, outside: [`fbff:${ONES}`, 'fe00::'] },
  { cidr: 'fe80::/10', first: 'fe80::', last: `febf:${ONES}`, outside: [`fe7f:${ONES}`] },
  { cidr: 'fec0::/10', first: 'fec0::', last: `feff:${ONES}`, outside: [] },
  { cidr: 'ff00::/8', first: 'ff00::', last: `ffff:${ONES}`, outside: [] },
]

function assertRefused(address: string, cidr: string): void {
  const verdict = judgeAddress(address)
  assert.ok(!verdict.allowed, `${address} is allowed`)
  assert.equal(verdict.reason, DESTINATION_NOT_ALLOWED)
  assert.ok(verdict.detail.startsWith(`${address} is in ${cidr} (`), verdict.detail)
}

function assertAllowed(address: string): void {
  assert.deepEqual(judgeAddress(address), { allowed: true }, address)
}

describe('judgeAddress()', () => {
  for (const { cidr, first, last, outside } of [...IPV4, ...IPV6]) {
    test(`judgeAddress() rejects ${cidr} from the first address to the last, but not the neighbors`, () => {
      assertRefused(first, cidr)
      assertRefused(last, cidr)
      for (const address of outside) assertAllowed(address)
    })
  }

  test('all ranges are tested', () => {
    const tested = [...IPV4, ...IPV6].map(({ cidr }) => cidr)
    assert.deepEqual(tested.sort(), REFUSED_RANGES.map(({ cidr }) => cidr).sort())
  })

  test('judgeAddress() allows the public internet', () => {
    for (const address of ['8.8.8.8', '93.184.215.14', '2606:4700:4700::1111', '2a00:1450:4001:81b::200e']) {
      assertAllowed(address)
    }
  })

  test('an IPv4 address behind NAT64 is checked itself', () => {
    for (const { cidr, first, last, outside } of IPV4) {
      assertRefused(`64:ff9b::${first}`, cidr)
      assertRefused(`64:ff9b::${last}`, cidr)
      for (const address of outside) assertAllowed(`64:ff9b::${address}`)
    }
    assertRefused('64:ff9b::7f00:1', '127.0.0.0/8')
    assertRefused('64:ff9b:0:0:0:1:808:808', '::/8')
  })

  test("an IPv4 address in any other IPv6 form is rejected, whether it's public or not", () => {
    for (const prefix of ['::ffff:', '::', '::ffff:0:', '0:0:0:0:0:ffff:']) {
      assertRefused(`${prefix}127.0.0.1`, '::/8')
      assertRefused(`${prefix}8.8.8.8`, '::/8')
    }
    assertRefused('2002:7f00:1::', '2002::/16')
    assertRefused('2001:0:7f00:1::', '2001::/23')
  })

  test("a string that isn't an address in the system’s notation is rejected", () => {
    const texts = [
      '',
      'localhost',
      '0x7f.1',
      '127.1',
      '0177.0.0.1',
      '8.8.8.8 ',
      '8.8.8.8:443',
      '[::1]',
      '2606::%eth0',
    ]
    for (const address of texts) {
      assert.deepEqual(judgeAddress(address), {
        allowed: false,
        reason: DESTINATION_NOT_ALLOWED,
        detail: `'${address}' is not an address`,
      })
    }
  })

  test('allowPrivateNetworks allows every address', () => {
    for (const { first, last } of [...IPV4, ...IPV6]) {
      assert.ok(judgeAddress(first, { allowPrivateNetworks: true }).allowed)
      assert.ok(judgeAddress(last, { allowPrivateNetworks: true }).allowed)
    }
  })
})

describe('parseAddress()', () => {
  test('parseAddress() reads every spelling of an IPv6 address like the URL parser does', () => {
    const spellings = [
      '::',
      '1::',
      '::1',
      '1:2:3:4:5:6:7::',
      '::2:3:4:5:6:7:8',
      '1::8',
      '1:2::7:8',
      'ABCD::Ef01',
    ]
    const withIpv4 = ['::1.2.3.4', '::ffff:255.255.255.255', '1:2:3:4:5:6:0.0.0.1', '64:ff9b::192.0.2.1']
    for (const text of [...spellings, ...withIpv4, '0001:0020:0300:4000::', '1:0:0:2:0:0:0:3']) {
      const normal = new URL(`https://[${text}]`).hostname.slice(1, -1)
      assert.deepEqual(parseAddress(text), parseAddress(normal), text)
      assert.deepEqual(parseAddress(text)?.bits, bitsOf(text), text)
    }
  })
})

/** Converts an IPv6 address to a number using the eight groups that the URL parser returns. */
function bitsOf(text: string): bigint {
  const [head = '', tail = ''] = new URL(`https://[${text}]`).hostname.slice(1, -1).split('::')
  const groups = (part: string) => part.split(':').filter((group) => group !== '')
  const zeros = Array(8 - groups(head).length - groups(tail).length).fill('0')
  const all = [...groups(head), ...zeros, ...groups(tail)]
  return BigInt(`0x${all.map((group) => group.padStart(4, '0')).join('')}`)
}
