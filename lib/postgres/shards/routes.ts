import type { Admission, AdmissionRequest, AdmittedPage, PageRequest } from '../../access/admission.ts'
import type { BusinessApiStore } from '../../business-store.ts'
import type { EndpointRef } from '../../webhooks/deliveries.ts'
import { QUEUE_COUNT_MAX } from '../../webhooks/queue-counts.ts'
import type { Answers, Fleet } from './fleet.ts'

// The way of each verb of a store over shards. The types ask for a way for every verb of every slice, so that a verb that is added
// later and has none does not compile. SHARDS.md has the verbs that go another way than to their organization in a table.

/** The slices of a store. */
export type Slices = Omit<BusinessApiStore, 'beginRequest' | 'connectionUse'>

/** The verb goes to the shard of the organization that is the first argument, or that the first argument names. */
export const OWN = 'own'

/** Makes a verb of the whole installation. */
type Whole<Verb> = (fleet: Fleet) => Verb
/** As {@link OWN} if the first argument names an organization; otherwise the verb of the whole installation. */
type OwnOr<Verb> = { readonly orWhole: Whole<Verb> }

type AnyVerb = (...args: never[]) => unknown
type Way<Verb> = Verb extends AnyVerb
  ?
      | Whole<Verb>
      | OwnOr<Verb>
      | (Parameters<Verb>[0] extends string | { readonly organizationId: string } ? typeof OWN : never)
  : never

/** The names of the verbs of a slice. */
type VerbOf<Slice> = {
  [Name in keyof Slice]-?: NonNullable<Slice[Name]> extends AnyVerb ? Name : never
}[keyof Slice]

/** A way for each verb. */
export type Routes = {
  readonly [Name in keyof Slices]: {
    readonly [Verb in VerbOf<Slices[Name]>]: Way<NonNullable<Slices[Name][Verb]>>
  }
}

const UNAUTHENTICATED: Admission = { outcome: 'unauthenticated' }
const NO_PAGE: AdmittedPage<never> = { admission: UNAUTHENTICATED, page: null }

/** The way of each verb. */
export const ROUTES: Routes = {
  businesses: own('list', 'get', 'create', 'change'),
  clients: {
    ...own('list', 'get', 'create', 'change'),
    admitAndList: hinted(
      ({ clients }, request, asked: PageRequest) => clients.admitAndList(request, asked),
      NO_PAGE,
    ),
  },
  leads: {
    ...own('list', 'get', 'create', 'change', 'convert'),
    admitAndList: hinted(
      ({ leads }, request, asked: PageRequest) => leads.admitAndList(request, asked),
      NO_PAGE,
    ),
  },
  proposals: {
    ...own('list', 'get', 'create', 'change'),
    admitAndList: hinted(
      ({ proposals }, request, asked: PageRequest) => proposals.admitAndList(request, asked),
      NO_PAGE,
    ),
  },
  projects: {
    ...own('list', 'get', 'create', 'change'),
    admitAndList: hinted(
      ({ projects }, request, asked: PageRequest) => projects.admitAndList(request, asked),
      NO_PAGE,
    ),
  },
  invoices: {
    ...own('list', 'get', 'create', 'change', 'pay', 'listPayments'),
    admitAndList: hinted(
      ({ invoices }, request, asked: PageRequest) => invoices.admitAndList(request, asked),
      NO_PAGE,
    ),
    markOverdue: {
      orWhole: (fleet) => joined(fleet, (store, request) => store.invoices.markOverdue(request)),
    },
  },
  events: own('publish'),
  imports: own('write'),
  apiKeys: {
    ...own('markUsed', 'insert', 'get', 'list', 'update', 'revoke', 'rotate'),
    ...own('limitOrganization', 'getOrganizationLimit'),
    admit: hinted(({ apiKeys }, request) => apiKeys.admit(request), UNAUTHENTICATED),
    identify: (fleet) => (digests) => identify(fleet, digests),
  },
  endpoints: {
    ...own('insert', 'get', 'list', 'listRemoved', 'getTarget', 'update', 'setState', 'remove'),
    ...own('rotateSecret', 'exchangeSealed'),
    listSealed: (fleet) => async (after, limit) => {
      const all = await joined(fleet, ({ endpoints }) => endpoints.listSealed(after, limit))()
      return [...all].sort(byPlace).slice(0, limit)
    },
  },
  deliveries: {
    ...own('list', 'count', 'countRecoverable', 'get', 'listAttempts', 'recover', 'cancel'),
    claim: ofOneShard('claim'),
    read: ofOneShard('read'),
    writeResults: ofOneShard('writeResults'),
    release: ofOneShard('release'),
    continuePurge: ofOneShard('continuePurge'),
    countQueue: {
      orWhole: (fleet) => async (target) => {
        const { answers, away } = await fleet.askAll(({ deliveries }) => deliveries.countQueue(target))
        const counts = answers.map(({ answer }) => answer)
        const oldestDueMs = Math.max(...counts.map((each) => each.oldestDueMs))
        const partial = away === undefined ? {} : { isPartial: true }
        return { ...sumOf(counts, QUEUE_COUNT_MAX + 1), oldestDueMs, ...partial }
      },
    },
    purge: ofOneShard('purge'),
    watch: (fleet) => (onDue) => {
      const ends = fleet.shards.map(({ store }) => store.deliveries.watch(onDue))
      return () => void ends.map((end) => end())
    },
  },
  notices: {
    claimExpiring: (fleet) => joined(fleet, ({ notices }, request) => notices.claimExpiring(request)),
  },
  audit: own('list', 'recordTest'),
  overview: own('read'),
  organizations: own('deletePart', 'forgetPart'),
  backfills: own('backfill', 'count'),
  eventLog: own('list', 'get', 'listSince', 'read', 'mark'),
}

