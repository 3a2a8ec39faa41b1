import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import {
  type AddressGuard,
  createTimings,
  type DialTarget,
  dial,
  shareLookups,
} from '../../lib/sender/dial.ts'
import { connectMetered, createReadingTurns } from '../../lib/sender/metered-socket.ts'
import type { DestinationVerdict } from '../../lib/webhooks/destination.ts'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'
import { closed, startRawReceiver, startReceiver, startSecureReceiver } from './_receiver.ts'
import { CERTIFICATE } from './_receiver-certificate.ts'
import { assertFailed, createSender, makeRequest, resolveTo, toLookupAddress } from './_setup.ts'

const REFUSED = 'destination_not_allowed'

test('an address in the URL is rejected in every spelling and never connected to', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createSender(context, { allowHttp: true, lookup: () => assert.fail('looked up') })
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '%31%32%37.1',
    '①②⑦.0.0.1',
    '127.0.0.1..',
  ]
  const ipv6Hosts = ['[::1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::127.0.0.1]', '[::]']
  for (const host of [...hosts, ...ipv6Hosts, '0.0.0.0', '0', 'localhost', 'LocalHost.', 'a.localhost']) {
    assertFailed(await sender.send(makeRequest(`http://${host}:${receiver.port}/`)), REFUSED)
  }
  assert.equal(receiver.accepted, 0)
})

test('nothing is sent to a rejected URL, and the detail has the reason', async (context) => {
  const sender = createSender(context, { lookup: () => assert.fail('looked up') })
  const refusals: Record<string, RegExp> = {
    'http://example.com': /must be https/,
    'https://user:secret@example.com': /must not contain a user name/,
    'https://example.com:25': /must use port 443/,
    'no url': /must be a URL/,
  }
  for (const [url, detail] of Object.entries(refusals)) {
    assertFailed(await sender.send(makeRequest(url)), REFUSED, detail)
  }
})

test('a name that resolves to a rejected address is rejected before connecting', async (context) => {
  const receiver = await startSecureReceiver(context)
  const sender = createSender(context, { lookup: resolveTo('127.0.0.1'), ca: CERTIFICATE })
  const answer = await sender.send(makeRequest(`https://receiver.test:${receiver.port}`))
  assertFailed(answer, REFUSED, /^receiver\.test: 127\.0\.0\.1 is in 127\.0\.0\.0\/8 \(loopback\)$/)
  assert.equal(receiver.accepted, 0)
  assert.equal(answer.timings?.connectMs, null)
})

test('a name with a public and a rejected address is rejected, in any order', async (context) => {
  const receiver = await startReceiver(context)
  for (const addresses of [
    ['8.8.8.8', '127.0.0.1'],
    ['127.0.0.1', '8.8.8.8'],
    ['2606:4700::1111', '::ffff:127.0.0.1'],
  ]) {
    const sender = createSender(context, { allowHttp: true, lookup: resolveTo(...addresses) })
    assertFailed(await sender.send(makeRequest(`http://receiver.test:${receiver.port}`)), REFUSED)
  }
  assert.equal(receiver.accepted, 0)
})

test("a name that doesn't exist fails like one with a rejected address, except for the detail", async (context) => {
  const missing: Lookup = (_hostname, _options, callback) =>
    callback(Object.assign(new Error('queryA ENOTFOUND receiver.test'), { code: 'ENOTFOUND' }), [])
  const answers = []
  for (const lookup of [resolveTo('127.0.0.1'), missing, resolveTo()]) {
    const sender = createSender(context, { lookup })
    const { detail, durationMs: _, ...answer } = await sender.send(makeRequest('https://receiver.test/'))
    assert.match(detail ?? '', /^receiver\.test/)
    answers.push(answer)
  }
  assert.equal(answers[0]?.error, REFUSED)
  for (const answer of answers) assert.deepEqual(answer, answers[0])
})

test('a name whose name servers fail is dns_failed', async (context) => {
  for (const code of ['ESERVFAIL', 'ETIMEOUT', 'EAI_AGAIN']) {
    const lookup: Lookup = (_hostname, _options, callback) =>
      callback(Object.assign(new Error(`queryA ${code}`), { code }), [])
    const sender = createSender(context, { lookup })
    assertFailed(await sender.send(makeRequest('https://receiver.test/')), 'dns_failed')
  }
})

test('addresses that the host rejects get nothing, even if private networks are allowed', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createSender(context, {
    allowPrivateNetworks: true,
    allowHttp: true,
    lookup: resolveTo('127.0.0.1'),
    refuseAddresses: ['127.0.0.1'],
  })
  for (const host of ['127.0.0.1', 'receiver.test']) {
    const answer = await sender.send(makeRequest(`http://${host}:${receiver.port}`))
    assertFailed(answer, REFUSED, /127\.0\.0\.1 is in 127\.0\.0\.1 \(refused by the host\)/)
  }
  assert.equal(receiver.accepted, 0)
})

test('every connection is checked, whatever an earlier lookup returned', async (context) => {
  const receiver = await startReceiver(context, (response) => response.setHeader('Connection', 'close').end())
  const answers = ['127.0.0.1', '127.0.0.2']
  const guard = allowing('127.0.0.1', () => [answers.shift() ?? ''])
  assert.ok((await connectTo('receiver.test', receiver.port, guard)).writable)
  await assert.rejects(connectTo('receiver.test', receiver.port, guard), { code: REFUSED })
  assert.equal(receiver.accepted, 1)
})

