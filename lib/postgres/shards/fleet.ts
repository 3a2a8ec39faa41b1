import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import { placeElsewhere } from '../connection/driver-faults.ts'
import type { PostgresStore } from '../store.ts'
import { createPlaceReader } from './first-start.ts'
import { named, readShards, type Shard } from './shard.ts'
import { ownersOf } from './shard-keys.ts'
import { createShardMap } from './shard-map.ts'
import { isMoving, type OrganizationPlace, type StoredPlace } from './shard-place.ts'

// The shards of a process. Before the first call of a shard its database is asked once for its place: a database that is not the shard
// of its name, has lost its data, or was given other names, is rejected before anything is read or written there. A shard that is away concerns only
// the calls that need it.

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
  /**
   * Makes a call on the shard of an organization. When the organization has moved, the map is corrected and the call made once more.
   *
   * @throws `BusinessApiError` with code `store_unavailable` while the organization is between two shards
   */
  askPlace<Answer>(organizationId: string, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  readonly askAll: AskAll
  /** Finds the organizations of active keys on a shard, and corrects the map. @param slots the slots that the keys carry */
  identify(
    shard: Shard,
    digests: readonly string[],
    slots?: readonly number[],
  ): Promise<ReadonlyMap<string, string>>
  /** Finds the organization of a key: see `BusinessApiStore`. */
  findKey(slot: number | null, lookUp: (shard: Shard) => Promise<string | null>): Promise<string | null>
}

/** Creates the fleet of named stores. Opens nothing. */
export function createFleet(stores: Readonly<Record<string, PostgresStore>>): Fleet {
  const shards = readShards(stores)
  const names = shards.map(({ name }) => name)
  const readings = new Map<Shard, Promise<StoredPlace | null>>()
  const entries = new Map<Shard, Promise<void>>()
  const readPlace = createPlaceReader(shards)
  const map = createShardMap()
  /** Organizations whose shard was restored to a moment before they moved there. */
  const lost = new Set<string>()

  /** Does work on each shard once, for all callers. After a failure, the next caller does it again. */
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

  /** Checks the place of a shard, and tells it the entries of the map that it lacks. */
  const enter = once(entries, async (shard) => {
    const own = (await read(shard))?.moved ?? {}
    // A shard that was restored to an earlier moment cannot know it: another one does, if any answers in time.
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
    // Read again, because an organization may have moved here since.
    const place = await named(shard, shard.store.shardPlace(null, { told }))
    for (const [organizationId, version] of missing) {
      const [, present] = place?.moved[organizationId] ?? ['', 0]
      // An odd version closes the shard: a move away from it was taken back, and not to the end.
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

  /** Reads the map. Every shard has a copy: the first answer will do. */
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
        // The organization may have moved meanwhile, from a shard that has answered later to one that has answered earlier. The shards tell
        // who of a slot has moved.
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

/** Maximum wait of a shard's first call for another shard, in ms. */
const OTHERS_MS = 1000

/** Waits for the first shard that has a key. Without one, every shard must answer, because a silent one may have it. */
function firstFound(looking: readonly Promise<string | null>[]): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const settled = looking.map(async (each) => {
      const found = await each
      if (found !== null) resolve(found)
    })
    // A promise is settled once: neither has an effect after the key was found.
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

/** Throws the first error that an operator has to mend, else the first. */
function throwFirst(errors: readonly unknown[]): never {
  throw errors.find((error) => !isStoreUnavailable(error)) ?? errors[0]
}
