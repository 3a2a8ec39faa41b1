import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import type { PostgresStore } from '../store.ts'
import { SLOTS, slotOf } from './placement.ts'
import type { ShardPlace } from './shard-place.ts'

// The shards of a process. Before the first call of a shard its database is asked once for its place: a database that is not the shard
// of its name, or was given other names, is rejected before anything is read or written there. A shard that is away concerns only
// the calls that need it.

/** A shard: an ordinary store, with its name. */
export interface Shard {
  readonly name: string
  readonly store: PostgresStore
}

/** The answers of several shards. */
export interface Answers<Answer> {
  readonly answers: readonly { readonly shard: Shard; readonly answer: Answer }[]
  /** Why the answers are not complete: the error of a shard that could not be reached. Undefined: all have answered. */
  readonly away: unknown
}

/** The shards of a process, and the map. */
export interface Fleet {
  /** In the order of the names. */
  readonly shards: readonly Shard[]
  /** Finds the shard of an organization; undefined before the first call of that shard. */
  find(organizationId: string): Shard | undefined
  /**
   * Finds the shard of an organization.
   *
   * @throws `BusinessApiError` with code `wrong_shard` for databases that are not the shards of their names; with code
   *   `store_unavailable` when the shard cannot be reached
   */
  locate(organizationId: string): Promise<Shard>
  /** Makes a call on one shard. An error that the shard cannot be reached names the shard. */
  ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  /** Makes a call on the shard of an organization. */
  askOwner<Answer>(organizationId: string, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  /** Makes a call on all shards at once. Throws an error that is not `store_unavailable`, and with that code if no shard answers. */
  askAll<Answer>(call: (store: PostgresStore, shard: Shard) => Promise<Answer>): Promise<Answers<Answer>>
}

/** Creates the fleet of named stores. Opens nothing. */
export function createFleet(stores: Readonly<Record<string, PostgresStore>>): Fleet {
  const shards = readShards(stores)
  const byName = new Map(shards.map((shard) => [shard.name, shard]))
  const names = [...byName.keys()]
  const checks = new Map<Shard, Promise<void>>()
  const checked = new Set<Shard>()
  let slots: readonly string[] | undefined

  /** Checks the place of a shard, once for all callers. A failed check is made again by the next caller. */
  function check(shard: Shard): Promise<void> {
    const underWay = checks.get(shard) ?? checkNow(shard).finally(() => checks.delete(shard))
    checks.set(shard, underWay)
    return underWay
  }

  async function checkNow(shard: Shard): Promise<void> {
    if (checked.has(shard)) return
    const place = (await readPlace(shard)) ?? (await begin(shard))
    checkPlace(place, shard.name, names)
    slots ??= place.slots
    checked.add(shard)
  }

  /** Gives a shard a place: the first start of an installation, which writes the map on all shards. */
  async function begin(shard: Shard): Promise<ShardPlace> {
    // One of the others may have a map, of an earlier start that was cut off or of other names.
    const places = await Promise.all(shards.map(readPlace))
    for (const [index, place] of places.entries()) if (place) checkPlace(place, names[index] ?? '', names)
    const known = places.find((place) => place !== null) ?? { version: 1, slots: spread(names) }
    // In the order of the names: of two first starts with other names, the second fails at the first shard.
    for (const one of shards) {
      await one.store.shardPlaces.write({ ...known, name: one.name })
      const place = await readPlace(one)
      if (place) checkPlace(place, one.name, names)
    }
    return { ...known, name: shard.name }
  }

  function find(organizationId: string): Shard | undefined {
    const shard = byName.get(slots?.[slotOf(organizationId)] ?? '')
    return shard && checked.has(shard) ? shard : undefined
  }

  async function ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer> {
    try {
      if (!checked.has(shard)) await check(shard)
      return await call(shard.store)
    } catch (error) {
      throw isStoreUnavailable(error) ? nameShard(error, shard) : error
    }
  }

  async function askAll<Answer>(
    call: (store: PostgresStore, shard: Shard) => Promise<Answer>,
  ): Promise<Answers<Answer>> {
    const settled = await Promise.allSettled(
      shards.map((shard) => ask(shard, async (store) => ({ shard, answer: await call(store, shard) }))),
    )
    const errors = settled.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
    const bug = errors.find((error) => !isStoreUnavailable(error))
    if (bug !== undefined || errors.length === shards.length) throw bug ?? errors[0]
    const answers = settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    return { answers, away: errors[0] }
  }

  async function locate(organizationId: string): Promise<Shard> {
    // The map is the same on every shard: the first answer will do.
    if (slots === undefined) await Promise.any(shards.map((shard) => ask(shard, noCall))).catch(throwFirst)
    const shard = byName.get(slots?.[slotOf(organizationId)] ?? '') as Shard
    await ask(shard, noCall)
    return shard
  }

  return {
    shards,
    find,
    locate,
    ask,
    askOwner: async (organizationId, call) =>
      ask(find(organizationId) ?? (await locate(organizationId)), call),
    askAll,
  }
}

const noCall = async (): Promise<void> => {}

function throwFirst({ errors }: AggregateError): never {
  throw errors.find((error) => !isStoreUnavailable(error)) ?? errors[0]
}

/** Lower-case words, because names stand in variables, labels and paths. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/

function readShards(stores: Readonly<Record<string, PostgresStore>>): readonly Shard[] {
  const names = Object.keys(stores).sort()
  const unusable = names.find((name) => !NAME.test(name))
  if (names.length === 0 || names.length > SLOTS || unusable !== undefined) {
    throw new TypeError(
      `Cannot use option 'shards' because it must be 1 to ${SLOTS} stores by name, a name like eu-1 of lower-case letters, digits, - and _: ` +
        `current names are '${names.join("', '")}'`,
    )
  }
  return names.map((name) => ({ name, store: stores[name] as PostgresStore }))
}

/** Gives every shard as many slots as every other. */
function spread(names: readonly string[]): readonly string[] {
  return Array.from({ length: SLOTS }, (_, slot) => names[slot % names.length] ?? '')
}

/**
 * Checks that a database is a shard of an installation.
 *
 * @param name the name under which the database is given
 * @param names of all shards, in order
 * @throws `BusinessApiError` with code `wrong_shard`
 */
export function checkPlace(place: ShardPlace, name: string, names: readonly string[]): void {
  const stored = [...new Set(place.slots)].sort()
  if (stored.join() !== names.join()) {
    throw new BusinessApiError(
      WRONG_SHARD,
      `Cannot use the shards '${names.join("', '")}' because the databases belong to an installation with the shards ` +
        `'${stored.join("', '")}': give every shard of the installation under its own name, and no other`,
    )
  }
  if (place.name === name) return
  throw new BusinessApiError(
    WRONG_SHARD,
    `Cannot use shard '${name}' because its database is shard '${place.name}': give each connection string under the name of its shard`,
  )
}

function readPlace(shard: Shard): Promise<ShardPlace | null> {
  return shard.store.shardPlaces.read().catch((error) => {
    throw isStoreUnavailable(error) ? nameShard(error, shard) : error
  })
}

function nameShard(error: unknown, { name }: Shard): BusinessApiError {
  const message = error instanceof Error ? error.message : ''
  // The first start of one shard fails because of another.
  if (/^Shard '/.test(message) && error instanceof BusinessApiError) return error
  return storeUnavailable(`Shard '${name}': ${message}`, error instanceof Error ? error.cause : undefined)
}