test('the socket connects to the checked addresses: a name is only resolved once per connection', async (context) => {
  const receiver = await startReceiver(context)
  const answers = ['127.0.0.1', '127.0.0.2']
  const guard = allowing('127.0.0.1', () => [answers.shift() ?? ''])
  const socket = await connectTo('receiver.test', receiver.port, guard)
  assert.equal(socket.remoteAddress, '127.0.0.1')
  assert.deepEqual(answers, ['127.0.0.2'])
})

test("nothing is sent if the remote address isn't allowed", async (context) => {
  // The system treats 0.0.0.0 as this machine, so the remote address isn't the one that was checked.
  const bytes: Buffer[] = []
  const receiver = await startRawReceiver(context, (socket) =>
    socket.on('data', (chunk) => bytes.push(chunk)),
  )
  const accepted = receiver.nextSocket()
  const dialled = connectTo(
    'receiver.test',
    receiver.port,
    allowing('0.0.0.0', () => ['0.0.0.0']),
  )
  await assert.rejects(dialled, { code: REFUSED, message: 'receiver.test: 127.0.0.1 is not for this test' })
  await closed(await accepted)
  assert.deepEqual(bytes, [])
})

test('an address in the URL is also checked when connecting', async (context) => {
  const receiver = await startReceiver(context)
  const guard = allowing('192.0.2.1', () => assert.fail('looked up'))
  await assert.rejects(connectTo('127.0.0.1', receiver.port, guard), { code: REFUSED })
  assert.equal(receiver.accepted, 0)
})

test('connecting is reported once, even if the connection breaks later', async (context) => {
  const receiver = await startRawReceiver(context, (socket) =>
    socket.once('data', () => socket.resetAndDestroy()),
  )
  const guard = allowing('127.0.0.1', () => ['127.0.0.1'])
  const target = plainTarget('a.test', receiver.port)
  const reports: unknown[] = []
  await new Promise<void>((resolve) => {
    dial(target, guard, createTimings(), (error, socket) => {
      reports.push(error)
      socket?.on('close', () => resolve()).write('x')
    })
  })
  assert.deepEqual(reports, [null])
})

test("all checked addresses are tried if one doesn't respond", async (context) => {
  const receiver = await startReceiver(context)
  const sender = createSender(context, {
    allowPrivateNetworks: true,
    allowHttp: true,
    lookup: resolveTo('::1', '127.0.0.1'),
  })
  const answer = await sender.send(makeRequest(`http://receiver.test:${receiver.port}`))
  assert.equal(answer.status, 200, answer.detail ?? '')
})

test('a connection that was checked is used again without another lookup', async (context) => {
  const receiver = await startReceiver(context)
  let lookups = 0
  const lookup: Lookup = (hostname, options, callback) => {
    lookups += 1
    resolveTo('127.0.0.1')(hostname, options, callback)
  }
  const sender = createSender(context, { allowPrivateNetworks: true, allowHttp: true, lookup })
  for (let count = 0; count < 3; count += 1) {
    assert.equal((await sender.send(makeRequest(`http://receiver.test:${receiver.port}`))).status, 200)
  }
  assert.deepEqual([lookups, receiver.accepted], [1, 1])
})

test("attempts that connect to the same name at once share a lookup, and the next one doesn't", async () => {
  const waiting: (() => void)[] = []
  const resolve = shareLookups((_hostname, _options, callback) => {
    waiting.push(() => callback(null, [toLookupAddress('8.8.8.8')]))
  })
  const together = [resolve('a.test'), resolve('a.test'), resolve('b.test')]
  assert.equal(waiting.length, 2)
  for (const answer of waiting.splice(0)) answer()
  await Promise.all(together)
  const next = resolve('a.test')
  assert.equal(waiting.length, 1)
  for (const answer of waiting) answer()
  await next
})

test("a lookup that never calls back doesn't block the name forever", async () => {
  let isLost = true
  const resolve = shareLookups((hostname, options, callback) => {
    if (!isLost) resolveTo('8.8.8.8')(hostname, options, callback)
    isLost = false
  }, 10)
  void resolve('a.test')
  await setTimeout(15)
  assert.deepEqual(await resolve('a.test'), [toLookupAddress('8.8.8.8')])
})

/** A guard that only allows one address. */
function allowing(allowed: string, resolve: () => string[]): AddressGuard {
  return {
    resolve: async () => resolve().map(toLookupAddress),
    judgeUnresolved: () => ({ allowed: true }),
    judge: (addresses): DestinationVerdict => {
      const refused = addresses.find(({ address }) => address !== allowed)
      return refused
        ? { allowed: false, reason: '', detail: `${refused.address} is not for this test` }
        : { allowed: true }
    },
  }
}

function connectTo(hostname: string, port: number, guard: AddressGuard): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const dialled = dial(plainTarget(hostname, port), guard, createTimings(), (...[error]) => {
      if (error) reject(error)
      else if (dialled) resolve(dialled.socket)
    })
  })
}

function plainTarget(hostname: string, port: number): DialTarget {
  const turns = createReadingTurns()
  return {
    hostname,
    port,
    secure: null,
    connect: (options) => connectMetered(options, turns),
  }
}
