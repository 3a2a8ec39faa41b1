import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import type { Lookup } from '../../lib/webhooks/dns-lookup.ts'
import { createPublicLookup } from '../../lib/webhooks/dns-lookup.ts'

const A = 1
const NXDOMAIN = 3

/** A name server that knows one name, never responds for another, and rejects all others. */
function answer(query: Buffer): Buffer | null {
  const labels: string[] = []
  let at = 12
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const name = labels.join('.')
  const isForA = query.readUInt16BE(at + 1) === A
  if (name === 'silent.example' || (name === 'half-silent.example' && !isForA)) return null
  const isKnown = name === 'hooks.example' || name === 'half-silent.example'
  const header = Buffer.from(query.subarray(0, 12))
  header.writeUInt16BE(0x8180 | (isKnown ? 0 : NXDOMAIN), 2)
  header.writeUInt16BE(isKnown && isForA ? 1 : 0, 6)
  header.writeUInt32BE(0, 8)
  const record = Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 60, 0, 4, 93, 184, 216, 34])
  return Buffer.concat([header, query.subarray(12, at + 5), ...(isKnown && isForA ? [record] : [])])
}

describe('createPublicLookup()', () => {
  let server: Socket
  let servers: string[]
  const asked: string[] = []
  const system: Lookup = (hostname, _options, callback) => {
    asked.push(hostname)
    if (hostname === 'in-hosts.example') callback(null, [{ address: '192.0.2.7', family: 4 }])
    else callback(Object.assign(new Error('not there'), { code: 'ENOTFOUND' }), [])
  }

  before(async () => {
    server = createSocket('udp4').on('message', (query, from) => {
      const reply = answer(query)
      if (reply) server.send(reply, from.port, from.address)
    })
    server.bind(0, '127.0.0.1')
    await once(server, 'listening')
    servers = [`127.0.0.1:${server.address().port}`]
  })
  after(() => server.close())

  const resolve = (lookup: Lookup, hostname: string): Promise<LookupAddress[]> =>
    new Promise((fulfil, reject) => {
      lookup(hostname, { all: true }, (error, addresses) => (error ? reject(error) : fulfil(addresses)))
    })

  test('queries the name servers itself', async () => {
    asked.length = 0
    const addresses = await resolve(createPublicLookup({ servers, system }), 'hooks.example')
    assert.deepEqual(addresses, [{ address: '93.184.216.34', family: 4 }])
    assert.deepEqual(asked, [])
  })

  test("doesn't wait as long for the other family as for a silent name server", async () => {
    const lookup = createPublicLookup({ servers, system, timeoutMs: 30_000 })
    assert.equal((await resolve(lookup, 'half-silent.example')).length, 1)
  })

  test('asks the system for a name that no name server knows', async () => {
    const lookup = createPublicLookup({ servers, system })
    assert.deepEqual(await resolve(lookup, 'in-hosts.example'), [{ address: '192.0.2.7', family: 4 }])
    await assert.rejects(resolve(lookup, 'nowhere.example'), { code: 'ENOTFOUND' })
  })

  test('asks the system for one name at a time', async () => {
    const waiting: (() => void)[] = []
    const slow: Lookup = (hostname, _options, callback) => {
      waiting.push(() =>
        callback(null, [{ address: hostname === 'one.example' ? '192.0.2.1' : '192.0.2.2', family: 4 }]),
      )
    }
    const lookup = createPublicLookup({ servers, system: slow })
    const both = [resolve(lookup, 'one.example'), resolve(lookup, 'two.example')]
    // Once a third name has a response, the first two have reached the name server as well.
    await resolve(lookup, 'hooks.example')
    for (let left = 2; left > 0; left--) {
      while (waiting.length === 0) await new Promise(setImmediate)
      assert.equal(waiting.length, 1)
      waiting.shift()?.()
    }
    assert.equal((await Promise.all(both)).flat().length, 2)
  })

  test("a silent name server delays no other name, and the system isn't asked", async () => {
    asked.length = 0
    const lookup = createPublicLookup({ servers, system, timeoutMs: 250 })
    const silent = resolve(lookup, 'silent.example')
    assert.equal((await resolve(lookup, 'hooks.example')).length, 1)
    await assert.rejects(silent, { code: 'ETIMEOUT' })
    assert.deepEqual(asked, [])
  })
})
