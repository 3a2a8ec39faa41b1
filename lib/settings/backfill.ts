import { setTimeout as sleep } from 'node:timers/promises'
import * as v from 'valibot'
import { type BusinessApiError, INVALID_STATE, refused } from '../base/errors.ts'
import { type Call, defineCall, found, IdSchema, someOf, whole } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { BACKFILL_TYPES, type BackfillType, backfillTemplate } from '../resources/backfill.ts'
import type { WebhookEndpoint } from '../webhooks/endpoints.ts'
import { type Acting, audited, callback, defineAuditedCall, type MakeEntry, SignalSchema } from './calls.ts'

// --- Types ---

/** Selects the events of a backfill. */
export interface BackfillSelection {
  /**
   * The types to send: one or more of `business.created`, `client.created`, `lead.created`, `proposal.created`. Types that
   * the endpoint does not want are left out. Default: all that the endpoint wants.
   */
  readonly types?: readonly BackfillType[]
}

/** Options of `endpoints.backfill`. */
export interface BackfillOptions extends BackfillSelection, Acting {
  /** Records to read at most, 1 to 100,000,000, for callers that must respond soon. Default: all. */
  readonly limit?: number
  /** The `next` of an earlier call. Default null: from the first type and the oldest record. */
  readonly after?: string | null
  /** Receives the numbers so far, after each part of the work. */
  readonly onProgress?: ((progress: BackfillPart) => void) | undefined
  /** Ends the work after the part under way. */
  readonly signal?: AbortSignal | undefined
}

/** One part of a backfill, or the sum of several. */
export interface BackfillPart {
  /** Records that were read. */
  readonly examined: number
  /** Events that were made. The other records had an event for the endpoint already. */
  readonly events: number
  /** The `after` of the next part; null: every record has an event for the endpoint. */
  readonly next: string | null
}

/** The calls that send what existed before an endpoint did. */
export interface BackfillCalls {
  /**
   * Sends an event for each existing record to a single endpoint: the creation event, with the current record as data and the time of
   * the call as `createdAt`. Only this endpoint gets the events, after all other deliveries of the organization.
   *
   * The id of an event, `evt_backfill_…`, follows from the endpoint, the type and the record: a second backfill of the same
   * endpoint repeats nothing while the events are kept (the retention of the delivery loop), also after the first was
   * interrupted at any point. A record whose creation the endpoint was told, or is still to be told, is left out too.
   *
   * A transaction that has published before the endpoint was registered, and is committed after the backfill, is told by neither:
   * another backfill after its end sends the missing events, and only these.
   *
   * The work is done in parts of 250 records, a statement each, and rests between two parts for as long as the part took. A whole
   * backfill leaves a single audit entry, unless no event was made.
   *
   * @throws `BusinessApiError` with code `invalid_state` when the endpoint is not enabled, or is no longer enabled halfway: the
   *   events so far stay, and another call makes the rest
   */
  backfill(organizationId: string, endpointId: string, options?: BackfillOptions): Promise<BackfillPart>

  /**
   * Counts the records that a backfill would read, each type to at most 10,000. Records with an event for the endpoint count too.
   *
   * @throws `BusinessApiError` with code `invalid_state` when the endpoint is not enabled
   */
  previewBackfill(
    organizationId: string,
    endpointId: string,
    selection?: BackfillSelection,
  ): Promise<BackfillPreview>
}

/** The number of records that a backfill would read, by type. */
export interface BackfillPreview {
  readonly endpoint: WebhookEndpoint
  /** 10,000 for 10,000 or more; types that the endpoint does not want are absent. */
  readonly records: Readonly<Partial<Record<BackfillType, number>>>
}

// --- Inputs ---

/** Maximum number of records in a part. */
const PART_SIZE = 250
const COUNT_MAX = 10_000
const LIMIT_MAX = 100_000_000

const afterRequirement = 'must be null, or the next of an earlier part'

const AfterSchema = v.pipe(
  v.string(afterRequirement),
  v.check((after) => readPosition(after) !== null, afterRequirement),
)
const SELECTION = {
  endpointId: IdSchema,
  types: v.exactOptional(someOf(BACKFILL_TYPES), [...BACKFILL_TYPES]),
}
const ACTION = 'Cannot backfill a webhook endpoint'
const MANY = { judgesUndefined: true }
const readPreview = defineCall(ACTION, SELECTION, MANY)
const readBackfill = defineAuditedCall(
  ACTION,
  {
    ...SELECTION,
    after: v.exactOptional(v.nullable(AfterSchema), null),
    limit: v.exactOptional(whole(1, LIMIT_MAX), LIMIT_MAX),
    onProgress: callback<(progress: BackfillPart) => void>(),
    signal: SignalSchema,
  },
  MANY,
)

