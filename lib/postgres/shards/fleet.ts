import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import { placeElsewhere } from '../connection/driver-faults.ts'
import type { PostgresStore } from '../store.ts'
import { checkSlots, createPlaceReader } from './first-start.ts'
import { named, readShards, type Shard } from './shard.ts'
import { ownersOf } from './shard-keys.ts'
import { createShardMap } from './shard-map.ts'
import { isMoving, type StoredPlace } from './shard-place.ts'

// The shards of a process. Before a shard is first used, we check its place in the map, and reject a database that
// isn't the named shard, has lost its data or was given other names, before reading or writing anything. An unreachable
// shard only affects calls that need it.

/** The combined results of all shards. */
export interface Answers<Answer> {
  readonly answers: readonly Answer[]
  /** The error of an unreachable shard, in which case the results are incomplete. */
  readonly away: unknown
}

/** Calls all shards at once. `store_unavailable` is only thrown if no shard responds, any other error always. */
export type AskAll = <Answer>(call: (store: PostgresStore) => Promise<Answer>) => Promise<Answers<Answer>>

/** A process's shards and map. */
export interface Fleet {
  /** Sorted by name. */
  readonly shards: readonly Shard[]
  /**
   * Finds an organization's shard.
   *
   * @throws `BusinessApiError` with code `wrong_shard` if a database isn't the shard it's supposed to be, or
   * `store_unavailable` if the shard can't be reached on first use
   */
  locate(organizationId: string): Promise<Shard>
  /** Calls one shard. If the shard can't be reached, the error includes its name. */
  ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  /**
   * Calls an organization's shard. If the organization has moved, updates the map and calls the new shard.
   *
   * @throws `BusinessApiError` with code `store_unavailable` while the organization is between two shards
   */
  askPlace<Answer>(organizationId: string, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  readonly askAll: AskAll
  /** Finds the organizations of active keys on a shard, and updates the map. `slots` are those encoded in the keys. */
  identify(
    shard: Shard,
    digests: readonly string[],
    slots?: readonly number[],
  ): Promise<ReadonlyMap<string, string>>
  /** Finds a key's organization. See `BusinessApiStore`. */
  findKey(slot: number | null, lookUp: (shard: Shard) => Promise<string | null>): Promise<string | null>
}

/** Creates a fleet from named stores. Doesn't open any connections. */
export function createFleet(stores: Readonly<Record<string, PostgresStore>>): Fleet {
  const shards = readShards(stores)
  const names = shards.map(({ name }) => name)
  const readPlace = createPlaceReader(shards)
  const map = createShardMap()
  /** Organizations whose shard was restored to a time before they moved there. */
  const lost = new Set<string>()
  /** The maps as read from the shards, which must have the same slots. */
  const maps = new Map<Shard, StoredPlace>()

  const read = once(async (shard): Promise<StoredPlace | null> => {
    const { found, inForce } = await readPlace(shard)
    checkSlots(...maps.set(shard, inForce).values())
    map.slots ??= inForce.slots
    map.learn(inForce.moved)
    return found
  })

  /** Checks a shard's place, and sends it any map entries that it's missing. */
  const enter = once(async (shard): Promise<void> => {
    const own = (await read(shard))?.moved ?? {}
    // A shard restored from a backup may have a stale map, so also read the map from another shard if one responds in
    // time.
    const others = Promise.any(shards.filter((other) => other !== shard).map(read))
    await withDeadline(others, OTHERS_MS, () => null).catch(() => {})
    checkSlots(...maps.values())
    const missing = [...map.entries()].filter(
      ([organizationId, place]) => (own[organizationId]?.[1] ?? 0) < place[1] && !isMoving(place),
    )
    if (missing.length === 0) return
    // Read again, because the organization may have moved here in the meantime.
    const told = Object.fromEntries(missing.filter(([, [name]]) => name !== shard.name))
    const moved = (await named(shard, shard.store.shardPlace(null, { told })))?.moved ?? {}
    for (const [organizationId, [name, version]] of missing) {
      const present = moved[organizationId]?.[1] ?? 0
      // An odd version means that the shard is closed because reverting a move was interrupted.
      if (name === shard.name && present < version && present % 2 === 0) lost.add(organizationId)
    }
  })

  async function ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer> {
    await enter(shard)
    try {
      return await named(shard, call(shard.store))
    } catch (error) {
      const place = placeElsewhere(error)
      if (place) map.learn({ [place.organizationId]: [place.name, place.version] })
      throw error
    }
  }

  /** All shards have a copy of the map, so the first response wins. */
  async function readMap(): Promise<void> {
    if (!map.slots)
      await Promise.any(shards.map(enter)).catch(({ errors }: AggregateError) => throwFirst(errors))
  }

  function shardNamed(owner: string | undefined): Shard {
    const shard = shards.find(({ name }) => name === owner)
    if (shard) return shard
    const message = `Cannot use shard '${owner}' because this process was not given it: give every shard of the installation`
    throw new BusinessApiError(WRONG_SHARD, message)
  }

  async function locate(organizationId: string): Promise<Shard> {
    await readMap()
    const shard = shardNamed(map.nameOf(organizationId))
    await enter(shard)
    if (!lost.has(organizationId)) return shard
    throw new BusinessApiError(
      WRONG_SHARD,
      `Cannot use organization ${organizationId} because shard '${shard.name}' was restored to a moment before the organization moved to it: ` +
        'restore it to a later one',
    )
  }

  return {
    shards,
    ask,
    locate,

    async identify(shard, digests, slots) {
      const { keys, moved } = await ask(shard, (store) => store.shardKeys(digests, slots))
      map.learn(moved)
      return ownersOf(keys)
    },

    async findKey(slot, lookUp) {
      for (let isRepeat = false; ; isRepeat = true) {
        await readMap()
        const learned = map.learned()
        const candidates = (slot !== null && map.namesOf(slot)) || names
        const organizationId = await firstFound([...candidates].map(async (name) => lookUp(shardNamed(name))))
        // The organization may have moved in the meantime, from a shard that responded after the move to one that
        // responded before. The shards report which organizations in a slot have moved.
        const isOver = slot === null ? isRepeat : map.learned() === learned
        if (organizationId !== null || isOver) return organizationId
      }
    },

    async askPlace(organizationId, call) {
      for (;;) {
        // Read before locating, because the map may change until the call is sent.
        const learned = map.learned()
        const shard = await locate(organizationId)
        try {
          return await ask(shard, call)
        } catch (error) {
          if (!placeElsewhere(error)) throw error
          if (map.learned() === learned)
            throw storeUnavailable(`Organization ${organizationId} is moving to shard '${shard.name}'`, error)
        }
      }
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

/** How long a shard's first call waits for another shard, in ms. */
const OTHERS_MS = 1000

/** Runs `work` once per shard and shares the result. After a failure, the next caller runs it again. */
function once<Answer>(work: (shard: Shard) => Promise<Answer>): (shard: Shard) => Promise<Answer> {
  const begun = new Map<Shard, Promise<Answer>>()
  return (shard) => {
    const known = begun.get(shard)
    if (known) return known
    const answer = work(shard)
    begun.set(shard, answer)
    answer.catch(() => begun.delete(shard))
    return answer
  }
}

/** Resolves with the first result. `null` requires all shards to respond, since a missing one might have the key. */
function firstFound(looking: readonly Promise<string | null>[]): Promise<string | null> {
  const found = looking.map(async (each) => (await each) ?? Promise.reject(null))
  return Promise.any(found).catch(({ errors }: AggregateError) => {
    const failures = errors.filter((error) => error !== null)
    return failures.length > 0 ? throwFirst(failures) : null
  })
}

/** Throws the first error that an operator has to fix, otherwise the first error. */
function throwFirst(errors: readonly unknown[]): never {
  throw errors.find((error) => !isStoreUnavailable(error)) ?? errors[0]
}
