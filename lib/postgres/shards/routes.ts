import type { Admission, AdmissionRequest, AdmittedPage, PageRequest } from '../../access/admission.ts'
import type { BusinessApiStore } from '../../business-store.ts'
import type { ClaimRef, EndpointRef } from '../../webhooks/deliveries.ts'
import { QUEUE_COUNT_MAX, type QueueCounts } from '../../webhooks/queue-counts.ts'
import type { Answers, Fleet, Shard } from './fleet.ts'

// The way of each verb of a store over shards. The types ask for a way for every verb of every slice, so that a verb that is added
// later and has none does not compile.

/** The slices of a store. */
export type Slices = Omit<BusinessApiStore, 'beginRequest' | 'connectionUse'>

/** The verb goes to the shard of the organization, which is the first argument or in the first argument. */
export const OWN = 'own'

/** The verb concerns several shards, or the whole installation. */
type Whole<Verb> = (fleet: Fleet) => Verb

/** As {@link OWN} when the first argument names an organization; otherwise the verb of the whole installation. */
interface OwnOr<Verb> {
  readonly orWhole: Whole<Verb>
}

type AnyVerb = (...args: never[]) => unknown
type Way<Verb extends AnyVerb> =
  | Whole<Verb>
  | OwnOr<Verb>
  | (Parameters<Verb>[0] extends string | { readonly organizationId: string } ? typeof OWN : never)

/** A way for each verb. */
export type Routes = {
  readonly [Slice in keyof Slices]: {
    readonly [Verb in keyof Slices[Slice] as NonNullable<Slices[Slice][Verb]> extends AnyVerb
      ? Verb
      : never]-?: NonNullable<Slices[Slice][Verb]> extends infer Known extends AnyVerb ? Way<Known> : never
  }
}

const RECORDS = { list: OWN, get: OWN, create: OWN, change: OWN } as const

/** The way of each verb. SHARDS.md has the verbs of the whole installation in a table. */
export const ROUTES: Routes = {
  businesses: RECORDS,
  clients: { ...RECORDS, admitAndList: admitted('clients') },
  leads: { ...RECORDS, convert: OWN, admitAndList: admitted('leads') },
  proposals: { ...RECORDS, admitAndList: admitted('proposals') },
  projects: { ...RECORDS, admitAndList: admitted('projects') },
  invoices: {
    ...RECORDS,
    pay: OWN,
    listPayments: OWN,
    admitAndList: admitted('invoices'),
    markOverdue: {
      orWhole: (fleet) => async (request) =>
        complete(await fleet.askAll((store) => store.invoices.markOverdue(request))).flat(),
    },
  },
  events: { publish: OWN },
  imports: { write: OWN },
  apiKeys: {
    markUsed: OWN,
    insert: OWN,
    get: OWN,
    list: OWN,
    update: OWN,
    revoke: OWN,
    rotate: OWN,
    limitOrganization: OWN,
    getOrganizationLimit: OWN,
    admit: {
      orWhole: (fleet) => async (request) => {
        const organizationHint = await ownerOfKey(fleet, request.keyDigest)
        if (organizationHint === undefined) return UNAUTHENTICATED
        const shard = await fleet.locate(organizationHint)
        return fleet.ask(shard, ({ apiKeys }) => apiKeys.admit({ ...request, organizationHint }))
      },
    },
    identify: (fleet) => async (digests) => {
      const { answers, away } = await fleet.askAll((store) => store.apiKeys.identify(digests))
      const found = new Map(answers.flatMap(({ answer }) => [...answer]))
      // A digest that no shard has found may be a key of the silent shard.
      if (away !== undefined && digests.some((digest) => !found.has(digest))) throw away
      return found
    },
  },
  endpoints: {
    insert: OWN,
    get: OWN,
    list: OWN,
    listRemoved: OWN,
    getTarget: OWN,
    update: OWN,
    setState: OWN,
    remove: OWN,
    rotateSecret: OWN,
    exchangeSealed: OWN,
    listSealed: (fleet) => async (after, limit) => {
      const parts = complete(await fleet.askAll((store) => store.endpoints.listSealed(after, limit)))
      return parts.flat().sort(byPlace).slice(0, limit)
    },
  },
  deliveries: {
    list: OWN,
    count: OWN,
    countRecoverable: OWN,
    get: OWN,
    listAttempts: OWN,
    recover: OWN,
    cancel: OWN,
    countQueue: {
      orWhole: (fleet) => async (target) => {
        const { answers, away } = await fleet.askAll((store) => store.deliveries.countQueue(target))
        const sum = answers.map(({ answer }) => answer).reduce(addCounts)
        return away === undefined ? sum : { ...sum, isPartial: true }
      },
    },
    claim: () => () => Promise.reject(ofOneShard('claim')),
    continuePurge: () => () => Promise.reject(ofOneShard('continuePurge')),
    purge: (fleet) => async (request) => {
      const cursors: Cursors | null = request.cursor ? JSON.parse(request.cursor) : null
      const { answers, away } = await fleet.askAll(async ({ deliveries }, { name }) => {
        const cursor = cursors?.[name]
        return cursors && cursor === undefined
          ? null
          : deliveries.purge({ ...request, cursor: cursor ?? null })
      })
      const report = { events: 0, idempotencyKeys: 0 }
      const next: Cursors = {}
      for (const { shard, answer } of answers) {
        report.events += answer?.events ?? 0
        report.idempotencyKeys += answer?.idempotencyKeys ?? 0
        if (answer?.next) next[shard.name] = answer.next
      }
      const isDone = Object.keys(next).length === 0
      return {
        ...report,
        next: isDone ? null : JSON.stringify(next),
        ...(away !== undefined && { isPartial: true }),
      }
    },
    read: (fleet) => async (claims) => {
      const { parts, left, away } = await askOwners(fleet, claims, (store, own) => store.deliveries.read(own))
      if (left.length > 0) throw away
      return parts.flat()
    },
    writeResults: (fleet) => async (results, limit) => {
      const { parts, left } = await askOwners(fleet, results, (store, own) =>
        store.deliveries.writeResults(own, limit),
      )
      return {
        lost: parts.flatMap(({ lost }) => lost),
        endpoints: parts.flatMap(({ endpoints }) => endpoints),
        failed: parts.flatMap(({ failed }) => failed),
        ...(left.length > 0 && { unwritten: left }),
      }
    },
    release: (fleet) => async (claims) => {
      const { parts, left } = await askOwners(fleet, claims, (store, own) => store.deliveries.release(own))
      return [...parts.flat(), ...left]
    },
    watch: (fleet) => (onDue) => {
      const ends = fleet.shards.map(({ store }) => store.deliveries.watch(onDue))
      return () => {
        for (const end of ends) end()
      }
    },
  },
  notices: {
    claimExpiring: (fleet) => async (request) =>
      complete(await fleet.askAll((store) => store.notices.claimExpiring(request))).flat(),
  },
  audit: { list: OWN, recordTest: OWN },
  overview: { read: OWN },
  organizations: { deletePart: OWN, forgetPart: OWN },
  backfills: { backfill: OWN, count: OWN },
  eventLog: { list: OWN, get: OWN, listSince: OWN, read: OWN, mark: OWN },
}

