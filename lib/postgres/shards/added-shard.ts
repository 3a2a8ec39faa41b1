import { BusinessApiError, WRONG_SHARD } from '../../base/errors.ts'
import type { PostgresStore } from '../store.ts'
import { isMoving, type OrganizationPlace } from './shard-place.ts'

/**
 * Adds a shard to an installation. The shard has no organizations until you move some there. Configure the new shard in
 * every process first, because a process without it is rejected the next time it starts. An interrupted call can be
 * repeated.
 *
 * @param stores the stores of all shards by name, including the new one
 * @throws `BusinessApiError` with code `wrong_shard` if the database is already in use
 */
export async function addShard(stores: ReadonlyMap<string, PostgresStore>, name: string): Promise<void> {
  const places = new Map(
    await Promise.all([...stores].map(async ([each, store]) => [each, await store.shardPlace()] as const)),
  )
  const latest = [...places.values()].reduce((best, place) =>
    place !== null && place.version > (best?.version ?? 0) ? place : best,
  )
  const own = places.get(name) ?? null
  if (
    !latest ||
    ![...latest.slots, ...latest.added].every((each) => places.get(each)?.name === each) ||
    !stores.has(name) ||
    (own && own.name !== name)
  ) {
    const reason = own
      ? `its database is shard '${own.name}'`
      : 'the shards of an installation in use belong beside it'
    throw impossible(name, reason)
  }
  const { slots, version } = latest
  if (slots.includes(name)) return
  const all = [...places.values()]
  const added = [...new Set([...all.flatMap((place) => place?.added ?? []), name])]
  const members = [...stores].filter(([each]) => slots.includes(each) || added.includes(each))
  const isKnown = members.every(([each]) => added.every((other) => places.get(each)?.added.includes(other)))
  const map = { slots, added, version: version + Number(!isKnown) }
  const told: Record<string, OrganizationPlace> = {}
  for (const place of all) {
    for (const [organizationId, entry] of Object.entries(place?.moved ?? {})) {
      const isNewer = entry[1] > (told[organizationId]?.[1] ?? 0)
      if (isNewer && entry[0] !== name && !isMoving(entry)) told[organizationId] = entry
    }
  }
  // The new shard comes first because nothing happens until the existing shards know about it.
  await stores.get(name)?.shardPlace({ ...map, name }, { told })
  for (const [each, store] of members) {
    const written = await store.shardPlace({ ...map, name: each })
    if (!written?.added.includes(name))
      throw impossible(name, 'another shard was added at the same moment: add it again')
  }
}

function impossible(name: string, reason: string): BusinessApiError {
  return new BusinessApiError(WRONG_SHARD, `Cannot add shard '${name}' because ${reason}`)
}