/** The place of a backfill: a type, and the last record of it that was read; an empty id at the beginning of the type. */
interface Position {
  readonly type: BackfillType
  readonly recordId: string
}

/** Reads a position: `client.created cli_01K…`. */
function readPosition(text: string): Position | null {
  const [first = '', recordId = '', ...rest] = text.split(' ')
  const type = BACKFILL_TYPES.find((name) => name === first)
  return type === undefined || rest.length > 0 || recordId.includes('\0') ? null : { type, recordId }
}

// --- Calls ---

/** Creates the calls of backfills. */
export function createBackfillCalls(
  { endpoints, backfills }: Pick<BusinessApiStore, 'endpoints' | 'backfills'>,
  makeEntry: MakeEntry,
): BackfillCalls {
  /** Reads the endpoint, and the types that it wants, in the order of a backfill. */
  async function readEndpoint({
    organizationId,
    action,
    input,
  }: Call<{ readonly endpointId: string; readonly types: readonly BackfillType[] }>) {
    const endpoint = found(await endpoints.get(organizationId, input.endpointId), action)
    if (endpoint.state !== 'enabled') throw notEnabled(action, endpoint.state)
    const types = BACKFILL_TYPES.filter((type) => {
      return input.types.includes(type) && (endpoint.types?.includes(type) ?? true)
    })
    return { endpoint, types }
  }

  async function run(
    call: ReturnType<typeof readBackfill>,
    { onProgress = () => {}, signal }: Pick<BackfillOptions, 'onProgress' | 'signal'>,
  ): Promise<BackfillPart> {
    const { organizationId, input, action } = call
    const { types } = await readEndpoint(call)
    const { endpointId, limit } = input
    const { entry } = audited(makeEntry, call, 'endpoint.backfilled', endpointId, { types })
    const sum = { examined: 0, events: 0 }
    let place = startAt(types, input.after)
    while (place !== null && sum.examined < limit && !signal?.aborted) {
      const begunAt = performance.now()
      const { type, recordId } = place
      const size = Math.min(PART_SIZE, limit - sum.examined)
      const template = backfillTemplate(type)
      const after = recordId === '' ? null : recordId
      const request = { organizationId, endpointId, type, template, after, limit: size, entry }
      const part = found(await backfills.backfill(request), action)
      if (part.outcome === 'not_enabled') throw notEnabled(action, 'no longer enabled')
      if (part.outcome === 'done') {
        sum.examined += part.examined
        sum.events += part.events
      }
      const next = part.outcome === 'done' ? part.next : null
      place = next === null ? startAfter(types, type) : { type, recordId: next }
      onProgress({ ...sum, next: describe(place) })
      if (place !== null && sum.examined < limit) await sleep(performance.now() - begunAt)
    }
    return { ...sum, next: describe(place) }
  }

  return {
    async backfill(organizationId, endpointId, options) {
      const call = readBackfill(organizationId, options, { endpointId })
      return run(call, call.input)
    },

    async previewBackfill(organizationId, endpointId, selection) {
      const call = readPreview(organizationId, selection, { endpointId })
      const { endpoint, types } = await readEndpoint(call)
      const records: Partial<Record<BackfillType, number>> = {}
      for (const type of types) records[type] = await backfills.count(call.organizationId, type, COUNT_MAX)
      return { endpoint, records }
    },
  }
}

function notEnabled(action: string, state: string): BusinessApiError {
  return refused(action, INVALID_STATE, `the endpoint is ${state}: enable the endpoint, then repeat the call`)
}

function startAt(types: readonly BackfillType[], after: string | null): Position | null {
  const place = after === null ? null : readPosition(after)
  const first = types.find((type) => {
    return place === null || BACKFILL_TYPES.indexOf(type) >= BACKFILL_TYPES.indexOf(place.type)
  })
  if (first === undefined) return null
  return { type: first, recordId: place?.type === first ? place.recordId : '' }
}

function startAfter(types: readonly BackfillType[], type: BackfillType): Position | null {
  const following = types[types.indexOf(type) + 1]
  return following === undefined ? null : { type: following, recordId: '' }
}

function describe(place: Position | null): string | null {
  return place === null ? null : `${place.type} ${place.recordId}`.trim()
}