// --- The whole installation ---

const UNAUTHENTICATED: Admission = { outcome: 'unauthenticated' }

/** The place in the purge of each shard that has not been purged to the end. */
type Cursors = Record<string, string>

/** @throws the error of a shard that could not be reached, once the others have done their part */
function complete<Answer>({ answers, away }: Answers<Answer>): readonly Answer[] {
  if (away !== undefined) throw away
  return answers.map(({ answer }) => answer)
}

function ofOneShard(verb: string): TypeError {
  return new TypeError(
    `Cannot call '${verb}' for all shards because a delivery loop belongs to one shard: create a loop for each of the store's 'shards'`,
  )
}

async function ownerOfKey(fleet: Fleet, digest: string): Promise<string | undefined> {
  const identify = ROUTES.apiKeys.identify as Whole<Slices['apiKeys']['identify']>
  return (await identify(fleet)([digest])).get(digest)
}

type Listed = 'clients' | 'leads' | 'proposals' | 'projects' | 'invoices'

/** Without a hint, the organization of the key is looked up first. */
function admitted<Slice extends Listed>(slice: Slice): OwnOr<Slices[Slice]['admitAndList']> {
  const orWhole =
    (fleet: Fleet) =>
    async (request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<never>> => {
      const organizationHint = await ownerOfKey(fleet, request.keyDigest)
      if (organizationHint === undefined) return { admission: UNAUTHENTICATED, page: null }
      const shard = await fleet.locate(organizationHint)
      const page = await fleet.ask<AdmittedPage<unknown>>(shard, (store) =>
        store[slice].admitAndList({ ...request, organizationHint }, asked),
      )
      return page as AdmittedPage<never>
    }
  return { orWhole }
}

/**
 * Makes a call on the shards of the items' organizations, with the items of each.
 *
 * @returns the answers, and the items of shards that could not be reached
 */
async function askOwners<Item extends Pick<ClaimRef, 'organizationId'>, Answer>(
  fleet: Fleet,
  items: readonly Item[],
  call: (store: BusinessApiStore, own: readonly Item[]) => Promise<Answer>,
): Promise<{ readonly parts: readonly Answer[]; readonly left: readonly Item[]; readonly away: unknown }> {
  const isOf = (shard: Shard) => (item: Item) => fleet.find(item.organizationId) === shard
  const { answers, away } = await fleet.askAll(async (store, shard) => {
    const own = items.filter(isOf(shard))
    return own.length === 0 ? [] : [await call(store, own)]
  })
  const left = items.filter((item) => !answers.some(({ shard }) => isOf(shard)(item)))
  return { parts: answers.flatMap(({ answer }) => answer), left, away }
}

/** The order of (organization id, endpoint id). */
function byPlace(one: EndpointRef, other: EndpointRef): number {
  const [a, b] =
    one.organizationId === other.organizationId
      ? [one.endpointId, other.endpointId]
      : [one.organizationId, other.organizationId]
  return a < b ? -1 : Number(a > b)
}

function addCounts(one: QueueCounts, other: QueueCounts): QueueCounts {
  const add = (name: 'due' | 'backingOff' | 'paused' | 'sending' | 'failed'): number =>
    Math.min(one[name] + other[name], QUEUE_COUNT_MAX + 1)
  return {
    due: add('due'),
    oldestDueMs: Math.max(one.oldestDueMs, other.oldestDueMs),
    backingOff: add('backingOff'),
    paused: add('paused'),
    sending: add('sending'),
    failed: add('failed'),
  }
}
