import type { BusinessApiStore } from '../../business-store.ts'
import type { EndpointRef } from '../../webhooks/deliveries.ts'
import { QUEUE_COUNT_MAX } from '../../webhooks/queue-counts.ts'
import type { Answers, AskAll } from './fleet.ts'

// The way of each verb of a store over shards. The types ask for a way for every verb of every slice, so that a verb that is added
// later and has none does not compile. SHARDS.md has the verbs that go another way than to their organization in a table.

/** The slices of a store. */
export type Slices = Omit<BusinessApiStore, 'beginRequest' | 'connectionUse' | 'shards'>

/** The verb goes to the shard of the organization, or of the API key, that is the first argument or that the first argument names. */
export const OWN = 'own'
/** The verb belongs to a delivery loop, and a loop to a shard. */
export const LOOP = 'loop'
/** The verb is made of the answers of all shards. */
type Whole<Verb> = (askAll: AskAll) => Verb
/** As {@link OWN} if the first argument names an organization; otherwise of the answers of all shards. */
type OwnOr<Verb> = { readonly orWhole: Whole<Verb> }

type AnyVerb = (...args: never[]) => Promise<unknown>
type Named = string | { readonly organizationId: string } | { readonly keyDigest: string }
type Way<Verb> = Verb extends AnyVerb
  ? Whole<Verb> | OwnOr<Verb> | typeof LOOP | (Parameters<Verb>[0] extends Named ? typeof OWN : never)
  : never

type Routes = {
  readonly [Name in keyof Slices]: {
    // `watch` is no call on the database: see createShardedStore.
    readonly [Verb in Exclude<keyof Slices[Name], 'watch'>]-?: Way<NonNullable<Slices[Name][Verb]>>
  }
}

const ROUTES: Routes = {
  businesses: own('list', 'get', 'create', 'change'),
  clients: own('admitAndList', 'list', 'get', 'create', 'change'),
  leads: own('admitAndList', 'list', 'get', 'create', 'change', 'convert'),
  proposals: own('admitAndList', 'list', 'get', 'create', 'change'),
  projects: own('admitAndList', 'list', 'get', 'create', 'change'),
  invoices: {
    ...own('admitAndList', 'list', 'get', 'create', 'change', 'pay', 'listPayments'),
    markOverdue: {
      orWhole: (askAll) => (request) => join(askAll(({ invoices }) => invoices.markOverdue(request))),
    },
  },
  events: own('publish'),
  imports: own('write'),
  apiKeys: {
    ...own('admit', 'markUsed', 'insert', 'get', 'list', 'update', 'revoke', 'rotate'),
    ...own('limitOrganization', 'getOrganizationLimit'),
    identify: (askAll) => async (digests) => {
      const { answers, away } = await askAll(({ apiKeys }) => apiKeys.identify(digests))
      const found = new Map(answers.flatMap((each) => [...each]))
      // A digest that no shard has found may be that of a key of the silent shard.
      if (away !== undefined && digests.some((digest) => !found.has(digest))) throw away
      return found
    },
  },
  endpoints: {
    ...own('insert', 'get', 'list', 'listRemoved', 'getTarget', 'update', 'setState', 'remove'),
    ...own('rotateSecret', 'exchangeSealed'),
    listSealed: (askAll) => async (after, limit) => {
      const all = await join(askAll(({ endpoints }) => endpoints.listSealed(after, limit)))
      return [...all].sort((one, other) => Buffer.compare(placeOf(one), placeOf(other))).slice(0, limit)
    },
  },
  deliveries: {
    ...own('list', 'count', 'countRecoverable', 'get', 'listAttempts', 'recover', 'cancel'),
    ...ofLoop('claim', 'read', 'writeResults', 'release', 'purge', 'continuePurge'),
    countQueue: {
      orWhole: (askAll) => async (target) => {
        const { answers, away } = await askAll(({ deliveries }) => deliveries.countQueue(target))
        const oldestDueMs = Math.max(...answers.map((each) => each.oldestDueMs))
        const partial = away === undefined ? {} : { isPartial: true }
        return { ...sumOf(answers, QUEUE_COUNT_MAX + 1), oldestDueMs, ...partial }
      },
    },
  },
  notices: {
    claimExpiring: (askAll) => (request) => join(askAll(({ notices }) => notices.claimExpiring(request))),
  },
  audit: own('list', 'recordTest'),
  overview: own('read'),
  organizations: own('deletePart', 'forgetPart'),
  backfills: own('backfill', 'count'),
  eventLog: own('list', 'get', 'listSince', 'read', 'mark'),
}

type Ways<Name extends string, Way> = { readonly [Verb in Name]: Way }

function own<Name extends string>(...verbs: readonly Name[]): Ways<Name, typeof OWN> {
  return Object.fromEntries(verbs.map((verb) => [verb, OWN])) as Ways<Name, typeof OWN>
}

function ofLoop<Name extends string>(...verbs: readonly Name[]): Ways<Name, typeof LOOP> {
  return Object.fromEntries(verbs.map((verb) => [verb, LOOP])) as Ways<Name, typeof LOOP>
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

// --- Routing ---

/** The way of a verb, as far as a router has to know. */
type RoutedWay = typeof OWN | typeof LOOP | Whole<(...args: unknown[]) => Promise<unknown>> | OwnOr<never>

/**
 * Puts a router in front of every verb of a store, or of the slices of a transaction.
 *
 * @param route makes the call: on a store of its choice by `call`
 * @returns the slices of the store
 */
export function routeVerbs<Store extends object>(
  store: Store,
  route: (
    way: RoutedWay,
    args: readonly unknown[],
    call: (store: object) => Promise<unknown>,
  ) => Promise<unknown>,
): Pick<Store, keyof Store & keyof Slices> {
  const slices = Object.entries(ROUTES).filter(([slice]) => slice in store)
  const routed = slices.map(([slice, ways]: [string, object]) => {
    const verbs = Object.entries(ways).map(([verb, way]: [string, RoutedWay]) => [
      verb,
      (...args: unknown[]) =>
        route(way, args, (chosen) => Reflect.get(Reflect.get(chosen, slice), verb)(...args)),
    ])
    return [slice, { ...Reflect.get(store, slice), ...Object.fromEntries(verbs) }]
  })
  return Object.fromEntries(routed)
}
