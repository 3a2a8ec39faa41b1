import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { describe, test } from 'node:test'
import { parseRange } from '../../lib/webhooks/address-ranges.ts'
import {
  DESTINATION_NOT_ALLOWED,
  judgeAddress,
  judgeAddresses,
  judgeDestination,
  judgeUrl,
  readDestinationOptions,
} from '../../lib/webhooks/destination.ts'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'

describe('judgeUrl()', () => {
  test('judgeUrl() allows https on port 443 and from 1024 with path, query and fragment', () => {
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
    test(`judgeUrl() rejects with the reason '${reason}'`, () => {
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
    test(`judgeUrl() recognizes every spelling: ${name}`, () => {
      for (const url of urls) {
        const verdict = judgeUrl(url)
        assert.ok(!verdict.allowed, url)
        assert.equal(verdict.reason, DESTINATION_NOT_ALLOWED, url)
      }
    })
  }

  test('judgeUrl() shows the customer nothing about the address, and the operator everything', () => {
    assert.deepEqual(judgeUrl('https://0xa9fea9fe/latest/meta-data'), {
      allowed: false,
      reason: 'destination not allowed',
      detail: '169.254.169.254 is in 169.254.0.0/16 (link-local)',
    })
  })

  test('allowHttp allows http and port 80, but nothing else', () => {
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

  test('allowPrivateNetworks allows every host, but nothing else', () => {
    const options = { allowPrivateNetworks: true }
    for (const url of ['https://127.0.0.1', 'https://localhost:8443', 'https://[::1]', 'https://0.0.0.0']) {
      assert.ok(judgeUrl(url, options).allowed, url)
    }
    for (const url of ['http://127.0.0.1', 'https://127.0.0.1:22', 'https://...']) {
      assert.ok(!judgeUrl(url, options).allowed, url)
    }
  })
})

describe('the ranges that a host rejects', () => {
  const judge = (address: string, ...refuseAddresses: string[]) =>
    judgeAddress(address, readDestinationOptions({ refuseAddresses, allowPrivateNetworks: true })).allowed

  test('a range is rejected from the first address to the last, but not the neighbors', () => {
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

  test('an IPv4 address is also rejected inside an IPv6 address, and so is a link-local one with a zone', () => {
    for (const address of ['::ffff:8.8.8.8', '::ffff:808:808', '64:ff9b::8.8.8.8']) {
      assert.equal(judge(address, '8.8.8.0/24'), false, address)
      assert.equal(judge(address, '9.9.9.0/24'), true, address)
    }
    assert.equal(judge('fe80::1%eth0', 'fe80::/10'), false)
    assert.equal(judge('fe80::1%eth0', 'fd00::/8'), true)
  })

  test('a range applies in addition to those outside the public internet', () => {
    const rules = readDestinationOptions({ refuseAddresses: ['8.8.8.0/24'] })
    assert.deepEqual(
      ['8.8.8.8', '10.0.0.1', '9.9.9.9'].map((address) => judgeAddress(address, rules).allowed),
      [false, false, true],
    )
  })

  test('parseRange() accepts a range or an address, and nothing else', () => {
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
  test('one rejected address among public ones rejects the name', () => {
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

  test('judgeDestination() rejects a name with a rejected address and accepts one with public addresses', async () => {
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

  test('judgeDestination() looks up all addresses of the name', async () => {
    let asked: unknown[] = []
    const lookup: Lookup = (hostname, options, callback) => {
      asked = [hostname, options.all]
      callback(null, [{ address: '8.8.8.8', family: 4 }])
    }
    await judgeDestination(url, { lookup })
    assert.deepEqual(asked, ['hooks.example.com', true])
  })

  test("a name that doesn't exist is rejected exactly like one with a rejected address", async () => {
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

  test("a name whose name servers fail is accepted, since it's checked again at every attempt", async () => {
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

  test('a name for a private network is rejected without a lookup, whether it exists or not', async () => {
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

  test('judgeDestination() rejects names that resolve to an address the host rejects, even in development', async () => {
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

  test('no more than 64 addresses of a name are checked', async () => {
    const many = Array.from({ length: 64 }, (_, index) => `8.8.8.${index}`)
    assert.equal((await judgeDestination(url, { lookup: answering(...many, '10.0.0.1') })).allowed, true)
    assert.equal((await judgeDestination(url, { lookup: answering('10.0.0.1', ...many) })).allowed, false)
  })

  test("a name that doesn't resolve in time is accepted", async () => {
    const verdict = await judgeDestination(url, { lookup: () => {}, lookupTimeoutMs: 10 })
    assert.equal(verdict.allowed, true)
  })

  test('there is no lookup if the URL is already rejected or private networks are allowed', async () => {
    const lookup: Lookup = () => assert.fail('looked up')
    const verdict = await judgeDestination('https://127.1', { lookup })
    assert.equal(verdict.allowed, false)
    assert.ok((await judgeDestination('https://intranet', { lookup, allowPrivateNetworks: true })).allowed)
  })
})
