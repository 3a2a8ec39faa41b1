import type { BusinessApiStore } from '../../business-store.ts'
import type { EndpointRef } from '../../webhooks/claims.ts'
import { QUEUE_COUNT_MAX } from '../../webhooks/queue-counts.ts'
import type { Answers, AskAll } from './fleet.ts'

// Routing for a sharded store's methods. A call goes to the shard of the organization or API key in its first argument.
// If that is a string, it's an organization ID in every part of the store. Methods with neither have an entry in WAYS or
// are a delivery loop's. See SHARDS.md for the whole list.

/**
 * The routed parts of a store. The installation isn't routed, because it belongs to a single database and its string
 * argument isn't an organization.
 */
export type Slices = Omit<
  BusinessApiStore,
  'service' | 'beginRequest' | 'connectionUse' | 'shards' | 'findKey' | 'installation'
>

/** How to combine the results of all shards, for methods without an organization or key in their first argument. */
type Ways = {
  readonly [Name in keyof Slices]?: {
    readonly [Verb in keyof Slices[Name]]?: (askAll: AskAll) => Slices[Name][Verb]
  }
}

const WAYS: Ways = {
  invoices: {
    markOverdue: (askAll) => (request) => join(askAll(({ invoices }) => invoices.markOverdue(request))),
  },
  apiKeys: {
    identify: (askAll) => async (digests) =>
      new Map(await join(askAll(async ({ apiKeys }) => [...(await apiKeys.identify(digests))]))),
  },
  requests: {
    // Each shard logs the requests made with its own keys.
    write: (askAll) => async (requests) =>
      void (await join(askAll(async (store) => [await store.requests.write(requests)]))),
  },
  endpoints: {
    listSealed: (askAll) => async (limit, after) => {
      const all = await join(askAll(({ endpoints }) => endpoints.listSealed(limit, after)))
      return [...all].sort((one, other) => Buffer.compare(placeOf(one), placeOf(other))).slice(0, limit)
    },
  },
  deliveries: {
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

/** A delivery loop always belongs to a single shard. */
export function rejectLoop(): never {
  throw new TypeError(
    "Cannot do the work of a delivery loop for all shards: create a loop for each of the store's 'shards'",
  )
}

/** Joins the lists of all shards. An unreachable shard's error is thrown after the others have finished. */
async function join<Item>(asked: Promise<Answers<readonly Item[]>>): Promise<readonly Item[]> {
  const { answers, away } = await asked
  if (away !== undefined) throw away
  return answers.flat() as Item[]
}

/** Sort key for (organization ID, endpoint ID), compared as bytes like in PostgreSQL. */
function placeOf({ organizationId, endpointId }: EndpointRef): Buffer {
  return Buffer.from(`${organizationId}\0${endpointId}`)
}

/** Adds up objects of numbers property by property. */
export function sumOf<Numbers extends object>(
  all: readonly Numbers[],
  max: number = Number.MAX_SAFE_INTEGER,
): Numbers {
  const add = (name: string): number => all.reduce((sum, each) => sum + Number(Reflect.get(each, name)), 0)
  const sums = Object.keys(all[0] ?? {}).map((name) => [name, Math.min(max, add(name))])
  return Object.fromEntries(sums) as Numbers
}

/**
 * Routes all methods of a store or transaction.
 *
 * @param route makes the call, using `on` to call a store for the organization of its key, or `whole` to call all
 * shards. The first argument is the call's organization, if any
 * @returns the routed parts
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
        (askAll) => (Reflect.get(WAYS[slice as keyof Ways] ?? {}, verb)?.(askAll) ?? rejectLoop)(...args),
        args[0],
      )
  const routed = slices.map(([name, slice]) => {
    const verbs = Object.keys(slice).filter((verb) => verb !== 'watch')
    return [name, { ...slice, ...Object.fromEntries(verbs.map((verb) => [verb, routeVerb(name, verb)])) }]
  })
  return Object.fromEntries(routed)
}

/** Adds the key's organization to the arguments, so a shard rejects the call if the organization has left. */
function withHint([first, ...rest]: readonly unknown[], organizationHint = ''): readonly unknown[] {
  const isKey = organizationHint !== '' && Object(first).keyDigest !== undefined
  return [isKey ? { ...Object(first), organizationHint } : first, ...rest]
}

/** Returns the organization in a method's first argument, if any. */
function ownerOf(first: unknown): string | undefined {
  if (typeof first === 'string') return first
  const { organizationId, organizationHint } = Object(first)
  return organizationId ?? organizationHint ?? undefined
}
