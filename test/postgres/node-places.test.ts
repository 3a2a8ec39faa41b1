import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../lib/base/errors.ts'
import type { Database, TextRow } from '../../lib/postgres/connection/database.ts'
import { createNodePlacesReader, type NodePlaces } from '../../lib/postgres/distributed/node-places.ts'

// How the loops find a node that has nothing but shards of a single organization, on answers that the test gives, with a clock that the
// test moves. test/faults/citus-rebalancing.slow.ts does the same with real nodes.

const SHARED = { node: 'a', organizationId: 'node 1', hashes: null }
const OF_ONE = { node: 'b', organizationId: null, hashes: [7, -9] }

describe('createNodePlacesReader()', () => {
  let now = 0
  /** The answer to a look at the owners of shards, or the error. */
  let owners: Readonly<Record<string, string>> | Error
  let looks: number
  let read: () => Promise<NodePlaces>

  beforeEach(() => {
    now = 1_000_000
    mock.method(performance, 'now', () => now)
    owners = {}
    looks = 0
    const database: Pick<Database, 'row'> = {
      async row(build): Promise<TextRow> {
        const text = String(build(((parts: readonly string[]) => parts.join('?')) as never, '' as never))
        if (!text.includes('webhook_endpoints')) return [JSON.stringify([SHARED, OF_ONE]), '5']
        looks++
        if (owners instanceof Error) throw owners
        return [JSON.stringify(owners)]
      },
    }
    read = createNodePlacesReader(database as Database)
  })
  afterEach(() => mock.restoreAll())

  /** Reads, and lets a look that the reading has begun come to an end. */
  async function readAll(): Promise<NodePlaces> {
    const found = await read()
    await turn()
    return found
  }

  test('a node with nothing but shards of a single organization is looked for beside the reading, once', async () => {
    owners = { '-9': 'org_own' }
    assert.deepEqual(await readAll(), {
      places: [{ node: 'a', organizationId: 'node 1' }],
      unknown: 1,
      time: 5,
    })
    const found = await readAll()
    assert.deepEqual(found.places[1], { node: 'b', organizationId: 'org_own' })
    assert.deepEqual([found.unknown, looks], [0, 1])
  })

  test('a node without an endpoint is not missing, and is looked at again after ten seconds', async () => {
    await readAll()
    const empty = await readAll()
    assert.deepEqual([empty.places.length, empty.unknown, looks], [1, 0, 1])
    owners = { '7': 'org_new' }
    now += 10_000
    await readAll()
    const found = await readAll()
    assert.deepEqual([found.places[1]?.organizationId, looks], ['org_new', 2])
  })

  test('a look that fails leaves the node missing until the next look', async () => {
    owners = storeUnavailable('a node is silent')
    await readAll()
    assert.deepEqual([(await readAll()).unknown, looks], [1, 1])
    owners = { '7': 'org_own' }
    now += 10_000
    await readAll()
    assert.deepEqual([(await readAll()).unknown, looks], [0, 2])
  })
})
