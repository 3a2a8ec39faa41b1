import type { AdmissionRequest } from '../../access/admission.ts'
import type { ApiKeyStore } from '../../access/api-keys.ts'
import { BusinessApiError, WRONG_SHARD } from '../../base/errors.ts'
import type { BusinessApiStore, RecordStore } from '../../business-store.ts'
import type { Creation } from '../../writes/creation.ts'
import { type ApiCreationOutcome, declareOneStep, type OneStep, oneStepOf } from '../../writes/one-step.ts'
import { CLOSE_MS, type CloseOptions } from '../connection/database.ts'
import { createDrain } from '../connection/drain.ts'
import type { PostgresStore } from '../store.ts'
import { createFleet, type Fleet, type Shard } from './fleet.ts'
import { ROUTES, type Slices, sumOf } from './routes.ts'

/** A store over shards: any number of PostgreSQL servers, each with the whole data of its organizations. */
export interface ShardedStore extends BusinessApiStore, AsyncDisposable {
  /**
   * The shards in the order of their names, for what belongs to a shard, above all a delivery loop. These stores reject an organization
   * of another shard with `wrong_shard`.
   */
  readonly shards: readonly Shard[]
  /**
   * Returns the shard of an organization: its name, and its store, for `using(tx)` in a transaction of the host on that server. The
   * first call in a transaction checks the server too: a call for an organization of another shard, or in a transaction on another
   * server, throws `wrong_shard` and writes nothing.
   *
   * @throws `BusinessApiError` with code `store_unavailable` when no shard, or not that shard, can be reached before its first use
   */
  shardOf(organizationId: string): Promise<Shard>
  /** Closes the stores of all shards, as `PostgresStore.close` does. */
  close(options?: CloseOptions): Promise<void>
}

/**
 * Creates a store over shards. Each organization lives on one shard, which PostgreSQL's own partition hash of the organization's id
 * chooses. Opens nothing. The first start writes the map of the shards to every shard; later starts with other names are rejected with
 * `wrong_shard` at the first call.
 *
 * @param options.shards a store for each shard, by the name of the shard; the order has no meaning
 * @throws `TypeError` for names that cannot be used
 * @example
 * ```ts
 * const store = createShardedStore({
 *   shards: { a: createPostgresStore(process.env.DATABASE_A!), b: createPostgresStore(process.env.DATABASE_B!) },
 * })
 * const api = createBusinessApi(store)
 * ```
 */
