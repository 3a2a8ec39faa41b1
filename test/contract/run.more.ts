import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startProgram } from '../examples/_program.ts'
import { loadStore } from './store-file.ts'

const directory = mkdtempSync(join(tmpdir(), 'store-file-'))
after(() => rmSync(directory, { recursive: true }))

async function runContract(...args: string[]): Promise<{ exit: number; output: string }> {
  const program = startProgram('npm', ['run', '--silent', 'contract', '--', ...args], {
    // Otherwise this file's test runner would read the program's report as its own.
    NODE_TEST_CONTEXT: undefined,
  })
  return { exit: await program.exit, output: program.stdout() + program.stderr() }
}

function writeStoreFile(name: string, source: string): string {
  const path = join(directory, `${name}.mjs`)
  writeFileSync(path, source)
  return path
}

test('npm run contract passes with the store from examples/custom-store', async () => {
  const { exit, output } = await runContract('./examples/tracker-store.ts')
  assert.equal(exit, 0, output)
  assert.match(output, /▶ creations\n/)
  assert.match(output, /pass [5-9]\d\d\n.*fail 0\n.*cancelled 0\n.*skipped 0\n/)
})

test('npm run contract fails with a store that has a bug, lists the failed tests, and only runs the given parts', async () => {
  const { exit, output } = await runContract('./test/contract/_store-without-events.ts', 'creations')
  assert.equal(exit, 1, output)
  assert.match(output, /✖ clients\.create\(\) writes the record and the events in order, byte for byte/)
  assert.doesNotMatch(output, /▶ claims/)
})

test('npm run contract explains invalid arguments', async () => {
  const { exit, output } = await runContract('./examples/tracker-store.ts', 'one store for all')
  assert.equal(exit, 2)
  assert.match(output, /Cannot find 'one store for all' in the contract of stores: its parts are 'lists', /)
})

test('npm run contract rejects a file without a factory', () =>
  assert.rejects(loadStore(writeStoreFile('empty', 'export const store = {}')), {
    name: 'TypeError',
    message: /the export 'createStore' of .*empty\.mjs must be a function: current type is undefined$/,
  }))

test('npm run contract rejects exports of the wrong type', async () => {
  const factory = 'export const createStore = () => ({})'
  await assert.rejects(loadStore(writeStoreFile('events', `${factory}; export const events = []`)), {
    message: /the export 'events' of .* must be a function: current type is object$/,
  })
  await assert.rejects(loadStore(writeStoreFile('without', `${factory}; export const without = 'audit'`)), {
    message: /the export 'without' of .* must be an array of names of parts$/,
  })
})

test('npm run contract rejects a store with missing slices and lists them', async () => {
  const message = /the store of .* has no service, .*apiKeys, .*, eventLog$/
  for (const store of ['({})', 'null', 'undefined']) {
    const path = writeStoreFile(
      `store-${store.replace(/\W/g, '')}`,
      `export const createStore = async () => ${store}`,
    )
    await assert.rejects(loadStore(path), { name: 'TypeError', message })
  }
})
