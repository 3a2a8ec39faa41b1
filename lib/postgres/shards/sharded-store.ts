import { isDeepStrictEqual } from 'node:util'
import type { ApiKeyStore } from '../../access/api-keys.ts'
import { BusinessApiError, WRONG_SHARD } from '../../base/errors.ts'
import { rejectUnknown } from '../../base/options.ts'
import type { BusinessApiStore } from '../../business-store.ts'
import type { Service } from '../../service.ts'
import type { CloseOptions } from '../connection/database.ts'
import type { PostgresStore } from '../store.ts'
import { createFleet, type Fleet } from './fleet.ts'
import { rejectLoop, routeVerbs, type Slices, sumOf } from './routes.ts'
import type { Shard } from './shard.ts'

/**
 * A store with several shards. Each shard is a PostgreSQL server with all data of its organizations.
 *
 * @typeParam Own the service
 */
export interface ShardedStore<Own extends Service = Service> extends BusinessApiStore, AsyncDisposable {
  readonly service: Own
  /**
   * The shards, sorted by name. Use these for anything that belongs to a single shard, such as delivery loops.
   * Organizations on other shards are rejected with `wrong_shard`.
   */
  readonly shards: readonly Shard<Own>[]
  /**
   * Returns an organization's shard, whose store you can use with `using(tx)` in your own transactions on that server.
   * The first call in a transaction also checks the server. A call for an organization on another shard, or in a
   * transaction on another server, throws `wrong_shard` and writes nothing.
   *
   * @throws `BusinessApiError` with code `store_unavailable` if the shard can't be reached before its first use, or no
   * shard can
   */
  shardOf(organizationId: string): Promise<Shard<Own>>
  /** Closes the stores of all shards. See `PostgresStore.close`. */
  close(options?: CloseOptions): Promise<void>
}

/**
 * Creates a store with several shards. Each organization lives on one of them, chosen by PostgreSQL's partition hash of
 * the organization ID. No connections are opened yet. The first start writes the map to all shards. If you later start
 * with other names, the first call fails with `wrong_shard`.
 *
 * @param options.shards the store of each shard, by name. The order doesn't matter
 * @throws `TypeError` if a name is invalid or the stores have different services
 * @example
 * ```ts
 * const store = createShardedStore({
 *   shards: { a: createPostgresStore('postgres://one/app'), b: createPostgresStore('postgres://two/app') },
 * })
 * const api = createBusinessApi(store)
 * ```
 */
