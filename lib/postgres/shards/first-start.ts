import { SLOTS } from '../../access/slots.ts'
import { BusinessApiError, WRONG_SHARD } from '../../base/errors.ts'
import { named, type Shard } from './shard.ts'
import type { ShardPlace, StoredPlace } from './shard-place.ts'

// An installation's shard map as stored on the shards, written on the first start.

/**
 * Creates a function that reads the map and a database's place (`null` without a place). If the map isn't active on any
 * shard, it is written to all shards, which also completes an interrupted first start.
 *
 * @throws `BusinessApiError` with code `wrong_shard` if the database isn't that shard
 */
export function createPlaceReader(
  shards: readonly Shard[],
): (shard: Shard) => Promise<{ readonly found: StoredPlace | null; readonly inForce: StoredPlace }> {
  const names = shards.map(({ name }) => name)

  async function begin(shard: Shard): Promise<StoredPlace> {
    const isBegun = (await readPlaces()).some(isInForce)
    // Read again, because an active map is on all shards.
    const places = await readPlaces()
    const inForce = places.find(isInForce)
    const used = places.flatMap((place) => (place ? namesOf(place) : []))
    if (inForce && !used.includes(shard.name)) return inForce
    const blank = shards.find(({ name }, index) => places[index] === null && used.includes(name))
    if (isBegun && blank)
      throw new BusinessApiError(
        WRONG_SHARD,
        `Cannot use shard '${blank.name}' because its database has no data of the installation, and other shards have: give the connection ` +
          'string of its own database, or restore that database',
      )
    const evenly = Array.from({ length: SLOTS }, (_, slot) => names[slot % names.length] ?? '')
    const slots = places.find((place) => place !== null)?.slots ?? evenly
    // Write in name order. If two processes start at the same time with different names, the second one fails at the
    // first shard.
    for (const version of [0, IN_FORCE])
      for (const each of shards)
        if (slots.includes(each.name))
          checkSlots({ slots }, check(each, await readPlace(each, { name: each.name, version, slots })))
    return { name: '', version: IN_FORCE, slots, moved: {} }
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

  return async (shard) => {
    const found = check(shard, await readPlace(shard))
    return { found, inForce: isInForce(found) ? found : await begin(shard) }
  }
}

/**
 * Adds a shard to an installation. The shard has no organizations until you move some there. Configure the new shard in
 * every process first, because a process without it can't find them.
 *
 * @param shards all shards of a sharded store, including the new one
 * @throws `BusinessApiError` with code `wrong_shard` if the database is already in use
 */
export async function addShard(shards: readonly Shard[], name: string): Promise<void> {
  const added = shards.find((shard) => shard.name === name)
  if (!added) {
    const message = `Cannot add shard '${name}' because it has no connection string`
    throw new BusinessApiError(WRONG_SHARD, message)
  }
  // A shard's first call checks its place and the map.
  await Promise.all(shards.map(({ store }) => store.apiKeys.identify([])))
  const places = await Promise.all(shards.map((shard) => readPlace(shard)))
  const slots = places.find(isInForce)?.slots ?? []
  checkSlots({ slots }, await readPlace(added, { name, version: IN_FORCE, slots }))
}

/** Throws `wrong_shard` if two shards' maps have different slots. */
export function checkSlots(...maps: readonly (Pick<ShardPlace, 'slots'> | null | undefined)[]): void {
  if (new Set(maps.map((each) => each?.slots.join())).size === 1) return
  const advice = 'give connection strings of one installation, and the same shards to every process'
  throw new BusinessApiError(
    WRONG_SHARD,
    `Cannot use the shards because their maps have different slots: ${advice}`,
  )
}

/** Version of the map once it is on all shards. */
const IN_FORCE = 1

function isInForce(place: StoredPlace | null): place is StoredPlace {
  return place !== null && place.version >= IN_FORCE
}

/** Returns the sorted names of the shards that have slots or organizations. */
function namesOf({ slots, moved }: StoredPlace): readonly string[] {
  return [...new Set([...slots, ...Object.values(moved).map(([name]) => name)])].sort()
}

/** Reads a shard's place, and assigns `first` unless there is one with that version. */
export function readPlace(shard: Shard, first?: ShardPlace): Promise<StoredPlace | null> {
  return named(shard, shard.store.shardPlace(first))
}
