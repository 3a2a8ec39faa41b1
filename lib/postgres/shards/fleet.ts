import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import { placeElsewhere } from '../connection/driver-faults.ts'
import type { PostgresStore } from '../store.ts'
import { createPlaceReader } from './first-start.ts'
import { named, readShards, type Shard } from './shard.ts'
import { ownersOf } from './shard-keys.ts'
import { createShardMap } from './shard-map.ts'
import { isMoving, type OrganizationPlace, type StoredPlace } from './shard-place.ts'

// The shards of a process. Before a shard is used for the first time, we check its place in the map once. If the
// database is not the named shard, has lost its data or was given other names, it's rejected before anything is read or
// written. A shard that can't be reached only affects calls that need it.

/** The results of all shards. */
export interface Answers<Answer> {
  readonly answers: readonly Answer[]
  /**
   * The error of a shard that couldn't be reached, which means that the results are incomplete. `undefined`
   * if there's none.
   */
  readonly away: unknown
}

/**
 * Calls all shards at once. Throws errors other than `store_unavailable`, which is only thrown if no shard responds.
 */
export type AskAll = <Answer>(call: (store: PostgresStore) => Promise<Answer>) => Promise<Answers<Answer>>

/** The shards of a process and the map. */
export interface Fleet {
  /** Sorted by name. */
  readonly shards: readonly Shard[]
  /**
   * Finds the shard of an organization.
   *
   * @throws `BusinessApiError` with code `wrong_shard` if a database isn't the shard it's supposed to be, or
   *   `store_unavailable` if the shard can't be reached when it's first used
   */
  locate(organizationId: string): Promise<Shard>
  /** Calls one shard. If it can't be reached, the error has its name. */
  ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  /**
   * Calls the shard of an organization. If the organization has moved, we update the map and call the new shard.
   *
   * @throws `BusinessApiError` with code `store_unavailable` while the organization is between two shards
   */
  askPlace<Answer>(organizationId: string, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  readonly askAll: AskAll
  /**
   * Finds the organizations of active keys on a shard, and updates the map.
   *
   * @param slots the slots encoded in the keys
   */
  identify(
    shard: Shard,
    digests: readonly string[],
    slots?: readonly number[],
  ): Promise<ReadonlyMap<string, string>>
  /** Finds the organization of a key. See `BusinessApiStore`. */
  findKey(slot: number | null, lookUp: (shard: Shard) => Promise<string | null>): Promise<string | null>
}

/** Creates a fleet from named stores. Doesn't open any connections. */
export function createFleet(stores: Readonly<Record<string, PostgresStore>>): Fleet {
  const shards = readShards(stores)
  const names = shards.map(({ name }) => name)
  const readings = new Map<Shard, Promise<StoredPlace | null>>()
  const entries = new Map<Shard, Promise<void>>()
  const readPlace = createPlaceReader(shards)
  const map = createShardMap()
  /** Organizations whose shard was restored to a time before they moved there. */
  const lost = new Set<string>()

  /** Runs `work` once per shard and shares the result with all callers. If it fails, the next caller runs it again. */
  function once<Answer>(
    begun: Map<Shard, Promise<Answer>>,
    work: (shard: Shard) => Promise<Answer>,
  ): (shard: Shard) => Promise<Answer> {
    return (shard) => {
      const known = begun.get(shard)
      if (known) return known
      const answer = work(shard)
      begun.set(shard, answer)
      answer.catch(() => begun.delete(shard))
      return answer
    }
  }

  const read = once(readings, async (shard) => {
    const { found, inForce } = await readPlace(shard)
    map.slots ??= inForce.slots
    map.learn(inForce.moved)
    return found
  })

  /** Checks the place of a shard, and sends it any entries of the map it doesn't have. */
  const enter = once(entries, async (shard) => {
    const own = (await read(shard))?.moved ?? {}
    // A shard that was restored from a backup may have an outdated map, so we also read it from another one if that
    // responds in time.
    const others = Promise.any(shards.filter((other) => other !== shard).map(read))
    await withDeadline(others, OTHERS_MS, () => null).catch(() => {})
    const told: Record<string, OrganizationPlace> = {}
    const missing: (readonly [organizationId: string, version: number])[] = []
    for (const [organizationId, [name, version]] of map.entries()) {
      if ((own[organizationId]?.[1] ?? 0) >= version || isMoving([name, version])) continue
      if (name === shard.name) missing.push([organizationId, version])
      else told[organizationId] = [name, version]
    }
    if (missing.length === 0 && Object.keys(told).length === 0) return
    // Read again because the organization may have moved here in the meantime.
    const place = await named(shard, shard.store.shardPlace(null, { told }))
    for (const [organizationId, version] of missing) {
      const [, present] = place?.moved[organizationId] ?? ['', 0]
      // An odd version closes the shard. It means that a move away from here was reverted but not completed.
      if (present < version && present % 2 === 0) lost.add(organizationId)
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

  /** Reads the map. All shards have a copy, so we use the first response. */
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
    if (lost.has(organizationId)) throw isLost(organizationId, shard)
    return shard
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
        // The organization may have moved in the meantime, from a shard that responded later to one that responded
        // earlier. The shards tell us which organizations of a slot have moved.
        const isOver = slot === null ? isRepeat : map.learned() === learned
        if (organizationId !== null || isOver) return organizationId
      }
    },

    async askPlace(organizationId, call) {
      for (;;) {
        const shard = await locate(organizationId)
        const version = map.versionOf(organizationId)
        try {
          return await ask(shard, call)
        } catch (error) {
          if (!placeElsewhere(error)) throw error
          if (map.versionOf(organizationId) <= version)
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

/** Maximum time a shard's first call waits for another shard, in ms. */
const OTHERS_MS = 1000

/**
 * Waits for the first shard that has a key. If none has it, all of them must respond, because one that doesn't might
 * have it.
 */
function firstFound(looking: readonly Promise<string | null>[]): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const settled = looking.map(async (each) => {
      const found = await each
      if (found !== null) resolve(found)
    })
    // A promise can only be settled once, so this has no effect if the key was found.
    Promise.allSettled(settled)
      .then(() => Promise.all(settled))
      .then(() => resolve(null), reject)
  })
}

function isLost(organizationId: string, { name }: Shard): BusinessApiError {
  return new BusinessApiError(
    WRONG_SHARD,
    `Cannot use organization ${organizationId} because shard '${name}' was restored to a moment before the organization moved to it: ` +
      'restore it to a later one',
  )
}

/** Throws the first error that an operator must fix, or else the first error. */
function throwFirst(errors: readonly unknown[]): never {
  throw errors.find((error) => !isStoreUnavailable(error)) ?? errors[0]
}