export function createShardedStore<Own extends Service = Service>(options: {
  readonly shards: Readonly<Record<string, PostgresStore<Own>>>
}): ShardedStore<Own> {
  rejectUnknown(options, { shards: true })
  const fleet = createFleet(options.shards)
  const stores = fleet.shards.map(({ store }) => store)
  const { service } = stores[0] as PostgresStore<Own>
  if (!stores.every((store) => isDeepStrictEqual(store.service, service)))
    throw new TypeError("Cannot use the shards because their stores differ in option 'service'")
  const shards = fleet.shards.map((shard) => ({ name: shard.name, store: guard<Own>(fleet, shard) }))

  const shardNamed = (name: string): Shard<Own> => shards.find((shard) => shard.name === name) as Shard<Own>

  const slices: Slices = routeVerbs(stores[0] as Slices, async (owner, on, whole, first) => {
    const { keyDigest } = Object(first)
    if (owner === undefined && keyDigest === undefined) return whole(fleet.askAll)
    // Without a hint, look up the key first. If there's no such key, every shard rejects it.
    const found = owner ?? (await fleet.findKey(null, (shard) => ownerOn(shard, keyDigest))) ?? ''
    return fleet.askPlace(found, (store) => on(store, found))
  })

  async function ownerOn(shard: Shard, digest: string): Promise<string | null> {
    return (await fleet.identify(shard, [digest])).get(digest) ?? null
  }

  async function close(closing?: CloseOptions): Promise<void> {
    await Promise.all(stores.map((store) => store.close(closing)))
  }

  /** Counts a request as running on all shards, or on none if one of them rejects it. */
  function beginRequest(): () => void {
    const ends: ((() => void) | undefined)[] = []
    const endAll = (): void => {
      for (const end of ends) end?.()
    }
    try {
      for (const store of stores) ends.push(store.beginRequest?.())
    } catch (error) {
      endAll()
      throw error
    }
    return endAll
  }

  return {
    ...slices,
    apiKeys: { ...slices.apiKeys, insert: insertOnce(fleet, slices.apiKeys) },
    service,
    deliveries: { ...slices.deliveries, watch: rejectLoop },
    shards,
    findKey: (slot, lookUp) => fleet.findKey(slot, ({ name }) => lookUp(shardNamed(name).store)),
    shardOf: async (organizationId) => shardNamed((await fleet.locate(organizationId)).name),
    beginRequest,
    connectionUse: () => sumOf(stores.flatMap((store) => store.connectionUse?.() ?? [])),
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

/**
 * Inserts a key. An imported key is only inserted once all shards have confirmed that no other organization has the
 * digest. Meanwhile, all processes use a lock on the same shard, so that no other one imports it. This process's imports
 * run one after another, because each lock needs a connection.
 */
function insertOnce({ ask, askAll, locate }: Fleet, { insert }: ApiKeyStore): ApiKeyStore['insert'] {
  let turn: Promise<unknown> = Promise.resolve()
  return (request) => {
    if (!request.isImported) return insert(request)
    const { digest } = request.key
    const insertion = turn.then(async () => {
      const release = await ask(await locate(digest), (store) => store.hold(digest))
      try {
        const { answers, away } = await askAll((store) => store.shardKeys([digest]))
        if (away !== undefined) throw away
        const owners = answers.flatMap(({ keys }) => keys.map(({ organizationId }) => organizationId))
        return owners.every((owner) => owner === request.organizationId) ? await insert(request) : TAKEN
      } finally {
        release()
      }
    })
    turn = insertion.catch(() => {})
    return insertion
  }
}

const TAKEN = { outcome: 'already_exists', item: null } as const

/** Returns a shard's store that rejects organizations on other shards. */
function guard<Own extends Service>(fleet: Fleet, shard: Shard): PostgresStore<Own> {
  const { name, store } = shard as Shard<Own>
  const { installation } = store

  /** Routes the methods of the store or a transaction through `send`. */
  function guarded<Target extends object>(
    target: Target,
    send: (call: (store: object) => Promise<unknown>) => Promise<unknown>,
  ): Pick<Target, keyof Target & (keyof Slices | 'replies')> {
    return routeVerbs(target, async (owner, on) => {
      const actual = owner === undefined ? shard : await fleet.locate(owner)
      if (actual !== shard) throw wrongShard(`organization ${owner} belongs to shard '${actual.name}'`)
      return send(on)
    })
  }

  async function checkTransaction(transaction: Transaction): Promise<void> {
    const place = await store.shardPlace(null, { transaction })
    const found = place ? `shard '${place.name}'` : 'no shard'
    if (place?.name !== name) throw wrongShard(`the transaction is on ${found}`)
  }

  function wrongShard(reason: string): BusinessApiError {
    const message = `Cannot use shard '${name}' because ${reason}; nothing was written`
    return new BusinessApiError(WRONG_SHARD, message)
  }

  const slices = guarded(store, (call) => fleet.ask(shard, call))

  return {
    ...store,
    ...slices,
    apiKeys: { ...slices.apiKeys, identify: (digests, slots) => fleet.identify(shard, digests, slots) },
    installation: {
      check: (given) => fleet.ask(shard, () => installation.check(given)),
      adopt: (given) => fleet.ask(shard, () => installation.adopt(given)),
      async *cancelPending(entry) {
        await fleet.ask(shard, async () => {})
        yield* installation.cancelPending(entry)
      },
    },
    using(transaction) {
      const records = store.using(transaction)
      let checked: Promise<void> | undefined
      return guarded(records, async (call) => {
        checked ??= checkTransaction(transaction)
        await checked
        // Updates the map if the organization has moved.
        return fleet.ask(shard, () => call(records))
      })
    },
  }
}

type Transaction = Parameters<PostgresStore['using']>[0]
