import { BusinessApiError, isStoreUnavailable, storeUnavailable, WRONG_SHARD } from '../../base/errors.ts'
import type { Service } from '../../service.ts'
import { placeElsewhere } from '../connection/driver-faults.ts'
import type { PostgresStore } from '../store.ts'
import { SLOTS, slotOf } from './placement.ts'
import { isMoving, type OrganizationPlace, type ShardPlace, type StoredPlace } from './shard-place.ts'

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
  /**
   * Makes a call on the shard of an organization. When the organization has moved, the map is corrected and the call made once more.
   *
   * @throws `BusinessApiError` with code `store_unavailable` while the organization is between two shards
   */
  askPlace<Answer>(organizationId: string, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer>
  readonly askAll: AskAll
}

/** Creates the fleet of named stores. Opens nothing. */
export function createFleet(stores: Readonly<Record<string, PostgresStore>>): Fleet {
  const shards = readShards(stores)
  const names = shards.map(({ name }) => name)
  const readings = new Map<Shard, Promise<StoredPlace | null>>()
  const entries = new Map<Shard, Promise<void>>()
  let slots: readonly string[] | undefined
  /** The map's entries for single organizations, from all shards and from rejected statements. */
  const moved = new Map<string, OrganizationPlace>()
  /** Organizations whose shard was restored to a moment before they moved there. */
  const lost = new Set<string>()

  const versionOf = (organizationId: string): number => moved.get(organizationId)?.[1] ?? 0

  function learn(organizationId: string, place: OrganizationPlace): void {
    if (place[1] > versionOf(organizationId)) moved.set(organizationId, place)
  }

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
    const found = check(shard, await readPlace(shard))
    const place = isInForce(found) ? found : await begin(shard)
    slots ??= place.slots
    for (const [organizationId, entry] of Object.entries(place.moved)) learn(organizationId, entry)
    return found
  })

  /** Checks the place of a shard, and tells it the entries of the map that it lacks. */
  const enter = once(entries, async (shard) => {
    const own = (await read(shard))?.moved ?? {}
    // A shard that was restored to an earlier moment cannot know it: another one does.
    await Promise.any(shards.filter((other) => other !== shard).map(read)).catch(() => {})
    const told: Record<string, OrganizationPlace> = {}
    for (const [organizationId, entry] of moved) {
      const [, version] = own[organizationId] ?? ['', 0]
      if (version >= entry[1] || isMoving(entry)) continue
      if (entry[0] !== shard.name) told[organizationId] = entry
      // An odd version closes the shard: a move away from it was taken back, and not to the end.
      else if (version % 2 === 0) lost.add(organizationId)
    }
    if (Object.keys(told).length > 0) await named(shard, shard.store.shardPlace(null, { told }))
  })

  /** The first start of an installation, which writes the map on all shards; or the rest of a first start that was cut off. */
  async function begin(shard: Shard): Promise<StoredPlace> {
    const begun = (await readPlaces()).find(isInForce)
    // Read afterwards: a map in force is on all shards.
    const places = await readPlaces()
    const inForce = begun ?? places.find(isInForce)
    if (inForce && !namesOf(inForce).includes(shard.name)) return { ...inForce, moved: {} }
    const map = places.find((place) => place !== null) ?? { slots: spread(names), added: [] }
    const blank = shards.find(({ name }, index) => places[index] === null && namesOf(map).includes(name))
    if (begun && blank) throw isBlank(blank)
    // In the order of the names: of two first starts with other names, the second fails at the first shard.
    for (const version of [0, IN_FORCE]) {
      for (const each of shards.filter(({ name }) => map.slots.includes(name))) {
        const { slots, added } = map
        check(each, await readPlace(each, { name: each.name, version, slots, added }))
      }
    }
    return { ...map, name: '', version: IN_FORCE, moved: {} }
  }

  function readPlaces(): Promise<readonly (StoredPlace | null)[]> {
    return Promise.all(shards.map(async (shard) => check(shard, await readPlace(shard))))
  }

  function check({ name }: Shard, place: StoredPlace | null): StoredPlace | null {
    const stored = place ? namesOf(place) : names
    const isOwn = place === null || place.name === name
    const hasAll = stored.every((each) => names.includes(each))
    if (isOwn && hasAll) return place
    throw new BusinessApiError(
      WRONG_SHARD,
      hasAll
        ? `Cannot use shard '${name}' because its database is shard '${place?.name}': give each connection string under the name of its shard`
        : `Cannot use the shards '${names.join("', '")}' because the databases belong to an installation with the shards ` +
            `'${stored.join("', '")}': give every shard of the installation under its own name`,
    )
  }

  async function ask<Answer>(shard: Shard, call: (store: PostgresStore) => Promise<Answer>): Promise<Answer> {
    await enter(shard)
    try {
      return await named(shard, call(shard.store))
    } catch (error) {
      const place = placeElsewhere(error)
      if (place) learn(place.organizationId, [place.name, place.version])
      throw error
    }
  }

  async function locate(organizationId: string): Promise<Shard> {
    // Every shard has a copy of the map: the first answer will do.
    if (!slots) await Promise.any(shards.map(enter)).catch(({ errors }: AggregateError) => throwFirst(errors))
    const owner = moved.get(organizationId)?.[0] ?? slots?.[slotOf(organizationId)]
    const shard = shards.find(({ name }) => name === owner)
    if (!shard) {
      const message = `Cannot find organization ${organizationId} because it is on shard '${owner}': give every shard of the installation`
      throw new BusinessApiError(WRONG_SHARD, message)
    }
    await enter(shard)
    if (lost.has(organizationId)) throw isLost(organizationId, shard)
    return shard
  }

  return {
    shards,
    ask,
    locate,

    async askPlace(organizationId, call) {
      for (;;) {
        const shard = await locate(organizationId)
        const version = versionOf(organizationId)
        try {
          return await ask(shard, call)
        } catch (error) {
          if (!placeElsewhere(error)) throw error
          if (versionOf(organizationId) <= version)
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

/** The version of the first map that is on all shards. */
const IN_FORCE = 1

function isInForce(place: StoredPlace | null): place is StoredPlace {
  return place !== null && place.version >= IN_FORCE
}

/** The names of the shards of an installation, in their order. */
function namesOf({ slots, added }: Pick<ShardPlace, 'slots' | 'added'>): readonly string[] {
  return [...new Set([...slots, ...added])].sort()
}

function isBlank({ name }: Shard): BusinessApiError {
  return new BusinessApiError(
    WRONG_SHARD,
    `Cannot use shard '${name}' because its database has no data of the installation, and other shards have: give the connection string ` +
      'of its own database, or restore that database',
  )
}

function isLost(organizationId: string, { name }: Shard): BusinessApiError {
  return new BusinessApiError(
    WRONG_SHARD,
    `Cannot use organization ${organizationId} because shard '${name}' was restored to a moment before the organization moved to it: ` +
      'restore it to a later one',
  )
}

function readPlace(shard: Shard, first?: ShardPlace): Promise<StoredPlace | null> {
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
