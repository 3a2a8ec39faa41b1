import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import type { Service } from '../../service.ts'
import type { PostgresStore } from '../store.ts'
import { SLOTS, slotOf } from './placement.ts'
import type { ShardPlace } from './shard-place.ts'

// The shards of a process. Before the first call of a shard its database is asked once for its place: a database that is not the shard
// of its name, has lost its data, or was given other names, is rejected before anything is read or written there. A shard that is away concerns only
// the calls that need it.

/** A shard: an ordinary store, with its name. */
export interface Shard<Own extends Service = Service> {
  readonly name: string
  readonly store: PostgresStore<Own>
}

/** The answers of all shards. */
export interface Answers<Answer> {
  readonly answers: readonly Answer[]
  /** Why the answers are not complete: the error of a shard that could not be reached. Undefined: all have answered. */
  readonly away: unknown
}

/** Makes a call on all shards at once. Throws an error that is not `store_unavailable`, and with that code if no shard answers. */
export type AskAll = <Answer>(call: (store: PostgresStore) => Promise<Answer>) => Promise<Answers<Answer>>

/** The shards of a process, and the map. */
export interface Fleet {
  /** In the order of the names. */
  readonly shards: readonly Shard[]
  /**
   * Finds the shard of an organization.
   *
   * @throws `BusinessApiError` with code `wrong_shard` for databases that are not the shards of their names; with code
   *   `store_unavailable` when the shard cannot be reached before its first call
   */
  locate(organizationId: string): Promise<Shard>
  /** Makes a call on one shard. An error that the shard cannot be reached names the shard. */
  ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  readonly askAll: AskAll
}

/** Creates the fleet of named stores. Opens nothing. */
export function createFleet(stores: Readonly<Record<string, PostgresStore>>): Fleet {
  const shards = readShards(stores)
  const names = shards.map(({ name }) => name)
  const entries = new Map<Shard, Promise<void>>()
  let slots: readonly string[] | undefined

  /** Checks the place of a shard, once for all callers. After a failure, the next caller checks again. */
  function enter(shard: Shard): Promise<void> {
    const entry = entries.get(shard) ?? checkPlace(shard)
    entries.set(shard, entry)
    return entry
  }

  async function checkPlace(shard: Shard): Promise<void> {
    try {
      const found = check(shard, await readPlace(shard))
      const place = isInForce(found) ? found : await begin()
      slots ??= place.slots
    } catch (error) {
      entries.delete(shard)
      throw error
    }
  }

  /** The first start of an installation, which writes the map on all shards; or the rest of a first start that was cut off. */
  async function begin(): Promise<ShardPlace> {
    const isBegun = (await readPlaces()).some(isInForce)
    // Read afterwards: a map in force is on all shards.
    const places = await readPlaces()
    const blank = shards.find((_, index) => places[index] === null)
    if (isBegun && blank) throw isBlank(blank)
    const map = places.find((place) => place !== null) ?? { slots: spread(names) }
    // In the order of the names: of two first starts with other names, the second fails at the first shard.
    for (const version of [0, IN_FORCE]) {
      for (const shard of shards) check(shard, await readPlace(shard, { ...map, name: shard.name, version }))
    }
    return { ...map, name: '', version: IN_FORCE }
  }

  function readPlaces(): Promise<readonly (ShardPlace | null)[]> {
    return Promise.all(shards.map(async (shard) => check(shard, await readPlace(shard))))
  }

  function check({ name }: Shard, place: ShardPlace | null): ShardPlace | null {
    const stored = [...new Set(place?.slots ?? names)].sort()
    const isOwn = place === null || place.name === name
    if (isOwn && stored.join() === names.join()) return place
    throw new BusinessApiError(
      WRONG_SHARD,
      stored.join() === names.join()
        ? `Cannot use shard '${name}' because its database is shard '${place?.name}': give each connection string under the name of its shard`
        : `Cannot use the shards '${names.join("', '")}' because the databases belong to an installation with the shards ` +
            `'${stored.join("', '")}': give every shard of the installation under its own name, and no other`,
    )
  }

  async function ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer> {
    await enter(shard)
    return named(shard, call(shard.store))
  }

  return {
    shards,
    ask,

    async locate(organizationId) {
      // The map is the same on every shard: the first answer will do.
      if (!slots)
        await Promise.any(shards.map(enter)).catch(({ errors }: AggregateError) => throwFirst(errors))
      const owner = slots?.[slotOf(organizationId)]
      const shard = shards.find(({ name }) => name === owner) as Shard
      await enter(shard)
      return shard
    },

    async askAll(call) {
      const settled = await Promise.allSettled(shards.map((shard) => ask(shard, call)))
      const errors = settled.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
      if (errors.length === shards.length || !errors.every(isStoreUnavailable)) throwFirst(errors)
      const answers = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
      return { answers, away: errors[0] }
    },
  }
}

/** The version of the first map that is on all shards. */
const IN_FORCE = 1

function isInForce(place: ShardPlace | null): place is ShardPlace {
  return place !== null && place.version >= IN_FORCE
}

function isBlank({ name }: Shard): BusinessApiError {
  return new BusinessApiError(
    WRONG_SHARD,
    `Cannot use shard '${name}' because its database has no data of the installation, and other shards have: give the connection string ` +
      'of its own database, or restore that database',
  )
}

function readPlace(shard: Shard, first?: ShardPlace): Promise<ShardPlace | null> {
  return named(shard, shard.store.shardPlace(first))
}

/** Names the shard in an error that it cannot be reached. */
async function named<Answer>({ name }: Shard, answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (error) {
    if (!isStoreUnavailable(error)) throw error
    throw storeUnavailable(`Shard '${name}': ${error.message}`, error.cause)
  }
}

/** Throws the first error that an operator has to mend, else the first. */
function throwFirst(errors: readonly unknown[]): never {
  throw errors.find((error) => !isStoreUnavailable(error)) ?? errors[0]
}

/** Lower-case words, because names stand in variables, labels and paths. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/

function readShards(stores: Readonly<Record<string, PostgresStore>>): readonly Shard[] {
  const shards = Object.entries(stores).map(([name, store]) => ({ name, store }))
  if (shards.length > 0 && shards.length <= SLOTS && shards.every(({ name }) => NAME.test(name))) {
    return shards.sort((one, other) => (one.name < other.name ? -1 : 1))
  }
  throw new TypeError(
    `Cannot use option 'shards' because it must be 1 to ${SLOTS} stores by name, a name like eu-1 of lower-case letters, digits, - and _: ` +
      `current names are '${Object.keys(stores).join("', '")}'`,
  )
}

/** Gives every shard as many slots as every other. */
function spread(names: readonly string[]): readonly string[] {
  return Array.from({ length: SLOTS }, (_, slot) => names[slot % names.length] ?? '')
}
