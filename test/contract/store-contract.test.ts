import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createMemoryStore } from '../../lib/memory.ts'
import type { BusinessApiStore } from '../../lib/store.ts'
import { describeStoreContract, type StoreCapability, type TestRunner } from './store-contract.ts'

// Runs the suite with its own runner, as an author of a store would, and with stores that violate the contract.

interface Registered {
  readonly name: string
  readonly body: () => Promise<void>
  readonly isSkipped: boolean
}

function register(
  change: (store: BusinessApiStore) => BusinessApiStore,
  without?: readonly StoreCapability[],
) {
  let passedMs = 0
  const memory = createMemoryStore({ clock: () => Date.now() + passedMs })
  const store = change(memory)
  const registered: Registered[] = []
  const path: string[] = []
  const runner: TestRunner = {
    describe(name, body) {
      path.push(name)
      body()
      path.pop()
    },
    test: Object.assign(
      (name: string, body: () => Promise<void>) =>
        registered.push({ name: [...path, name].join(' > '), body, isSkipped: false }),
      {
        skip: (name: string, body: () => Promise<void>) =>
          registered.push({ name: [...path, name].join(' > '), body, isSkipped: true }),
      },
    ),
  }
  describeStoreContract({
    name: 'my',
    runner,
    without,
    store: () => store,
    secondStore: () => store,
    events: (organizationId) => memory.recordedEvents(organizationId),
    letTimePass: (_, ms) => {
      passedMs += ms
    },
  })
  return registered
}

async function failuresOf(registered: readonly Registered[], part: string): Promise<string[]> {
  const failures: string[] = []
  for (const { name, body } of registered.filter((each) => each.name.startsWith(`my store > ${part} >`))) {
    await body().catch(() => failures.push(name))
  }
  return failures
}

test('describeStoreContract() works with any runner, and all tests of a part pass with a valid store', async () => {
  const registered = register((store) => store)
  assert.ok(registered.length > 300)
  assert.equal(new Set(registered.map(({ name }) => name)).size, registered.length, 'every name is unique')
  assert.deepEqual(await failuresOf(registered, 'claims'), [])
  assert.deepEqual(await failuresOf(registered, 'creations'), [])
})

test('describeStoreContract() fails with a store that writes a record without its events', async () => {
  const registered = register((store) => ({
    ...store,
    clients: { ...store.clients, create: (creation) => store.clients.create({ ...creation, events: [] }) },
  }))
  const failures = await failuresOf(registered, 'creations')
  assert.ok(failures.length > 0)
})

test('describeStoreContract() fails with a store that forgets a revocation', async () => {
  const registered = register((store) => ({
    ...store,
    apiKeys: { ...store.apiKeys, revoke: async () => null },
  }))
  assert.ok((await failuresOf(registered, 'API keys')).length > 0)
})

test('describeStoreContract() lets the runner skip the tests of a part that the store lacks', async () => {
  const all = register((store) => store)
  const some = register((store) => store, ['audit', 'one store for all'])
  assert.equal(some.length, all.length)
  const skipped = some.filter(({ isSkipped }) => isSkipped).map(({ name }) => name)
  const audit = all.filter(({ name }) => name.startsWith('my store > audit >'))
  assert.equal(skipped.length, audit.length + 2)
  assert.ok(all.every(({ isSkipped }) => !isSkipped))
})

test('describeStoreContract() rejects a part that the contract does not have', () => {
  assert.throws(() => register((store) => store, ['no such part' as StoreCapability]), {
    name: 'RangeError',
    message: /^Cannot find 'no such part' in the contract of stores: its parts are 'lists', /,
  })
})

test('every assert.ok() in the suite has a message, because Node reads the source of the line otherwise, and may hang with a loader', () => {
  const directory = import.meta.dirname
  const files = readdirSync(directory).filter((file) => !file.endsWith('.test.ts'))
  const bare = files.flatMap((file) => {
    const source = readFileSync(join(directory, file), 'utf8').replaceAll(/'(?:[^'\\\n]|\\.)*'|`[^`]*`/g, '_')
    const calls = [...source.matchAll(/assert\.ok\(/g)].map(({ index }) => source.slice(index))
    return calls.filter((call) => !hasSecondArgument(call)).map((call) => `${file}: ${call.split('\n')[0]}`)
  })
  assert.deepEqual(bare, [])
})

function hasSecondArgument(call: string): boolean {
  let depth = 0
  for (const character of call) {
    if ('([{'.includes(character)) depth++
    if (')]}'.includes(character)) depth--
    if (depth === 1 && character === ',') return true
    if (depth === 0 && character === ')') return false
  }
  return false
}
