import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import type { StoreUnderTest } from './harness.ts'
import type { StoreCapability } from './store-contract.ts'

// The file read by `npm run contract -- ./my-store.ts`.

/** The exports of a file with a store. */
export interface StoreFile {
  /** Creates the store, which must be empty. The suite moves `clock` (milliseconds since 1970) to let time pass. */
  createStore(options: { clock: Clock }): BusinessApiStore | Promise<BusinessApiStore>
  /** Creates another store with the same data, as in a different process. Defaults to the first store. */
  readonly createSecondStore?: StoreFile['createStore']
  /** See {@link StoreUnderTest.events}. By default, events are read from the store's event log. */
  readonly events?: StoreUnderTest['events']
  /** See {@link StoreUnderTest.letTimePass}. Required if the store has its own clock. By default, `clock` is moved. */
  readonly letTimePass?: StoreUnderTest['letTimePass']
  /** The parts of the contract that the store doesn't support. They're reported as skipped. None by default. */
  readonly without?: readonly StoreCapability[]
  /** Closes everything that would keep the process alive. */
  readonly close?: () => unknown
}

/** The store from a file, ready for the contract. */
export interface StoreOfFile extends StoreUnderTest {
  readonly without: readonly StoreCapability[]
  close(): Promise<void>
}

const FUNCTIONS = ['createStore', 'createSecondStore', 'events', 'letTimePass', 'close'] as const

/**
 * Loads a file and creates its store.
 *
 * @param path the file, relative to the current directory
 * @throws TypeError if an export is invalid or the store doesn't have all slices
 */
export async function loadStore(path: string): Promise<StoreOfFile> {
  const file = checkFile(path, await import(pathToFileURL(resolve(path)).href))
  let passedMs = 0
  const options = { clock: () => Date.now() + passedMs }
  const store = checkStore(path, await file.createStore(options))
  const secondStore = file.createSecondStore ? checkStore(path, await file.createSecondStore(options)) : store
  return {
    store: () => store,
    secondStore: () => secondStore,
    events: file.events ?? ((organizationId) => readEvents(store, organizationId)),
    letTimePass:
      file.letTimePass ??
      ((_, ms) => {
        passedMs += ms
      }),
    without: file.without ?? [],
    close: async () => {
      await file.close?.()
    },
  }
}

function checkFile(path: string, exports: Readonly<Record<string, unknown>>): StoreFile {
  for (const name of FUNCTIONS) {
    const type = typeof exports[name]
    if (type === 'function' || (type === 'undefined' && name !== 'createStore')) continue
    throw new TypeError(
      `Cannot run the contract: the export '${name}' of ${path} must be a function: current type is ${type}`,
    )
  }
  if (exports.without !== undefined && !Array.isArray(exports.without)) {
    throw new TypeError(
      `Cannot run the contract: the export 'without' of ${path} must be an array of names of parts`,
    )
  }
  // We know that the functions exist. What they return is checked at run time.
  return exports as unknown as StoreFile
}

/** Checks that a store has the same slices as a complete one. */
function checkStore(path: string, store: BusinessApiStore): BusinessApiStore {
  const slices: Partial<Record<string, unknown>> = { ...store }
  const missing = Object.entries(createMemoryStore())
    .filter(([name, slice]) => typeof slice === 'object' && typeof slices[name] !== 'object')
    .map(([name]) => name)
  if (missing.length === 0) return store
  throw new TypeError(`Cannot run the contract: the store of ${path} has no ${missing.join(', ')}`)
}

/** Returns all events of an organization from the store's event log, by ascending id. */
async function readEvents(store: BusinessApiStore, organizationId: string): Promise<readonly EventRecord[]> {
  const records: EventRecord[] = []
  for (let before: string | null = null; ; ) {
    const { events, next } = await store.eventLog.list(organizationId, {}, 200, before)
    const ids = events.map(({ id }) => id)
    records.push(...(await store.eventLog.read(organizationId, ids)))
    if (next === null) return records.sort((a, b) => (a.id < b.id ? -1 : 1))
    before = next
  }
}
