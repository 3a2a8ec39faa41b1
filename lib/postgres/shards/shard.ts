import { SLOTS } from '../../access/slots.ts'
import { BusinessApiError } from '../../base/errors.ts'
import { printValue } from '../../base/options.ts'
import type { Service } from '../../service.ts'
import type { PostgresStore } from '../store.ts'

/** A named shard, which is an ordinary store. */
export interface Shard<Own extends Service = Service> {
  readonly name: string
  readonly store: PostgresStore<Own>
}

/** Lowercase because names are used in variables, labels and paths. */
const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** Validates the option `shards` and sorts it by name. Throws a `TypeError`. */
export function readShards(stores: Readonly<Record<string, PostgresStore>>): readonly Shard[] {
  const shards = Object.entries(Object(stores)).map(([name, store]) => ({ name, store }) as Shard)
  const isShard = ({ name, store }: Shard): boolean =>
    NAME.test(name) && typeof Object(store).shardPlace === 'function'
  if (shards.length > 0 && shards.length <= SLOTS && shards.every(isShard)) {
    return shards.sort((one, other) => (one.name < other.name ? -1 : 1))
  }
  throw new TypeError(
    `Option 'shards' must be 1 to ${SLOTS} stores of createPostgresStore() by name, ` +
      'a name like eu-1 of lower-case letters, digits, - and _: ' +
      `current names are ${shards.map(({ name }) => printValue(name)).join(', ') || 'none'}`,
  )
}

/** Error codes that are about a shard's database and not about the call. */
const OF_DATABASES = /^(store_unavailable|schema_\w+|missing_privilege)$/

/** Adds the shard's name to the error if the shard can't be reached or used. */
export async function named<Answer>({ name }: Shard, answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof BusinessApiError) || !OF_DATABASES.test(error.code)) throw error
    throw new BusinessApiError(error.code, `Shard '${name}': ${error.message}`, { cause: error.cause })
  }
}
