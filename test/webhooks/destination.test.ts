import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { describe, test } from 'node:test'
import { parseAddress, parseRange, REFUSED_RANGES } from '../../lib/webhooks/address-ranges.ts'
import {
  DESTINATION_NOT_ALLOWED,
  judgeAddress,
  judgeAddresses,
  judgeDestination,
  judgeUrl,
  readDestinationOptions,
} from '../../lib/webhooks/destination.ts'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'

interface Edges {
  readonly cidr: string
  readonly first: string
  readonly last: string
  /** The addresses just before and just after, unless another range begins there. */
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
    test(`judgeAddress() refuses ${cidr} from the first address to the last, and not the neighbours`, () => {
      assertRefused(first, cidr)
      assertRefused(last, cidr)
      for (const address of outside) assertAllowed(address)
    })
  }

  test('the ranges tested are the ranges there are', () => {
    const tested = [...IPV4, ...IPV6].map(({ cidr }) => cidr)
    assert.deepEqual(tested.sort(), REFUSED_RANGES.map(({ cidr }) => cidr).sort())
  })

  test('judgeAddress() allows the public internet', () => {
    for (const address of ['8.8.8.8', '93.184.215.14', '2606:4700:4700::1111', '2a00:1450:4001:81b::200e']) {
      assertAllowed(address)
    }
  })

  test('an IPv4 address behind NAT64 is judged by itself', () => {
    for (const { cidr, first, last, outside } of IPV4) {
      assertRefused(`64:ff9b::${first}`, cidr)
      assertRefused(`64:ff9b::${last}`, cidr)
      for (const address of outside) assertAllowed(`64:ff9b::${address}`)
    }
    assertRefused('64:ff9b::7f00:1', '127.0.0.0/8')
    assertRefused('64:ff9b:0:0:0:1:808:808', '::/8')
  })

  test('an IPv4 address in any other IPv6 form is refused, public or not', () => {
    for (const prefix of ['::ffff:', '::', '::ffff:0:', '0:0:0:0:0:ffff:']) {
      assertRefused(`${prefix}127.0.0.1`, '::/8')
      assertRefused(`${prefix}8.8.8.8`, '::/8')
    }
    assertRefused('2002:7f00:1::', '2002::/16')
    assertRefused('2001:0:7f00:1::', '2001::/23')
  })

  test('a text that is no address in the system’s spelling is refused', () => {
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
  test('parseAddress() reads every spelling of an IPv6 address as the URL parser does', () => {
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

/** An IPv6 address as a number, from the eight groups that the URL parser writes. */
function bitsOf(text: string): bigint {
  const [head = '', tail = ''] = new URL(`https://[${text}]`).hostname.slice(1, -1).split('::')
  const groups = (part: string) => part.split(':').filter((group) => group !== '')
  const zeros = Array(8 - groups(head).length - groups(tail).length).fill('0')
  const all = [...groups(head), ...zeros, ...groups(tail)]
  return BigInt(`0x${all.map((group) => group.padStart(4, '0')).join('')}`)
}

describe('judgeUrl()', () => {
  test('judgeUrl() allows https on port 443 and from 1024, with path, query and fragment', () => {
    const urls = ['https://example.com', 'https://example.com:443/', 'https://example.com:1024/a?b=c#d']
    for (const url of [
      ...urls,
      'https://example.com:65535',
      'HTTPS://EXAMPLE.com.',
      'https://[2606:4700::1111]/',
    ]) {
      const verdict = judgeUrl(url)
      assert.ok(verdict.allowed, url)
      assert.equal(verdict.url.href, new URL(url).href)
    }
  })

  const refusals: Record<string, readonly string[]> = {
    'must be https': [
      'http://example.com',
      'ftp://example.com',
      'javascript:alert(1)',
      'file:///etc/passwd',
      'ws://a.b',
    ],
    'must not contain a user name or password': [
      'https://user@example.com',
      'https://:secret@example.com',
      'https://user:secret@example.com',
      'https://example.com%2f@8.8.8.8',
    ],
    'must use port 443 or one from 1024': [
      'https://example.com:0',
      'https://example.com:22',
      'https://example.com:80',
      'https://example.com:1023',
    ],
    'must be a URL of at most 2048 characters': [
      '',
      'example.com',
      '/path',
      'https://',
      'https://exa mple.com',
      'https://example.com:65536',
      'https://1.2.3.4.5',
      'https://999999999999',
      'https://[fe80::1%25eth0]',
      'https://[fe80::1%eth0]',
      'https://[::1',
      `https://example.com/${'a'.repeat(2048 - 20 + 1)}`,
      // 2,000 characters that become 12,000.
      `https://example.com/${'é'.repeat(1980)}`,
    ],
  }
  for (const [reason, urls] of Object.entries(refusals)) {
    test(`judgeUrl() refuses with the reason '${reason}'`, () => {
      for (const url of urls) {
        const verdict = judgeUrl(url)
        assert.ok(!verdict.allowed, url)
        assert.equal(verdict.reason, reason, url)
      }
    })
  }

  test('judgeUrl() allows the longest URL', () => {
    assert.ok(judgeUrl(`https://example.com/${'a'.repeat(2048 - 20)}`).allowed)
  })

  const spellings: Record<string, readonly string[]> = {
    'decimal, octal and hexadecimal': [
      'https://2130706433',
      'https://017700000001',
      'https://0177.0.0.1',
      'https://0x7f000001',
      'https://0x7f.0x0.0x0.0x1',
      'https://0X7F.1',
      'https://127.0.0.0x1',
    ],
    'short forms': ['https://127.1', 'https://127.0.1', 'https://127.65535'],
    'dots at the end': ['https://127.0.0.1.', 'https://127.0.0.1..', 'https://2130706433.'],
    'percent-encoding': ['https://%31%32%37.0.0.1', 'https://127%2e0%2e0%2e1', 'https://%30x7f.1'],
    'other digits and dots': [
      'https://①②⑦.0.0.1',
      'https://１２７.０.０.１',
      'https://127。0。0。1',
      'https://127．0．0．1',
      'https://０ｘ7f.1',
    ],
    'other ways into the authority': [
      'https:127.0.0.1',
      'https:/127.0.0.1',
      'https:////127.0.0.1',
      'https:\\\\127.0.0.1',
      'https://127.0.0.1\\@example.com',
      'ht\ntps://127.0\t.0.1',
      ' https://127.0.0.1 ',
      'https://127.0.0.1#@example.com',
      'https://127.0.0.1?@example.com',
      'https://127.0.0.1:443',
      'https://127.0.0.1:8443/path',
      'https://@127.0.0.1',
    ],
    'IPv6 and IPv4 in IPv6': [
      'https://[::1]',
      'https://[::1]:8443',
      'https://[0:0:0:0:0:0:0:1]',
      'https://[0000:0000:0000:0000:0000:0000:0000:0001]',
      'https://[::ffff:127.0.0.1]',
      'https://[::FFFF:7F00:1]',
      'https://[::127.0.0.1]',
      'https://[64:ff9b::127.0.0.1]',
      'https://[2002:7f00:1::]',
      'https://[FE80::1]',
      'https://[::]',
    ],
    'names of this machine': [
      'https://localhost',
      'https://LOCALHOST:8443',
      'https://localhost.',
      'https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ',
      'https://loc\u00adalhost',
      'https://any.localhost',
      'https://any.localhost.',
    ],
    'this host': ['https://0', 'https://0x', 'https://0.0.0.0', 'https://00.0'],
    'no host': ['https://.', 'https://...'],
  }
  for (const [name, urls] of Object.entries(spellings)) {
    test(`judgeUrl() sees through every spelling: ${name}`, () => {
      for (const url of urls) {
        const verdict = judgeUrl(url)
        assert.ok(!verdict.allowed, url)
        assert.equal(verdict.reason, DESTINATION_NOT_ALLOWED, url)
      }
    })
  }

  test('judgeUrl() shows the customer nothing of the address, and the operator all', () => {
    assert.deepEqual(judgeUrl('https://0xa9fea9fe/latest/meta-data'), {
      allowed: false,
      reason: 'destination not allowed',
      detail: '169.254.169.254 is in 169.254.0.0/16 (link-local)',
    })
  })

  test('allowHttp allows http and port 80, and nothing else', () => {
    const options = { allowHttp: true }
    for (const url of [
      'http://example.com',
      'http://example.com:8080',
      'http://example.com:443',
      'https://example.com:80',
    ]) {
      assert.ok(judgeUrl(url, options).allowed, url)
    }
    const reasons = [
      'ftp://example.com',
      'http://example.com:81',
      'http://127.0.0.1',
      'http://a:b@example.com',
    ].map((url) => {
      const verdict = judgeUrl(url, options)
      return verdict.allowed ? '' : verdict.reason
    })
    assert.deepEqual(reasons, [
      'must be https or http',
      'must use port 80, 443 or one from 1024',
      DESTINATION_NOT_ALLOWED,
      'must not contain a user name or password',
    ])
  })

  test('allowPrivateNetworks allows every host that there is, and no more', () => {
    const options = { allowPrivateNetworks: true }
    for (const url of ['https://127.0.0.1', 'https://localhost:8443', 'https://[::1]', 'https://0.0.0.0']) {
      assert.ok(judgeUrl(url, options).allowed, url)
    }
    for (const url of ['http://127.0.0.1', 'https://127.0.0.1:22', 'https://...']) {
      assert.ok(!judgeUrl(url, options).allowed, url)
    }
  })
})

describe('the ranges that a host refuses', () => {
  const judge = (address: string, ...refuseAddresses: string[]) =>
    judgeAddress(address, readDestinationOptions({ refuseAddresses, allowPrivateNetworks: true })).allowed

  test('a range is refused from the first address to the last, and not the neighbours', () => {
    const edges: [cidr: string, inside: string[], outside: string[]][] = [
      ['8.8.8.0/23', ['8.8.8.0', '8.8.9.255'], ['8.8.7.255', '8.8.10.0']],
      ['8.8.8.8', ['8.8.8.8'], ['8.8.8.7', '8.8.8.9']],
      ['8.8.8.8/32', ['8.8.8.8'], ['8.8.8.9']],
      ['0.0.0.0/0', ['0.0.0.0', '255.255.255.255'], ['2606::1']],
      ['2606:4700::/32', ['2606:4700::', '2606:4700:ffff::1'], ['2606:4701::', '2606:46ff::']],
      ['2606::1', ['2606::1'], ['2606::2']],
      ['::/0', ['::', '2606::1', '8.8.8.8'.replace(/^/, '::ffff:')], ['8.8.8.8']],
    ]
    for (const [cidr, inside, outside] of edges) {
      for (const address of inside)
        assert.equal(judge(address, '9.9.9.9', cidr), false, `${address} in ${cidr}`)
      for (const address of outside) assert.equal(judge(address, cidr), true, `${address} in ${cidr}`)
    }
  })

  test('an IPv4 address is refused inside an IPv6 address too, and a link’s address with a zone', () => {
    for (const address of ['::ffff:8.8.8.8', '::ffff:808:808', '64:ff9b::8.8.8.8']) {
      assert.equal(judge(address, '8.8.8.0/24'), false, address)
      assert.equal(judge(address, '9.9.9.0/24'), true, address)
    }
    assert.equal(judge('fe80::1%eth0', 'fe80::/10'), false)
    assert.equal(judge('fe80::1%eth0', 'fd00::/8'), true)
  })

  test('a range comes on top of the ranges outside the public internet', () => {
    const rules = readDestinationOptions({ refuseAddresses: ['8.8.8.0/24'] })
    assert.deepEqual(
      ['8.8.8.8', '10.0.0.1', '9.9.9.9'].map((address) => judgeAddress(address, rules).allowed),
      [false, false, true],
    )
  })

  test('parseRange() takes a range or an address, and nothing else', () => {
    assert.equal(parseRange('10.0.0.0/8', '')?.last, 0x0aff_ffffn)
    for (const text of [
      '',
      '/',
      '10.0.0.0/8 ',
      '10.0.0.0/1e1',
      '10.0.0.0/+8',
      'a',
      '1.2.3/24',
      '[fd00::]/8',
    ]) {
      assert.equal(parseRange(text, ''), undefined, text)
    }
  })
})

describe('judgeAddresses()', () => {
  test('one refused address among public ones refuses the name', () => {
    const addresses = ['8.8.8.8', '2606:4700::1111', '10.0.0.1'].map((address) => ({ address }))
    assert.deepEqual(judgeAddresses(addresses), {
      allowed: false,
      reason: DESTINATION_NOT_ALLOWED,
      detail: '10.0.0.1 is in 10.0.0.0/8 (private network)',
    })
    assert.ok(judgeAddresses(addresses.slice(0, 2)).allowed)
    assert.ok(judgeAddresses(addresses, { allowPrivateNetworks: true }).allowed)
  })
})

describe('judgeDestination()', () => {
  const answering =
    (...addresses: string[]): Lookup =>
    (_hostname, _options, callback) =>
      callback(
        null,
        addresses.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 })),
      )
  const url = 'https://hooks.example.com./x'

  test('judgeDestination() refuses a name with a refused address, and accepts a name with public addresses', async () => {
    assert.deepEqual(await judgeDestination(url, { lookup: answering('8.8.8.8', 'fd00::1') }), {
      allowed: false,
      reason: DESTINATION_NOT_ALLOWED,
      detail: 'fd00::1 is in fc00::/7 (private network)',
    })
    assert.equal(
      (await judgeDestination(url, { lookup: answering('8.8.8.8', '2606:4700::1') })).allowed,
      true,
    )
  })

  test('judgeDestination() asks for all addresses of the name', async () => {
    let asked: unknown[] = []
    const lookup: Lookup = (hostname, options, callback) => {
      asked = [hostname, options.all]
      callback(null, [{ address: '8.8.8.8', family: 4 }])
    }
    await judgeDestination(url, { lookup })
    assert.deepEqual(asked, ['hooks.example.com', true])
  })

  test('a name that does not exist is refused exactly like a name with a refused address', async () => {
    const failing =
      (code: string): Lookup =>
      (_hostname, _options, callback) =>
        callback(Object.assign(new Error(`query ${code}`), { code }), [])
    const existing = await judgeDestination(url, { lookup: answering('10.0.0.1') })
    for (const lookup of [failing('ENOTFOUND'), failing('ENODATA'), answering()]) {
      const missing = await judgeDestination(url, { lookup })
      assert.ok(!missing.allowed && !existing.allowed)
      assert.equal(missing.reason, existing.reason)
      assert.match(missing.detail, /^hooks\.example\.com does not resolve: /)
    }
  })

  test('a name with failing name servers is accepted, to be judged again at every attempt', async () => {
    const failing =
      (code: string): Lookup =>
      (_hostname, _options, callback) =>
        callback(Object.assign(new Error(`query ${code}`), { code }), [])
    const throwing: Lookup = () => {
      throw new Error('broken')
    }
    for (const lookup of [failing('ESERVFAIL'), failing('ETIMEOUT'), failing('EAI_AGAIN'), throwing]) {
      assert.equal((await judgeDestination(url, { lookup })).allowed, true)
    }
  })

  test('a name for a private network is refused without a look-up, existing or not', async () => {
    const lookup: Lookup = () => assert.fail('looked up')
    const names = [
      'postgres',
      'db.internal',
      'metadata.google.internal.',
      'NAS.local',
      'a.b.corp',
      'router.home.arpa',
    ]
    for (const name of [...names, 'wiki.intranet', 'x.private', 'printer.lan', 'h.localdomain', 'tv.home']) {
      const verdict = await judgeDestination(`https://${name}/`, { lookup })
      assert.ok(!verdict.allowed, name)
      assert.equal(verdict.reason, DESTINATION_NOT_ALLOWED)
    }
  })

  test('judgeDestination() refuses names that resolve to an address of the host’s own list, in development too', async () => {
    for (const allowPrivateNetworks of [false, true]) {
      const rules = readDestinationOptions({ refuseAddresses: ['8.8.8.0/24'], allowPrivateNetworks })
      const [refused, allowed] = [answering('8.8.8.8'), answering('9.9.9.9')]
      assert.deepEqual(await judgeDestination(url, { ...rules, lookup: refused }), {
        allowed: false,
        reason: DESTINATION_NOT_ALLOWED,
        detail: '8.8.8.8 is in 8.8.8.0/24 (refused by the host)',
      })
      assert.equal((await judgeDestination(url, { ...rules, lookup: allowed })).allowed, true)
      assert.equal(judgeUrl('https://8.8.8.8/', rules).allowed, false)
    }
  })

  test('of the addresses of a name no more than 64 are judged', async () => {
    const many = Array.from({ length: 64 }, (_, index) => `8.8.8.${index}`)
    assert.equal((await judgeDestination(url, { lookup: answering(...many, '10.0.0.1') })).allowed, true)
    assert.equal((await judgeDestination(url, { lookup: answering('10.0.0.1', ...many) })).allowed, false)
  })

  test('a name that does not resolve in time is accepted', async () => {
    const verdict = await judgeDestination(url, { lookup: () => {}, lookupTimeoutMs: 10 })
    assert.equal(verdict.allowed, true)
  })

  test('a URL that is refused without a look-up is not looked up, nor any URL with private networks allowed', async () => {
    const lookup: Lookup = () => assert.fail('looked up')
    const verdict = await judgeDestination('https://127.1', { lookup })
    assert.equal(verdict.allowed, false)
    assert.ok((await judgeDestination('https://intranet', { lookup, allowPrivateNetworks: true })).allowed)
  })
})