function own<Name extends string>(...verbs: readonly Name[]): { readonly [Verb in Name]: typeof OWN } {
  return Object.fromEntries(verbs.map((verb) => [verb, OWN])) as { [Verb in Name]: typeof OWN }
}

// --- The whole installation ---

/** Adds the numbers of objects with the same names. */
export function sumOf<Numbers extends object>(
  all: readonly Numbers[],
  max: number = Number.MAX_SAFE_INTEGER,
): Numbers {
  const add = (name: string): number => all.reduce((sum, each) => sum + Number(Reflect.get(each, name)), 0)
  return Object.fromEntries(
    Object.keys(all[0] ?? {}).map((name) => [name, Math.min(max, add(name))]),
  ) as Numbers
}

/** Joins the lists of all shards. Throws the error of a shard that could not be reached once the others have done their part. */
function joined<Args extends unknown[], Item>(
  fleet: Fleet,
  call: (store: BusinessApiStore, ...args: Args) => Promise<readonly Item[]>,
): (...args: Args) => Promise<readonly Item[]> {
  return async (...args) => {
    const { answers, away }: Answers<readonly Item[]> = await fleet.askAll((store) => call(store, ...args))
    if (away !== undefined) throw away
    return answers.flatMap(({ answer }) => answer)
  }
}

function ofOneShard(verb: string): () => () => Promise<never> {
  return () => () =>
    Promise.reject(
      new TypeError(
        `Cannot call '${verb}' for all shards because it is the work of one shard: create a delivery loop for each of the store's 'shards'`,
      ),
    )
}

async function identify(fleet: Fleet, digests: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const { answers, away } = await fleet.askAll(({ apiKeys }) => apiKeys.identify(digests))
  const found = new Map(answers.flatMap(({ answer }) => [...answer]))
  // A digest that no shard has found may be that of a key of the silent shard.
  if (away !== undefined && digests.some((digest) => !found.has(digest))) throw away
  return found
}

/** Routes a request by its hint. Without a hint, the organization of the key is looked up first. */
function hinted<Args extends unknown[], Verdict>(
  call: (store: BusinessApiStore, request: AdmissionRequest, ...args: Args) => Promise<Verdict>,
  unknown: Verdict,
): OwnOr<(request: AdmissionRequest, ...args: Args) => Promise<Verdict>> {
  const orWhole =
    (fleet: Fleet) =>
    async (request: AdmissionRequest, ...args: Args): Promise<Verdict> => {
      const organizationHint = (await identify(fleet, [request.keyDigest])).get(request.keyDigest)
      if (organizationHint === undefined) return unknown
      return fleet.askOwner(organizationHint, (store) =>
        call(store, { ...request, organizationHint }, ...args),
      )
    }
  return { orWhole }
}

/** The order of (organization id, endpoint id). */
function byPlace(one: EndpointRef, other: EndpointRef): number {
  const names = ['organizationId', 'endpointId'] as const
  const name = names.find((each) => one[each] !== other[each]) ?? 'endpointId'
  return one[name] < other[name] ? -1 : Number(one[name] > other[name])
}