export function createShardedStore({
  shards,
}: {
  readonly shards: Readonly<Record<string, PostgresStore>>
}): ShardedStore {
  const fleet = createFleet(shards)
  const guarded = fleet.shards.map((shard) => ({ name: shard.name, store: guard(fleet, shard) }))
  const drain = createDrain()
  const slices = routeSlices(Object.keys(ROUTES), fleet.askOwner, (whole) =>
    whole(fleet),
  ) as unknown as Slices
  declareRoutedStep(fleet, slices, ({ clients }) => clients.create)
  declareRoutedStep(fleet, slices, ({ leads }) => leads.create)

  async function close({ timeoutMs = CLOSE_MS }: CloseOptions = {}): Promise<void> {
    const endsAt = performance.now() + timeoutMs
    await drain.finish(timeoutMs)
    const leftMs = Math.max(0, Math.round(endsAt - performance.now()))
    await Promise.all(fleet.shards.map(({ store }) => store.close({ timeoutMs: leftMs })))
  }

  return {
    ...slices,
    apiKeys: { ...slices.apiKeys, parts: fleet.shards.map((shard) => partOf(fleet, shard)) },
    shards: guarded,
    async shardOf(organizationId) {
      const { name } = await fleet.locate(organizationId)
      return guarded.find((shard) => shard.name === name) as Shard
    },
    beginRequest: drain.beginRequest,
    connectionUse: () => sumOf(fleet.shards.flatMap(({ store }) => store.connectionUse?.() ?? [])),
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

/** The keys of a shard, which are looked up apart. */
function partOf(fleet: Fleet, shard: Shard): Pick<ApiKeyStore, 'identify'> {
  return { identify: (digests) => fleet.ask(shard, ({ apiKeys }) => apiKeys.identify(digests)) }
}

// --- Routing ---

type Verb = (...args: unknown[]) => unknown
/** Makes a call on the store of an organization. */
type Send = (owner: string, call: (store: object) => Promise<unknown>) => Promise<unknown>

/**
 * Makes the verbs of slices.
 *
 * @param send makes the calls for an organization
 * @param toVerb makes the verb for calls without an organization
 */
function routeSlices(
  names: readonly string[],
  send: Send,
  toVerb: (whole: (fleet: Fleet) => Verb, slice: string, verb: string) => Verb,
): Readonly<Record<string, Readonly<Record<string, Verb>>>> {
  const route = (
    slice: string,
    verb: string,
    way: ((fleet: Fleet) => Verb) | { orWhole: () => Verb },
  ): Verb => {
    if (typeof way === 'function') return toVerb(way, slice, verb)
    const whole = way.orWhole && toVerb(way.orWhole, slice, verb)
    return (...args) => {
      const owner = ownerOf(args[0])
      if (owner === null && whole) return whole(...args)
      return send(owner ?? '', (store) => verbOf(store, slice, verb)(...args) as Promise<unknown>)
    }
  }
  const routeAll = (slice: string): Readonly<Record<string, Verb>> => {
    const ways = Object.entries(Reflect.get(ROUTES, slice) as Parameters<typeof route>[2][])
    return Object.fromEntries(ways.map(([verb, way]) => [verb, route(slice, verb, way)]))
  }
  return Object.fromEntries(names.map((slice) => [slice, routeAll(slice)]))
}

function verbOf(store: object, slice: string, verb: string): Verb {
  const found: object = Reflect.get(store, slice)
  return (...args) => Reflect.apply(Reflect.get(found, verb), found, args)
}

/** The organization that a verb's first argument is or names; null for none. */
function ownerOf(first: unknown): string | null {
  if (typeof first === 'string') return first
  const { organizationId, organizationHint } = Object(first)
  return organizationId ?? organizationHint ?? null
}

/**
 * Lets the API judge a request and create a record in one step of the shard: see `declareOneStep`.
 *
 * @param createOf finds the verb that creates, of the store over shards and of a shard
 */
function declareRoutedStep<NewRecord>(
  fleet: Fleet,
  slices: Slices,
  createOf: (slices: Slices) => Create<NewRecord>,
): void {
  const find = ({ organizationHint = '' }: AdmissionRequest): Shard | undefined =>
    fleet.find(organizationHint)
  const stepOf = (shard: Shard | undefined): OneStep<NewRecord> | undefined =>
    shard && oneStepOf(shard.store.apiKeys.admit, createOf(shard.store))
  declareOneStep(
    {
      admit: slices.apiKeys.admit,
      isReady: (request) => stepOf(find(request))?.isReady(request) === true,
    },
    createOf(slices),
    async (request, creation) => {
      const shard = find(request)
      const step = stepOf(shard)
      return shard && step ? fleet.ask(shard, () => step.admitAndCreate(request, creation)) : null
    },
  )
}

type Create<NewRecord> = (creation: Creation<NewRecord>) => Promise<ApiCreationOutcome>

// --- The store of a shard ---

/** The slices of the host's own transaction. */
const RECORD_SLICES: readonly (keyof RecordStore)[] = [
  'businesses',
  'clients',
  'leads',
  'invoices',
  'proposals',
  'projects',
  'events',
  'imports',
]

/** Gives the store of a shard, which rejects organizations of other shards. */
function guard(fleet: Fleet, shard: Shard): PostgresStore {
  const { name, store } = shard

  async function checkOwner(organizationId: string): Promise<void> {
    const owner = await fleet.locate(organizationId)
    if (owner.name === name) return
    throw wrongShard(`organization ${organizationId} belongs to shard '${owner.name}'`)
  }

  async function checkTransaction(transaction: Transaction): Promise<void> {
    const place = await store.shardPlaces.read(transaction)
    if (place?.name === name) return
    throw wrongShard(
      `the transaction is on ${place ? `shard '${place.name}'` : 'a database that is no shard'}`,
    )
  }

  function wrongShard(reason: string): BusinessApiError {
    return new BusinessApiError(
      WRONG_SHARD,
      `Cannot use shard '${name}' because ${reason}; nothing was written`,
    )
  }

  const slices = routeSlices(
    Object.keys(ROUTES),
    async (owner, call) => {
      await checkOwner(owner)
      return fleet.ask(shard, call)
    },
    (_, slice, verb) => verbOf(store, slice, verb),
  ) as unknown as Slices

  return {
    ...store,
    ...slices,
    using(transaction) {
      const records = store.using(transaction)
      let checked: Promise<void> | undefined
      return routeSlices(
        RECORD_SLICES,
        async (owner, call) => {
          await checkOwner(owner)
          checked ??= checkTransaction(transaction)
          await checked
          return call(records)
        },
        (_, slice, verb) => verbOf(records, slice, verb),
      ) as unknown as RecordStore
    },
  }
}

type Transaction = Parameters<PostgresStore['using']>[0]
