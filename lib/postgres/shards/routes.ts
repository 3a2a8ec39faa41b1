import type { BusinessApiStore } from '../../business-store.ts'
import type { EndpointRef } from '../../webhooks/claims.ts'
import { QUEUE_COUNT_MAX } from '../../webhooks/queue-counts.ts'
import type { Answers, AskAll } from './fleet.ts'

// The way of each verb of a store over shards. A verb goes to the shard of the organization or API key that is its first argument, or
// that the first argument names: a text is the id of an organization, as in every slice. A verb that may name none has a way in WAYS,
// and does not compile without one. SHARDS.md has these verbs in a table.

/** The slices of a store. The installation is that of a shard's database, and its text is no organization. */
export type Slices = Omit<
  BusinessApiStore,
  'service' | 'beginRequest' | 'connectionUse' | 'shards' | 'findKey' | 'installation'
>

type Named = string | { readonly organizationId: string } | { readonly keyDigest: string }
/** The verbs of a slice, optional or not, that may name none. `watch` is no call on the database. */
export type Unnamed<Slice> = {
  [Verb in Exclude<keyof NonNullable<Slice>, 'watch'>]-?: NonNullable<NonNullable<Slice>[Verb]> extends (
    first: infer First,
    ...rest: never[]
  ) => unknown
    ? First extends Named
      ? never
      : Verb
    : Verb
}[Exclude<keyof NonNullable<Slice>, 'watch'>]

/** Makes the verbs, for calls that name no organization, of the answers of all shards. */
type Ways = {
  readonly [Name in keyof Slices as [Unnamed<Slices[Name]>] extends [never] ? never : Name]-?: {
    readonly [Verb in Unnamed<Slices[Name]>]: (askAll: AskAll) => NonNullable<Slices[Name]>[Verb]
  }
}

const WAYS: Ways = {
  invoices: {
    markOverdue: (askAll) => (request) => join(askAll(({ invoices }) => invoices.markOverdue(request))),
  },
  apiKeys: {
    identify: (askAll) => async (digests) => {
      const { answers, away } = await askAll(({ apiKeys }) => apiKeys.identify(digests))
      const found = new Map(answers.flatMap((each) => [...each]))
      // A digest that no shard has found may be that of a key of the silent shard.
      if (away !== undefined && digests.some((digest) => !found.has(digest))) throw away
      return found
    },
  },
  requests: {
    // Each shard logs the requests of its own keys.
    write: (askAll) => async (requests) => {
      const { away } = await askAll((store) => store.requests.write(requests))
      if (away !== undefined) throw away
    },
  },
  endpoints: {
    listSealed: (askAll) => async (limit, after) => {
      const all = await join(askAll(({ endpoints }) => endpoints.listSealed(limit, after)))
      return [...all].sort((one, other) => Buffer.compare(placeOf(one), placeOf(other))).slice(0, limit)
    },
  },
  deliveries: {
    claim: ofLoop,
    read: ofLoop,
    writeResults: ofLoop,
    release: ofLoop,
    purge: ofLoop,
    continuePurge: ofLoop,
    countQueue: (askAll) => async (target) => {
      const { answers, away } = await askAll(({ deliveries }) => deliveries.countQueue(target))
      const oldestDueMs = Math.max(...answers.map((each) => each.oldestDueMs))
      const partial = away === undefined ? {} : { isPartial: true }
      return { ...sumOf(answers, QUEUE_COUNT_MAX + 1), oldestDueMs, ...partial }
    },
  },
  notices: {
    claimExpiring: (askAll) => (request) => join(askAll(({ notices }) => notices.claimExpiring(request))),
  },
}

/** A loop belongs to a shard. */
function ofLoop(): () => Promise<never> {
  return async () => {
    throw new TypeError(
      "Cannot do the work of a delivery loop for all shards: create a loop for each of the store's 'shards'",
    )
  }
}

/** Joins the lists of all shards. Throws the error of a shard that could not be reached once the others have done their part. */
async function join<Item>(asked: Promise<Answers<readonly Item[]>>): Promise<readonly Item[]> {
  const { answers, away } = await asked
  if (away !== undefined) throw away
  return answers.flat() as Item[]
}

/** The order of (organization id, endpoint id), in bytes as PostgreSQL compares them. */
function placeOf({ organizationId, endpointId }: EndpointRef): Buffer {
  return Buffer.from(`${organizationId}\0${endpointId}`)
}

/** Adds the numbers of objects with the same names. */
export function sumOf<Numbers extends object>(
  all: readonly Numbers[],
  max: number = Number.MAX_SAFE_INTEGER,
): Numbers {
  const add = (name: string): number => all.reduce((sum, each) => sum + Number(Reflect.get(each, name)), 0)
  const sums = Object.keys(all[0] ?? {}).map((name) => [name, Math.min(max, add(name))])
  return Object.fromEntries(sums) as Numbers
}

/**
 * Puts a router in front of every verb of a store, or of the slices of a transaction.
 *
 * @param route makes a call: `on` a store, for the organization of a key that the call names, or of the `whole` installation. Gets the
 *   organization that the call names, if any
 * @returns the slices of the store, or of the transaction
 */
export function routeVerbs<Store extends object>(
  store: Store,
  route: (
    owner: string | undefined,
    on: (store: object, organizationHint?: string) => Promise<unknown>,
    whole: (askAll: AskAll) => Promise<unknown>,
    first: unknown,
  ) => Promise<unknown>,
): Pick<Store, keyof Store & (keyof Slices | 'replies')> {
  const slices = Object.entries(store).filter(
    ([name, slice]) => typeof slice === 'object' && name !== 'installation' && name !== 'service',
  )
  const routeVerb =
    (slice: string, verb: string) =>
    (...args: unknown[]) =>
      route(
        ownerOf(args[0]),
        (chosen, hint) => Reflect.get(Reflect.get(chosen, slice), verb)(...withHint(args, hint)),
        (askAll) => Reflect.get(Reflect.get(WAYS, slice), verb)(askAll)(...args),
        args[0],
      )
  const routed = slices.map(([name, slice]) => {
    const verbs = Object.keys(slice).filter((verb) => verb !== 'watch')
    return [name, { ...slice, ...Object.fromEntries(verbs.map((verb) => [verb, routeVerb(name, verb)])) }]
  })
  return Object.fromEntries(routed)
}

/** The arguments, with the organization of the key: a shard that the organization has left rejects the call. */
function withHint([first, ...rest]: readonly unknown[], organizationHint = ''): readonly unknown[] {
  const isKey = organizationHint !== '' && Object(first).keyDigest !== undefined
  return [isKey ? { ...Object(first), organizationHint } : first, ...rest]
}

/** The organization that a verb's first argument is or names; undefined for none. */
function ownerOf(first: unknown): string | undefined {
  if (typeof first === 'string') return first
  const { organizationId, organizationHint } = Object(first)
  return organizationId ?? organizationHint ?? undefined
}
